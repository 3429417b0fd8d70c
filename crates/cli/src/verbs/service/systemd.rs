//! The daemon as a systemd user unit.
//!
//! The hardening here does not affect the confinement of rounds: rounds create user and mount namespaces, so the
//! daemon's unit cannot restrict namespaces, system calls or the view of the file system.

use super::ServicePlan;
use std::path::{Path, PathBuf};

/// Name and file. `config` is the folder of our own configuration; systemd's is beside it.
pub(super) fn name_and_path(config: &Path, tag: &str) -> (String, PathBuf) {
    let name = format!("loopwright{tag}.service");
    let folder = config.parent().unwrap_or(config).join("systemd/user");
    let file = folder.join(&name);
    (name, file)
}

pub(super) fn unit(plan: &ServicePlan) -> String {
    // In the program's own name, only specifiers are replaced.
    let (program, words) = plan.argv.split_first().expect("a plan has a program");
    let argv = std::iter::once(quoted(program)).chain(words.iter().map(|word| command_word(word)));
    let argv: Vec<String> = argv.collect();
    let line = |(name, value): &(&str, String)| format!("Environment={}\n", quoted(&format!("{name}={value}")));
    let variables: String = plan.variables.iter().map(line).collect();
    format!(
        "# Written by `loopwright service install`; changes go into a drop-in: systemctl --user edit {name}
[Unit]
Description=Loopwright: starts loops when they are due
# The daemon may have to wait minutes for a database or for the lease of a lost machine: systemd never gives up.
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
ExecStart={argv}
ExecReload=/bin/kill -HUP $MAINPID
WorkingDirectory={folder}
{variables}EnvironmentFile=-{secrets}
Restart=on-failure
RestartSec=10s
# A person has to fix a wrong configuration.
RestartPreventExitStatus=2
# The daemon lets its rounds end; systemd kills the remaining processes.
KillMode=mixed
TimeoutStopSec=90s
# Limits for agents need a part of the control group tree.
Delegate=yes
# A round that uses too much memory fails on its own.
OOMPolicy=continue
LimitNOFILE=65536
UMask=0077
NoNewPrivileges=yes

[Install]
WantedBy=default.target
",
        name = plan.name,
        argv = argv.join(" "),
        folder = escaped(&plan.folder),
        secrets = escaped(&plan.secrets),
    )
}

pub(super) fn start_command(plan: &ServicePlan) -> Vec<String> {
    vec![
        "systemctl --user daemon-reload".to_owned(),
        format!("systemctl --user enable --now {}", plan.name),
        "loginctl enable-linger    # to keep it running while you are logged out".to_owned(),
    ]
}

pub(super) fn stop_command(plan: &ServicePlan) -> Vec<String> {
    vec![format!("systemctl --user disable --now {}", plan.name), "systemctl --user daemon-reload".to_owned()]
}

/// An argument of a command line; escapes the variables that systemd would replace.
fn command_word(word: &str) -> String {
    quoted(&word.replace('$', "$$"))
}

fn quoted(word: &str) -> String {
    format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%"))
}

fn escaped(path: &str) -> String {
    path.replace('%', "%%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced_in_words_and_not_in_the_program_s_name() {
        let words = ["/opt/$x/50%/loopwright", "--state", "/srv/$y", "up"].map(str::to_owned);
        let plan = ServicePlan {
            manager: crate::verbs::service::ServiceManager::Systemd,
            name: "loopwright.service".to_owned(),
            file: PathBuf::from("/f"),
            argv: words.to_vec(),
            folder: "/srv".to_owned(),
            variables: Vec::new(),
            log: String::new(),
            secrets: "/s".to_owned(),
        };
        let line = r#"ExecStart="/opt/$x/50%%/loopwright" "--state" "/srv/$$y" "up""#;
        assert!(unit(&plan).lines().any(|of_unit| of_unit == line), "{}", unit(&plan));
    }

    #[test]
    fn words_survive_the_quoting_of_units() {
        assert_eq!(command_word(r#"/a b/50%"$x\"#), r#""/a b/50%%\"$$x\\""#);
        assert_eq!(quoted("A=$x"), "\"A=$x\"");
    }
}
