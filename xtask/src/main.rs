//! The development front door: `cargo xtask`.
fn main() {}
