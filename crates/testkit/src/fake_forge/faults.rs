//! Scripted faults: the n-th request to a route fails in a given way.

use std::time::Duration;

/// A failure of the network, of a proxy or of the forge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForgeFault {
    /// The forge performs the request and then closes the connection without an answer.
    CutAfter,
    /// The connection closes without an answer, and the forge performs the request later: right before the n-th
    /// further request.
    LateAfterCut(u64),
    /// The connection closes before the forge performs the request.
    CutBefore,
    /// The forge performs the request, and the answer has half of its bytes.
    CutInside,
    /// `429` with `Retry-After` in seconds. The forge performs nothing.
    TooManyRequests(u64),
    /// GitHub's primary limit: `403` without requests left; the limit resets after these seconds.
    PrimaryLimit(u64),
    /// GitHub's secondary limit: `403` with `Retry-After` in seconds.
    SecondaryLimit(u64),
    /// A server error with this status. The forge performs nothing.
    ServerError(u16),
    /// `503` with `Retry-After` in seconds. The forge performs nothing.
    Maintenance(u64),
    /// The forge performs the request and then answers with a server error.
    ServerErrorAfter(u16),
    /// The forge answers later.
    Slow(Duration),
    /// The forge performs the request and never answers; the connection stays open.
    Stall,
    /// The forge performs the request, and the answer is not JSON.
    MalformedJson,
    /// A proxy answers with a page for people, and a status. The forge performs nothing.
    HtmlPage(u16),
    /// The forge answers in another way, such as with `404`. The forge performs nothing.
    Status(u16),
    /// A listing does not show new items yet: it is empty.
    EmptyList,
    /// As [`ForgeFault::Status`], with the forge's words.
    Said(u16, &'static str),
}

/// Faults by chance, the same for the same seed and order of requests.
#[derive(Debug, Clone)]
pub(super) struct RandomFaults {
    pub(super) seed: u64,
    pub(super) per_mille: u64,
    pub(super) faults: Vec<ForgeFault>,
}

impl RandomFaults {
    /// The fault of the next request.
    pub(super) fn draw(&mut self) -> Option<ForgeFault> {
        let hits = self.next() % 1000 < self.per_mille;
        let which = self.next() as usize;
        self.faults.get(which.checked_rem(self.faults.len())?).filter(|_| hits).cloned()
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.seed ^ (self.seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// The requests that a fault applies to.
#[derive(Debug, Clone)]
pub(super) struct FaultRule {
    pub(super) method: String,
    pub(super) path: String,
    /// The first request that fails, counted from 1.
    pub(super) first: u64,
    /// The number of requests that fail.
    pub(super) times: u64,
    pub(super) fault: ForgeFault,
    pub(super) calls: u64,
}

impl FaultRule {
    /// Counts a request and returns the fault that it suffers.
    fn count(&mut self, method: &str, path: &str) -> Option<ForgeFault> {
        let wanted = (self.method == "*" || self.method == method) && matches_path(&self.path, path);
        if !wanted {
            return None;
        }
        self.calls += 1;
        let last = self.first.saturating_add(self.times);
        (self.calls >= self.first && self.calls < last).then(|| self.fault.clone())
    }
}

/// The fault of a request; every rule counts it, the first that applies wins.
pub(super) fn take_fault(rules: &mut [FaultRule], method: &str, path: &str) -> Option<ForgeFault> {
    rules.iter_mut().fold(None, |found, rule| {
        let fault = rule.count(method, path);
        found.or(fault)
    })
}

/// Whether a path matches a pattern, in which `*` stands for one part and `**` for the rest.
pub(super) fn matches_path(pattern: &str, path: &str) -> bool {
    let (mut wanted, mut parts) = (pattern.split('/'), path.split('/'));
    loop {
        match (wanted.next(), parts.next()) {
            (Some("**"), _) | (None, None) => return true,
            (Some("*"), Some(_)) => {}
            (Some(one), Some(other)) if one == other => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(path: &str, first: u64, times: u64) -> FaultRule {
        FaultRule {
            method: "POST".to_owned(),
            path: path.to_owned(),
            first,
            times,
            fault: ForgeFault::CutAfter,
            calls: 0,
        }
    }

    #[test]
    fn patterns_match_single_parts_and_the_rest() {
        assert!(matches_path("/repos/*/*/pulls", "/repos/a/b/pulls"));
        assert!(!matches_path("/repos/*/*/pulls", "/repos/a/b/pulls/1"));
        assert!(!matches_path("/repos/*/*/pulls", "/repos/a/pulls"));
        assert!(matches_path("/repos/**", "/repos/a/b/pulls/1"));
        assert!(matches_path("**", "/a"));
    }

    #[test]
    fn only_the_nth_request_to_the_route_fails() {
        let mut rules = [rule("/a", 2, 1)];
        let mut ask = |method: &str, path: &str| take_fault(&mut rules, method, path).is_some();
        let all = [ask("POST", "/a"), ask("GET", "/a"), ask("POST", "/b"), ask("POST", "/a"), ask("POST", "/a")];
        assert_eq!(all, [false, false, false, true, false]);
    }
    #[test]
    fn random_faults_repeat_with_their_seed() {
        let draw = |seed| {
            let faults = vec![ForgeFault::CutAfter, ForgeFault::CutBefore];
            let mut random = RandomFaults { seed, per_mille: 300, faults };
            (0..1000).map(|_| random.draw()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        let hits = draw(7).into_iter().flatten().count();
        assert!((200..400).contains(&hits), "{hits}");
    }
}
