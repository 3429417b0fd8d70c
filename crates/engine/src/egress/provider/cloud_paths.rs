//! The paths of models at Amazon Bedrock and Google Vertex AI.

use super::{ASKS, is_plain, is_version};
use crate::egress::signing::RequestSigner;

/// The calls of agents to a model of Bedrock.
const BEDROCK_ASKS: [&str; 5] =
    ["invoke", "invoke-with-response-stream", "converse", "converse-stream", "count-tokens"];
/// The calls of agents to a model of another maker at Vertex AI.
const VERTEX_ASKS: [&str; 2] = ["rawPredict", "streamRawPredict"];

/// Whether a request asks a model in a cloud's own way.
pub(super) fn asks_model(signer: &RequestSigner, method: &str, path: &str) -> bool {
    // The names of some models contain a slash, which is escaped. A server may read it as a slash.
    let unescaped = path.replace("%2F", "/").replace("%2f", "/");
    if method != "POST" || !is_plain(&unescaped) {
        return false;
    }
    match signer {
        RequestSigner::Aws(_) => {
            let parts: Vec<&str> = path.split('/').skip(1).collect();
            matches!(parts.as_slice(), ["model", model, ask] if !model.is_empty() && BEDROCK_ASKS.contains(ask))
        }
        RequestSigner::Google(_) => {
            let path = publisher_path(path);
            let parts: Vec<&str> = path.split('/').skip(1).collect();
            let ["publishers", _, "models", model] = parts.as_slice() else { return false };
            model.rsplit_once(':').is_some_and(|(_, ask)| ASKS.contains(&ask) || VERTEX_ASKS.contains(&ask))
        }
    }
}

/// The project and the location in the base of an address.
pub(super) fn project_of(base: &str) -> Option<(&str, &str)> {
    let (_, rest) = base.split_once("/projects/")?;
    let mut parts = rest.split('/');
    let project = parts.next().filter(|project| !project.is_empty())?;
    (parts.next() == Some("locations")).then_some(())?;
    Some((project, parts.next().filter(|location| !location.is_empty())?))
}

/// The path of a request below the base of Vertex AI. The client of Claude names the project again; that of Gemini names
/// neither the project nor the maker of the model.
pub(super) fn below_base(base: &str, path: &str) -> String {
    if project_of(base).is_some() { publisher_path(path) } else { path.to_owned() }
}

/// `/publishers/…` of any of those paths; any other path stays.
fn publisher_path(path: &str) -> String {
    let mut parts: Vec<&str> = path.split('/').skip(1).collect();
    if parts.first().is_some_and(|first| is_version(first)) {
        parts.remove(0);
    }
    match parts.as_slice() {
        ["projects", _, "locations", _, rest @ ..] if rest.first() == Some(&"publishers") => {
            format!("/{}", rest.join("/"))
        }
        ["models", model] if model.contains(':') => format!("/publishers/google/models/{model}"),
        ["publishers", ..] => format!("/{}", parts.join("/")),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aws() -> RequestSigner {
        let file = "[default]\naws_access_key_id=A\naws_secret_access_key=B\n";
        RequestSigner::aws(file, "default", "us-east-1").expect("a signer")
    }

    fn google() -> RequestSigner {
        let file = r#"{"type":"authorized_user","client_id":"a","client_secret":"b","refresh_token":"c"}"#;
        RequestSigner::google(file).expect("a signer")
    }

    #[test]
    fn only_questions_to_models_pass() {
        for path in [
            "/model/us.anthropic.claude-opus-5-5-v1%3A0/invoke-with-response-stream",
            "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Aapplication-inference-profile%2Fa/invoke",
            "/model/a/converse-stream",
        ] {
            assert!(asks_model(&aws(), "POST", path) && !asks_model(&google(), "POST", path), "{path}");
            assert!(!asks_model(&aws(), "GET", path), "{path}");
        }
        for path in [
            "/model/a/async-invoke",
            "/model/a",
            "/model//invoke",
            "/model/../invoke",
            "/model/%2e%2e/invoke",
            "/model/..%2Fadmin/invoke",
            "/model/a%2f..%2Fadmin/invoke",
            "/foundation-models",
        ] {
            assert!(!asks_model(&aws(), "POST", path), "{path}");
        }
        for path in [
            "/projects/p/locations/l/publishers/anthropic/models/claude-opus-5-5@20260101:streamRawPredict",
            "/v1beta/models/gemini-2.5-pro:streamGenerateContent",
            "/v1beta1/publishers/google/models/gemini-2.5-pro:countTokens",
        ] {
            assert!(asks_model(&google(), "POST", path) && !asks_model(&aws(), "POST", path), "{path}");
        }
        for path in [
            "/projects/p/locations/l/endpoints/e:predict",
            "/v1beta/models/veo:predictLongRunning",
            "/projects/p/locations/l/publishers/a/models/m:predict",
        ] {
            assert!(!asks_model(&google(), "POST", path), "{path}");
        }
    }

    #[test]
    fn every_clients_path_leads_to_the_configured_project() {
        let base = "/v1/projects/mine/locations/us-east5";
        assert_eq!(project_of(base), Some(("mine", "us-east5")));
        assert_eq!(project_of("/v1"), None);
        assert_eq!(project_of("/v1/projects//locations/x"), None);
        for (path, below) in [
            (
                "/projects/other/locations/x/publishers/anthropic/models/m:rawPredict",
                "/publishers/anthropic/models/m:rawPredict",
            ),
            ("/v1beta/models/g:generateContent", "/publishers/google/models/g:generateContent"),
            ("/v1beta1/publishers/google/models/g:generateContent", "/publishers/google/models/g:generateContent"),
            ("/chat/completions", "/chat/completions"),
        ] {
            assert_eq!(below_base(base, path), below);
        }
        assert_eq!(below_base("/v1", "/chat/completions"), "/chat/completions");
    }
}
