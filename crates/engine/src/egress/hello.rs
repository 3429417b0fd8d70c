//! The first message of a TLS client: finds the host it names. Bytes may arrive in parts of any size.
//!
//! If the true name is encrypted (ECH), the outer name counts, because it addresses the far side.

use tokio_rustls::rustls::server::Acceptor;

/// The longest first message; today's clients need a tenth of it for their key shares.
pub(super) const GREETING_MAX: usize = 32 << 10;

/// The kind of the first bytes of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Greeting {
    /// The start of a TLS hello; more bytes are needed.
    More,
    /// Not a TLS hello, or one that names its host in two ways.
    Not,
    /// A complete hello, with the host it names.
    Hello(Option<String>),
}

/// Parses the first bytes of a connection.
pub(super) fn read(mut bytes: &[u8]) -> Greeting {
    let is_too_long = bytes.len() >= GREETING_MAX;
    let mut acceptor = Acceptor::default();
    while !bytes.is_empty() {
        if acceptor.read_tls(&mut bytes).is_err() {
            return Greeting::Not;
        }
        match acceptor.accept() {
            Ok(Some(accepted)) => return Greeting::Hello(accepted.client_hello().server_name().map(str::to_owned)),
            Ok(None) => {}
            Err(_) => return Greeting::Not,
        }
    }
    if is_too_long { Greeting::Not } else { Greeting::More }
}

#[cfg(test)]
mod tests;
