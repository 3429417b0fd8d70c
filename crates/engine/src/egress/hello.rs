//! The first words of a TLS client: finds the host it names. Reads as little as it can, believes nothing, and survives any
//! bytes in pieces of any size. What it cannot read is no greeting.
//!
//! Where the true name is encrypted (ECH), the outer name counts: it is what the far side is addressed by.

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
pub(super) fn read(bytes: &[u8]) -> Greeting {
    let whole = match handshake(bytes) {
        Ok(Some(message)) => message,
        Ok(None) if bytes.len() < GREETING_MAX => return Greeting::More,
        Ok(None) | Err(Odd) => return Greeting::Not,
    };
    match client_hello(&whole) {
        Ok(name) => Greeting::Hello(name),
        Err(Odd) => Greeting::Not,
    }
}

/// The bytes are not what they should be.
#[derive(Debug)]
struct Odd;

const RECORD_HANDSHAKE: u8 = 22;
const MESSAGE_CLIENT_HELLO: u8 = 1;
/// The longest record (RFC 8446 §5.1).
const RECORD_MAX: usize = 1 << 14;

/// The first handshake message, put together from its records; none when some of it is not there yet.
fn handshake(mut bytes: &[u8]) -> Result<Option<Vec<u8>>, Odd> {
    let mut message = Vec::new();
    loop {
        if let Some(whole) = complete(&message)? {
            return Ok(Some(whole));
        }
        match bytes {
            [kind, ..] if *kind != RECORD_HANDSHAKE => return Err(Odd),
            [_, major, ..] if *major != 3 => return Err(Odd),
            [_, _, _, high, low, rest @ ..] => {
                let length = usize::from(u16::from_be_bytes([*high, *low]));
                if length == 0 || length > RECORD_MAX {
                    return Err(Odd);
                }
                let here = length.min(rest.len());
                message.extend_from_slice(&rest[..here]);
                if here < length {
                    return complete(&message);
                }
                bytes = &rest[length..];
            }
            _ => return Ok(None),
        }
    }
}

/// The message's body, once all of it is there.
fn complete(message: &[u8]) -> Result<Option<Vec<u8>>, Odd> {
    match message {
        [kind, ..] if *kind != MESSAGE_CLIENT_HELLO => Err(Odd),
        [_, a, b, c, body @ ..] => {
            let length = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
            if length > GREETING_MAX {
                return Err(Odd);
            }
            Ok(body.get(..length).map(<[u8]>::to_vec))
        }
        _ => Ok(None),
    }
}

/// Takes fields off the front of a run of bytes.
struct Fields<'b>(&'b [u8]);

impl<'b> Fields<'b> {
    fn take(&mut self, count: usize) -> Result<&'b [u8], Odd> {
        let (head, rest) = self.0.split_at_checked(count).ok_or(Odd)?;
        self.0 = rest;
        Ok(head)
    }

    fn number(&mut self, bytes: usize) -> Result<usize, Odd> {
        Ok(self.take(bytes)?.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
    }

    /// A field with its length before it.
    fn sized(&mut self, length_bytes: usize) -> Result<Self, Odd> {
        let length = self.number(length_bytes)?;
        self.take(length).map(Fields)
    }

    fn end(&self) -> Result<(), Odd> {
        if self.0.is_empty() { Ok(()) } else { Err(Odd) }
    }
}

/// The host that a client's hello names.
fn client_hello(body: &[u8]) -> Result<Option<String>, Odd> {
    let mut fields = Fields(body);
    fields.take(2 + 32)?;
    fields.sized(1)?;
    fields.sized(2)?;
    fields.sized(1)?;
    if fields.0.is_empty() {
        return Ok(None);
    }
    let mut extensions = fields.sized(2)?;
    fields.end()?;
    let mut name = None;
    while !extensions.0.is_empty() {
        let kind = extensions.number(2)?;
        let data = extensions.sized(2)?;
        if kind == 0 && name.replace(server_name(data)?).is_some() {
            return Err(Odd);
        }
    }
    Ok(name)
}

/// The one name of the list; more than one, or another kind of name, is nothing that a client sends.
fn server_name(mut data: Fields<'_>) -> Result<String, Odd> {
    let mut list = data.sized(2)?;
    data.end()?;
    if list.number(1)? != 0 {
        return Err(Odd);
    }
    let name = list.sized(2)?.0;
    list.end()?;
    let text = std::str::from_utf8(name).map_err(|_| Odd)?;
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) { Err(Odd) } else { Ok(text.to_owned()) }
}

#[cfg(test)]
mod tests;
