//! The budget meter alone: in any order of starts, reports, ends and crashes, no ceiling is exceeded by more than one
//! report of each start.

use super::*;
use proptest::prelude::*;

const CEILING: u64 = 1_000;

fn drawn() -> Vec<(SpendKey, SharedCeiling)> {
    let place = SpendOwner { day: "2026-05-01", loop_day: "2026-05-01", repo: "r", loop_name: "l", item: None };
    let ceiling = SpendAllowance { usd: Some(Usd(CEILING)), tokens: None };
    let of = |spend, scope, ceiling| (SpendKey::new(spend, &place), SharedCeiling { spend, scope, ceiling });
    vec![
        of(SpendScope::Loop, BudgetScope::Day, ceiling),
        of(SpendScope::Fleet, BudgetScope::FleetDay, SpendAllowance::default()),
    ]
}

fn usd(micros: u64) -> Reservation {
    Reservation { usd: Usd(micros), tokens: 0 }
}

#[derive(Debug, Clone)]
enum Move {
    Start { reserved: u64 },
    Report { who: usize, more: u64 },
    End { who: usize },
    Crash { who: usize },
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        (1_u64..400).prop_map(|reserved| Move::Start { reserved }),
        (any::<usize>(), 1_u64..200).prop_map(|(who, more)| Move::Report { who, more }),
        (any::<usize>(), 1_u64..200).prop_map(|(who, more)| Move::Report { who, more }),
        any::<usize>().prop_map(|who| Move::End { who }),
        any::<usize>().prop_map(|who| Move::Crash { who }),
    ];
    proptest::collection::vec(one, 1..120)
}

/// A start as its agent sees it.
struct Agent {
    seat: MeterSlot,
    reserved: u64,
    used: u64,
    last: u64,
    stopped: bool,
}

proptest! {
    #[test]
    fn no_interleaving_exceeds_a_ceiling_by_more_than_one_report_of_each(moves in moves()) {
        let purse = BudgetMeter::default();
        let mut agents: Vec<Agent> = Vec::new();
        // The store's amounts: spent, and reserved for starts that crashed.
        let (mut spent, mut lost, mut overshoot) = (0_u64, 0_u64, 0_u64);
        for one in moves {
            match one {
                Move::Start { reserved } => {
                    if let Ok(seat) = purse.sit(drawn(), usd(reserved)) {
                        agents.push(Agent { seat, reserved, used: 0, last: 0, stopped: false });
                    }
                }
                Move::Report { who, more } if !agents.is_empty() => {
                    let at = who % agents.len();
                    let agent = &mut agents[at];
                    if !agent.stopped {
                        agent.used += more;
                        agent.last = more;
                        agent.stopped = agent.seat.meter().report(0, Usd(agent.used)).is_some();
                        if agent.stopped {
                            overshoot += more;
                        }
                    }
                }
                Move::End { who } if !agents.is_empty() => {
                    let agent = agents.swap_remove(who % agents.len());
                    spent += agent.used;
                    agent.seat.settle(usd(agent.used));
                }
                Move::Crash { who } if !agents.is_empty() => {
                    // A crash ends the whole engine; this test only looks at the accounting: the reservation stays
                    // charged, and the store never learns of the use beyond it.
                    let agent = agents.swap_remove(who % agents.len());
                    lost += agent.reserved;
                    drop(agent.seat);
                }
                Move::Report { .. } | Move::End { .. } | Move::Crash { .. } => {}
            }
            let held: u64 = agents.iter().map(|agent| agent.reserved.max(agent.used)).sum();
            prop_assert!(spent + lost + held <= CEILING + overshoot, "{spent} + {lost} + {held} > {CEILING} + {overshoot}");
        }
    }
}

#[test]
fn reports_that_come_twice_or_in_disorder_count_once() {
    let purse = BudgetMeter::default();
    let seat = purse.sit(drawn(), usd(100)).unwrap_or_else(|_| panic!("the ceiling allows it"));
    for (used, over) in [(500, false), (300, false), (500, false), (1_000, false), (1_001, true), (10, true)] {
        assert_eq!(seat.meter().report(0, Usd(used)).is_some(), over, "{used}");
    }
    let account_text = seat.passed_account().expect("it passed one").describe();
    assert_eq!(account_text, "the loop's day may cost 0.00 USD; 0.00 USD are spent and 0.00 USD reserved");
}

#[test]
fn refused_start_learns_which_ceiling_is_exhausted() {
    let purse = BudgetMeter::default();
    let first = purse.sit(drawn(), usd(600)).unwrap_or_else(|_| panic!("the ceiling allows it"));
    let account = purse.sit(drawn(), usd(401)).err().expect("the ceiling is exhausted");
    assert_eq!((account.scope, account.reserved.usd), (BudgetScope::Day, Usd(600)));
    assert_eq!(first.meter().report(0, Usd(700)), None, "it may use more than its reservation");
    assert!(purse.sit(drawn(), usd(301)).is_err(), "use beyond a reservation leaves less for others");
    first.settle(usd(50));
    assert!(purse.sit(drawn(), usd(950)).is_ok(), "the unused reservation is free again");
}
