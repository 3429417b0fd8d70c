//! Bodies that pass through the proxy: charged to the budget, aborted after a long silence, and, in a provider's
//! response, with its key removed.

use super::key::ProviderKey;
use super::ledger::{BytesExhausted, ConnectionAccount};
use super::usage::{AnswerUsage, RequestCopy};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use loopwright_core::provider::ExchangeEnd;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// An error that ends a body.
pub(super) type BodyError = Box<dyn std::error::Error + Send + Sync>;
/// No byte came for longer than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("silent for too long")]
pub(super) struct SilentBody;

/// Any body.
pub(super) type AnyBody = UnsyncBoxBody<Bytes, BodyError>;

/// A short text of the proxy itself.
pub(super) fn text_body(text: impl Into<Bytes>) -> AnyBody {
    Full::new(text.into()).map_err(|never: Infallible| match never {}).boxed_unsync()
}

/// The direction of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyDirection {
    /// From the round to the network.
    Up,
    /// From the network to the round.
    Down,
}

/// A body whose bytes are charged as they pass.
pub(super) struct MeteredBody {
    body: Incoming,
    account: ConnectionAccount,
    direction: BodyDirection,
    silence: Pin<Box<Sleep>>,
    passed_bytes: Option<Arc<AtomicU64>>,
    copy: Option<RequestCopy>,
    passed: u64,
    /// The longest silence after the first byte, if it differs.
    idle_between: Option<Duration>,
}

impl MeteredBody {
    pub(super) fn new(body: Incoming, account: ConnectionAccount, direction: BodyDirection) -> Self {
        let silence = Box::pin(sleep_until(Instant::now() + account.idle()));
        Self { body, account, direction, silence, passed_bytes: None, copy: None, passed: 0, idle_between: None }
    }

    /// Limits the silence after the first byte.
    pub(super) fn idle_between(mut self, most: Duration) -> Self {
        self.idle_between = Some(most);
        self
    }

    /// Adds the number of passed bytes to this counter.
    pub(super) fn counting_into(mut self, whom: Option<Arc<AtomicU64>>) -> Self {
        self.passed_bytes = whom;
        self
    }

    /// Copies the passed bytes there.
    pub(super) fn copying_into(mut self, copy: Option<RequestCopy>) -> Self {
        self.copy = copy;
        self
    }

    fn charge(&mut self, bytes: usize) -> Result<(), BodyError> {
        match self.direction {
            BodyDirection::Up => self.account.charge_sent(bytes)?,
            BodyDirection::Down => self.account.charge_received(bytes)?,
        }
        self.passed = self.passed.saturating_add(bytes as u64);
        if let Some(counter) = &self.passed_bytes {
            counter.fetch_max(self.passed, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl Body for MeteredBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
            ready!(self.silence.as_mut().poll(cx));
            return Poll::Ready(Some(Err(SilentBody.into())));
        };
        let next = Instant::now() + self.idle_between.unwrap_or(self.account.idle());
        self.silence.as_mut().reset(next);
        let charged = |frame: Frame<Bytes>| {
            self.charge(frame.data_ref().map_or(0, Bytes::len))?;
            if let (Some(copy), Some(bytes)) = (&self.copy, frame.data_ref()) {
                copy.push(bytes);
            }
            Ok(frame)
        };
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into).and_then(charged)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A provider's answer: its usage figures are counted as it passes, and every occurrence of a key is masked, even if it
/// is split over frames. Lengths do not change.
pub(super) struct ScrubbedBody<B> {
    body: B,
    key: ProviderKey,
    answer: Option<AnswerUsage>,
    /// The end of the received bytes, if it may be the start of the key.
    held: Vec<u8>,
    ended: bool,
}

impl<B> ScrubbedBody<B> {
    pub(super) fn new(body: B, key: ProviderKey, answer: Option<AnswerUsage>) -> Self {
        Self { body, key, answer, held: Vec::new(), ended: false }
    }

    /// Counts received bytes. A caller does not poll a body again after it reports its end, so the end is checked with
    /// every frame. An interrupted answer is not finished: its usage is unclear.
    fn count(&mut self, bytes: &[u8], at_end: bool) {
        let Some(answer) = &mut self.answer else { return };
        answer.push(bytes);
        if at_end {
            answer.finish();
            self.answer = None;
        }
    }

    /// The answer was interrupted: by silence, by the round's own limit of bytes, or by the provider.
    fn interrupt(&mut self, error: &BodyError) {
        let Some(answer) = &mut self.answer else { return };
        let end = if error.is::<SilentBody>() && answer.has_bytes() {
            ExchangeEnd::Stalled
        } else if error.is::<SilentBody>() {
            ExchangeEnd::NoFirstByte
        } else if error.is::<BytesExhausted>() {
            ExchangeEnd::Left
        } else {
            ExchangeEnd::Cut
        };
        answer.interrupt(end);
        self.answer = None;
    }

    /// The bytes that can pass now that these bytes were received.
    fn pass(&mut self, bytes: &[u8]) -> Bytes {
        let mut all = std::mem::take(&mut self.held);
        all.extend_from_slice(bytes);
        let hold = mask(&mut all, self.key.bytes());
        self.held = all.split_off(all.len() - hold);
        all.into()
    }
}

/// Masks every occurrence of the key; returns the number of bytes at the end that may be its start.
fn mask(bytes: &mut [u8], key: &[u8]) -> usize {
    if key.is_empty() {
        return 0;
    }
    let mut at = 0;
    while at + key.len() <= bytes.len() {
        if bytes[at..].starts_with(key) {
            bytes[at..at + key.len()].fill(b'*');
            at += key.len();
        } else {
            at += 1;
        }
    }
    let longest = bytes.len().min(key.len() - 1);
    (1..=longest).rev().find(|count| key.starts_with(&bytes[bytes.len() - count..])).unwrap_or(0)
}

impl<B: Body<Data = Bytes, Error = BodyError> + Unpin> Body for ScrubbedBody<B> {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        while !self.ended {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Err(error)) => {
                    self.interrupt(&error);
                    return Poll::Ready(Some(Err(error)));
                }
                // Trailers are headers at the end of a body; a provider's answer needs none.
                Some(Ok(frame)) => {
                    let bytes = frame.into_data().unwrap_or_default();
                    let at_end = self.body.is_end_stream();
                    self.count(&bytes, at_end);
                    let passed = self.pass(&bytes);
                    if !passed.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(passed))));
                    }
                }
                None => {
                    self.count(&[], true);
                    self.ended = true;
                }
            }
        }
        let rest = std::mem::take(&mut self.held);
        Poll::Ready((!rest.is_empty()).then(|| Ok(Frame::data(rest.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.held.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = self.body.size_hint();
        let held = self.held.len() as u64;
        if let Some(exact) = hint.exact() {
            hint.set_exact(exact + held);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn scrubbed(key: &str, parts: &[&[u8]]) -> Vec<u8> {
        let mut body = ScrubbedBody::new((), ProviderKey::new(key).expect("a key"), None);
        let mut out: Vec<u8> = parts.iter().flat_map(|part| body.pass(part).to_vec()).collect();
        out.extend(body.held);
        out
    }

    #[test]
    fn without_a_key_nothing_is_masked_or_held() {
        let mut bytes = b"any text".to_vec();
        assert_eq!((mask(&mut bytes, b""), bytes.as_slice()), (0, b"any text".as_slice()));
    }

    #[test]
    fn a_key_split_anywhere_is_masked_and_the_length_stays() {
        let text = b"your key sk-aab is wrong, sk-aab; sk-a";
        for cut in 0..text.len() {
            let out = scrubbed("sk-aab", &[&text[..cut], &text[cut..]]);
            assert_eq!(out, b"your key ****** is wrong, ******; sk-a", "{cut}");
        }
    }

    #[test]
    fn an_event_that_ends_in_a_blank_line_is_passed_at_once() {
        let mut body = ScrubbedBody::new((), ProviderKey::new("sk-secret").expect("a key"), None);
        assert_eq!(body.pass(b"data: sk-s\n\n"), &b"data: sk-s\n\n"[..]);
    }

    proptest! {
        #[test]
        fn whatever_comes_in_whatever_parts_the_key_does_not(parts in proptest::collection::vec("[abk-]{0,6}", 0..8)) {
            let bytes: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
            let out = scrubbed("ka-ka", &bytes);
            prop_assert_eq!(out.len(), bytes.concat().len());
            prop_assert!(!out.windows(5).any(|part| part == b"ka-ka"));
        }
    }
}
