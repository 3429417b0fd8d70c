//! The corpus of the secrets gate, put together at run time so that no file of this repository looks like it holds one.

use super::*;

/// Letters and digits that look random and are the same in every run.
fn random(length: usize, alphabet: &str) -> String {
    let alphabet: Vec<char> = alphabet.chars().collect();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        alphabet[(state >> 33) as usize % alphabet.len()]
    };
    (0..length).map(|_| next()).collect()
}

const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const HEX: &str = "0123456789abcdef";
const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// Rule, prefix (cut so that it matches nothing by itself), length and alphabet of the rest.
fn corpus() -> Vec<(&'static str, String)> {
    let token = |head: &str, tail: &str, length, alphabet| format!("{head}{tail}{}", random(length, alphabet));
    vec![
        ("aws-access-key", token("AK", "IA", 16, UPPER)),
        ("github-token", token("gh", "p_", 36, LETTERS)),
        ("github-fine-grained-token", token("github", "_pat_", 60, LETTERS)),
        ("gitlab-token", token("gl", "pat-", 20, LETTERS)),
        ("slack-token", token("xo", "xb-", 40, LETTERS)),
        ("slack-webhook", token("https://hooks.sl", "ack.com/services/", 44, LETTERS)),
        ("stripe-key", token("sk", "_live_", 24, LETTERS)),
        ("google-api-key", token("AI", "za", 35, LETTERS)),
        ("npm-token", token("np", "m_", 36, LETTERS)),
        ("pypi-token", token("py", "pi-", 80, LETTERS)),
        ("anthropic-key", token("sk-", "ant-api03-", 60, LETTERS)),
        ("openai-key", token("sk-", "proj-", 60, LETTERS)),
        ("openai-legacy-key", token("sk", "-", 48, LETTERS)),
        ("private-key", format!("-----BEGIN {} KEY-----", "RSA PRIVATE")),
        ("jwt", format!("ey{}.ey{}.{}", token("J", "", 20, LETTERS), token("J", "", 40, LETTERS), random(43, LETTERS))),
        ("azure-storage-key", format!("Account{}={}==", "Key", random(86, LETTERS))),
        ("digitalocean-token", token("do", "p_v1_", 64, HEX)),
        ("twilio-key", token("S", "K", 32, HEX)),
        ("sendgrid-key", format!("S{}.{}.{}", "G", random(22, LETTERS), random(43, LETTERS))),
        ("telegram-bot-token", format!("123456789:{}{}", "AA", random(33, LETTERS))),
        ("discord-webhook", token("https://dis", "cord.com/api/webhooks/123456/", 68, LETTERS)),
        ("database-url", format!("postgres{}app:{}@db.internal/x", "://", random(16, LETTERS))),
        ("basic-auth-url", format!("https{}bot:{}@host.internal/x", "://", random(16, LETTERS))),
        ("assigned-secret", format!("pass{} = \"{}\"", "word", random(24, LETTERS))),
    ]
}

fn rules_of(hits: &[Hit]) -> Vec<&str> {
    hits.iter().map(|hit| hit.rule.as_str()).collect()
}

#[test]
fn every_format_is_found_with_its_place_and_without_its_value() {
    let scanner = Scanner::default();
    for (rule, token) in corpus() {
        let added = AddedLines::between("src/a.txt", b"first\n", format!("first\nx = {token}\n").as_bytes());
        let hits = scanner.added(&[added]);
        assert!(rules_of(&hits).contains(&rule), "{rule}: {hits:?}");
        assert!(hits.iter().all(|hit| hit.place == "src/a.txt:2"), "{hits:?}");
        let shown = format!("{hits:?}{}", serde_json::to_string(&hits).expect("plain data"));
        assert!(!shown.contains(&token), "{rule} was printed");
        assert!(rules_of(&scanner.text("commit message", &token)).contains(&rule), "{rule}");
        assert!(!scanner.name(&format!("notes/{token}")).is_empty(), "{rule}");
    }
}

#[test]
fn what_was_there_before_is_not_new() {
    let (_, token) = corpus().swap_remove(1);
    let before = format!("{token}\n");
    let added = AddedLines::between("a", before.as_bytes(), format!("{before}more\n").as_bytes());
    assert_eq!(Scanner::default().added(&[added]), []);
}

#[test]
fn placeholders_and_ordinary_code_are_not_findings() {
    let lines = [
        format!("token = \"gh{}{}\"", "p_", "x".repeat(36)),
        format!("AK{}IOSFODNN7EXAMPLE", "IA"),
        format!("export KEY=sk-{}-your-key-goes-here-please", "ant"),
        format!("postgres{}postgres:postgres@localhost/test", "://"),
        format!("https{}user:password@example.org/", "://"),
        "password = \"correct horse battery\"".to_owned(),
        "let token = \"some_identifier_here\";".to_owned(),
        "token: ${{ secrets.GITHUB_TOKEN }}".to_owned(),
        "\"integrity\": \"sha512-9Qpm0mYq3jWfs8Yxq0d7H1b5sUqV3rKZ4a6yJvGQ2mJm0m7m3n8o9p0q1r2s3t4u5v6w7x8y9z0A==\""
            .to_owned(),
        "checksum = \"3f2c1a9e8b7d6c5f4e3d2c1b0a9f8e7d6c5b4a3f2e1d0c9b8a7f6e5d4c3b2a1f\"".to_owned(),
        "commit 3f2c1a9e8b7d6c5f4e3d2c1b0a9f8e7d6c5b4a3f".to_owned(),
        "api_key = os.environ[\"API_KEY\"]".to_owned(),
        "secret: \"https://vault.internal/v1/x1y2z3\"".to_owned(),
    ];
    for line in lines {
        assert_eq!(Scanner::default().text("t", &line), [], "{line}");
    }
}

#[test]
fn a_token_joined_from_literals_or_hidden_in_base64_is_found() {
    let (rule, token) = corpus().swap_remove(1);
    let (one, other) = token.split_at(12);
    let joined = AddedLines::between("a.js", b"", format!("const t = \"{one}\" +\n  \"{other}\";\n").as_bytes());
    assert_eq!(rules_of(&Scanner::default().added(&[joined])), [rule]);
    let encoded = encode(token.as_bytes());
    assert_eq!(rules_of(&Scanner::default().text("t", &format!("data: {encoded}"))), [rule]);
}

#[test]
fn known_values_are_found_in_every_spelling() {
    let value = format!("{}/+{}", random(14, LETTERS), random(14, LETTERS));
    let scanner = Scanner::new([value.as_str(), "short"]);
    let (one, other) = value.split_at(15);
    let spellings = [
        value.clone(),
        encode(value.as_bytes()),
        encode(format!("a{value}").as_bytes()),
        encode(format!("ab{value}z").as_bytes()),
        value.bytes().map(|byte| format!("{byte:02x}")).collect(),
        value.replace('/', "%2F").replace('+', "%2B"),
        format!("\"{one}\"\n + \"{other}\""),
        one.to_owned(),
        other.to_owned(),
    ];
    for spelling in spellings {
        let hits = scanner.text("item", &format!("see {spelling} here"));
        assert!(rules_of(&hits).contains(&"known-value"), "a spelling of {} bytes", spelling.len());
    }
    assert_eq!(scanner.text("item", "this is short and harmless"), []);
    assert!(!format!("{scanner:?}").contains(&value));
}

/// Plain base64, since the code under test only decodes.
fn encode(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for at in 0..=chunk.len() {
            out.push(char::from(ALPHABET[(word >> (18 - 6 * at) & 63) as usize]));
        }
    }
    while !out.len().is_multiple_of(4) {
        out.push('=');
    }
    out
}

#[test]
fn shown_text_has_the_rules_name_in_place_of_the_value() {
    let token = format!("ghp_{}", "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5");
    let key = format!("-----BEGIN {} KEY-----\nabc\n-----END", "PRIVATE");
    let table = [
        ("nothing to see".to_owned(), "nothing to see".to_owned()),
        (format!("a {token}, b\n{token}"), "a [github-token], b\n[github-token]".to_owned()),
        (format!("password = \"{token}\""), "password = \"[github-token]\"".to_owned()),
        (format!("x {key}"), "x [private-key]-----END".to_owned()),
        (key[..30].to_owned(), "[private-key]".to_owned()),
    ];
    for (text, shown) in table {
        assert_eq!(redact(&text), shown, "{text}");
    }
}
