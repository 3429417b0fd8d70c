//! E-mail by SMTP: one plain text message to a few people. Nothing is sent before the connection is encrypted, except to a
//! server on this machine.

use crate::connection::ConnectionError;
use crate::secret::SecretText;
use lettre::message::Mailbox;
use lettre::message::header::ContentType;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, Tls, TlsParameters};
use lettre::{AsyncSmtpTransport, AsyncTransport as _, Message, Tokio1Executor};
use loopwright_core::deliver::DeliverError;
use std::path::PathBuf;
use std::time::Duration;

/// The limit for each step of the exchange.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);

/// The limit for the whole exchange.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(120);

/// The most bytes of an authority's file.
const CA_MAX: u64 = 1 << 20;

/// The encryption of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailTls {
    /// It begins in plain text and must change before anything is sent.
    Starttls,
    /// It is encrypted from the start.
    Whole,
    /// There is none.
    None,
}

/// A mail server.
#[derive(Debug, Clone)]
pub struct MailServer {
    /// Its host name.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The encryption.
    pub tls: MailTls,
    /// The account and its password.
    pub login: Option<(String, SecretText)>,
    /// A PEM file with certificate authorities to trust besides the system's.
    pub ca_file: Option<PathBuf>,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailMessage {
    /// The same in every attempt.
    pub id: String,
    /// The sender.
    pub from: String,
    /// The receivers.
    pub to: Vec<String>,
    /// One line.
    pub subject: String,
    /// Plain text.
    pub text: String,
}

/// A client of one mail server.
pub struct MailSender {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    host: String,
}

impl MailSender {
    /// Prepares a client; nothing is sent.
    ///
    /// # Errors
    /// If the host or the file of the authority is unusable.
    pub fn new(server: &MailServer) -> Result<Self, ConnectionError> {
        let wrong = |why: String| ConnectionError(format!("mail server `{}`: {why}", server.host));
        let tls = match server.tls {
            MailTls::None => Tls::None,
            MailTls::Starttls => Tls::Required(parameters(server).map_err(wrong)?),
            MailTls::Whole => Tls::Wrapper(parameters(server).map_err(wrong)?),
        };
        let mut builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&server.host)
            .port(server.port)
            .tls(tls)
            .timeout(Some(STEP_TIMEOUT));
        if let Some((user, password)) = &server.login {
            builder = builder.credentials(Credentials::new(user.clone(), password.expose().to_owned()));
        }
        Ok(Self { transport: builder.build(), host: server.host.clone() })
    }

    /// Sends a message.
    ///
    /// # Errors
    /// As a delivery: a refused message must not be sent again, everything else may be.
    pub async fn send(&self, message: &MailMessage) -> Result<(), DeliverError> {
        let mail = letter(message).map_err(DeliverError::refused)?;
        let sent = tokio::time::timeout(TOTAL_TIMEOUT, self.transport.send(mail)).await;
        let host = &self.host;
        match sent {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) if error.is_permanent() => {
                Err(DeliverError::blocked(format!("mail server {host} refuses the message: {}", plain(&error))))
            }
            Ok(Err(error)) => Err(DeliverError::transient(format!("mail server {host}: {}", plain(&error)))),
            Err(_) => Err(DeliverError::transient(format!(
                "mail server {host} did not answer within {} s",
                TOTAL_TIMEOUT.as_secs()
            ))),
        }
    }
}

fn parameters(server: &MailServer) -> Result<TlsParameters, String> {
    let mut tls = TlsParameters::builder(server.host.clone());
    if let Some(path) = &server.ca_file {
        let failed = |error: std::io::Error| format!("read `{}`: {error}", path.display());
        if std::fs::metadata(path).map_err(failed)?.len() > CA_MAX {
            return Err(format!("`{}` is too large for certificates", path.display()));
        }
        let pem = std::fs::read(path).map_err(failed)?;
        let known = Certificate::from_pem(&pem).map_err(|error| format!("`{}`: {error}", path.display()))?;
        tls = tls.add_root_certificate(known);
    }
    tls.build().map_err(|error| error.to_string())
}

fn letter(message: &MailMessage) -> Result<Message, String> {
    let mailbox = |text: &String| text.parse::<Mailbox>().map_err(|error| format!("address `{text}`: {error}"));
    let from = mailbox(&message.from)?;
    let domain = from.email.domain().to_owned();
    let mut mail = Message::builder().from(from).message_id(Some(format!("<{}@{domain}>", message.id)));
    for to in &message.to {
        mail = mail.to(mailbox(to)?);
    }
    let subject: String = message.subject.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect();
    let built = mail.subject(subject).header(ContentType::TEXT_PLAIN).body(message.text.clone());
    built.map_err(|error| error.to_string())
}

/// A server's words as one short line, with their cause.
fn plain(error: &lettre::transport::smtp::Error) -> String {
    let cause = std::error::Error::source(error).map_or(String::new(), |cause| format!(": {cause}"));
    let text = format!("{error}{cause}");
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(to: &str, subject: &str) -> MailMessage {
        let (id, from, text) = ("n-7".to_owned(), "loops@example.org".to_owned(), "ça va\n.\n".to_owned());
        MailMessage { id, from, to: vec![to.to_owned()], subject: subject.to_owned(), text }
    }

    #[test]
    fn a_subject_cannot_add_a_header_and_a_wrong_address_sends_nothing() {
        let mail = letter(&message("ada@example.org", "it ended\r\nBcc: eve@example.org")).expect("a message");
        let text = String::from_utf8(mail.formatted()).expect("text");
        assert!(
            !text.lines().any(|line| line.starts_with("Bcc")) && text.contains("Message-ID: <n-7@example.org>"),
            "{text}"
        );
        assert!(letter(&message("ada", "it ended")).is_err());
    }

    #[test]
    fn a_missing_authority_is_an_error_that_names_the_file() {
        let server = MailServer {
            host: "localhost".to_owned(),
            port: 465,
            tls: MailTls::Whole,
            login: None,
            ca_file: Some(PathBuf::from("/nowhere/ca.pem")),
        };
        let error = MailSender::new(&server).err().expect("no file").to_string();
        assert!(error.contains("/nowhere/ca.pem"), "{error}");
    }
}
