//! Unguessable ids. The only place in this crate that reads the system's random source.

use crate::error::EngineError;
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
