//! The environment of a role: the base of every child, and the variables of the contract with agents. Inherits nothing;
//! every path in it is the one inside the role's sandbox view.

use super::AgentInvocation;
use crate::proc::{RunLimits, SpawnRequest};
use crate::sandbox_view::SandboxView;
use loopwright_core::spec::Role;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

/// The file a checker writes its verdict to.
pub(super) const VERDICT: &str = "LOOPWRIGHT_VERDICT";
/// The file an attacker writes its findings to.
pub(super) const FINDINGS: &str = "LOOPWRIGHT_FINDINGS";
/// The folder a planner writes its files to.
pub(super) const PLAN: &str = "LOOPWRIGHT_PLAN";
/// The secret of a check.
pub(super) const NONCE: &str = "LOOPWRIGHT_NONCE";
/// The sealed tree.
pub(super) const TREE: &str = "LOOPWRIGHT_TREE";
/// The candidate.
pub(super) const CANDIDATE: &str = "LOOPWRIGHT_CANDIDATE";
/// The folder for staged items.
pub(super) const OUTBOX: &str = "LOOPWRIGHT_OUTBOX";
/// The folder with the sealed items, for a checker.
pub(super) const ITEMS: &str = "LOOPWRIGHT_ITEMS";

/// A program of this invocation in a sandbox view: its folder, environment, limits and cookie. The adapter adds
/// arguments and input.
pub(super) fn spawn_in(room: &SandboxView, invocation: &AgentInvocation, program: PathBuf) -> SpawnRequest {
    let mut spawn = SpawnRequest::new(program, &invocation.workspace, invocation.cookie.clone());
    spawn.env = environment(invocation);
    spawn.limits = RunLimits {
        wall: invocation.limits.wall,
        idle: invocation.limits.idle,
        output_max: invocation.limits.output_max,
        ..RunLimits::default()
    };
    room.confine_spawn(spawn)
}

/// The whole environment. Only a checker gets a verdict's variables and only an attacker those of its findings, whatever
/// the invocation holds.
fn environment(invocation: &AgentInvocation) -> BTreeMap<OsString, OsString> {
    let room = &invocation.view;
    let mut env = room.env(&invocation.home, &invocation.tmp);
    let mut set = |name: &str, value: OsString| drop(env.insert(name.into(), value));
    set("LOOPWRIGHT_ROLE", invocation.role.word().into());
    set("LOOPWRIGHT_LOOP", invocation.loop_name.clone().into());
    set("LOOPWRIGHT_ROUND", invocation.round.clone().into());
    set("LOOPWRIGHT_ATTEMPT", invocation.attempt.to_string().into());
    if let Some(phase) = invocation.phase {
        set("LOOPWRIGHT_PHASE", phase.to_string().into());
    }
    if let (Role::Planner, Some(folder)) = (invocation.role, &invocation.plan) {
        set(PLAN, room.inside_path(folder).into());
    }
    if let (Role::Attacker, Some(sink)) = (invocation.role, &invocation.verdict) {
        set(FINDINGS, room.inside_path(&sink.path).into());
        set(NONCE, sink.nonce.clone().into());
        set(TREE, sink.tree.clone().into());
        set(CANDIDATE, sink.candidate.clone().into());
        set("LOOPWRIGHT_ATTACK", invocation.attack_role.clone().unwrap_or_default().into());
    }
    set(OUTBOX, room.inside_path(&invocation.outbox).into());
    set("LOOP_OUTBOX", room.inside_path(&invocation.outbox).into());
    set("LOOPWRIGHT_STATE", room.inside_path(&invocation.state_file).into());
    set("LOOP_STATE_SUMMARY", room.inside_path(&invocation.state_file).into());
    let mut urls = invocation.endpoints.urls.iter();
    if let Some(base) = urls.find_map(|(name, url)| url.strip_suffix(&format!("/{name}"))) {
        set("LOOPWRIGHT_PROVIDERS", base.into());
        set("LOOPWRIGHT_PROVIDER_TOKEN", invocation.endpoints.token.clone().into());
    }
    if let (Role::Checker, Some(sink)) = (invocation.role, &invocation.verdict) {
        set(VERDICT, room.inside_path(&sink.path).into());
        set(NONCE, sink.nonce.clone().into());
        set(TREE, sink.tree.clone().into());
        set(CANDIDATE, sink.candidate.clone().into());
        if let Some(items) = &invocation.items {
            set(ITEMS, room.inside_path(items).into());
        }
    }
    env
}
