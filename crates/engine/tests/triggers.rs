//! Triggers with the real kernel and real git: which changes are signalled, once, and which are not.

mod triggers {
    mod delivering;
    mod hooking;
    pub(crate) mod sink;
    mod watching;
}
