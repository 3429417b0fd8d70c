//! Access to forges and messengers over HTTP. The only crate that sees forge tokens.
