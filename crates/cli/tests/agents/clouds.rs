//! Whole rounds at Amazon Bedrock and Google Vertex AI: the requests of the real agents are signed or carry a short-lived
//! token, their tokens are counted and charged, and the credentials are in no request. `botocore` makes the same
//! signatures from the requests that arrived.

#![allow(clippy::disallowed_methods, reason = "a test runs a server of tokens and a program of others")]

use crate::world::{MEND, World, agrees, prices, tokens};
use loopwright_testkit::{TRUSTED_PATH, clients};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};

const SECRET: &str = "wJalrXUtnFEMI-K7MDENG-bPxRfiCYEXAMPLEKEY";
const SESSION: &str = "FwoGZXIvYXdzEXAMPLESESSIONTOKEN";
const OPUS: &str = "us.anthropic.claude-opus-5-5-v1:0";

/// The requests that a model answered.
fn served(world: &World) -> Vec<Value> {
    world.model.log().into_iter().filter(|one| one["answer"]["status"] == 200 && one["method"] == "POST").collect()
}

fn bedrock_world(maker: &str, checker: &str, checker_program: &str) -> Option<World> {
    let world = World::new("claude", checker_program, MEND)?;
    let folder = world.env.root().join("home/.aws");
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = format!(
        "[work]\naws_access_key_id = AKIDEXAMPLE\naws_secret_access_key = {SECRET}\naws_session_token = {SESSION}\n"
    );
    std::fs::write(folder.join("credentials"), file).expect("the credentials");
    let more = "style: aws, region: eu-west-3, profile: work, key_file: ~/.aws/credentials";
    let url = world.model.url();
    world.add_provider(&format!("bedrock: {{ url: '{url}', {more} }}"));
    world.add_provider(&format!("bedrock-chat: {{ url: '{url}/openai/v1', {more} }}"));
    world.write_loop(maker, checker, "");
    Some(world)
}

const BOTOCORE: &str = "
import datetime, json, sys
from unittest import mock
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
given = json.load(sys.stdin)
for one in given['requests']:
    got = one['headers']
    names = got['authorization'].split('SignedHeaders=')[1].split(',')[0].split(';')
    headers = {name: got[name] for name in names if name not in ('host', 'x-amz-date', 'x-amz-security-token')}
    body = json.dumps(one['body'], ensure_ascii=False, separators=(',', ':')).encode()
    assert len(body) == int(got['content-length']), (len(body), got['content-length'])
    request = AWSRequest('POST', 'http://' + got['host'] + one['path'], headers, body)
    now = datetime.datetime.strptime(got['x-amz-date'], '%Y%m%dT%H%M%SZ')
    with mock.patch('botocore.auth.get_current_datetime', lambda: now):
        SigV4Auth(Credentials('AKIDEXAMPLE', given['secret'], given['session']), 'bedrock', 'eu-west-3').add_auth(request)
    assert request.headers['Authorization'] == got['authorization'], (request.headers['Authorization'], got)
print('equal')
";

/// Whether botocore makes the same signatures from these requests.
fn botocore_agrees(requests: &[Value]) {
    let Some(folder) = clients::require_python("botocore") else { return };
    let mut child = Command::new("python3")
        .args(["-c", BOTOCORE])
        .env_clear()
        .envs([("PATH", TRUSTED_PATH), ("PYTHONDONTWRITEBYTECODE", "1")])
        .env("PYTHONPATH", folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("python3");
    let input = json!({ "requests": requests, "secret": SECRET, "session": SESSION });
    child.stdin.take().expect("a pipe").write_all(input.to_string().as_bytes()).expect("it reads");
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!(String::from_utf8_lossy(&ended.stdout), "equal\n", "{}", String::from_utf8_lossy(&ended.stderr));
}

#[test]
fn claude_works_at_bedrock_and_every_request_is_signed() {
    let claude = format!("{{ use: claude, provider: bedrock, model: '{OPUS}' }}");
    let Some(world) = bedrock_world(&claude, &claude, "claude") else { return };
    let ended = world.run();
    let details = || format!("{ended:#}\n{}\n{}", world.model.counter(), world.transcripts());
    assert_eq!(
        (&ended["outcome"], &ended["verdict"]["verdict"]),
        (&"escalated".into(), &"pass".into()),
        "{}",
        details()
    );
    agrees(&ended, &world.model.counter());
    // Claude also asks two usual models of the region whether they are there.
    let used = tokens(&world.model.counter()["models"][OPUS]);
    assert!(
        used.total() > 0 && prices().cost_of(OPUS, used) == prices().cost_of("claude-opus-5-5", used),
        "{}",
        details()
    );
    assert_eq!(ended["spend"]["basis"], "measured", "{}", details());
    let requests = served(&world);
    assert!(requests.len() > 3, "{}", details());
    let path = format!("/model/{OPUS}/invoke-with-response-stream");
    assert!(requests.iter().any(|one| one["path"] == path.as_str()), "{}", details());
    botocore_agrees(&requests);
    let all = json!(world.model.log()).to_string();
    assert!(!all.contains(SECRET), "the secret key is in no request");
    assert!(!world.transcripts().contains(SESSION) && !world.transcripts().contains(SECRET));
}

#[test]
fn opencode_works_at_the_chat_completions_of_bedrock() {
    let claude = format!("{{ use: claude, provider: bedrock, model: '{OPUS}' }}");
    let opencode = "{ use: opencode, provider: bedrock-chat, model: gpt-5.5 }";
    let Some(world) = bedrock_world(&claude, opencode, "opencode") else { return };
    let ended = world.run();
    assert_eq!(ended["verdict"]["verdict"], "pass", "{ended:#}\n{}", world.transcripts());
    agrees(&ended, &world.model.counter());
    let requests = served(&world);
    assert!(requests.iter().any(|one| one["path"] == "/openai/v1/chat/completions"), "{requests:?}");
    botocore_agrees(&requests);
}

/// A server of tokens: its port, and its only token.
fn token_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut heard = [0; 8192];
            let count = stream.read(&mut heard).unwrap_or(0);
            let text = String::from_utf8_lossy(&heard[..count]).into_owned();
            let is_asked = text.starts_with("POST /token ") && text.contains("refresh_token");
            let body = if is_asked { r#"{"access_token":"ya29.the-token-7","expires_in":3599}"# } else { "{}" };
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
            let _ = stream.write_all(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes());
        }
    });
    port
}

#[test]
fn claude_and_gemini_work_at_vertex_with_a_token_that_lasts_an_hour() {
    let Some(world) = World::new("claude", "gemini", MEND) else { return };
    let uri = format!("http://127.0.0.1:{}/token", token_server());
    let file = json!({ "type": "authorized_user", "client_id": "id", "client_secret": SECRET, "refresh_token": SESSION, "token_uri": uri });
    std::fs::write(world.env.root().join("home/adc.json"), file.to_string()).expect("the credentials");
    let url = format!("{}/v1/projects/mine/locations/us-east5", world.model.url());
    world.add_provider(&format!("vertex: {{ url: '{url}', style: google-cloud, key_file: ~/adc.json }}"));
    let maker = "{ use: claude, provider: vertex, model: claude-opus-5-5 }";
    world.write_loop(maker, "{ use: gemini, provider: vertex, model: gemini-2.5-pro }", "");
    let ended = world.run();
    let details = || format!("{ended:#}\n{}\n{}", world.model.counter(), world.transcripts());
    assert_eq!(
        (&ended["outcome"], &ended["verdict"]["verdict"]),
        (&"escalated".into(), &"pass".into()),
        "{}",
        details()
    );
    agrees(&ended, &world.model.counter());
    let requests = served(&world);
    for request in &requests {
        assert_eq!(request["headers"]["authorization"], "Bearer ya29.the-token-7", "{request}");
        let path = request["path"].as_str().expect("a path");
        assert!(path.starts_with("/v1/projects/mine/locations/us-east5/publishers/"), "{path}");
    }
    let asks = |maker: &str| requests.iter().any(|one| one["path"].as_str().is_some_and(|path| path.contains(maker)));
    assert!(
        asks("/anthropic/models/claude-opus-5-5:streamRawPredict") && asks("/google/models/gemini-2.5-pro:"),
        "{}",
        details()
    );
    let all = json!(world.model.log()).to_string();
    assert!(!all.contains(SECRET) && !all.contains(SESSION), "no credential is in a request");
}
