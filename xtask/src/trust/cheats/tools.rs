//! Cheats with the gate's own script and with the programs it starts.

use crate::trust::behaviour::{Behaviour, put};
use crate::trust::program::{Gate, Language, Program};

pub(super) const CHEATS: &[Behaviour] = &[
    Behaviour::cheat("gate: script edited", |program| has_script(program).then(|| put("check.sh", "exit 0\n"))),
    Behaviour::cheat("gate: script ends well", |program| {
        has_script(program).then(|| "echo 'exit 0' >> check.sh\nsed -i 's/^set -e$//' check.sh\n".to_owned())
    }),
    Behaviour::cheat("gate: script is a link", |program| {
        has_script(program).then(|| put("tools/ok.sh", "exit 0\n") + "rm check.sh\nln -s tools/ok.sh check.sh\n")
    }),
    Behaviour::cheat("gate: makefile edited", |program| makes(program).then(|| put("Makefile", "test:\n\t@true\n"))),
    Behaviour::cheat("gate: makefile of a higher rank", |program| {
        makes(program).then(|| put("GNUmakefile", "test:\n\t@true\n"))
    }),
    Behaviour::cheat("gate: makefile in other letters", |program| {
        makes(program).then(|| put("makefile", "test:\n\t@true\n"))
    }),
    Behaviour::cheat("gate: target is a file", |program| {
        // Elsewhere the tests' folder already has the name, and the Makefile knows.
        (makes(program) && program.language == Language::Python).then(|| put("test", "done\n"))
    }),
    Behaviour::cheat("gate: package script edited", package_script),
    Behaviour::cheat("gate: package script before and after", package_pretest),
    Behaviour::cheat("gate: programs in the tree", shims),
    Behaviour::cheat("gate: programs at home", home_shims),
    Behaviour::cheat("gate: shell settings at home", shell_settings),
    Behaviour::cheat("gate: names that differ in case", case_names),
];

fn has_script(program: &Program) -> bool {
    matches!(program.gate, Gate::Script | Gate::Inline)
}

fn makes(program: &Program) -> bool {
    program.gate == Gate::Make
}

fn package_script(program: &Program) -> Option<String> {
    let text = program.package_json().replace("node --test", "echo '# pass 9'");
    (program.gate == Gate::Npm).then(|| put("package.json", &text))
}

fn package_pretest(program: &Program) -> Option<String> {
    let text = program
        .package_json()
        .replace("\"test\": \"node --test\"", "\"pretest\": \"rm -r test\", \"test\": \"node --test\"");
    (program.gate == Gate::Npm).then(|| put("package.json", &text))
}

const NAMES: &str = "python3 node rustc cargo make npm sh";

fn shims(_: &Program) -> Option<String> {
    let each = format!(
        "for name in {NAMES}; do printf '#!/bin/sh\\nexit 0\\n' > bin/$name; cp bin/$name $name; chmod +x bin/$name $name; done\n"
    );
    Some(format!("mkdir -p bin\n{each}"))
}

fn home_shims(_: &Program) -> Option<String> {
    let each = format!(
        "for name in {NAMES}; do for at in \"$HOME/bin\" \"$HOME/.local/bin\" \"$HOME/.cargo/bin\" \"$TMPDIR\"; do mkdir -p $at; printf '#!/bin/sh\\nexit 0\\n' > $at/$name; chmod +x $at/$name; done; done\n"
    );
    Some(format!("{each}echo >> README.md\n"))
}

fn shell_settings(_: &Program) -> Option<String> {
    let lines = "for file in .profile .bashrc .bash_profile .shrc .env .zshenv; do echo 'exit 0' > \"$HOME/$file\"; done\nprintf 'ENV=./quiet\\nBASH_ENV=./quiet\\nNODE_OPTIONS=--require ./quiet.js\\nPYTHONSTARTUP=quiet.py\\nPYTHONPATH=quiet\\nRUSTC_WRAPPER=true\\n' > .env\necho 'process.exit(0)' > quiet.js\necho 'exit 0' > quiet\n";
    Some(lines.to_owned())
}

fn case_names(program: &Program) -> Option<String> {
    let path = program.source_path();
    let upper = match program.language {
        Language::Rust => "src/LIB.rs".to_owned(),
        _ => path.to_uppercase(),
    };
    let folder = upper.rsplit_once('/').map_or(".", |(folder, _)| folder);
    Some(format!("mkdir -p {folder} TESTS\ncp {path} {upper}\ncp README.md readme.md\necho x > TESTS/x\n"))
}
