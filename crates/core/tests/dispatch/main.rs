//! The dispatcher from outside: histories as text, and a model test with random inputs.

mod kept;
mod model;
mod oracle;
mod stories;
mod story;
mod world;
