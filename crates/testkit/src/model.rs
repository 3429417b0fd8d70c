//! A scripted model for tests: the real program's `dev model`, on loopback, ended with the value.

use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A running scripted model.
#[derive(Debug)]
pub struct ModelServer {
    folder: tempfile::TempDir,
    child: Child,
    url: String,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelAnswer {
    /// The status.
    pub status: u16,
    /// The headers, unchanged.
    pub head: String,
    /// The received part of the body.
    pub body: String,
}

impl ModelServer {
    /// Runs a scenario with the program that was built beside the test.
    ///
    /// # Panics
    /// If the program does not exist, or does not accept the scenario.
    #[must_use]
    pub fn start(scenario: &str) -> Self {
        let test = std::env::current_exe().expect("the test's own program");
        let folders = test.ancestors().skip(1).take(2);
        let built: Vec<PathBuf> = folders.map(|folder| folder.join("loopwright")).collect();
        let found =
            built.iter().find(|path| path.is_file()).expect("`loopwright` is built: cargo build --workspace --bins");
        Self::start_with(found, scenario)
    }

    /// Runs a scenario with a given program.
    ///
    /// # Panics
    /// If the program does not start, or does not accept the scenario.
    #[must_use]
    pub fn start_with(program: &Path, scenario: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("loopwright-model-").tempdir().expect("a temporary folder");
        let file = folder.path().join("scenario");
        std::fs::write(&file, scenario).expect("the scenario can be written");
        let mut command = Command::new(program);
        command
            .args(["dev", "model", "--json", "--until-eof", "--log"])
            .arg(folder.path().join("log.jsonl"))
            .arg(&file);
        // Its standard input closes when this process ends in any way, and the program ends with its standard input.
        command.env_clear().current_dir(folder.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the scripted model starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("its first line");
        let document: Value =
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("`{line}` is not JSON: {error}"));
        let url = document["url"].as_str().unwrap_or_else(|| panic!("no address in {document}")).to_owned();
        Self { folder, child, url }
    }

    /// The address without a path, for the clients of Anthropic and Gemini. OpenAI's clients need it with `/v1`.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// All requests so far, as they were logged.
    ///
    /// # Panics
    /// If the log is malformed.
    #[must_use]
    pub fn log(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.folder.path().join("log.jsonl")).expect("the log");
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }

    /// The tokens it has reported: `{models: {NAME: {answers, input, output, cache_read, cache_write}}, …}`.
    ///
    /// # Panics
    /// If it does not answer.
    #[must_use]
    pub fn counter(&self) -> Value {
        let answered = self.ask("GET", "/_counter", "");
        serde_json::from_str(&answered.body).expect("the counter is JSON")
    }

    /// Sends a request and reads the answer until the connection ends.
    ///
    /// # Panics
    /// If no server listens, or the answer is not HTTP.
    #[must_use]
    pub fn ask(&self, method: &str, path: &str, body: &str) -> ModelAnswer {
        let at: SocketAddr = self.url.trim_start_matches("http://").parse().expect("an address");
        let mut stream = TcpStream::connect(at).expect("the scripted model listens");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
        // In HTTP/1.0 a body ends with its connection, so there is nothing to decode.
        let head = format!(
            "{method} {path} HTTP/1.0\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(format!("{head}{body}").as_bytes()).expect("the request can be sent");
        let mut bytes = Vec::new();
        // A scenario may cut the connection; the bytes before the cut count.
        let _ = stream.read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("not HTTP: {text:?}"));
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status");
        ModelAnswer { status, head: head.to_owned(), body: body.to_owned() }
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
