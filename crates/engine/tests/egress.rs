//! The egress proxy with real clients and servers on loopback: requests that the policy allows arrive, all others are
//! denied, and the ledger records both. The tests define name resolution and routing; every check stays in force.

#[path = "egress/clients.rs"]
mod clients;
#[path = "egress/clouds.rs"]
mod clouds;
mod common;
#[path = "egress/counts.rs"]
mod counts;
#[path = "egress/exchanges.rs"]
mod exchanges;
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
