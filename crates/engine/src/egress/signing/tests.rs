//! Signatures beside those of botocore and google-auth, which `cargo xtask setup` installs.

#![allow(clippy::disallowed_methods, reason = "a test runs other people's programs")]

use super::*;
use hyper::header::{CONTENT_TYPE, HOST};
use loopwright_testkit::clients;
use serde_json::{Value, json};
use std::io::Write as _;
use std::process::{Command, Stdio};

/// The environment of the programs, without the user's own.
const PATH: &str = loopwright_testkit::TRUSTED_PATH;

/// The JSON that a Python program prints for a JSON input.
fn python(folder: &std::path::Path, program: &str, input: &Value) -> Value {
    let mut child = Command::new("python3")
        .args(["-c", program])
        .env_clear()
        .envs([("PATH", PATH), ("PYTHONDONTWRITEBYTECODE", "1")])
        .env("PYTHONPATH", folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("python3");
    child.stdin.take().expect("a pipe").write_all(input.to_string().as_bytes()).expect("it reads");
    let ended = child.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&ended.stdout);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{}", String::from_utf8_lossy(&ended.stderr)))
}

const BOTOCORE: &str = "
import datetime, json, sys
from unittest import mock
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
found = []
for case in json.load(sys.stdin):
    headers = {name: value for name, value in case['headers'] if name != 'host'}
    request = AWSRequest(case['method'], 'https://' + case['host'] + case['target'], headers, case['body'].encode())
    now = datetime.datetime.fromtimestamp(case['now_ms'] // 1000, datetime.timezone.utc).replace(tzinfo=None)
    with mock.patch('botocore.auth.get_current_datetime', lambda: now):
        signer = SigV4Auth(Credentials('AKIDEXAMPLE', 'wJalrXUtnFEMI/K7MDENG', case['token']), 'bedrock', case['region'])
        signer.add_auth(request)
    found.append(dict(request.headers.items()))
json.dump(found, sys.stdout)
";

/// A case: the region, the session token, the path with its query, headers, the body, and the time.
type SignedCase<'c> = (&'c str, Option<&'c str>, &'c str, &'c [(&'static str, &'c str)], &'c str, i64);

const JSON_TYPE: (&str, &str) = ("content-type", "application/json");
const CASES: &[SignedCase<'static>] = &[
    (
        "us-east-1",
        None,
        "/model/anthropic.claude-v1%3A0/invoke",
        &[JSON_TYPE],
        r#"{"max_tokens":1}"#,
        1_794_762_000_000,
    ),
    ("eu-west-3", Some("FwoGZ/token+=="), "/model/a/invoke-with-response-stream", &[JSON_TYPE], "", 1_794_762_000_999),
    (
        "us-gov-west-1",
        None,
        "/model/arn%3Aaws%3Abedrock%3A%3A1%3Ax%2Fy~z/converse",
        &[],
        "größer — 大",
        951_782_400_000,
    ),
    ("us-east-1", None, "/openai/v1/chat/completions?b=2&a=1&a=0&c", &[JSON_TYPE], "{}", 4_102_444_799_000),
    (
        "ap-southeast-2",
        Some("t"),
        "/model/a%20b/invoke",
        &[("x-amzn-bedrock-trace", "  ENABLED   now "), ("x-amzn-bedrock-accept", "*/*"), ("content-type", "a/b; c=d")],
        "{}",
        1_794_762_000_000,
    ),
    ("us-east-1", None, "/", &[], "", 0),
];

#[test]
fn signatures_are_those_of_botocore() {
    let Some(folder) = clients::require_python("botocore") else { return };
    let host = |region: &str| format!("bedrock-runtime.{region}.amazonaws.com");
    let input = CASES.iter().map(|(region, token, target, headers, body, now_ms)| {
        json!({ "method": "POST", "host": host(region), "target": target, "headers": headers, "body": body,
            "token": token, "region": region, "now_ms": now_ms })
    });
    let theirs = python(&folder, BOTOCORE, &input.collect());
    for (case, theirs) in CASES.iter().zip(theirs.as_array().expect("a list")) {
        let (region, token, target, given, body, now_ms) = *case;
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_str(&host(region)).expect("a host"));
        given.iter().for_each(|(name, value)| {
            drop(headers.insert(*name, HeaderValue::from_str(value).expect("a value")));
        });
        // Headers that botocore does not sign may be added.
        headers.insert("user-agent", HeaderValue::from_static("agent"));
        headers.insert("accept-encoding", HeaderValue::from_static("identity"));
        let token = token.map(|token| format!("aws_session_token={token}\n")).unwrap_or_default();
        let file =
            format!("[default]\naws_access_key_id=AKIDEXAMPLE\naws_secret_access_key=wJalrXUtnFEMI/K7MDENG\n{token}");
        let RequestSigner::Aws(signer) = RequestSigner::aws(&file, "default", region).expect("a signer") else {
            panic!("another signer")
        };
        let request = UnsignedRequest { method: "POST", target, headers: &mut headers, body: body.as_bytes() };
        signer.sign(request, now_ms).expect("a signature");
        let ours = |name: &str| headers.get(name).map(|value| value.to_str().expect("text").to_owned());
        let find = |wanted: &str| {
            let all = theirs.as_object().expect("headers");
            all.iter()
                .find(|(name, _)| name.eq_ignore_ascii_case(wanted))
                .map(|(_, value)| value.as_str().expect("text").to_owned())
        };
        for name in ["authorization", "x-amz-date", "x-amz-security-token"] {
            assert_eq!(ours(name), find(name), "{name} {case:?}");
        }
        assert!(
            ours("authorization").is_some()
                && headers.contains_key(CONTENT_TYPE) == given.iter().any(|(name, _)| *name == "content-type")
        );
    }
}

const MAKE_KEY: &str = "
import json, sys
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric import rsa
key = rsa.generate_private_key(65537, 2048)
kinds = [form.PrivateFormat.PKCS8, form.PrivateFormat.TraditionalOpenSSL]
json.dump([key.private_bytes(form.Encoding.PEM, kind, form.NoEncryption()).decode() for kind in kinds], sys.stdout)
";

const GOOGLE_AUTH: &str = "
import datetime, json, sys
from unittest import mock
from google.auth import jwt
from google.oauth2 import service_account
case = json.load(sys.stdin)
scopes = ['https://www.googleapis.com/auth/cloud-platform']
mine = service_account.Credentials.from_service_account_info(case['file'], scopes=scopes)
now = datetime.datetime.fromtimestamp(case['now'], datetime.timezone.utc).replace(tzinfo=None)
with mock.patch('google.auth._helpers.utcnow', lambda: now):
    theirs = mine._make_authorization_grant_assertion().decode()
head, claims, signed, signature = jwt._unverified_decode(case['ours'])
head2, claims2, _, _ = jwt._unverified_decode(theirs)
same = mine.signer.sign(signed) == signature
json.dump({'head': head == head2, 'claims': claims == claims2, 'signature': same, 'seen': [head, claims]}, sys.stdout)
";

#[test]
fn statements_of_service_accounts_are_those_of_google_auth() {
    let Some(folder) = clients::require_python("google") else { return };
    let keys = python(&folder, MAKE_KEY, &Value::Null);
    for key in keys.as_array().expect("two forms of one key") {
        let file = json!({
            "type": "service_account", "project_id": "p", "private_key_id": "k1", "private_key": key,
            "client_email": "loop@p.iam.gserviceaccount.com", "client_id": "7", "token_uri": "https://oauth2.googleapis.com/token",
        });
        let RequestSigner::Google(tokens) = RequestSigner::google(&file.to_string()).expect("a signer") else {
            panic!("another signer")
        };
        for now in [1_794_762_000_i64, 951_782_400] {
            let ours = tokens.statement(now).expect("a statement");
            let seen = python(&folder, GOOGLE_AUTH, &json!({ "file": file, "now": now, "ours": ours }));
            assert_eq!(
                (&seen["head"], &seen["claims"], &seen["signature"]),
                (&true.into(), &true.into(), &true.into()),
                "{seen}"
            );
        }
    }
}

#[test]
fn files_of_other_kinds_are_refused_without_their_text() {
    for (file, why) in [
        ("no JSON s3cret", "are not the JSON file"),
        (r#"{"type":"external_account","audience":"s3cret"}"#, "of a type that is not supported"),
        (
            r#"{"type":"service_account","client_email":"a","private_key":"s3cret","private_key_id":"k"}"#,
            "no RSA key in PEM",
        ),
        (r#"{"type":"authorized_user","client_id":"a","client_secret":"s3cret"}"#, "are not the JSON file"),
        (
            r#"{"type":"authorized_user","client_id":"a","client_secret":"s3cret","refresh_token":"b","token_uri":"http://example.org/t"}"#,
            "no `https` token server",
        ),
    ] {
        let error = RequestSigner::google(file).expect_err(why).to_string();
        assert!(error.contains(why) && !error.contains("s3cret"), "{error}");
    }
    let file = r#"{"type":"authorized_user","client_id":"a","client_secret":"s3cret","refresh_token":"r3fresh"}"#;
    let signer = RequestSigner::google(file).expect("a signer");
    assert_eq!(signer.secrets(), ["s3cret", "r3fresh"]);
    assert_eq!(format!("{signer:?}"), "Google(…)");
}
