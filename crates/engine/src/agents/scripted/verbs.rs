//! Parses the words of one verb: which it takes, and in which order.

use super::verb::{FloodKind, ScriptCitation, ScriptScore, ScriptTrouble, ScriptVerb};
use super::words;
use loopwright_core::provider::TroubleKind;

/// Every verb, for messages.
const NAMES: &str = "say, flood, bytes, write, append, replace, delete, symlink, hardlink, fifo, commit, git, run, stage, \
    cannot, verdict, usage, trouble, exit, die, hang, sleep-until, ignore-term, stop-self, setsid-child, fork-bomb, eat-memory, \
    fill-disk, leak-pipe, write-later, read, env, connect, resolve, kill-parent, ptrace";

/// A step as written in the script.
pub(super) struct ScriptLine<'l> {
    pub(super) name: &'l str,
    pub(super) rest: &'l str,
    pub(super) heredoc: Option<String>,
}

impl ScriptLine<'_> {
    /// Long because it is the table of verbs.
    pub(super) fn verb(mut self) -> Result<ScriptVerb, String> {
        let verb = match self.name {
            "say" => ScriptVerb::Say(self.text()?),
            "flood" => ScriptVerb::Flood(self.flood()?),
            "bytes" => ScriptVerb::Bytes(hex(&self.one("HEX")?)?),
            "write" => self.path_and_text(|path, text| ScriptVerb::Write { path, text })?,
            "append" => self.path_and_text(|path, text| ScriptVerb::Append { path, text })?,
            "replace" => {
                let [path, old, new] = self.exactly("PATH \"old\" \"new\"")?;
                ScriptVerb::Replace { path, old, new }
            }
            "delete" => ScriptVerb::Delete(self.one("PATH")?),
            "symlink" => {
                let [path, target] = self.exactly("PATH TARGET")?;
                ScriptVerb::Symlink { path, target }
            }
            "hardlink" => {
                let [path, target] = self.exactly("PATH TARGET")?;
                ScriptVerb::Hardlink { path, target }
            }
            "fifo" => ScriptVerb::Fifo(self.one("PATH")?),
            "commit" => ScriptVerb::Commit(self.text()?.trim_end().to_owned()),
            "git" => ScriptVerb::Git(self.some("ARGS…")?),
            "run" => ScriptVerb::Run(self.some("ARGV…")?),
            "stage" => self.path_and_text(|name, text| ScriptVerb::Stage { name, text })?,
            "cannot" => ScriptVerb::Cannot(self.text()?),
            "verdict" => self.verdict()?,
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
        match self.heredoc {
            None => Ok(verb),
            Some(_) => Err(format!("`{}` takes no multi-line text", self.name)),
        }
    }

    #[cfg(feature = "hostile")]
    fn hostile(&mut self) -> Result<ScriptVerb, String> {
        super::hostile::read(self)
    }

    #[cfg(not(feature = "hostile"))]
    fn hostile(&self) -> Result<ScriptVerb, String> {
        Err(format!("`{}` needs a build with the feature `hostile`, which tests use and releases do not", self.name))
    }

    pub(super) fn usage_line<T>(&self, form: &str) -> Result<T, String> {
        Err(format!("write `{} {form}`", self.name))
    }

    pub(super) fn alone<T>(&self, verb: T) -> Result<T, String> {
        if self.rest.is_empty() { Ok(verb) } else { Err(format!("`{}` takes no words", self.name)) }
    }

    pub(super) fn words(&self) -> Result<Vec<String>, String> {
        words::words(self.rest)
    }

    pub(super) fn some(&self, form: &str) -> Result<Vec<String>, String> {
        let words = self.words()?;
        if words.is_empty() { self.usage_line(form) } else { Ok(words) }
    }

    fn exactly<const N: usize>(&self, form: &str) -> Result<[String; N], String> {
        self.words()?.try_into().or_else(|_| self.usage_line(form))
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
        match (self.heredoc.take(), rest) {
            (Some(text), "") => Ok(text),
            (Some(_), _) => Err("text is on the line or below it, not both".to_owned()),
            (None, "") => self.usage_line("… TEXT, or … <<END with lines below it"),
            (None, quoted) if quoted.starts_with('"') => match words::next(quoted)? {
                (text, after) if after.trim().is_empty() => Ok(text),
                _ => Err("words after the quoted text".to_owned()),
            },
            (None, bare) => Ok(format!("{bare}\n")),
        }
    }

    fn path_and_text(&mut self, verb: fn(String, String) -> ScriptVerb) -> Result<ScriptVerb, String> {
        if self.rest.is_empty() {
            return self.usage_line("PATH TEXT");
        }
        let (path, text) = words::next(self.rest)?;
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

    fn verdict(&mut self) -> Result<ScriptVerb, String> {
        if let Some(raw) = self.rest.strip_prefix("raw").filter(|raw| raw.is_empty() || raw.starts_with(' ')) {
            return self.raw(raw.trim());
        }
        let words = self.words()?;
        let Some((word, rest)) = words.split_first() else {
            return self.usage_line("pass|fail|escalate dimension=score@path:line …, or raw JSON");
        };
        let mut summary = format!("scripted verdict: {word}");
        let mut scores = Vec::new();
        for item in rest {
            match score(item)? {
                Some(score) => scores.push(score),
                None => summary.clone_from(item),
            }
        }
        Ok(ScriptVerb::Verdict { word: word.clone(), scores, summary })
    }

    /// Raw text is used unchanged: it starts with a brace, not with a quote.
    fn raw(&mut self, raw: &str) -> Result<ScriptVerb, String> {
        match self.heredoc.take() {
            Some(text) if raw.is_empty() => Ok(ScriptVerb::VerdictRaw(text)),
            Some(_) => Err("text is on the line or below it, not both".to_owned()),
            None => Ok(ScriptVerb::VerdictRaw(raw.to_owned())),
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
        let mut told = ScriptTrouble { kind, status: None, retry_after: None, text: String::new() };
        let mut text = Vec::new();
        for word in words {
            match word.split_once('=') {
                Some(("status", value)) if text.is_empty() => told.status = Some(number(value)?),
                Some(("retry-after", value)) if text.is_empty() => told.retry_after = Some(number(value)?),
                _ => text.push(word),
            }
        }
        told.text = text.join(" ");
        Ok(told)
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

/// `dimension=score@place@place…`; `None` for a word without `=`, which is the summary.
fn score(item: &str) -> Result<Option<ScriptScore>, String> {
    let Some((dimension, rest)) = item.split_once('=') else { return Ok(None) };
    if dimension.contains(char::is_whitespace) {
        return Ok(None);
    }
    let mut parts = rest.split('@');
    let score = number(parts.next().unwrap_or_default())?;
    let places = parts.map(place).collect::<Result<_, _>>()?;
    Ok(Some(ScriptScore { dimension: dimension.to_owned(), score, places }))
}

fn place(text: &str) -> Result<ScriptCitation, String> {
    if let Some(gate) = text.strip_prefix("gate:") {
        return Ok(ScriptCitation::Gate(gate.to_owned()));
    }
    let wrong = || format!("`{text}` is not path:line, gate:name or item:name:line");
    let (path, line) = text.rsplit_once(':').ok_or_else(wrong)?;
    let line = line.parse().map_err(|_| wrong())?;
    Ok(match path.strip_prefix("item:") {
        Some(item) => ScriptCitation::Item { item: item.to_owned(), line },
        None => ScriptCitation::Line { path: path.to_owned(), line },
    })
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

pub(super) fn number<T: std::str::FromStr>(word: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("`{word}` is not a number in range"))
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
