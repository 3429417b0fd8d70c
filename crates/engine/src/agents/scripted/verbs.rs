//! Parses the words of one verb: which it takes, and in which order.

use super::script_text::{ScriptLine, next, number, quoted};
use super::verb::{FloodKind, ScriptFinding, ScriptTrouble, ScriptVerb};
use loopwright_core::provider::TroubleKind;

/// Every verb, for messages.
const NAMES: &str = "say, flood, bytes, write, append, replace, delete, symlink, hardlink, fifo, commit, git, run, stage, \
    cannot, brief, plan, finding, findings, verdict, usage, trouble, exit, die, hang, sleep-until, ignore-term, stop-self, setsid-child, fork-bomb, eat-memory, \
    fill-disk, leak-pipe, write-later, read, env, connect, resolve, kill-parent, ptrace";

impl ScriptLine<'_> {
    /// Long because it is the table of verbs.
    pub(super) fn verb(mut self) -> Result<ScriptVerb, String> {
        let verb = match self.name {
            "say" => ScriptVerb::Say(self.text()?),
            "flood" => ScriptVerb::Flood(self.flood()?),
            "bytes" => ScriptVerb::Bytes(hex(&self.one("HEX")?)?),
            "write" => self.path_and_text(ScriptVerb::Write)?,
            "append" => self.path_and_text(ScriptVerb::Append)?,
            "replace" => {
                let [path, old, new] = self.exactly("PATH \"old\" \"new\"")?;
                ScriptVerb::Replace(path, old, new)
            }
            "delete" => ScriptVerb::Delete(self.one("PATH")?),
            "symlink" => {
                let [path, target] = self.exactly("PATH TARGET")?;
                ScriptVerb::Symlink(path, target)
            }
            "hardlink" => {
                let [path, target] = self.exactly("PATH TARGET")?;
                ScriptVerb::Hardlink(path, target)
            }
            "fifo" => ScriptVerb::Fifo(self.one("PATH")?),
            "commit" => ScriptVerb::Commit(self.text()?.trim_end().to_owned()),
            "git" => ScriptVerb::Git(self.some("ARGS…")?),
            "run" => ScriptVerb::Run(self.some("ARGV…")?),
            "stage" => self.path_and_text(ScriptVerb::Stage)?,
            "cannot" => ScriptVerb::Cannot(self.text()?),
            "brief" => ScriptVerb::Brief(self.text()?),
            "plan" => ScriptVerb::Plan(self.text()?),
            "finding" => ScriptVerb::Finding(self.finding()?),
            "findings" => self.findings()?,
            "verdict" => ScriptVerb::Verdict(self.verdict()?),
            "usage" => self.usage()?,
            "trouble" => ScriptVerb::Trouble(self.trouble()?),
            "exit" => ScriptVerb::Exit(number(&self.one("N")?)?),
            "die" => ScriptVerb::Die(signal(&self.one("SIGNAL")?)?),
            "hang" => self.alone(ScriptVerb::Hang)?,
            "sleep-until" => ScriptVerb::SleepUntil(self.one("FILE")?),
            "read" => ScriptVerb::Read(self.one("PATH")?),
            "env" => self.alone(ScriptVerb::Env)?,
            "connect" => ScriptVerb::Connect(self.one("HOST:PORT")?),
            "resolve" => ScriptVerb::Resolve(self.one("NAME")?),
            "ignore-term" | "stop-self" | "setsid-child" | "fork-bomb" | "eat-memory" | "fill-disk" | "leak-pipe"
            | "write-later" | "kill-parent" | "ptrace" => self.hostile()?,
            other => return Err(format!("unknown verb `{other}`; verbs are {NAMES}")),
        };
        self.check_taken().map(|()| verb)
    }

    #[cfg(feature = "hostile")]
    fn hostile(&mut self) -> Result<ScriptVerb, String> {
        super::hostile::read(self)
    }

    #[cfg(not(feature = "hostile"))]
    fn hostile(&self) -> Result<ScriptVerb, String> {
        Err(format!("`{}` needs a build with the feature `hostile`, which tests use and releases do not", self.name))
    }

    pub(super) fn alone<T>(&self, verb: T) -> Result<T, String> {
        if self.rest.is_empty() { Ok(verb) } else { Err(format!("`{}` takes no words", self.name)) }
    }

    pub(super) fn some(&self, form: &str) -> Result<Vec<String>, String> {
        let words = self.words()?;
        if words.is_empty() { self.usage_line(form) } else { Ok(words) }
    }

    pub(super) fn one(&self, form: &str) -> Result<String, String> {
        self.exactly::<1>(form).map(|[word]| word)
    }

    /// The rest of the line, or the lines below it.
    fn text(&mut self) -> Result<String, String> {
        let rest = self.rest;
        self.text_in(rest)
    }

    /// Quoted text is exact; bare text is a line, and gets a newline at its end.
    pub(super) fn text_in(&mut self, rest: &str) -> Result<String, String> {
        match (self.text_below(rest)?, rest) {
            (Some(text), _) => Ok(text),
            (None, "") => self.usage_line("… TEXT, or … <<END with lines below it"),
            (None, text) if text.starts_with('"') => quoted(text),
            (None, bare) => Ok(format!("{bare}\n")),
        }
    }

    fn path_and_text(&mut self, verb: fn(String, String) -> ScriptVerb) -> Result<ScriptVerb, String> {
        if self.rest.is_empty() {
            return self.usage_line("PATH TEXT");
        }
        let (path, text) = next(self.rest)?;
        Ok(verb(path, self.text_in(text.trim_start())?))
    }

    fn flood(&self) -> Result<FloodKind, String> {
        let words = self.words()?;
        match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            [size] => Ok(FloodKind::Bytes(bytes(size)?)),
            [size, "line"] => Ok(FloodKind::OneLine(bytes(size)?)),
            [count, "lines"] => Ok(FloodKind::TinyLines(bytes(count)?)),
            _ => self.usage_line("N, N line (one endless line), or N lines (tiny ones)"),
        }
    }

    fn trouble(&self) -> Result<ScriptTrouble, String> {
        let form = "KIND [status=N] [retry-after=SECONDS] [TEXT]";
        let words = self.some(form)?;
        let mut words = words.iter().map(String::as_str);
        let kind = words.next().unwrap_or_default();
        let Some(kind) = TroubleKind::ALL.into_iter().find(|known| known.word() == kind) else {
            let known: Vec<_> = TroubleKind::ALL.into_iter().map(TroubleKind::word).collect();
            return Err(format!("unknown trouble `{kind}`; kinds are {}", known.join(", ")));
        };
        let mut trouble = ScriptTrouble { kind, status: None, retry_after: None, text: String::new() };
        let mut text = Vec::new();
        for word in words {
            match word.split_once('=') {
                Some(("status", value)) if text.is_empty() => trouble.status = Some(number(value)?),
                Some(("retry-after", value)) if text.is_empty() => trouble.retry_after = Some(number(value)?),
                _ => text.push(word),
            }
        }
        trouble.text = text.join(" ");
        Ok(trouble)
    }

    /// The reproduction is the text below the line.
    fn finding(&mut self) -> Result<ScriptFinding, String> {
        let form = "severity=WORD place=PATH[:LINE] trigger=TEXT title=TEXT, with the reproduction below";
        let reproduction = self.heredoc.take();
        let mut finding = ScriptFinding {
            severity: String::new(),
            title: String::new(),
            path: String::new(),
            line: None,
            trigger: String::new(),
            reproduction,
        };
        for word in self.some(form)? {
            match word.split_once('=') {
                Some(("severity", value)) => finding.severity = value.to_owned(),
                Some(("title", value)) => finding.title = value.to_owned(),
                Some(("trigger", value)) => finding.trigger = value.to_owned(),
                Some(("place", value)) => match value.rsplit_once(':') {
                    Some((path, line)) => (finding.path, finding.line) = (path.to_owned(), Some(number(line)?)),
                    None => finding.path = value.to_owned(),
                },
                _ => return self.usage_line(form),
            }
        }
        Ok(finding)
    }

    fn findings(&mut self) -> Result<ScriptVerb, String> {
        match self.rest.split_once(' ').unwrap_or((self.rest, "")) {
            ("none", "") => Ok(ScriptVerb::NoFindings),
            ("raw", text) => self.raw_text(text.trim()).map(ScriptVerb::RawFindings),
            _ => self.usage_line("none, or raw JSON"),
        }
    }

    fn usage(&self) -> Result<ScriptVerb, String> {
        let words = self.some("input=N output=N cache_read=N cache_write=N, or none, or nan")?;
        if let [word @ ("none" | "nan" | "negative" | "overflow")] =
            words.iter().map(String::as_str).collect::<Vec<_>>().as_slice()
        {
            return Ok(ScriptVerb::UsageWord((*word).to_owned()));
        }
        let pairs = words.iter().map(|word| count(word)).collect::<Result<_, _>>()?;
        Ok(ScriptVerb::Usage(pairs))
    }
}

/// The number stays text: a script must be able to report an invalid one.
fn count(word: &str) -> Result<(String, String), String> {
    match word.split_once('=') {
        Some((key @ ("input" | "output" | "cache_read" | "cache_write"), value)) => {
            Ok((key.to_owned(), value.to_owned()))
        }
        _ => Err(format!("`{word}` is not input=N, output=N, cache_read=N or cache_write=N")),
    }
}

pub(super) fn bytes(word: &str) -> Result<u64, String> {
    let (digits, unit) = match word.chars().last().map(|c| c.to_ascii_uppercase()) {
        Some('K') => (&word[..word.len() - 1], 1 << 10),
        Some('M') => (&word[..word.len() - 1], 1 << 20),
        Some('G') => (&word[..word.len() - 1], 1 << 30),
        _ => (word, 1),
    };
    let size = number::<u64>(digits)?.checked_mul(unit);
    size.ok_or_else(|| format!("`{word}` is not a number in range"))
}

fn hex(word: &str) -> Result<Vec<u8>, String> {
    let digits: Option<Vec<u8>> =
        word.chars().map(|c| c.to_digit(16).and_then(|digit| digit.try_into().ok())).collect();
    match digits {
        Some(digits) if digits.len().is_multiple_of(2) => {
            Ok(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
        }
        _ => Err(format!("`{word}` is not an even number of hex digits")),
    }
}

/// A signal's name without `SIG`.
pub(super) fn signal(word: &str) -> Result<String, String> {
    const KNOWN: [&str; 14] =
        ["HUP", "INT", "QUIT", "ILL", "ABRT", "FPE", "KILL", "SEGV", "PIPE", "ALRM", "TERM", "BUS", "USR1", "USR2"];
    let name = word.strip_prefix("SIG").unwrap_or(word);
    if KNOWN.contains(&name) {
        return Ok(name.to_owned());
    }
    Err(format!("unknown signal `{word}`; signals are {}", KNOWN.join(", ")))
}
