//! A repository with a bug, a scripted model, and the real agents on PATH.

use loopwright_core::budget::Tokens;
use loopwright_core::config::ModelPrice;
use loopwright_core::prices::ModelPrices;
use loopwright_core::units::Usd;
use loopwright_testkit::{ModelServer, TestEnv, TestRepo, agents};
use serde_json::{Value, json};
use std::path::PathBuf;

/// The model's turns for a maker that fixes the sum and a checker that passes it.
pub(crate) const MEND: &str = "\
@ maker
say I will mend it.
usage input=1200 output=60 cache_read=800
replace calc.py \"a - b\" \"a + b\"
run python3 calc.py && echo \"to stderr\" >&2
usage input=300 output=40 cache_read=2100
stage pull-request.md \"Mend the sum\\n\\nIt was a difference.\"
say The sum is mended.

@ checker
read calc.py
verdict pass correctness=5@calc.py:2 scope=5@gate:tests tests=4@gate:tests
";

/// Test prices of the models that agents use: dollars for a million tokens of input, output, and of a cache.
const PRICES: [(&str, [u64; 4]); 3] =
    [("claude-opus-5-5", [11, 103, 1, 17]), ("gemini-2.5-pro", [7, 31, 2, 5]), ("gpt-5.5", [13, 59, 3, 19])];

/// The test world of one test.
pub(crate) struct World {
    pub(crate) env: TestEnv,
    pub(crate) repo: TestRepo,
    pub(crate) model: ModelServer,
}

impl World {
    /// A test world for a maker and a checker; `None` if one of them is not installed, and the test is skipped.
    pub(crate) fn new(maker: &str, checker: &str, scenario: &str) -> Option<Self> {
        Self::with_config(maker, checker, scenario, "")
    }

    /// The same with further lines in the user's configuration.
    pub(crate) fn with_config(maker: &str, checker: &str, scenario: &str, more: &str) -> Option<Self> {
        agents::require_program(maker)?;
        agents::require_program(checker)?;
        let path = format!("{}:{}", agents::bin_dir()?.display(), loopwright_testkit::TRUSTED_PATH);
        let env = TestEnv::for_program(env!("CARGO_BIN_EXE_loopwright"));
        let keys = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"];
        let env =
            keys.into_iter().fold(env.with_env("PATH", path), |env, key| env.with_env(key, "sk-real-0123456789abcdef"));
        let model = ModelServer::start(scenario);
        let url = model.url();
        let config = format!(
            "providers:\n  anthropic: {{ url: {url} }}\n  openai: {{ url: {url}/v1 }}\n  google: {{ url: {url} }}\n"
        );
        let config = config + "prices:\n" + &PRICES.map(price_line).concat() + more;
        let folder = env.root().join("config/loopwright");
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("config.yaml"), config).expect("the configuration");
        let repo = repo(&env, maker, checker);
        Some(Self { env, repo, model })
    }

    /// Runs the loop.
    pub(crate) fn run(&self) -> Value {
        let ran = self.env.loopwright_in(self.repo.path(), ["run", "mend", "--json"]);
        let text = ran.stdout();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}\n{}", ran.stderr()))
    }

    /// Changes the user's configuration.
    pub(crate) fn edit_config(&self, change: impl FnOnce(String) -> String) {
        let path = self.env.root().join("config/loopwright/config.yaml");
        let text = std::fs::read_to_string(&path).expect("the configuration");
        std::fs::write(&path, change(text)).expect("the configuration");
    }

    /// Adds a provider of the user's own.
    pub(crate) fn add_provider(&self, line: &str) {
        self.edit_config(|text| text.replacen("providers:\n", &format!("providers:\n  {line}\n"), 1));
    }

    /// Replaces the loop.
    pub(crate) fn write_loop(&self, maker: &str, checker: &str, more: &str) {
        self.repo.write(
            ".loopwright/loops/mend.md",
            format!(
                "---\nname: mend\nintent: Make the sum right.\nlevel: L2\n{more}agents:\n  maker: {maker}\n  checker: {checker}\n\
                 gates:\n  - {{ name: tests, run: [./test.sh], red_before: true }}\noutput: [pull-request]\n---\n# Maker\nMend it.\n"
            ),
        );
        self.repo.commit("other agents");
    }

    /// The output of all agents, for the message of a failed test.
    pub(crate) fn transcripts(&self) -> String {
        let mut found = Vec::new();
        collect(&self.env.state(), &mut found);
        found.iter().map(|path| format!("== {}\n{}\n", path.display(), shortened(path))).collect()
    }
}

fn price_line((model, [input, output, cache_read, cache_write]): (&str, [u64; 4])) -> String {
    format!("  {model}: {{ input: {input}, output: {output}, cache_read: {cache_read}, cache_write: {cache_write} }}\n")
}

/// Tokens in their JSON form.
pub(crate) fn tokens(counts: &Value) -> Tokens {
    let kind = |name: &str| counts[name].as_u64().unwrap_or(0);
    let (input, output) = (kind("input"), kind("output"));
    Tokens { input, output, cache_read: kind("cache_read"), cache_write: kind("cache_write") }
}

/// The sum of the usage that the model server reported, and its price in millionths of a dollar.
pub(crate) fn served(counter: &Value) -> (Tokens, u64) {
    served_by(counter, &prices())
}

/// The prices of this test world.
pub(crate) fn prices() -> ModelPrices {
    let own = PRICES.map(|(model, dollars)| {
        let [input, output, cache_read, cache_write] = dollars.map(|dollars| Usd(dollars * 1_000_000));
        (model.to_owned(), ModelPrice { input, output, cache_read, cache_write })
    });
    ModelPrices::new(own.into())
}

/// The same with other prices.
pub(crate) fn served_by(counter: &Value, prices: &ModelPrices) -> (Tokens, u64) {
    let models = counter["models"].as_object().expect("models");
    models.iter().fold((Tokens::default(), 0), |(sum, micros), (model, counts)| {
        let used = tokens(counts);
        (sum.plus(used), micros + prices.cost_of(model, used).0)
    })
}

/// Asserts that a round's JSON and its report show the usage that the model server reported, in tokens and in money.
pub(crate) fn agrees(ended: &Value, counter: &Value) {
    let (all, micros) = served(counter);
    let spend = &ended["spend"];
    assert_eq!((tokens(&spend["tokens"]), &spend["known"]), (all, &json!(true)), "{counter:#}\n{ended:#}");
    assert_eq!(in_micros(&spend["usd"]), micros, "{counter:#}\n{spend:#}");
    let parts = spend["by"].as_array().expect("parts");
    let sum = parts.iter().fold(Tokens::default(), |sum, part| sum.plus(tokens(&part["tokens"])));
    assert_eq!((sum, parts.iter().map(|part| in_micros(&part["usd"])).sum::<u64>()), (all, micros), "{spend:#}");
    let report = std::fs::read_to_string(ended["report"].as_str().expect("a report")).expect("it can be read");
    let figures = [format!("{}", all.total()), Usd(micros).to_string()];
    assert!(figures.iter().all(|figure| report.contains(figure.as_str())), "{figures:?}\n{report}");
}

/// Dollars of JSON as whole millionths.
pub(crate) fn in_micros(usd: &Value) -> u64 {
    let micros = usd.as_f64().expect("dollars") * 1.0e6;
    assert!((micros - micros.round()).abs() < 0.01, "{usd}");
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it was just seen to be a small whole number"
    )]
    let micros = micros.round() as u64;
    micros
}

/// The beginning of each line.
fn shortened(path: &std::path::Path) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| line.chars().take(300).collect::<String>() + "\n").collect()
}

fn collect(folder: &std::path::Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "log") {
            found.push(path);
        }
    }
}

/// The end of the address that an agent's protocol wants.
pub(crate) fn end_of(agent: &str) -> &'static str {
    match agent {
        "codex" | "opencode" => "/v1",
        _ => "",
    }
}

/// The model that an agent is configured to use.
pub(crate) fn model_of(agent: &str) -> &'static str {
    match agent {
        "claude" => "claude-opus-5-5",
        "gemini" => "gemini-2.5-pro",
        "opencode" => "anthropic/claude-opus-5-5",
        _ => "gpt-5.5",
    }
}

fn repo(env: &TestEnv, maker: &str, checker: &str) -> TestRepo {
    let repo = env.repo("r");
    let (maker_model, checker_model) = (model_of(maker), model_of(checker));
    repo.write(
        ".loopwright/loops/mend.md",
        format!(
            "---\nname: mend\nintent: Make the sum right.\nlevel: L2\nagents:\n\
             \x20 maker: {{ use: {maker}, model: {maker_model} }}\n  checker: {{ use: {checker}, model: {checker_model} }}\n\
             gates:\n  - {{ name: tests, run: [./test.sh], red_before: true }}\noutput: [pull-request]\n---\n# Maker\nMend it.\n"
        ),
    );
    repo.write("calc.py", "def add(a, b):\n    return a - b\n\nprint(add(2, 3))\n");
    repo.write_executable("test.sh", "#!/bin/sh\ntest \"$(python3 calc.py)\" = 5\n");
    repo.commit("first");
    repo
}
