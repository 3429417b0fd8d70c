//! The dispatcher from outside: histories as text, and a model that throws everything at it.

mod kept;
mod model;
mod oracle;
mod stories;
mod story;
mod world;
