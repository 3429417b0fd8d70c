//! How Loopwright confines: spawning, process trees and their end. The only crate with `unsafe`.
