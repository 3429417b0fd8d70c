//! One verb's words: which it takes, and in which order.

use super::verb::{Flood, Place, ScoreWord, TroubleWord, Verb};
use super::words;
use loopwright_core::provider::TroubleKind;

/// Every verb, for messages.
const NAMES: &str = "say, flood, bytes, write, append, replace, delete, symlink, hardlink, fifo, commit, git, run, stage, \
    cannot, verdict, usage, trouble, exit, die, hang, sleep-until, ignore-term, stop-self, setsid-child, fork-bomb, eat-memory, \
    fill-disk, leak-pipe, write-later, read, env, connect, resolve, kill-parent, ptrace";

/// A step as it stands in the script.
pub(super) struct Line<'l> {
    pub(super) name: &'l str,
    pub(super) rest: &'l str,
    pub(super) heredoc: Option<String>,
}

impl Line<'_> {
    /// Long because it is the table of verbs.
    pub(super) fn verb(mut self) -> Result<Verb, String> {
        let verb = match self.name {
            "say" => Verb::Say(self.text()?),
            "flood" => Verb::Flood(self.flood()?),
            "bytes" => Verb::Bytes(hex(&self.one("HEX")?)?),
            "write" => self.path_and_text(|path, text| Verb::Write { path, text })?,
            "append" => self.path_and_text(|path, text| Verb::Append { path, text })?,
            "replace" => {
                let [path, old, new] = self.exactly("PATH \"old\" \"new\"")?;
                Verb::Replace { path, old, new }
            }
            "delete" => Verb::Delete(self.one("PATH")?),
            "symlink" => {
                let [path, target] = self.exactly("PATH TARGET")?;
                Verb::Symlink { path, target }
            }
            "hardlink" => {
                let [path, target] = self.exactly("PATH TARGET")?;
                Verb::Hardlink { path, target }
            }
            "fifo" => Verb::Fifo(self.one("PATH")?),
            "commit" => Verb::Commit(self.text()?.trim_end().to_owned()),
            "git" => Verb::Git(self.some("ARGS…")?),
            "run" => Verb::Run(self.some("ARGV…")?),
            "stage" => self.path_and_text(|name, text| Verb::Stage { name, text })?,
            "cannot" => Verb::Cannot(self.text()?),
            "verdict" => self.verdict()?,
            "usage" => self.usage()?,
            "trouble" => Verb::Trouble(self.trouble()?),
            "exit" => Verb::Exit(number(&self.one("N")?)?),
            "die" => Verb::Die(signal(&self.one("SIGNAL")?)?),
            "hang" => self.alone(Verb::Hang)?,
            "sleep-until" => Verb::SleepUntil(self.one("FILE")?),
            "read" => Verb::Read(self.one("PATH")?),
            "env" => self.alone(Verb::Env)?,
            "connect" => Verb::Connect(self.one("HOST:PORT")?),
            "resolve" => Verb::Resolve(self.one("NAME")?),
            "ignore-term" | "stop-self" | "setsid-child" | "fork-bomb" | "eat-memory" | "fill-disk" | "leak-pipe"
            | "write-later" | "kill-parent" | "ptrace" => self.hostile()?,
            other => return Err(format!("unknown verb `{other}`; verbs are {NAMES}")),
        };
        match self.heredoc {
            None => Ok(verb),
            Some(_) => Err(format!("`{}` takes no text of several lines", self.name)),
        }
    }

    #[cfg(feature = "hostile")]
    fn hostile(&mut self) -> Result<Verb, String> {
        super::hostile::read(self)
    }

    #[cfg(not(feature = "hostile"))]
    fn hostile(&self) -> Result<Verb, String> {
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

    /// Quoted text is exact; bare text is a line, and gets the newline that a line has.
    pub(super) fn text_in(&mut self, rest: &str) -> Result<String, String> {
        match (self.heredoc.take(), rest) {
            (Some(text), "") => Ok(text),
            (Some(_), _) => Err("text stands on the line or below it, not both".to_owned()),
            (None, "") => self.usage_line("… TEXT, or … <<END with lines below it"),
            (None, quoted) if quoted.starts_with('"') => match words::next(quoted)? {
                (text, after) if after.trim().is_empty() => Ok(text),
                _ => Err("words after the quoted text".to_owned()),
            },
            (None, bare) => Ok(format!("{bare}\n")),
        }
    }

    fn path_and_text(&mut self, verb: fn(String, String) -> Verb) -> Result<Verb, String> {
        if self.rest.is_empty() {
            return self.usage_line("PATH TEXT");
        }
        let (path, text) = words::next(self.rest)?;
        Ok(verb(path, self.text_in(text.trim_start())?))
    }

    fn flood(&self) -> Result<Flood, String> {
        let words = self.words()?;
        match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            [size] => Ok(Flood::Bytes(bytes(size)?)),
            [size, "line"] => Ok(Flood::OneLine(bytes(size)?)),
            [count, "lines"] => Ok(Flood::TinyLines(bytes(count)?)),
            _ => self.usage_line("N, N line (one endless line), or N lines (tiny ones)"),
        }
    }

    fn verdict(&mut self) -> Result<Verb, String> {
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
        Ok(Verb::Verdict { word: word.clone(), scores, summary })
    }

    /// Raw text is taken as it stands: it begins with a brace, not with a quote.
    fn raw(&mut self, raw: &str) -> Result<Verb, String> {
        match self.heredoc.take() {
            Some(text) if raw.is_empty() => Ok(Verb::VerdictRaw(text)),
            Some(_) => Err("text stands on the line or below it, not both".to_owned()),
            None => Ok(Verb::VerdictRaw(raw.to_owned())),
        }
    }

    fn trouble(&self) -> Result<TroubleWord, String> {
        let form = "KIND [status=N] [retry-after=SECONDS] [TEXT]";
        let words = self.some(form)?;
        let mut words = words.iter().map(String::as_str);
        let kind = words.next().unwrap_or_default();
        let Some(kind) = TroubleKind::ALL.into_iter().find(|known| known.word() == kind) else {
            let known: Vec<_> = TroubleKind::ALL.into_iter().map(TroubleKind::word).collect();
            return Err(format!("unknown trouble `{kind}`; kinds are {}", known.join(", ")));
        };
        let mut told = TroubleWord { kind, status: None, retry_after: None, text: String::new() };
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

    fn usage(&self) -> Result<Verb, String> {
        let words = self.some("input=N output=N cache_read=N cache_write=N, or none, or nan")?;
        if let [word @ ("none" | "nan" | "negative" | "overflow")] =
            words.iter().map(String::as_str).collect::<Vec<_>>().as_slice()
        {
            return Ok(Verb::UsageWord((*word).to_owned()));
        }
        let pairs = words.iter().map(|word| count(word)).collect::<Result<_, _>>()?;
        Ok(Verb::Usage(pairs))
    }
}

/// `dimension=score@place@place…`; `None` for a word without `=`, which is the summary.
fn score(item: &str) -> Result<Option<ScoreWord>, String> {
    let Some((dimension, rest)) = item.split_once('=') else { return Ok(None) };
    if dimension.contains(char::is_whitespace) {
        return Ok(None);
    }
    let mut parts = rest.split('@');
    let score = number(parts.next().unwrap_or_default())?;
    let places = parts.map(place).collect::<Result<_, _>>()?;
    Ok(Some(ScoreWord { dimension: dimension.to_owned(), score, places }))
}

fn place(text: &str) -> Result<Place, String> {
    if let Some(gate) = text.strip_prefix("gate:") {
        return Ok(Place::Gate(gate.to_owned()));
    }
    let wrong = || format!("`{text}` is no path:line, gate:name or item:name:line");
    let (path, line) = text.rsplit_once(':').ok_or_else(wrong)?;
    let line = line.parse().map_err(|_| wrong())?;
    Ok(match path.strip_prefix("item:") {
        Some(item) => Place::Item { item: item.to_owned(), line },
        None => Place::Line { path: path.to_owned(), line },
    })
}

/// The number stays text: a script must be able to report one that is none.
fn count(word: &str) -> Result<(String, String), String> {
    match word.split_once('=') {
        Some((key @ ("input" | "output" | "cache_read" | "cache_write"), value)) => {
            Ok((key.to_owned(), value.to_owned()))
        }
        _ => Err(format!("`{word}` is no input=N, output=N, cache_read=N or cache_write=N")),
    }
}

pub(super) fn number<T: std::str::FromStr>(word: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("`{word}` is no number that fits"))
}

pub(super) fn bytes(word: &str) -> Result<u64, String> {
    let (digits, unit) = match word.chars().last().map(|c| c.to_ascii_uppercase()) {
        Some('K') => (&word[..word.len() - 1], 1 << 10),
        Some('M') => (&word[..word.len() - 1], 1 << 20),
        Some('G') => (&word[..word.len() - 1], 1 << 30),
        _ => (word, 1),
    };
    let size = number::<u64>(digits)?.checked_mul(unit);
    size.ok_or_else(|| format!("`{word}` is no number that fits"))
}

fn hex(word: &str) -> Result<Vec<u8>, String> {
    let digits: Option<Vec<u8>> =
        word.chars().map(|c| c.to_digit(16).and_then(|digit| digit.try_into().ok())).collect();
    match digits {
        Some(digits) if digits.len().is_multiple_of(2) => {
            Ok(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
        }
        _ => Err(format!("`{word}` is no even number of hex digits")),
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
