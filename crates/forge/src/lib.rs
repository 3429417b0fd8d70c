//! Access to forges and messengers over HTTP. The only crate that sees forge tokens.
//!
//! [`connect`] turns a [`ForgeConnection`] into a [`RemoteForge`], which delivers items, lends the engine a credential
//! for one push, reads pull requests, issues, comments and checks, and inspects its own access. `shared` has the
//! algorithms that all forges have in common; `github`, `gitlab` and `gitea` have only their calls.

mod api;
mod base_url;
mod connection;
mod gitea;
mod github;
mod gitlab;
mod http;
mod hub_repo;
mod hub_rows;
mod inspect;
mod lost;
mod mail;
mod messenger;
mod secret;
mod shared;
mod slack;
mod telemetry;
mod webhook;

pub use connection::{ConnectionError, ForgeConnection, ForgeToken, RemoteForge, RemoteKind, connect};
pub use github::GitHubApp;
pub use http::{NetworkSettings, NowMs};
pub use inspect::{FindingState, ForgeFinding};
pub use mail::{MailMessage, MailSender, MailServer, MailTls};
pub use secret::SecretText;
pub use slack::{SlackAccess, SlackButtons, SlackMessage, SlackPost, SlackReceiver};
pub use telemetry::TelemetryCollector;
pub use webhook::{WebhookReceiver, WebhookRepeats, WebhookTarget};
