//! Signature Version 4 of Amazon Web Services, for Bedrock. A test compares it with botocore's.

use super::{SignerError, UnsignedRequest, remove_signature, secret_header};
use hmac::{Hmac, KeyInit as _, Mac as _};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The name of Bedrock in signatures.
const SERVICE: &str = "bedrock";
const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// The longest part of a credential.
const PART_MAX: usize = 8 << 10;

/// Signs requests to one region.
pub struct AwsSigner {
    access_key: String,
    secret_key: String,
    session_token: Option<String>,
    region: String,
}

impl AwsSigner {
    pub(super) fn new(credentials: &str, profile: &str, region: &str) -> Result<Self, SignerError> {
        let wrong = |what: &str| SignerError(format!("{what} in the profile `{profile}` of the AWS credentials"));
        let keys = profile_keys(credentials, profile).ok_or_else(|| wrong("there is nothing"))?;
        let part = |name: &str| keys.get(name).cloned().filter(|text| !text.is_empty());
        let required = |name: &str| part(name).ok_or_else(|| wrong(&format!("`{name}` is missing")));
        let (access_key, secret_key) = (required("aws_access_key_id")?, required("aws_secret_access_key")?);
        let session_token = part("aws_session_token");
        let is_plain = |text: &String| text.len() <= PART_MAX && text.bytes().all(|byte| byte.is_ascii_graphic());
        if ![&access_key, &secret_key].into_iter().chain(&session_token).all(is_plain) {
            return Err(wrong("a value is too long or has a character that no header can carry"));
        }
        let is_region = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if region.is_empty() || !is_region(region) {
            return Err(SignerError("the AWS region is not known; add `region: us-east-1`".to_owned()));
        }
        Ok(Self { access_key, secret_key, session_token, region: region.to_owned() })
    }

    pub(super) fn region(&self) -> &str {
        &self.region
    }

    pub(super) fn secrets(&self) -> Vec<String> {
        std::iter::once(&self.secret_key).chain(&self.session_token).cloned().collect()
    }

    /// The secret that requests contain.
    pub(in super::super) fn sent_secret(&self) -> Option<&str> {
        self.session_token.as_deref()
    }

    /// Adds the headers of the signature. `now_ms` is the time of the request.
    pub(in super::super) fn sign(&self, request: UnsignedRequest<'_>, now_ms: i64) -> Result<(), SignerError> {
        let UnsignedRequest { method, target, headers, body } = request;
        remove_signature(headers);
        let moment = format_moment(now_ms)?;
        let day = moment.get(..8).unwrap_or_default();
        headers.insert("x-amz-date", plain_header(&moment)?);
        if let Some(token) = &self.session_token {
            headers.insert("x-amz-security-token", secret_header(token)?);
        }
        let (names, canonical) = canonical_request(method, target, headers, body);
        let scope = format!("{day}/{}/{SERVICE}/aws4_request", self.region);
        let text = format!("{ALGORITHM}\n{moment}\n{scope}\n{}", hex(&Sha256::digest(canonical.as_bytes())));
        let key = [day, &self.region, SERVICE, "aws4_request"]
            .into_iter()
            .fold(format!("AWS4{}", self.secret_key).into_bytes(), |key, part| keyed(&key, part));
        let signature = hex(&keyed(&key, &text));
        let value =
            format!("{ALGORITHM} Credential={}/{scope}, SignedHeaders={names}, Signature={signature}", self.access_key);
        headers.insert(header::AUTHORIZATION, secret_header(&value)?);
        Ok(())
    }
}

fn plain_header(text: &str) -> Result<HeaderValue, SignerError> {
    HeaderValue::from_str(text).map_err(|_| SignerError("the time cannot be sent".to_owned()))
}

/// `20260102T030405Z`.
fn format_moment(now_ms: i64) -> Result<String, SignerError> {
    let moment = jiff::Timestamp::from_millisecond(now_ms).map_err(|error| SignerError(error.to_string()))?;
    Ok(moment.strftime("%Y%m%dT%H%M%SZ").to_string())
}

/// The names of the signed headers, and the text that is signed.
fn canonical_request(method: &str, target: &str, headers: &HeaderMap, body: &[u8]) -> (String, String) {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut parts: Vec<(&str, &str)> = query
        .split('&')
        .filter(|part| !part.is_empty())
        .map(|part| part.split_once('=').unwrap_or((part, "")))
        .collect();
    parts.sort_unstable();
    let query = parts.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&");
    let signed = signed_headers(headers);
    let names = signed.keys().copied().collect::<Vec<_>>().join(";");
    let lines: String = signed.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
    let hash = hex(&Sha256::digest(body));
    let text = format!("{method}\n{}\n{query}\n{lines}\n{names}\n{hash}", escaped_again(path));
    (names, text)
}

/// Headers whose change would change the request: the host, the type of the body, and Amazon's own.
fn signed_headers(headers: &HeaderMap) -> BTreeMap<&str, String> {
    let is_signed = |name: &HeaderName| {
        *name == header::HOST || *name == header::CONTENT_TYPE || name.as_str().starts_with("x-amz")
    };
    let text = |value: &HeaderValue| {
        String::from_utf8_lossy(value.as_bytes()).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let mut signed: BTreeMap<&str, String> = BTreeMap::new();
    for (name, value) in headers.iter().filter(|(name, _)| is_signed(name)) {
        signed
            .entry(name.as_str())
            .and_modify(|all| {
                all.push(',');
                all.push_str(&text(value));
            })
            .or_insert_with(|| text(value));
    }
    signed
}

/// The signed path is the sent one, escaped again.
fn escaped_again(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing into a string cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    if out.is_empty() { "/".to_owned() } else { out }
}

fn keyed(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length is a key");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The keys of one profile: `[NAME]` or `[profile NAME]`, then lines `key = value`.
fn profile_keys(text: &str, profile: &str) -> Option<BTreeMap<String, String>> {
    let (mut found, mut is_inside) = (None::<BTreeMap<String, String>>, false);
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            let name = name.trim();
            is_inside = name.strip_prefix("profile ").map_or(name, str::trim) == profile;
            if is_inside {
                found.get_or_insert_default();
            }
        } else if let (true, Some((key, value))) = (is_inside, line.split_once('=')) {
            found.get_or_insert_default().insert(key.trim().to_lowercase(), value.trim().to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# mine\n[default]\naws_access_key_id = AKIDEXAMPLE\naws_secret_access_key=wJalrXUtnFEMI/K7MDENG\n\n\
        [profile work]\naws_access_key_id=AKIDWORK\naws_secret_access_key=other\naws_session_token = a/b+c==\n";

    fn signed(profile: &str, target: &str, body: &[u8]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_static("bedrock-runtime.us-east-1.amazonaws.com"));
        headers.insert("x-amz-date", HeaderValue::from_static("of the agent"));
        let signer = AwsSigner::new(FILE, profile, "us-east-1").expect("a profile");
        let request = UnsignedRequest { method: "POST", target, headers: &mut headers, body };
        signer.sign(request, 1_794_762_000_000).expect("a signature");
        headers
    }

    #[test]
    fn signature_covers_the_path_the_body_and_the_date_and_replaces_that_of_the_agent() {
        let first = signed("default", "/model/a%3A0/invoke", b"{}");
        assert_eq!(first["x-amz-date"], "20261115T170000Z");
        let text = |headers: &HeaderMap| headers[header::AUTHORIZATION].to_str().expect("text").to_owned();
        let begin = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261115/us-east-1/bedrock/aws4_request, SignedHeaders=host;x-amz-date, Signature=";
        assert!(text(&first).starts_with(begin), "{}", text(&first));
        for (profile, target, body) in [
            ("work", "/model/a%3A0/invoke", "{}"),
            ("default", "/model/b/invoke", "{}"),
            ("default", "/model/a%3A0/invoke", "{ }"),
        ] {
            assert_ne!(text(&signed(profile, target, body.as_bytes())), text(&first), "{profile} {target}");
        }
        assert_eq!(signed("work", "/", b"")["x-amz-security-token"], "a/b+c==");
        assert!(!format!("{first:?}").contains("Signature"), "nothing prints it");
    }

    #[test]
    fn file_without_the_profile_or_with_half_of_it_is_refused_without_its_text() {
        for (file, profile, region, why) in [
            (FILE, "home", "us-east-1", "there is nothing in the profile `home`"),
            ("[default]\naws_access_key_id = AKID", "default", "us-east-1", "`aws_secret_access_key` is missing"),
            (
                "[default]\naws_access_key_id = A K\naws_secret_access_key=s3cret",
                "default",
                "us-east-1",
                "no header can carry",
            ),
            (FILE, "default", "", "add `region: us-east-1`"),
            (FILE, "default", "a/b", "add `region: us-east-1`"),
            ("", "default", "us-east-1", "there is nothing"),
        ] {
            let error = AwsSigner::new(file, profile, region).map(|_| ()).expect_err(why).to_string();
            assert!(error.contains(why) && !error.contains("s3cret"), "{error}");
        }
    }
}
