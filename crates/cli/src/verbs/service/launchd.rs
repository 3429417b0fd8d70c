//! The daemon as a launchd agent. Written for macOS, where it was neither compiled nor tried.

use super::ServicePlan;
use std::path::{Path, PathBuf};

/// Label and file.
pub(super) fn label_and_path(home: &Path, tag: &str) -> (String, PathBuf) {
    let name = format!("dev.loopwright{tag}");
    let file = home.join("Library/LaunchAgents").join(format!("{name}.plist"));
    (name, file)
}

pub(super) fn plist(plan: &ServicePlan) -> String {
    let words: String = plan.argv.iter().map(|word| format!("    <string>{}</string>\n", escaped(word))).collect();
    let line = |(name, value): &(&str, String)| format!("    <key>{name}</key><string>{}</string>\n", escaped(value));
    let variables: String = plan.variables.iter().map(line).collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">
<plist version=\"1.0\">
<dict>
  <key>Label</key><string>{name}</string>
  <key>ProgramArguments</key>
  <array>
{words}  </array>
  <key>WorkingDirectory</key><string>{folder}</string>
  <key>EnvironmentVariables</key>
  <dict>
{variables}  </dict>
  <key>RunAtLoad</key><true/>
  <key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>
  <key>ThrottleInterval</key><integer>30</integer>
  <key>ExitTimeOut</key><integer>90</integer>
  <key>ProcessType</key><string>Background</string>
  <key>Umask</key><integer>63</integer>
  <key>StandardOutPath</key><string>{log}</string>
  <key>StandardErrorPath</key><string>{log}</string>
</dict>
</plist>
",
        name = plan.name,
        folder = escaped(&plan.folder),
        log = escaped(&plan.log),
    )
}

pub(super) fn start_command(plan: &ServicePlan) -> Vec<String> {
    let file = plan.file.to_string_lossy().replace('\'', r"'\''");
    vec![format!("launchctl bootstrap gui/$(id -u) '{file}'")]
}

pub(super) fn stop_command(plan: &ServicePlan) -> Vec<String> {
    vec![format!("launchctl bootout gui/$(id -u)/{}", plan.name)]
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
