//! Tests of the scripted model: parsing scenarios, choosing turns, mapping them to the tools that agents offer.

use super::model_request::{ChatMessage, ModelProtocol, ModelRequest, OfferedTool, ToolArgument, ToolInputForm};
use super::reply::{ModelReply, StopReason, ToolPayload};
use super::scenario::{ModelScenario, TurnAction};
use super::scenario_player::{ChosenAnswer, ScenarioPlayer};
use expect_test::{Expect, expect};
use serde_json::{Value, json};

fn complains(text: &str, expected: &Expect) {
    let wrong = ModelScenario::parse(text).expect_err("the scenario is wrong");
    expected.assert_eq(&format!("{}: {}", wrong.line, wrong.text));
}

#[test]
fn errors_name_their_line() {
    complains(
        "@ maker\nsing a song",
        &expect![
            "2: unknown verb `sing`; verbs are say, write, replace, run, read, call, stage, verdict, answer, usage, delay, error, overloaded, failed, cut, hang, silent, raw, refuse, length"
        ],
    );
    complains("# nothing\n", &expect!["1: the scenario has no block"]);
    complains(
        "@ king\n",
        &expect![[
            r#"1: unknown role `king`; roles are planner, maker, prover, attacker, checker, and `text "WORDS"` is for any"#
        ]],
    );
    complains("@ maker attempt=0\n", &expect!["1: `attempt=0` is not `attempt=N` with N from 1"]);
    complains(
        "@ maker\n\n@ maker\n",
        &expect!["3: another block already has this header, so this one would never be used"],
    );
    complains("@ any\nwrite a.txt <<END\nx\n", &expect!["2: the text that starts here has no line `END` at its end"]);
    complains("@ any\nreplace a.txt \"x\"\n", &expect![[r#"2: write `replace PATH "old" "new"`"#]]);
    complains("@ any\nerror 200\n", &expect!["2: `200` is not an error status from 400 to 599"]);
    complains("@ any\nerror 429 times=x\n", &expect!["2: `times=x` is not `times=N`"]);
    complains(
        "@ any\nusage input=1 sugar=2\n",
        &expect!["2: `sugar=2` is not input=N, output=N, cache_read=N or cache_write=N"],
    );
    complains(
        "@ any\nverdict pass correctness=5@calc.py\n",
        &expect!["2: `calc.py` is not path:line, gate:name or item:name:line"],
    );
    complains(
        "@ any\nanswer {nonsense\n",
        &expect!["2: the answer is not JSON: key must be a string at line 1 column 2"],
    );
    complains("@ any\ndelay soon\n", &expect!["2: write `delay MILLISECONDS`"]);
    complains("@ any\nsay\n", &expect!["2: `say` has nothing after it"]);
    complains("@ any\nrefuse <<END\nx\nEND\n", &expect!["2: `refuse` takes no multi-line text"]);
    complains("@ any\nsay \"open\n", &expect!["2: a quote is not closed"]);
}

fn tool(name: &str, fields: &[&str]) -> OfferedTool {
    let field = |name: &&str| ToolArgument { name: (*name).to_owned(), kind: "string".to_owned(), required: true };
    OfferedTool {
        name: name.to_owned(),
        form: ToolInputForm::Object,
        fields: fields.iter().map(field).collect(),
        namespace: None,
    }
}

fn asked(protocol: ModelProtocol, tools: Vec<OfferedTool>) -> ModelRequest {
    ModelRequest {
        protocol,
        model: "m1".to_owned(),
        streams: true,
        tools,
        wants_json: false,
        helper_schema: serde_json::Value::Null,
        prompt: "Working directory: /work\nRole: maker · attempt 2\n".to_owned(),
        history: vec![ChatMessage::Other],
    }
}

fn claude() -> ModelRequest {
    asked(
        ModelProtocol::Anthropic,
        vec![
            tool("Bash", &["command", "description"]),
            tool("Write", &["file_path", "content"]),
            tool("Edit", &["file_path", "old_string", "new_string"]),
            tool("Read", &["file_path"]),
        ],
    )
}

fn codex() -> ModelRequest {
    let patch = OfferedTool { form: ToolInputForm::Text, ..tool("apply_patch", &[]) };
    asked(ModelProtocol::Responses, vec![tool("exec_command", &["cmd"]), patch])
}

fn stage(text: &str) -> ScenarioPlayer {
    ScenarioPlayer::new(ModelScenario::parse(text).expect("a good scenario"))
}

fn whole(chosen: ChosenAnswer) -> ModelReply {
    assert_eq!(chosen.fault, None, "not an answer: {:?}", chosen.reply);
    chosen.reply
}

/// All calls and texts of a block, as an agent sees them that follows them.
fn play(text: &str, mut asked: ModelRequest) -> String {
    let stage = stage(text);
    let mut conversation = String::new();
    for number in 1..20 {
        let reply = whole(stage.choose(&asked, number));
        let call = reply.call.map(|call| {
            let payload = match call.payload {
                ToolPayload::Object(value) => value.to_string(),
                ToolPayload::Text(text) => text,
            };
            asked.history.extend([ChatMessage::Model(vec![format!("prefix__{}", call.id)]), ChatMessage::Other]);
            format!("{} {payload}", call.name)
        });
        conversation += &format!("{}| {}\n", reply.text, call.as_deref().unwrap_or("(end)"));
        if call.is_none() {
            break;
        }
    }
    conversation
}

const WORK: &str = "\
@ maker
say First.
write notes.md \"a\\nb\"
replace calc.py \"a - b\" \"it's\"
run cargo test -q
read calc.py
stage report.md Fine.
say Last.
";

#[test]
fn turns_are_mapped_to_the_tools_that_are_offered() {
    expect![[r#"
        First.| Write {"file_path":"/work/notes.md","content":"a\nb"}
        | Edit {"file_path":"/work/calc.py","old_string":"a - b","new_string":"it's"}
        | Bash {"command":"cargo test -q","description":"scripted"}
        | Read {"file_path":"/work/calc.py"}
        | Bash {"command":"printf '%s' 'Fine.' > \"$LOOPWRIGHT_OUTBOX\"/'report.md'","description":"scripted"}
        Last.| (end)
    "#]]
    .assert_eq(&play(WORK, claude()));
    expect![[r#"
        First.| apply_patch *** Begin Patch
        *** Add File: notes.md
        +a
        +b
        *** End Patch

        | exec_command {"cmd":"OLD='a - b' NEW='it'\\''s' perl -0777 -pi -e 's/\\Q$ENV{OLD}\\E/$ENV{NEW}/' 'calc.py'"}
        | exec_command {"cmd":"cargo test -q"}
        | exec_command {"cmd":"cat 'calc.py'"}
        | exec_command {"cmd":"printf '%s' 'Fine.' > \"$LOOPWRIGHT_OUTBOX\"/'report.md'"}
        Last.| (end)
    "#]]
    .assert_eq(&play(WORK, codex()));
    let program =
        OfferedTool { form: ToolInputForm::Text, namespace: Some("functions".to_owned()), ..tool("exec", &[]) };
    expect![[r#"
        First.| exec const result = await tools.apply_patch("*** Begin Patch\n*** Add File: notes.md\n+a\n+b\n*** End Patch\n");
        text(JSON.stringify(result));

        | exec const result = await tools.exec_command({cmd: "OLD='a - b' NEW='it'\\''s' perl -0777 -pi -e 's/\\Q$ENV{OLD}\\E/$ENV{NEW}/' 'calc.py'"});
        text(JSON.stringify(result));

        | exec const result = await tools.exec_command({cmd: "cargo test -q"});
        text(JSON.stringify(result));

        | exec const result = await tools.exec_command({cmd: "cat 'calc.py'"});
        text(JSON.stringify(result));

        | exec const result = await tools.exec_command({cmd: "printf '%s' 'Fine.' > \"$LOOPWRIGHT_OUTBOX\"/'report.md'"});
        text(JSON.stringify(result));

        Last.| (end)
    "#]].assert_eq(&play(WORK, asked(ModelProtocol::Responses, vec![program])));
    let opencode = vec![
        tool("bash", &["command", "description"]),
        tool("write", &["filePath", "content"]),
        tool("edit", &["filePath", "oldString", "newString"]),
        tool("read", &["filePath"]),
    ];
    expect![[r#"
        First.| write {"filePath":"/work/notes.md","content":"a\nb"}
        | edit {"filePath":"/work/calc.py","oldString":"a - b","newString":"it's"}
        | bash {"command":"cargo test -q","description":"scripted"}
        | read {"filePath":"/work/calc.py"}
        | bash {"command":"printf '%s' 'Fine.' > \"$LOOPWRIGHT_OUTBOX\"/'report.md'","description":"scripted"}
        Last.| (end)
    "#]]
    .assert_eq(&play(WORK, asked(ModelProtocol::Chat, opencode)));
}

#[test]
fn a_tool_that_is_not_offered_is_called_by_the_agents_name_for_it() {
    let problems_text =
        play("@ any\nrun ls\nwrite a b\n", asked(ModelProtocol::Gemini, vec![tool("read_file", &["file_path"])]));
    expect![[r#"
        | run_shell_command {"command":"ls","description":"scripted"}
        | write_file {"file_path":"/work/a","content":"b"}
        done.| (end)
    "#]]
    .assert_eq(&problems_text);
}

#[test]
fn the_most_specific_block_answers() {
    let stage =
        stage("@ any\nsay any\n@ maker\nsay maker\n@ text \"magic\"\nsay text\n@ maker attempt=2\nsay second\n");
    let says = |prompt: &str| whole(stage.choose(&ModelRequest { prompt: prompt.to_owned(), ..claude() }, 1)).text;
    assert_eq!(says("Role: maker · attempt 2"), "second");
    assert_eq!(says("Role: maker · attempt 2\nmagic"), "second");
    assert_eq!(says("Role: maker · attempt 1\nmagic"), "text");
    assert_eq!(says("Role: maker · attempt 1"), "maker");
    assert_eq!(says("Role: checker"), "any");
    assert_eq!(says(""), "any");
}

#[test]
fn tool_of_a_server_is_called_as_each_agent_names_it() {
    let called = |protocol, tools: Vec<OfferedTool>, step: &str| {
        let scenario = ModelScenario::parse(&format!("@ any\n{step}\n")).expect("a scenario");
        let act = &scenario.blocks[0].turns[0].act;
        let call = super::tools::plan_call(&asked(protocol, tools), act).expect("a call");
        format!("{} {:?} {:?}", call.name, call.namespace, call.payload)
    };
    let spaced = OfferedTool { namespace: Some("mcp__docs".to_owned()), ..tool("find", &[]) };
    let (chat, responses) = (ModelProtocol::Chat, ModelProtocol::Responses);
    let found = [
        called(chat, vec![tool("other__find", &[]), tool("docs__find", &[])], "call docs/find {\"a\":1}"),
        called(chat, vec![tool("refind", &[]), tool("docs-find", &[])], "call find"),
        called(responses, vec![spaced], "call docs/find"),
        called(responses, vec![], "call docs/find"),
        called(chat, vec![], "call docs/find"),
        called(chat, vec![], "call find"),
    ];
    expect![[r#"
        docs__find None Object(Object {"a": Number(1)})
        docs-find None Object(Object {})
        find Some("mcp__docs") Object(Object {})
        find Some("mcp__docs") Object(Object {})
        mcp__docs__find None Object(Object {})
        find None Object(Object {})"#]]
    .assert_eq(&found.join("\n"));
    assert!(ModelScenario::parse("@ any\ncall find [1]\n").is_err(), "arguments are an object");
}

#[test]
fn requests_without_a_block_or_without_tools_are_answered() {
    let stage = stage("@ checker\nsay checked\n");
    let chosen = stage.choose(&claude(), 1);
    assert_eq!((chosen.word, chosen.block.clone()), ("no block", None));
    assert_eq!(whole(chosen).stop, StopReason::End);
    let side = stage.choose(&asked(ModelProtocol::Chat, Vec::new()), 2);
    assert!(side.side);
    assert_eq!(whole(side).text, "Scripted work");
    let properties = serde_json::json!({ "why": { "type": "STRING" }, "score": { "type": "INTEGER" } });
    let helper_schema = serde_json::json!({ "type": "OBJECT", "properties": properties });
    let asked = ModelRequest { wants_json: true, helper_schema, ..asked(ModelProtocol::Gemini, Vec::new()) };
    let side = stage.choose(&asked, 3);
    assert!(side.side);
    let document: serde_json::Value = serde_json::from_str(&whole(side).text).expect("a document");
    assert_eq!(document, serde_json::json!({ "why": "scripted", "score": 50 }));
}

#[test]
fn faults_come_first_and_as_often_as_stated() {
    let stage = stage("@ any\nerror 529 times=2 try later\ncut times=1\nrun ls\n");
    let word = || stage.choose(&claude(), 1).word;
    assert_eq!([word(), word(), word(), word(), word()], ["error", "error", "cut", "run", "run"]);
    let always = self::stage("@ any\nhang\n");
    assert_eq!([always.choose(&claude(), 1).word, always.choose(&claude(), 2).word], ["hang", "hang"]);
}

#[test]
fn a_conversation_that_continues_after_text_continues_in_the_scenario() {
    let stage = stage("@ any\nlength times=2\nsay over\n");
    let mut asked = claude();
    let mut stops = Vec::new();
    for number in 1..5 {
        let reply = whole(stage.choose(&asked, number));
        stops.push((reply.stop, reply.text));
        // A turn that the agent stores as two messages is still one.
        asked.history.extend([ChatMessage::Model(Vec::new()), ChatMessage::Model(Vec::new()), ChatMessage::Other]);
    }
    let words = stops.iter().map(|(stop, text)| (*stop, text.as_str())).collect::<Vec<_>>();
    let length = (StopReason::Length, "and so on");
    assert_eq!(words, [length, length, (StopReason::End, "over"), (StopReason::End, "done.")]);
}

const BRIEF: &str = "\
Role: checker

[data diff of calc.py m1
diff --git a/calc.py b/calc.py
@@ -1,2 +1,2 @@
 def add(a, b):
-    return a - b
+    return a + b
m1]

nonce: n1
tree: t1
candidate: c1
";

const JUDGE: &str = "@ checker\nverdict pass correctness=5@calc.py:2 scope=4@gate:small\n";

fn verdict(mut asked: ModelRequest) -> ModelReply {
    asked.prompt.push_str(BRIEF);
    whole(stage(JUDGE).choose(&asked, 1))
}

#[test]
fn a_verdict_is_delivered_in_the_way_the_agent_supports() {
    let expected: Value = json!({
        "nonce": "n1", "tree": "t1", "candidate": "c1", "verdict": "pass", "summary": "scripted verdict: pass",
        "scores": [
            { "dimension": "correctness", "score": 5, "why": "scripted",
              "evidence": [{ "path": "calc.py", "line": 2, "quote": "return a + b" }] },
            { "dimension": "scope", "score": 4, "why": "scripted", "evidence": [{ "gate": "small" }] },
        ],
    });
    let text = verdict(ModelRequest { wants_json: true, ..codex() }).text;
    assert_eq!(serde_json::from_str::<Value>(&text).ok(), Some(expected.clone()));

    let mut structured = claude();
    structured.tools.push(tool("StructuredOutput", &["verdict"]));
    let call = verdict(structured).call.expect("a call");
    assert_eq!((call.name.as_str(), call.payload), ("StructuredOutput", ToolPayload::Object(expected)));

    let mut by_file = codex();
    by_file.prompt.push_str("Write it to LOOPWRIGHT_VERDICT.\n");
    let call = verdict(by_file).call.expect("a call");
    let command = call.payload.to_object()["cmd"].as_str().unwrap_or_default().to_owned();
    assert!(
        command.starts_with("printf '%s' '{\"nonce\"") && command.ends_with("> \"$LOOPWRIGHT_VERDICT\""),
        "{command}"
    );

    assert!(verdict(claude()).text.starts_with("{\"nonce\""), "without another way it is the last message");
}

#[test]
fn usage_is_reported_in_the_form_of_the_protocol() {
    let text = "@ any\nusage input=10 output=5 cache_read=3 cache_write=2\nrun ls\n";
    let usage = whole(stage(text).choose(&claude(), 1)).usage;
    assert_eq!((usage.input, usage.cache_write), (10, 2));
    let usage = whole(stage(text).choose(&asked(ModelProtocol::Chat, codex().tools), 1)).usage;
    assert_eq!((usage.input, usage.cache_read, usage.cache_write), (12, 3, 0));
}

#[test]
fn a_block_without_an_end_gets_one() {
    let scenario = ModelScenario::parse("run ls\n").expect("a block without a header");
    let acts: Vec<_> = scenario.blocks[0].turns.iter().map(|turn| (turn.act.clone(), turn.say.as_str())).collect();
    assert_eq!(acts, [(TurnAction::Run("ls".to_owned()), ""), (TurnAction::End, "done.")]);
}
