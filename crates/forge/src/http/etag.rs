//! Answers with an entity tag, so that a listing that has not changed costs no bytes and, on GitHub, no request of the
//! rate limit.

use super::HttpAnswer;
use std::collections::VecDeque;

/// The most answers kept.
const ENTRIES_MAX: usize = 64;
/// The most bytes of all answers together.
const BYTES_MAX: usize = 8 << 20;

/// The latest answers by address; the oldest is dropped first.
#[derive(Default)]
pub(super) struct EtagCache {
    entries: VecDeque<CachedAnswer>,
    bytes: usize,
}

struct CachedAnswer {
    url: String,
    etag: String,
    answer: HttpAnswer,
}

impl EtagCache {
    /// The tag of an address.
    pub(super) fn tag(&self, url: &str) -> Option<String> {
        self.entries.iter().find(|entry| entry.url == url).map(|entry| entry.etag.clone())
    }

    /// The answer that the tag stands for.
    pub(super) fn answer(&self, url: &str) -> Option<HttpAnswer> {
        self.entries.iter().find(|entry| entry.url == url).map(|entry| entry.answer.clone())
    }

    /// Keeps an answer that has a tag, instead of an earlier one of the address.
    pub(super) fn keep(&mut self, url: &str, answer: &HttpAnswer) {
        if let Some(at) = self.entries.iter().position(|entry| entry.url == url) {
            self.bytes -= self.entries.remove(at).map_or(0, |old| old.answer.body.len());
        }
        let Some(etag) = answer.header("etag").filter(|_| answer.body.len() <= BYTES_MAX / 4) else { return };
        self.bytes += answer.body.len();
        self.entries.push_back(CachedAnswer { url: url.to_owned(), etag: etag.to_owned(), answer: answer.clone() });
        while self.entries.len() > ENTRIES_MAX || self.bytes > BYTES_MAX {
            self.bytes -= self.entries.pop_front().map_or(0, |old| old.answer.body.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::{HeaderMap, HeaderValue};

    fn answer(etag: &str, bytes: usize) -> HttpAnswer {
        let mut headers = HeaderMap::new();
        headers.insert("etag", HeaderValue::from_str(etag).expect("a tag"));
        HttpAnswer { status: 200, headers, body: vec![b'x'; bytes].into() }
    }

    #[test]
    fn a_new_answer_replaces_the_old_one_and_the_cache_stays_small() {
        let mut cache = EtagCache::default();
        cache.keep("/a", &answer("1", 10));
        cache.keep("/a", &answer("2", 20));
        assert_eq!((cache.tag("/a").as_deref(), cache.bytes), (Some("2"), 20));
        for number in 0..ENTRIES_MAX * 2 {
            cache.keep(&format!("/{number}"), &answer("3", BYTES_MAX / 8));
        }
        assert!(cache.bytes <= BYTES_MAX && cache.entries.len() == 8);
        assert_eq!(cache.tag("/a"), None);
        cache.keep("/huge", &answer("4", BYTES_MAX));
        assert_eq!(cache.tag("/huge"), None);
    }
}
