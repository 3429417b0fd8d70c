//! The seven named loops as JSON: starting points to read, change and store as loop files. A spec is data and needs
//! neither a repository nor an agent.
#![expect(clippy::print_stdout, reason = "an example shows what happened")]

use loopwright::patterns;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("{}", serde_json::to_string_pretty(&patterns::catalogue())?);
    Ok(())
}
