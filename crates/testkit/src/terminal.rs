//! A real terminal for a program that draws on one: a pseudo-terminal of the kernel, and a screen that interprets what the
//! program writes.

use crate::wait;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::num::NonZeroU16;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a program may take to show something.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program in a terminal. It is killed when this is dropped.
#[derive(Debug)]
pub struct TestTerminal {
    child: Child,
    keyboard: File,
    /// The program's side, kept open so that its modes can be read after its end.
    line: File,
    screen: Arc<Mutex<TerminalScreen>>,
}

struct TerminalScreen(vt100::Parser);

impl std::fmt::Debug for TerminalScreen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.screen().contents())
    }
}

impl TestTerminal {
    /// Starts a command in a new terminal of this many columns and rows.
    pub fn start(command: &Command, columns: u16, rows: u16) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a pseudo-terminal");
        grantpt(&master).expect("it can be granted");
        unlockpt(&master).expect("it can be unlocked");
        let name = ptsname(&master, Vec::new()).expect("it has a name").into_string().expect("it is ASCII");
        let mut open = OpenOptions::new();
        open.read(true).write(true).custom_flags(i32::try_from(rustix::fs::OFlags::NOCTTY.bits()).expect("a flag"));
        let line = open.open(name).expect("the other side opens");
        tcsetwinsize(&line, size(columns, rows)).expect("it has a size");
        let stream = || Stdio::from(line.try_clone().expect("a descriptor"));
        // It gets the terminal as its controlling one, so that a change of the size is signalled.
        let mut whole = Command::new("setsid");
        whole.arg("--ctty").arg(command.get_program()).args(command.get_args()).env_clear();
        whole.envs(command.get_envs().filter_map(|(key, value)| Some((key, value?)))).env("TERM", "xterm-256color");
        if let Some(folder) = command.get_current_dir() {
            whole.current_dir(folder);
        }
        let child = whole.stdin(stream()).stdout(stream()).stderr(stream()).spawn().expect("setsid starts it");
        let keyboard = File::from(master);
        let screen = Arc::new(Mutex::new(TerminalScreen(vt100::Parser::new(cells(rows), cells(columns), 0))));
        let (mut from, shown) = (keyboard.try_clone().expect("a descriptor"), Arc::clone(&screen));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = from.read(&mut bytes) {
                lock(&shown).0.process(&bytes[..count]);
            }
        });
        Self { child, keyboard, line, screen }
    }

    /// Types a text.
    pub fn press(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).expect("the terminal is open");
    }

    /// Changes the size of the terminal.
    pub fn resize(&self, columns: u16, rows: u16) {
        lock(&self.screen).0.set_size(cells(rows), cells(columns));
        tcsetwinsize(&self.keyboard, size(columns, rows)).expect("it has a size");
    }

    /// The text of the screen.
    pub fn text(&self) -> String {
        lock(&self.screen).0.screen().contents()
    }

    /// The screen with everything that was written before this call, also by a program that has ended.
    pub fn whole_text(&self) -> String {
        const END: &str = "<end of the screen>";
        (&self.line).write_all(END.as_bytes()).expect("the terminal is open");
        self.wait_for(END).replace(END, "")
    }

    /// Waits until the screen shows a text, and returns the screen.
    #[track_caller]
    pub fn wait_for(&self, text: &str) -> String {
        let seen = wait::within(PATIENCE, || Some(self.text()).filter(|shown| shown.contains(text)));
        seen.unwrap_or_else(|| panic!("waited for `{text}` on the screen:\n{}", self.text()))
    }

    /// Waits until the screen no longer shows a text.
    #[track_caller]
    pub fn wait_without(&self, text: &str) {
        let is_gone = wait::within(PATIENCE, || (!self.text().contains(text)).then_some(()));
        is_gone.unwrap_or_else(|| panic!("`{text}` stays on the screen:\n{}", self.text()));
    }

    /// The process of the program.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a process id")
    }

    /// Whether the program has ended.
    pub fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Waits for the end of the program.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        wait::value("the program to end", PATIENCE, || self.child.try_wait().ok().flatten())
    }

    /// Whether the terminal is as a shell expects it: typed characters are shown, lines are edited, the first screen is
    /// shown, and the cursor is visible.
    pub fn is_restored(&self) -> bool {
        // The last bytes of a program that has ended may not be on the screen yet.
        self.whole_text();
        let modes = tcgetattr(&self.line).expect("the terminal is open").local_modes;
        let is_cooked = modes.contains(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        let shown = lock(&self.screen);
        let screen = shown.0.screen();
        is_cooked && !screen.alternate_screen() && !screen.hide_cursor()
    }
}

impl Drop for TestTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn cells(count: u16) -> NonZeroU16 {
    NonZeroU16::new(count).unwrap_or(NonZeroU16::MIN)
}

fn size(columns: u16, rows: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

fn lock(screen: &Mutex<TerminalScreen>) -> MutexGuard<'_, TerminalScreen> {
    screen.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_shows_what_a_program_draws_and_gets_what_is_typed() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "printf 'name? '; read name; printf '\\033[2J\\033[3;5Hhello %s' \"$name\""]);
        let mut terminal = TestTerminal::start(&command, 40, 10);
        terminal.wait_for("name?");
        terminal.press("ann\n");
        let screen = terminal.wait_for("hello ann");
        assert!(!screen.contains("name?"), "{screen}");
        assert!(terminal.wait().success() && terminal.is_restored());
    }
}
