//! Roles: the start and the end of any role's agent. The stage of the role decides what its results mean.

use super::event::{RoleEnded, RoleResult, RoleStarted};
use super::{Round, Step, UnexpectedEvent, attack, check, make, plan};
use crate::spec::Role;

pub(super) fn started(round: Round, started: RoleStarted) -> Result<Step, UnexpectedEvent> {
    if started.place != round.facts.provider_waits.chain_position(started.role) {
        return Err(round.misfit("role-started", "another agent of the chain is due"));
    }
    match started.role {
        Role::Planner => plan::on_planner_started(round, started),
        Role::Maker => make::on_maker_started(round, started),
        Role::Attacker => attack::on_attacker_started(round, started),
        Role::Checker => check::on_checker_started(round, started),
        // The engine itself exercises the application.
        Role::Prover => Err(round.misfit("role-started", "no such role is due")),
    }
}

pub(super) fn ended(mut round: Round, ended: RoleEnded) -> Result<Step, UnexpectedEvent> {
    if ended.attempt != round.facts.attempt_number() {
        return Err(round.misfit("role-ended", "it belongs to another attempt"));
    }
    let Some(running) = round.facts.agent_ended(&ended) else {
        return Err(round.misfit("role-ended", "no agent of that role runs"));
    };
    let RoleEnded { end, transcript, result, .. } = ended;
    match result {
        RoleResult::Maker(result) => {
            round.facts.attempt_mut().transcript = transcript;
            make::ended(round, &running, end, result)
        }
        RoleResult::Planner(result) => plan::ended(round, &running, &end, result),
        RoleResult::Attacker(result) => attack::ended(round, &running, end, result),
        RoleResult::Checker(result) => check::ended(round, &running, &end, result),
    }
}
