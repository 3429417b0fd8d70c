//! Proofs: starts the application of a sealed candidate in a sandbox of its own, exercises it, and keeps the artefacts.
//!
//! The application's network is private, so the part that starts it and requests an address runs inside the same sandbox:
//! [`app_host`], this program executed again. Its exit code is the verdict; nothing that the application or the exercise
//! prints or writes is one.
//!
//! A command that exercises an application has a sandbox of its own, with its own checkout and HOME: an application could
//! add files that the command loads. [`bridge`] connects the two networks.

pub(crate) mod app_host;
mod bridge;

use loopwright_core::round::ProofVerdict;
use loopwright_core::spec::ProverSpec;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The time limit of a proof if the loop does not set one.
pub(crate) const TIMEOUT_DEFAULT: Duration = Duration::from_secs(120);
/// The variable that names the folder for artefacts, for the exercise.
pub(crate) const FOLDER_VAR: &str = "PROOF_DIR";
/// The path of that folder inside.
pub(crate) const FOLDER_INSIDE: &str = "/proof";
/// The variable that names the folder in which the application and the exercise can exchange files.
pub(crate) const SHARED_VAR: &str = "PROOF_SHARED";
/// The path of that folder inside.
pub(crate) const SHARED_INSIDE: &str = "/shared";
/// The path inside of the folder that connects the two sandboxes of a proof.
pub(crate) const LINK_INSIDE: &str = "/link";
/// The output of the exercise.
pub(crate) const EXERCISE_LOG: &str = "exercise.log";
/// The output of the application.
pub(crate) const APP_LOG: &str = "app.log";

const BROKEN: i32 = 10;
const UNVERIFIABLE: i32 = 20;

/// The task of one sandbox of a proof.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ProofPart {
    /// Everything.
    Whole,
    /// Starts the application, and keeps it until the engine ends it.
    Application(ProofLink),
    /// Exercises the application of the other sandbox.
    Exercise(ProofLink),
}

/// The connection of the two sandboxes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProofLink {
    /// The folder that both see, as seen inside.
    pub(crate) folder: String,
    /// The folder that both may write to, as seen inside.
    pub(crate) shared: String,
    /// The port of the application, in both networks.
    pub(crate) port: u16,
    /// Whether the sandboxes have networks of their own.
    pub(crate) is_split: bool,
}

impl ProofPart {
    fn shared(&self) -> Option<&str> {
        match self {
            Self::Whole => None,
            Self::Application(link) | Self::Exercise(link) => Some(&link.shared),
        }
    }
}

impl ProofLink {
    fn socket(&self) -> std::path::PathBuf {
        std::path::Path::new(&self.folder).join("app.sock")
    }

    /// The file that exists when the application is ready.
    fn ready(&self) -> std::path::PathBuf {
        std::path::Path::new(&self.folder).join("ready")
    }
}

/// The task of the part inside the sandbox.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ProofTask {
    part: ProofPart,
    start: Vec<String>,
    ready: Option<String>,
    exercise: Vec<String>,
    http: Option<(String, u16, Option<String>)>,
    timeout_ms: u64,
    /// The folder for artefacts, as seen inside.
    folder: String,
}

impl ProofTask {
    pub(crate) fn new(prover: &ProverSpec, part: ProofPart, folder: &std::path::Path) -> Self {
        let timeout = timeout(prover);
        Self {
            part,
            start: prover.start.clone(),
            ready: prover.ready.clone(),
            exercise: prover.exercise.clone(),
            http: prover
                .http
                .as_ref()
                .map(|http| (http.url.clone(), http.status.unwrap_or(200), http.contains.clone())),
            timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
            folder: folder.to_string_lossy().into_owned(),
        }
    }
}

/// The time limit of a proof.
pub(crate) fn timeout(prover: &ProverSpec) -> Duration {
    prover.timeout.map_or(TIMEOUT_DEFAULT, |span| span.duration())
}

/// The verdict in an exit code.
pub(crate) fn verdict_of(code: i32) -> Option<ProofVerdict> {
    match code {
        0 => Some(ProofVerdict::Works),
        BROKEN => Some(ProofVerdict::Broken),
        UNVERIFIABLE => Some(ProofVerdict::Unverifiable),
        _ => None,
    }
}
