//! Addresses, additions and paths of providers.

use super::*;

fn provider(upstream: &str) -> Result<ModelProvider, ProviderError> {
    ModelProvider::new("anthropic", upstream, KeyStyle::XApiKey, ProviderKey::new("sk-1").expect("a key"))
}

#[test]
fn an_upstream_is_https_or_near() {
    for good in [
        "https://api.example.org",
        "https://api.example.org/v1/",
        "http://127.0.0.1:8080",
        "http://gateway:4000/v1",
        "http://10.0.0.7/",
    ] {
        assert!(provider(good).is_ok(), "{good}");
    }
    for bad in [
        "",
        "api.example.org",
        "ftp://x.org",
        "https://",
        "https://u:p@x.org",
        "https://x.org/?k=v",
        "https://x.org/a/../b",
        "https://x.org/#f",
    ] {
        assert_eq!(provider(bad).expect_err(bad), ProviderError::Upstream("anthropic".to_owned()), "{bad}");
    }
    assert_eq!(provider("http://api.example.org").expect_err("clear"), ProviderError::Clear("anthropic".to_owned()));
    assert!(!format!("{:?}", provider("https://x.org")).contains("sk-1"));
}

#[test]
fn query_parameters_that_name_an_account_are_removed() {
    for (query, passed) in [
        ("alt=sse", "alt=sse"),
        ("beta=true&key=evil", "beta=true"),
        ("K%65y=evil&alt=sse&access_token=evil", "alt=sse"),
        ("alt=sse;key=evil", "alt=sse"),
        ("%24httpHeaders=x-goog-api-key%3Aevil&pageToken=7", "pageToken=7"),
        ("api-version=2026-01-01&%zz=1", "api-version=2026-01-01&%zz=1"),
        ("key=evil", ""),
    ] {
        assert_eq!(plain_query(query), passed);
    }
}

#[test]
fn additions_replace_those_of_the_agent_and_never_carry_a_key() {
    let map = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
    let (version, tenant) = (map("api-version", "2024-10-21"), map("x-tenant", "7"));
    let azure = provider("https://x.org/openai/deployments/d").expect("a provider");
    let azure = azure.with_additions(&version, &tenant).expect("additions");
    for (asked, sent) in [
        (None, "/openai/deployments/d/chat/completions?api-version=2024-10-21"),
        (Some("api-version=1&stream=1"), "/openai/deployments/d/chat/completions?stream=1&api-version=2024-10-21"),
    ] {
        assert_eq!(upstream(&azure, "/chat/completions", asked).expect("an address").to_string(), sent);
    }
    let mut headers = HeaderMap::new();
    headers.insert("x-tenant", HeaderValue::from_static("agent"));
    rewrite_headers(&azure, &mut headers);
    assert_eq!(
        (&headers["x-tenant"], &headers["x-api-key"]),
        (&HeaderValue::from_static("7"), &HeaderValue::from_static("sk-1"))
    );
    for (query, header) in [("key", "x-a"), ("a b", "x-a"), ("a", "authorization"), ("a", "Host"), ("a", "x y")] {
        let refused =
            provider("https://x.org").expect("a provider").with_additions(&map(query, "1"), &map(header, "1"));
        assert!(matches!(refused, Err(ProviderError::Addition(..))), "{query} {header}");
    }
}

#[test]
fn model_requests_pass_and_requests_for_other_resources_do_not() {
    let usual = provider("https://x.org").expect("a provider");
    for path in [
        "/v1/messages",
        "/v1/messages/count_tokens",
        "/chat/completions",
        "/v1beta/models/gemini:streamGenerateContent",
        "/v1/models",
    ] {
        assert!(usual.passes("POST", path), "{path}");
    }
    for path in
        ["/v1/files", "/v1/organizations/me", "/", "/v1/messages/../files", "/v1//messages", "/v1/fine_tuning/jobs"]
    {
        assert!(!usual.passes("POST", path), "{path}");
    }
    // Work that is billed later and cannot be counted.
    for path in [
        "/v1/messages/batches",
        "/v1/chat/completions/batches",
        "/v1beta/models/gemini:batchGenerateContent",
        "/v1beta/models/veo:predictLongRunning",
        "/v1/responses/r1/cancel",
    ] {
        assert!(!usual.passes("POST", path), "{path}");
    }
    assert!(!usual.passes("DELETE", "/v1/messages"));
    let own = usual.with_paths(vec![PathMatch::Only("/v1/files".to_owned())]);
    assert!(own.passes("GET", "/v1/files") && !own.passes("GET", "/v1/messages"));
}
