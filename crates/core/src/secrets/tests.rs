//! The corpus of the secrets gate, assembled at run time so that no file of this repository looks like it contains a
//! secret.

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

/// Rule, prefix (cut so that it does not match by itself), length and alphabet of the rest.
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
        ("grafana-token", token("gl", "sa_", 32, LETTERS) + "_" + &random(8, HEX)),
        ("sentry-token", token("sntry", "u_", 64, HEX)),
        ("perplexity-key", token("pp", "lx-", 48, LETTERS)),
        ("replicate-token", token("r", "8_", 37, LETTERS)),
        ("pulumi-token", token("pu", "l-", 40, HEX)),
        ("bitbucket-token", token("AT", "BB", 32, LETTERS)),
        ("tailscale-key", format!("ts{}-auth-{}-{}", "key", random(12, LETTERS), random(32, LETTERS))),
        ("google-oauth-secret", token("GOC", "SPX-", 28, LETTERS)),
        ("docker-token", token("dckr", "_pat_", 27, LETTERS)),
        ("npm-auth", format!("//registry.internal/:_auth{}={}", "Token", random(36, LETTERS))),
        ("authorization-header", format!("Author{}: Bearer {}", "ization", random(40, LETTERS))),
        ("netrc-password", format!("mach{} host.internal login bot password {}", "ine", random(20, LETTERS))),
    ]
}

fn rules_of(hits: &[SecretHit]) -> Vec<&str> {
    hits.iter().map(|hit| hit.rule.as_str()).collect()
}

#[test]
fn every_format_is_found_with_its_place_and_without_its_value() {
    let scanner = SecretScanner::default();
    for (rule, token) in corpus() {
        let added = AddedLines::between("src/a.txt", b"first\n", format!("first\nx = {token}\n").as_bytes());
        let hits = scanner.scan_added(&[added]);
        assert!(rules_of(&hits).contains(&rule), "{rule}: {hits:?}");
        assert!(hits.iter().all(|hit| hit.place == "src/a.txt:2"), "{hits:?}");
        let shown = format!("{hits:?}{}", serde_json::to_string(&hits).expect("plain data"));
        assert!(!shown.contains(&token), "{rule} was printed");
        assert!(rules_of(&scanner.scan_text("commit message", &token)).contains(&rule), "{rule}");
        assert!(!scanner.scan_name(&format!("notes/{token}")).is_empty(), "{rule}");
    }
}

#[test]
fn value_of_base_is_not_new() {
    let (_, token) = corpus().swap_remove(1);
    let before = format!("{token}\n");
    let added = AddedLines::between("a", before.as_bytes(), format!("{before}more\n").as_bytes());
    assert_eq!(SecretScanner::default().scan_added(&[added]), []);
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
        assert_eq!(SecretScanner::default().scan_text("t", &line), [], "{line}");
    }
}

#[test]
fn a_token_joined_from_literals_or_hidden_in_base64_is_found() {
    let (rule, token) = corpus().swap_remove(1);
    let (one, other) = token.split_at(12);
    let joined = AddedLines::between("a.js", b"", format!("const t = \"{one}\" +\n  \"{other}\";\n").as_bytes());
    assert_eq!(rules_of(&SecretScanner::default().scan_added(&[joined])), [rule]);
    let encoded = encode(token.as_bytes());
    assert_eq!(rules_of(&SecretScanner::default().scan_text("t", &format!("data: {encoded}"))), [rule]);
}

const VALUE: &str = "q7Zk/+Rw2TnB9xLmC4vH-pY6sD";

/// All spellings of a value, with their names for test failures.
fn spellings(value: &str) -> Vec<(&'static str, String)> {
    let bytes = value.as_bytes();
    let each = |write: &dyn Fn(&u8) -> String, between: &str| bytes.iter().map(write).collect::<Vec<_>>().join(between);
    let base64 = encode(bytes);
    let hex = each(&|byte| format!("{byte:02x}"), "");
    let (one, other) = value.split_at(13);
    vec![
        ("plain", value.to_owned()),
        ("base64", base64.clone()),
        ("base64 in a text", encode(format!("a{value}").as_bytes())),
        ("base64 in a longer text", encode(format!("ab{value}z").as_bytes())),
        ("base64 without padding", encode(format!("user:{value}").as_bytes()).trim_end_matches('=').to_owned()),
        ("base64 for addresses", base64.replace('+', "-").replace('/', "_")),
        ("base64 in lines", base64.as_bytes().chunks(10).map(String::from_utf8_lossy).collect::<Vec<_>>().join("\n  ")),
        ("base64 twice", encode(base64.as_bytes())),
        (
            "base64 in literals",
            base64.as_bytes().chunks(7).map(String::from_utf8_lossy).collect::<Vec<_>>().join("\" + \""),
        ),
        ("hex", hex.clone()),
        ("hex in capitals", hex.to_uppercase()),
        ("hex with colons", each(&|byte| format!("{byte:02X}"), ":")),
        ("hex as a list", each(&|byte| format!("0x{byte:02x}"), ", ")),
        ("hex of base64", base64.bytes().map(|byte| format!("{byte:02x}")).collect()),
        ("escapes", each(&|byte| format!("\\x{byte:02x}"), "")),
        ("unicode escapes", each(&|byte| format!("\\u{byte:04x}"), "")),
        ("octal escapes", each(&|byte| format!("\\{byte:03o}"), "")),
        ("references", each(&|byte| format!("&#{byte};"), "")),
        ("percent", value.replace('/', "%2F").replace('+', "%2B")),
        ("percent everywhere", each(&|byte| format!("%{byte:02X}"), "")),
        ("percent here and there", value.replace('Z', "%5a").replace('9', "%39")),
        ("json", value.replace('/', "\\/")),
        ("codes", each(&|byte| byte.to_string(), ", ")),
        ("base32", codec::base32_inner(bytes, 0).to_uppercase()),
        ("reversed", value.chars().rev().collect()),
        ("wide characters", value.chars().flat_map(|c| [c, '\0']).collect()),
        ("two literals", format!("\"{one}\"\n + \"{other}\"")),
        ("lines", format!("{one}\n{other}")),
        ("letters apart", value.chars().map(String::from).collect::<Vec<_>>().join(" ")),
        ("its first half", one.to_owned()),
        ("its second half", other.to_owned()),
        (
            "five names",
            value
                .as_bytes()
                .chunks(8)
                .enumerate()
                .map(|(n, part)| format!("part_{n} = '{}'", String::from_utf8_lossy(part)))
                .collect::<Vec<_>>()
                .join("\n"),
        ),
    ]
}

#[test]
fn known_values_are_found_in_every_spelling() {
    let scanner = SecretScanner::new([VALUE, "short"]);
    for (name, spelling) in spellings(VALUE) {
        let text = format!("see {spelling} here");
        let hits = scanner.scan_text("item", &text);
        assert!(rules_of(&hits).contains(&"known-value"), "{name}: {hits:?}");
        let clean = scanner.clean(&text);
        assert!(!clean.contains(&spelling), "{name} was kept");
        assert_eq!(scanner.scan_text("item", &clean), [], "{name}");
    }
    assert_eq!(scanner.scan_text("item", "this is short and harmless"), []);
    assert!(!format!("{scanner:?}").contains(VALUE));
}

#[test]
fn passphrases_match_as_a_whole_and_their_words_do_not() {
    let scanner = SecretScanner::new(["correct-horse-battery-staple"]);
    for hidden in ["correct-horse-battery-staple", "correct-horse-ba\nttery-staple", "correct-horse-b' 'attery-staple"]
    {
        assert_eq!(rules_of(&scanner.scan_text("t", hidden)), ["known-value"], "{hidden}");
    }
    assert_eq!(scanner.scan_text("t", "a horse, a battery and the correct staple; correct-horse"), []);
}

#[test]
fn a_value_spread_over_files_names_and_items_is_found() {
    let scanner = SecretScanner::new([VALUE]);
    let parts: Vec<&str> = (0..3).map(|part| &VALUE[part * 8..(part * 8 + 8).min(VALUE.len())]).collect();
    let files =
        [AddedLines::between("a", b"", parts[0].as_bytes()), AddedLines::between("b", b"", parts[1].as_bytes())];
    let whole = CandidateTexts { added: &files, texts: &[("report.md", parts[2])], ..CandidateTexts::default() };
    assert_eq!(rules_of(&scanner.scan_candidate(&whole)), ["known-value"]);
    let part = CandidateTexts { added: &files[..1], texts: &[("report.md", parts[2])], ..CandidateTexts::default() };
    assert_eq!(scanner.scan_candidate(&part), []);
}

#[test]
fn long_lines_and_binary_files_are_searched() {
    let scanner = SecretScanner::new([VALUE]);
    let (_, token) = corpus().swap_remove(1);
    for at in [0, WINDOW - 10, WINDOW + 5, 2 * WINDOW - OVERLAP - 7] {
        let line = format!("{} {VALUE} {token} {}", "x".repeat(at), "y".repeat(50));
        assert_eq!(rules_of(&scanner.scan_text("t", &line)), ["github-token", "known-value"], "at {at}");
    }
    let bytes = [b"\x00\x01\xff\xfe ", VALUE.as_bytes(), b" \x80 ", token.as_bytes(), b"\xff"].concat();
    let added = AddedLines::between("logo.png", b"", &bytes);
    assert_eq!(rules_of(&scanner.scan_added(&[added])), ["github-token", "known-value"]);
    assert!(!scanner.clean_bytes(&bytes).windows(VALUE.len()).any(|part| part == VALUE.as_bytes()));
}

#[test]
fn a_moved_value_is_not_new_but_a_known_one_never_passes() {
    let (_, token) = corpus().swap_remove(1);
    let text = format!("{token} {VALUE}\n");
    let added = [AddedLines::between("new/name.txt", b"", text.as_bytes())];
    let moved = CandidateTexts { added: &added, before: &[text.as_bytes()], ..CandidateTexts::default() };
    assert_eq!(rules_of(&SecretScanner::new([VALUE]).scan_candidate(&moved)), ["known-value"]);
    assert_eq!(SecretScanner::default().scan_candidate(&moved), []);
}

#[test]
fn key_files_match_by_their_lines_and_members() {
    let line = random(64, LETTERS);
    let pem = format!("-----BEGIN {} KEY-----\n{line}\n-----END-----", "X");
    let json = format!("{{\"type\": \"service\", \"id\": \"{}\"}}", random(40, HEX));
    let scanner = SecretScanner::new([pem, json]);
    assert_eq!(rules_of(&scanner.scan_text("t", &format!("x = '{line}'"))), ["known-value"]);
    assert_eq!(rules_of(&scanner.scan_text("t", &random(40, HEX))), ["known-value"]);
    assert_eq!(scanner.scan_text("t", "\"type\": \"service\""), []);
}

#[test]
fn searching_is_linear_in_the_text() {
    let scanner = SecretScanner::new([VALUE]);
    for piece in ["\\", "%", "&#", "\"", "sk-", "token='a1", "q7Zk/+", "AAAA", "0x", "://a:", "-----BEGIN "] {
        let text = piece.repeat(200_000 / piece.len());
        let _ = scanner.clean(&text);
    }
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

/// The output of a stream that received pieces of this size.
fn through(scanner: &SecretScanner, text: &str, size: usize) -> String {
    let mut stream = RedactingStream::new(scanner);
    let mut out: Vec<u8> = text.as_bytes().chunks(size).flat_map(|piece| stream.push(piece, PieceEnd::Cut)).collect();
    out.extend(stream.finish());
    String::from_utf8(out).expect("text")
}

#[test]
fn stored_text_has_no_spelling_of_a_known_value() {
    let values = [
        VALUE,
        "hunter2-hunter2-hunter2-x9-and",
        "!#-a1-$$-b2-%%-c3-!!-d4-##-e5",
        "correct-horse-battery-staple",
        "0123456789abcdef0123456789ab",
    ];
    for value in values {
        let scanner = SecretScanner::new([value]);
        for (name, spelling) in spellings(value) {
            let text = format!("{} see {spelling} here\n{}", "some words ".repeat(10), "and more ".repeat(60));
            // The full search accepts some texts as harmless, such as half of some words; they may be written.
            if scanner.scan_text("t", &text).is_empty() {
                continue;
            }
            assert!(!scanner.clean(&text).contains(&spelling), "{value}: {name}");
            for size in [64, 601] {
                assert!(!through(&scanner, &text, size).contains(&spelling), "{value}: {name} in pieces of {size}");
            }
        }
    }
}

#[test]
fn stored_text_has_no_public_format() {
    let scanner = SecretScanner::default();
    for (rule, token) in corpus() {
        let (plain, escaped) = (format!("x = {token}\n"), format!("{{\"text\": \"{}\"}}\n", token.replace('/', "\\/")));
        assert!(!scanner.clean(&plain).contains(&token), "{rule}");
        for text in [plain, escaped] {
            assert_eq!(through(&scanner, &text, 601), scanner.clean(&text), "{rule}: {text}");
        }
    }
}

#[test]
fn ordinary_output_is_stored_unchanged() {
    let scanner = SecretScanner::new([VALUE, "correct-horse-battery-staple"]);
    for line in [
        "   Compiling serde_json v1.0.154 (/home/a/project/crates/core)",
        "test secrets::tests::files_of_keys_are_known ... ok (took 0.03 s, 100%)",
        "{\"type\":\"assistant\",\"message\":{\"content\":[{\"text\":\"I read `src/lib.rs`.\\n\\nIt \\\"works\\\".\"}]}}",
        "2026-11-15T16:39:57.123456Z  INFO request{id=3f2c1a9e8b7d6c5f}: GET https://docs.rs/regex/1.13.1 200 in 35ms",
        "commit 3f2c1a9e8b7d6c5f4e3d2c1b0a9f8e7d6c5b4a3f (HEAD -> main, origin/main)",
    ] {
        assert!(matches!(scanner.clean_bytes(line.as_bytes()), Cow::Borrowed(_)), "{line}");
    }
    assert!(matches!(scanner.clean_bytes(VALUE.as_bytes()), Cow::Owned(_)));
}
