//! The messages of the control socket: frames of JSON after their length, bounded in size. This module does not decide
//! which peers are trusted or what a message does.

use crate::context::CommandEnvironment;
use crate::error::{CommandError, CommandErrorKind};
use crate::output::{CommandOutput, OutputChunk, StreamInfo};
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The version of the frames; a peer with another version is refused.
pub(super) const PROTOCOL: u32 = 1;

/// The version of this build.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The longest frame that is read. The kernel allows command lines of two mebibytes; half of that is enough.
const FRAME_MAX: u32 = 1 << 20;

/// The longest text in one frame; longer ones go in several.
const CHUNK_MAX: usize = 64 << 10;

/// Text of the operating system, readable where it is UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum OsText {
    Text(String),
    Bytes(Vec<u8>),
}

impl From<&OsStr> for OsText {
    fn from(words: &OsStr) -> Self {
        words.to_str().map_or_else(|| Self::Bytes(words.as_bytes().to_vec()), |text| Self::Text(text.to_owned()))
    }
}

impl From<OsText> for OsString {
    fn from(words: OsText) -> Self {
        match words {
            OsText::Text(text) => text.into(),
            OsText::Bytes(bytes) => Self::from_vec(bytes),
        }
    }
}

/// A command line with its environment. It has no keys: the command uses those of the daemon.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ControlRequest {
    pub(super) protocol: u32,
    pub(super) version: String,
    /// The arguments as typed, without the program's own name.
    pub(super) argv: Vec<OsText>,
    surroundings: RequestEnvironment,
    /// A token that identifies the actor instead of the operating system's user.
    #[serde(default)]
    pub(super) token: Option<String>,
    /// The streams it prints to.
    #[serde(flatten)]
    pub(super) streams: StreamInfo,
}

/// The part of [`CommandEnvironment`] that a command depends on.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct RequestEnvironment {
    cwd: OsText,
    config: Option<OsText>,
    state_dir: Option<OsText>,
    store: Option<String>,
    log: Option<String>,
    xdg_config: Option<OsText>,
    xdg_state: Option<OsText>,
    home: Option<OsText>,
    path: OsText,
    no_colour: bool,
}

impl ControlRequest {
    /// The request for this command line.
    pub(super) fn new(argv: impl Iterator<Item = OsString>, env: &CommandEnvironment, out: &CommandOutput) -> Self {
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| OsText::from(path.as_os_str()));
        // A deleted folder has no name any more, and must not become the daemon's current folder.
        let cwd = if env.cwd.is_absolute() { env.cwd.as_path() } else { Path::new("/") };
        let surroundings = RequestEnvironment {
            cwd: OsText::from(cwd.as_os_str()),
            config: path(&env.config),
            state_dir: path(&env.state_dir),
            store: env.store.clone(),
            log: env.log.clone(),
            xdg_config: path(&env.xdg_config),
            xdg_state: path(&env.xdg_state),
            home: path(&env.home),
            path: OsText::from(env.path.as_os_str()),
            no_colour: env.no_colour,
        };
        Self {
            protocol: PROTOCOL,
            version: VERSION.to_owned(),
            argv: argv.map(|word| OsText::from(word.as_os_str())).collect(),
            surroundings,
            token: None,
            streams: out.streams(),
        }
    }

    /// Its environment, with the keys of this process.
    pub(super) fn environment(&self, own: &CommandEnvironment) -> CommandEnvironment {
        let path = |words: &Option<OsText>| words.clone().map(|words| PathBuf::from(OsString::from(words)));
        let around = &self.surroundings;
        CommandEnvironment {
            cwd: PathBuf::from(OsString::from(around.cwd.clone())),
            config: path(&around.config),
            state_dir: path(&around.state_dir),
            store: around.store.clone(),
            log: around.log.clone(),
            xdg_config: path(&around.xdg_config),
            xdg_state: path(&around.xdg_state),
            home: path(&around.home),
            path: around.path.clone().into(),
            no_colour: around.no_colour,
            ..own.clone()
        }
    }
}

/// A message after the request.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ControlMessage {
    /// End the command.
    Cancel,
}

/// A reply of the daemon.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ControlReply {
    /// The request is accepted and begins.
    Begun { version: String },
    /// Text for standard output.
    Out(String),
    /// Text for standard error.
    Err(String),
    /// The command ended with this code.
    Exit(u8),
    /// The command does not begin.
    No { kind: CommandErrorKind, text: String, hints: Vec<String> },
}

impl ControlReply {
    /// Splits text into frames of at most the limit, cut between characters.
    pub(super) fn chunks(said: OutputChunk) -> Vec<Self> {
        let (text, wrap): (String, fn(String) -> Self) = match said {
            OutputChunk::Out(text) => (text, Self::Out),
            OutputChunk::Err(text) => (text, Self::Err),
        };
        let mut rest = text.as_str();
        let mut chunks = Vec::new();
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(rest.floor_char_boundary(CHUNK_MAX));
            chunks.push(wrap(chunk.to_owned()));
            rest = after;
        }
        chunks
    }
}

impl From<CommandError> for ControlReply {
    fn from(error: CommandError) -> Self {
        Self::No { kind: error.kind, text: error.text, hints: error.hints }
    }
}

/// Sends a frame.
pub(super) async fn send<T: Serialize>(to: &mut (impl AsyncWriteExt + Unpin), frame: &T) -> io::Result<()> {
    let body = serde_json::to_vec(frame)?;
    let length = u32::try_from(body.len()).ok().filter(|length| *length <= FRAME_MAX);
    let length =
        length.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "too long for the control socket"))?;
    let mut whole = length.to_be_bytes().to_vec();
    whole.extend(body);
    to.write_all(&whole).await?;
    to.flush().await
}

/// Reads a frame; `None` at the end of the stream.
pub(super) async fn receive<T: for<'de> Deserialize<'de>>(
    from: &mut (impl AsyncReadExt + Unpin),
) -> io::Result<Option<T>> {
    let length = match from.read_u32().await {
        Ok(length) => length,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    };
    if length > FRAME_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a frame of {length} bytes")));
    }
    let mut body = Vec::new();
    from.take(u64::from(length)).read_to_end(&mut body).await?;
    if body.len() != length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(serde_json::from_slice(&body)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn frames_arrive_whole_and_long_ones_are_refused_unread() {
        let mut wire = Vec::new();
        send(&mut wire, &ControlReply::Out("ä".to_owned())).await.expect("it is short");
        let mut from = wire.as_slice();
        assert!(matches!(receive(&mut from).await, Ok(Some(ControlReply::Out(text))) if text == "ä"));
        assert!(matches!(receive::<ControlReply>(&mut from).await, Ok(None)));
        let long = u32::MAX.to_be_bytes();
        assert!(receive::<ControlReply>(&mut long.as_slice()).await.is_err());
        let mut cut = &wire[..wire.len() - 1];
        assert!(receive::<ControlReply>(&mut cut).await.is_err());
    }

    #[test]
    fn long_text_is_cut_between_characters_and_nothing_is_lost() {
        let text = "ä".repeat(CHUNK_MAX);
        let chunks = ControlReply::chunks(OutputChunk::Err(text.clone()));
        let joined: String =
            chunks.iter().map(|reply| if let ControlReply::Err(text) = reply { text } else { "" }).collect();
        assert!(chunks.len() >= 2 && joined == text);
    }

    #[test]
    fn a_folder_that_was_deleted_is_not_the_daemons_own() {
        let out = CommandOutput::new(&crate::args::GlobalFlags::default(), &CommandEnvironment::default(), None);
        let cwd = |path: &str| {
            let env = CommandEnvironment { cwd: path.into(), ..CommandEnvironment::default() };
            ControlRequest::new(std::iter::empty(), &env, &out).environment(&CommandEnvironment::default()).cwd
        };
        assert_eq!((cwd("/srv/shop"), cwd(".")), (PathBuf::from("/srv/shop"), PathBuf::from("/")));
    }

    #[test]
    fn arguments_that_are_not_utf8_survive() {
        for bytes in [&b"plain"[..], &b"\xff\xfe"[..]] {
            let words = OsText::from(OsStr::from_bytes(bytes));
            let json = serde_json::to_string(&words).expect("words are JSON");
            let back: OsText = serde_json::from_str(&json).expect("and back");
            assert_eq!(OsString::from(back).as_bytes(), bytes);
        }
    }
}
