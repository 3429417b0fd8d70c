//! The egress proxy against real clients and servers on loopback: what a policy allows arrives, everything else does not, and
//! the book says so. Tests say what names mean and where addresses lead; every check stays in force.

#[path = "egress/clients.rs"]
mod clients;
mod common;
#[path = "egress/counts.rs"]
mod counts;
#[path = "egress/hosts.rs"]
mod hosts;
#[path = "egress/opened.rs"]
mod opened;
#[path = "egress/providers.rs"]
mod providers;
#[path = "egress/rounds.rs"]
mod rounds;
#[path = "egress/tunnels.rs"]
mod tunnels;
#[path = "egress/world.rs"]
mod world;
