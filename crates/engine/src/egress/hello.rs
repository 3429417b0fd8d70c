//! The first message of a TLS client: finds the host it names. Bytes may come in parts of any size.
//!
//! Where the true name is encrypted (ECH), the outer name counts: it is what the far side is addressed by.

use tokio_rustls::rustls::server::Acceptor;

/// The longest greeting; key shares of today's clients take a tenth of it.
pub(super) const GREETING_MAX: usize = 32 << 10;

/// What a run of first bytes is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Greeting {
    /// The beginning of one; more bytes are needed.
    More,
    /// No greeting of TLS, or one that names its host in two ways.
    Not,
    /// A whole one, with the host it names.
    Hello(Option<String>),
}

/// Looks at the first bytes of a connection.
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
