//! Tables of entries and requests: what parses, the messages, and the decisions.

use super::*;
use expect_test::{Expect, expect};
use proptest::prelude::*;
use std::net::IpAddr;

fn policy(entries: &[&str]) -> NetworkPolicy {
    let entries: Vec<String> = entries.iter().map(|entry| (*entry).to_owned()).collect();
    NetworkPolicy::read(&entries).expect("readable entries")
}

fn target(text: &str) -> NetworkTarget {
    NetworkTarget::parse(text, 443).expect("a target")
}

#[test]
fn entry_is_shown_in_lower_case_as_it_was_written() {
    let same = [
        "docs.example.org",
        "*.example.org",
        "example.org:8443",
        "127.0.0.1:8080",
        "[::1]:9000",
        "localhost:3000",
        "xn--bcher-kva.example",
        "GET http://api.example.org/v1/*",
        "http://example.org",
        "POST http://example.org:8080/hook",
        "inspect GET https://api.example.org/v1/*",
        "inspect https://example.org:8443/",
        "private registry.example.org",
        "_dmarc.example.org",
    ];
    for entry in same {
        assert_eq!(NetworkRule::read(entry).expect(entry).to_string(), entry);
    }
    for (entry, shown) in [
        ("Docs.Example.ORG", "docs.example.org"),
        ("  GET   http://Example.org/A  ", "GET http://example.org/A"),
        ("http://example.org:80/*", "http://example.org"),
    ] {
        assert_eq!(NetworkRule::read(entry).expect(entry).to_string(), shown);
    }
}

#[test]
fn invalid_entry_reports_the_reason_and_a_valid_form() {
    let entries = [
        "",
        "*",
        "*:443",
        "*.org",
        "a.*.org",
        "*a.org",
        "*.1.2.3.4",
        "example.org.",
        "bücher.example",
        "user:secret@example.org",
        "user@example.org",
        "example.org:0",
        "example.org:65536",
        "example.org:+80",
        "127.1",
        "0x7f.0.0.1",
        "0x7f000001",
        "0177.0.0.1",
        "2130706433",
        "0.0.0.0",
        "224.0.0.1",
        "::1",
        "[::1",
        "[fe80::1%eth0]",
        "-a.org",
        "a..org",
        "example.org/path",
        "https://example.org/",
        "https://example.org/v1/*",
        "GET https://api.example.org/v1/*",
        "inspect http://example.org/",
        "inspect example.org",
        "GET example.org",
        "GET",
        "get http://example.org/",
        "CONNECT http://example.org/",
        "ftp://example.org/",
        "http://example.org/a/*/b",
        "http://example.org/a/../b",
        "http://example.org/a//b",
        "http://example.org/%2e%2e/b",
        "http://example.org/a?b=c",
        "http://user@example.org/",
        "http:///a",
        "one two three four",
        "a\u{7}b",
    ];
    let mut problems_text = String::new();
    for entry in entries {
        let error = NetworkRule::read(entry).expect_err(entry);
        problems_text.push_str(&format!("{}\n    {}\n", error.what, error.hint.unwrap_or_default()));
    }
    expect_test::expect_file!["entries.txt"].assert_eq(&problems_text);
}

#[test]
fn limit_beside_an_entry_that_allows_everything_is_refused() {
    let parse_rules = |entries: &[&str]| {
        let entries: Vec<String> = entries.iter().map(|entry| (*entry).to_owned()).collect();
        NetworkPolicy::read(&entries).map(|_| ()).map_err(|(at, error)| (at, error.what))
    };
    let taken_back =
        parse_rules(&["inspect GET https://api.example.org/v1/*", "*.example.org"]).expect_err("a contradiction");
    assert_eq!(taken_back.0, 0);
    assert!(parse_rules(&["docs.example.org", "GET http://docs.example.org/a"]).is_err());
    assert!(parse_rules(&["example.org", "inspect GET https://api.example.org/v1/*"]).is_ok());
    assert!(parse_rules(&["example.org:8443", "GET http://example.org/a"]).is_ok());
    assert!(parse_rules(&vec!["example.org"; RULES_MAX + 1]).is_err());
}

/// One line per question: the target and the decision.
fn tunnels(entries: &[&str], asked: &[&str], expected: Expect) {
    let policy = policy(entries);
    let line = |text: &&str| format!("{text}: {:?}\n", policy.tunnel(&target(text)));
    expected.assert_eq(&asked.iter().map(line).collect::<String>());
}

const ENTRIES: [&str; 10] = [
    "docs.example.org",
    "*.wild.org",
    "alt.org:8443",
    "127.0.0.1:8080",
    "localhost:3000",
    "inspect GET https://in.org/v1/*",
    "GET http://plain.org/",
    "private corp.example.net",
    "db:5432",
    "git.internal",
];

#[test]
fn tunnels_go_where_an_entry_names_host_and_port() {
    let asked = "docs.example.org:443 DOCS.example.org.:80 docs.example.org:22 example.org:443 xdocs.example.org:443 \
                 a.wild.org:443 a.b.wild.org:443 wild.org:443 awild.org:443 alt.org:8443 alt.org:443 127.0.0.1:8080 \
                 127.0.0.1:80 [::ffff:127.0.0.1]:8080 localhost:3000 in.org:443 plain.org:80 plain.org:443 \
                 corp.example.net:443 db:5432 git.internal:443 evil.org:443";
    tunnels(
        &ENTRIES,
        &asked.split(' ').collect::<Vec<_>>(),
        expect![[r#"
            docs.example.org:443: Ok(Through(Public))
            DOCS.example.org.:80: Ok(Through(Public))
            docs.example.org:22: Err(Port)
            example.org:443: Err(Host)
            xdocs.example.org:443: Err(Host)
            a.wild.org:443: Ok(Through(Public))
            a.b.wild.org:443: Ok(Through(Public))
            wild.org:443: Err(Host)
            awild.org:443: Err(Host)
            alt.org:8443: Ok(Through(Public))
            alt.org:443: Err(Port)
            127.0.0.1:8080: Ok(Through(Exactly(127.0.0.1)))
            127.0.0.1:80: Err(Port)
            [::ffff:127.0.0.1]:8080: Err(Host)
            localhost:3000: Ok(Through(Loopback))
            in.org:443: Ok(Opened(Public))
            plain.org:80: Err(Plain)
            plain.org:443: Err(Port)
            corp.example.net:443: Ok(Through(Private))
            db:5432: Ok(Through(Private))
            git.internal:443: Ok(Through(Private))
            evil.org:443: Err(Host)
        "#]],
    );
}

#[test]
fn requests_are_limited_to_method_and_path() {
    let policy =
        policy(&["GET http://api.org/v1/*", "POST http://api.org/hook", "inspect GET https://in.org/v1/*", "open.org"]);
    let ask = |seen, method, host, path| policy.request(seen, method, &target(host), path);
    let yes = Ok(AddressReach::Public);
    assert_eq!(ask(RequestTransport::Plain, "GET", "api.org:80", "/v1/a?x=../.."), yes);
    assert_eq!(ask(RequestTransport::Plain, "HEAD", "api.org:80", "/v1/"), yes);
    assert_eq!(ask(RequestTransport::Plain, "POST", "api.org:80", "/hook?a"), yes);
    assert_eq!(ask(RequestTransport::Plain, "DELETE", "api.org:80", "/v1/a"), Err(DenialReason::Method));
    assert_eq!(ask(RequestTransport::Plain, "get", "api.org:80", "/v1/a"), Err(DenialReason::Method));
    for path in ["/v2/", "/v1", "/v1/../v2", "/v1/%2e%2E/v2", "/v1//x", "/v1/..;/v2", "/v1/%252e", "/v1/\\x", "*", ""] {
        assert_eq!(ask(RequestTransport::Plain, "GET", "api.org:80", path), Err(DenialReason::Path), "{path}");
    }
    assert_eq!(ask(RequestTransport::Opened, "GET", "in.org:443", "/v1/a"), yes);
    assert_eq!(ask(RequestTransport::Opened, "PUT", "in.org:443", "/v1/a"), Err(DenialReason::Method));
    assert_eq!(ask(RequestTransport::Plain, "GET", "in.org:443", "/v1/a"), Err(DenialReason::Plain));
    assert_eq!(ask(RequestTransport::Plain, "DELETE", "open.org:80", "/any/../thing"), yes);
    assert_eq!(ask(RequestTransport::Plain, "GET", "other.org:80", "/"), Err(DenialReason::Host));
}

#[test]
fn public_names_lead_to_public_addresses_only() {
    let not_public = [
        "127.0.0.1",
        "127.255.0.9",
        "0.0.0.0",
        "10.1.2.3",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "192.0.0.8",
        "192.0.2.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::7f00:1",
        "64:ff9b:1::1",
        "2002:7f00:1::",
        "2002:a9fe:a9fe::",
        "fe80::1",
        "fc00::1",
        "fd12::1",
        "ff02::1",
        "2001::1",
        "2001:db8::1",
        "100::1",
        "fec0::1",
    ];
    for text in not_public {
        assert!(!AddressReach::Public.permits(text.parse().expect(text)), "{text}");
    }
    for text in ["93.184.216.34", "1.1.1.1", "172.32.0.1", "2606:4700::1111", "64:ff9b::101:101", "::ffff:1.1.1.1"] {
        assert!(AddressReach::Public.permits(text.parse().expect(text)), "{text}");
    }
    let one = |text: &str| text.parse::<IpAddr>().expect(text);
    for text in ["10.0.0.1", "100.64.0.1", "fd00::1", "1.1.1.1"] {
        assert!(AddressReach::Private.permits(one(text)), "{text}");
    }
    for text in ["127.0.0.1", "169.254.169.254", "0.0.0.0", "fe80::1", "::1"] {
        assert!(!AddressReach::Private.permits(one(text)), "{text}");
    }
    assert!(AddressReach::Loopback.permits(one("::1")) && !AddressReach::Loopback.permits(one("10.0.0.1")));
    assert!(AddressReach::Exactly(one("127.0.0.1")).permits(one("::ffff:127.0.0.1")));
    assert!(!AddressReach::Exactly(one("127.0.0.1")).permits(one("127.0.0.2")));
}

#[test]
fn denial_is_reported_with_the_entry_that_would_allow_it() {
    let mut traffic = NetworkTraffic::default();
    for _ in 0..3 {
        traffic.record_denied("docs.example.org", 443, "CONNECT", DenialReason::Host);
    }
    traffic.record_denied("evil\u{1b}[31m`x", 8443, "BREW\r\nX: y and many more letters", DenialReason::Port);
    traffic.record_denied("in.org", 80, "PUT", DenialReason::Method);
    let denied_lines: Vec<String> = traffic.denied.iter().map(DeniedAccess::text).collect();
    expect![[r#"
        asked for docs.example.org 3 times: denied, the host is not in `network`; to allow it add `network: [docs.example.org]`
        asked for evil?[31m?x:8443 once: denied, the port is not in `network`; to allow it add `network: [evil?[31m?x:8443]`
        asked for in.org once: denied, the method is not in `network`"#]]
    .assert_eq(&denied_lines.join("\n"));
}

#[test]
fn a_flood_of_denials_makes_a_small_record() {
    let mut traffic = NetworkTraffic::default();
    for at in 0..10_000 {
        traffic.record_denied(&format!("{at}.{}", "x".repeat(5000)), 443, &"M".repeat(5000), DenialReason::Host);
        traffic.record_reached(&format!("{at}.org"), 443);
    }
    assert_eq!((traffic.denied.len(), traffic.reached.len()), (traffic::LINES_MAX, traffic::LINES_MAX));
    assert_eq!(traffic.more, 2 * (10_000 - traffic::LINES_MAX as u64));
    assert!(serde_json::to_string(&traffic).expect("JSON").len() < 64 << 10);
    let secret = format!("ghp_{}", "a1B2c3D4e5".repeat(4).chars().take(36).collect::<String>());
    traffic = NetworkTraffic::default();
    traffic.record_denied(&secret, 443, "GET", DenialReason::Host);
    assert!(!traffic.denied[0].text().contains(&secret), "{}", traffic.denied[0].text());
    let mut sum = traffic.clone();
    sum.add(traffic.clone());
    assert_eq!(sum.denied[0].count, 2);
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic_and_parsed_entries_parse_again(text in "\\PC{0,60}") {
        if let Ok(rule) = NetworkRule::read(&text) {
            prop_assert_eq!(NetworkRule::read(&rule.to_string()), Ok(rule));
        }
        let _ = NetworkTarget::parse(&text, 443);
    }

    #[test]
    fn texts_like_entries_are_read_or_refused_and_never_widened(
        text in "(private )?(inspect )?(GET |PUT |get )?(https?://|ftp://)?(\\*\\.|\\*)?[a-zA-Z0-9.\\-\\[\\]:@]{0,20}(:[0-9]{0,6})?(/[a-z./%*?]{0,10})?"
    ) {
        if let Ok(rule) = NetworkRule::read(&text) {
            prop_assert_eq!(NetworkRule::read(&rule.to_string()), Ok(rule.clone()));
            prop_assert!(!text.contains('@') && !text.contains("ftp:"));
            prop_assert!(!text.contains("https:") || text.contains("inspect "));
            if text.contains("GET ") || text.contains("PUT ") {
                prop_assert!(rule.access != RuleAccess::Any);
            }
        }
    }
}
