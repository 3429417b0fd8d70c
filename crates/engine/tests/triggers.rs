//! Triggers against the real kernel and real git: what is signalled, once, and what is not.

mod triggers {
    mod delivering;
    mod hooking;
    pub(crate) mod sink;
    mod watching;
}
