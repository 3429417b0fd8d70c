//! Unguessable ids. The only place in this crate that reads the system's random source.

use crate::error::EngineError;
use crate::state_dir::StateDir;
use std::io::Read as _;

/// Random bytes from the kernel.
pub(crate) fn bytes<const N: usize>() -> Result<[u8; N], EngineError> {
    let mut bytes = [0; N];
    let mut source = std::fs::File::open("/dev/urandom").map_err(EngineError::Random)?;
    source.read_exact(&mut bytes).map_err(EngineError::Random)?;
    Ok(bytes)
}

/// A secret of 128 bits in hex.
pub(crate) fn nonce() -> Result<String, EngineError> {
    Ok(bytes::<16>()?.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A secret of 256 bits in hex, for tokens and links.
///
/// # Errors
/// When the system has no random source.
pub fn secret() -> Result<String, EngineError> {
    Ok(bytes::<32>()?.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A secret of this state folder, created when it is first needed. No sandboxed program sees the folder.
pub(crate) fn kept_secret(state_dir: &StateDir, name: &str) -> Result<String, EngineError> {
    let path = state_dir.root().join(name);
    if let Ok(known) = std::fs::read_to_string(&path)
        && known.len() == 32
    {
        return Ok(known);
    }
    let secret = nonce()?;
    state_dir.write(&path, secret.as_bytes()).map_err(|error| EngineError::Random(std::io::Error::other(error)))?;
    Ok(secret)
}
