//! The fake forge as a process, for trying the documentation on loopback: it prints its address and a token, obeys
//! simple commands on standard input, and ends with it.

#![allow(clippy::print_stdout, reason = "a program for people prints its address")]

use loopwright_testkit::FakeForge;
use std::io::BufRead as _;

fn main() {
    let forge = FakeForge::start();
    forge.create_repo("acme/app").add_writer("bot");
    println!("url {}\ntoken {}", forge.url(), forge.token("bot"));
    println!("clone {}", forge.repo("acme/app").clone_url());
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["copy", path] => drop(forge.repo("acme/app").copy_branches_from(path.as_ref())),
            ["revoke", token] => forge.revoke_token(token),
            ["token", user] => println!("token {}", forge.token(user)),
            ["protect", branch] => drop(forge.repo("acme/app").protect(branch)),
            ["unprotect", branch] => drop(forge.repo("acme/app").unprotect(branch)),
            ["delete"] => forge.delete_repo("acme/app"),
            ["pulls"] => println!("{:#?}", forge.repo("acme/app").pulls()),
            _ => println!(
                "commands: copy PATH, token USER, revoke TOKEN, protect BRANCH, unprotect BRANCH, delete, pulls"
            ),
        }
    }
}
