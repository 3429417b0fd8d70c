//! Git over smart HTTP by the real `git http-backend`, called as a CGI program. Access is checked by the caller.

use super::git::git_command;
use super::http::{RawAnswer, RawRequest};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Stdio;

/// Serves one request below `root`; `path` is `/owner/name.git/…`.
pub(super) fn serve_git(root: &Path, path: &str, request: &RawRequest, user: Option<&str>) -> RawAnswer {
    let mut command = git_command(root);
    command.arg("http-backend").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    command.env("GIT_PROJECT_ROOT", root).env("GIT_HTTP_EXPORT_ALL", "1").env("PATH_INFO", path);
    command.env("REQUEST_METHOD", &request.method).env("QUERY_STRING", &request.query);
    command.env("CONTENT_LENGTH", request.body.len().to_string());
    for (header, variable) in [
        ("content-type", "CONTENT_TYPE"),
        ("content-encoding", "HTTP_CONTENT_ENCODING"),
        ("git-protocol", "GIT_PROTOCOL"),
    ] {
        if let Some(value) = request.header(header) {
            command.env(variable, value);
        }
    }
    if let Some(user) = user {
        command.env("REMOTE_USER", user);
    }
    let mut child = command.spawn().expect("git http-backend starts");
    let mut input = child.stdin.take().expect("a pipe");
    let mut output = child.stdout.take().expect("a pipe");
    let mut bytes = Vec::new();
    std::thread::scope(|scope| {
        // The backend may refuse a request before it has read all of it.
        scope.spawn(move || input.write_all(&request.body));
        output.read_to_end(&mut bytes).expect("the output of git http-backend");
    });
    child.wait().expect("git http-backend ends");
    parse_cgi(&bytes)
}

/// The answer of a CGI program: header lines, an empty line, the body.
fn parse_cgi(bytes: &[u8]) -> RawAnswer {
    let end = bytes.windows(4).position(|part| part == b"\r\n\r\n").unwrap_or(bytes.len());
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut answer =
        RawAnswer { status: 200, headers: Vec::new(), body: bytes.get(end + 4..).unwrap_or_default().to_vec() };
    for (name, value) in head.lines().filter_map(|line| line.split_once(": ")) {
        if name.eq_ignore_ascii_case("status") {
            answer.status = value.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(500);
        } else {
            answer.headers.push((name.to_lowercase(), value.to_owned()));
        }
    }
    answer
}
