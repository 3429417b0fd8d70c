//! Rules of goal loops: planner, prover, attackers, plateau.

use super::Rules;
use crate::attack::{AttackRole, BUILT_IN_ROLES};
use crate::spec::path::SpecPath;
use crate::spec::problem::quoted;
use crate::spec::reader::value::listed;
use crate::spec::{AttackSpec, LoopMode, LoopSpec, ProverSpec, Role};

/// The most attackers of a loop.
const ATTACKERS_MAX: usize = 8;
/// The placeholder of the port.
const PORT: &str = "{port}";

pub(super) fn check(rules: &mut Rules, spec: &LoopSpec) {
    mode(rules, spec);
    planner(rules, spec);
    if let Some(prover) = &spec.prover {
        self::prover(rules, prover);
        if prover.keep && spec.gates.iter().any(|gate| gate.name() == "proof") {
            let what = "`prover.keep` adds a gate named `proof`, and the loop has one already";
            rules.report(SpecPath::root_key("prover").key("keep"), what, "give that gate another name");
        }
    }
    if let Some(attack) = &spec.attack {
        attackers(rules, attack);
    }
    plateau(rules, spec);
    unused_roles(rules, spec);
}

fn mode(rules: &mut Rules, spec: &LoopSpec) {
    if spec.mode == LoopMode::TimeLoop && crate::spec::is_default(&spec.on) {
        let what = "`mode: time-loop` without a trigger: nothing would ever start it again";
        rules.report(SpecPath::root_key("mode"), what, "add `on:`, such as `on: { every: 1h }`");
    }
}

/// Nothing but a goal loop plans, and a declaration without effect is worse than none.
fn planner(rules: &mut Rules, spec: &LoopSpec) {
    if spec.plays(Role::Planner) {
        return;
    }
    let hint = "write `mode: goal-loop`, or leave the planner out";
    if spec.prompts.planner.is_some() {
        rules.report(SpecPath::root_key("prompts").key("planner"), "only a goal loop has a planner", hint);
    }
    if spec.agents.contains_key(&Role::Planner) {
        rules.report(SpecPath::root_key("agents").key("planner"), "only a goal loop has a planner", hint);
    }
}

fn prover(rules: &mut Rules, prover: &ProverSpec) {
    let path = SpecPath::root_key("prover");
    match (prover.exercise.is_empty(), &prover.http) {
        (true, None) => {
            let hint = "write `exercise: [./exercise.sh]` or `http: { url: \"http://127.0.0.1:{port}/\" }`";
            rules.missing(path.clone(), "`prover` has neither `exercise` nor `http`", hint);
        }
        (false, Some(_)) => {
            rules.report(path.key("http"), "`prover` has both `exercise` and `http`", "keep one of them")
        }
        (false, None) => rules.command(path.key("exercise"), &prover.exercise),
        (true, Some(request)) => address(rules, path.key("http").key("url"), &request.url),
    }
    if !prover.start.is_empty() {
        rules.command(path.key("start"), &prover.start);
    }
    match (&prover.ready, prover.start.is_empty()) {
        (Some(_), true) => rules.report(path.key("ready"), "`ready` without `start`", "say what to start"),
        (None, false) => {
            let hint =
                "write the address that answers, or text of the line that the application prints when it is ready";
            rules.missing(path, "`prover.start` without `ready`: the exercise would start too early", hint);
        }
        (Some(ready), false) if ready.starts_with("http") => address(rules, path.key("ready"), ready),
        (Some(ready), false) if ready.trim().is_empty() => rules.report(path.key("ready"), "`ready` is empty", None),
        (Some(_) | None, _) => {}
    }
}

/// The application runs in a network of its own, so only the loopback of that network has anything to say.
fn address(rules: &mut Rules, path: SpecPath, url: &str) {
    let hosts = ["http://127.0.0.1:", "http://localhost:"];
    let rest = hosts.into_iter().find_map(|host| url.strip_prefix(host));
    let port = rest.map(|rest| rest.split(['/', '?']).next().unwrap_or_default());
    if !port.is_some_and(|port| port == PORT || port.parse::<u16>().is_ok_and(|port| port > 0)) {
        let what = format!("{} is not an address of the application", quoted(url));
        rules.report(path, what, "write `http://127.0.0.1:{port}/path`");
    }
}

fn attackers(rules: &mut Rules, attack: &AttackSpec) {
    let path = SpecPath::root_key("attack").key("roles");
    if attack.roles.is_empty() {
        rules.report(path.clone(), "`attack` without roles", "name them: `roles: [hostile-user]`");
    }
    if attack.roles.len() > ATTACKERS_MAX {
        rules.report(path.clone(), format!("`{path}` has more than {ATTACKERS_MAX} roles"), None);
    }
    for (at, role) in attack.roles.iter().enumerate() {
        rules.part_name(path.index(at), role.name());
        if attack.roles[..at].iter().any(|known| known.name() == role.name()) {
            rules.report(path.index(at), format!("{} is there already", quoted(role.name())), None);
        }
        match role {
            AttackRole::BuiltIn(name) if role.look_for().is_none() => {
                let known = listed(&BUILT_IN_ROLES.map(|(name, _)| name));
                let hint = format!("one of {known}, or a role of your own: `{{ name: …, look_for: … }}`");
                rules.object_with(path.index(at), format!("{} is no built-in attacker", quoted(name)), Some(hint));
            }
            AttackRole::Own { look_for, .. } if look_for.trim().is_empty() => {
                rules.report(path.index(at), "`look_for` is empty", "say what the attacker looks for");
            }
            AttackRole::BuiltIn(_) | AttackRole::Own { .. } => {}
        }
    }
}

/// A window that only closes at the last attempt would never save one.
fn plateau(rules: &mut Rules, spec: &LoopSpec) {
    let Some(plateau) = &spec.plateau else { return };
    let path = SpecPath::root_key("plateau").key("window");
    if plateau.window == 0 || plateau.window.saturating_add(2) > spec.attempts {
        let what = format!(
            "`{path}` is {}, and with `attempts: {}` it could not save an attempt",
            plateau.window, spec.attempts
        );
        rules.report(path, what, "from 1 to `attempts` minus 2");
    }
}

/// The engine itself exercises the application, so a prover has no agent and no prompt; an attacker needs `attack`.
fn unused_roles(rules: &mut Rules, spec: &LoopSpec) {
    let prompts = [(Role::Prover, &spec.prompts.prover), (Role::Attacker, &spec.prompts.attacker)];
    for (role, prompt) in prompts {
        let named = [("prompts", prompt.is_some()), ("agents", spec.agents.contains_key(&role))];
        for (block, _) in named.into_iter().filter(|(_, named)| *named) {
            let path = SpecPath::root_key(block).key(role.word());
            match role {
                Role::Attacker if spec.attack.is_some() => {}
                Role::Attacker => rules.report(path, "an attacker without `attack`", "add `attack: { roles: […] }`"),
                _ => rules.report(path, "the engine itself runs `prover`; it has no agent", "remove it"),
            }
        }
    }
}
