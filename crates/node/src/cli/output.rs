//! What a command prints: data on stdout as a table, JSON, YAML or names; everything else on stderr.
//!
//! Colour only on a terminal, and never with `NO_COLOR`. Control characters in what others wrote (names, answers of
//! targets) are shown, not sent to the terminal. A reader that leaves ends the command quietly.

use super::exit::{Code, Failure};
use campanile_client::wire::json;
use campanile_model::Timestamp;
use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use serde::Serialize;
use std::io::{self, IsTerminal, Write};

/// How data is printed.
#[derive(Copy, Clone, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    Table,
    /// For programs; the same as the API's answer.
    Json,
    /// For files.
    Yaml,
    /// Names or ids, one per line.
    Name,
}

/// When there is colour.
#[derive(Copy, Clone, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Color {
    /// On a terminal without `NO_COLOR`.
    Auto,
    /// Yes.
    Always,
    /// No.
    Never,
}

/// Where a command prints.
pub struct Output {
    format: Format,
    color: bool,
    quiet: bool,
    terminal: bool,
}

impl Output {
    /// By flags, and by what stdout is.
    pub fn new(format: Format, color: Color, quiet: bool) -> Self {
        let terminal = io::stdout().is_terminal();
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let color = match color {
            Color::Auto => terminal && !no_color,
            Color::Always => true,
            Color::Never => false,
        };
        Self { format, color, quiet, terminal }
    }

    /// Prints data in the chosen form. `names` and `table` are only asked when they are needed.
    pub fn print<T: Serialize>(
        &self,
        data: &T,
        names: impl FnOnce() -> Vec<String>,
        table: impl FnOnce(&Self) -> String,
    ) -> Result<(), Failure> {
        let broken = |error| Failure::new(Code::Failed, format!("cannot render the answer: {error}"));
        match self.format {
            Format::Table => self.text(&table(self)),
            Format::Json => self.text(&serde_json::to_string_pretty(data).map_err(broken)?),
            Format::Yaml => self.text(&yaml(&serde_json::to_string(data).map_err(broken)?)),
            Format::Name => self.text(&names().join("\n")),
        }
    }

    /// Prints one thing as it is, and several as a list; nothing where there is none.
    pub fn several<T: Serialize>(
        &self,
        things: &[&T],
        name: impl Fn(&T) -> String,
        table: impl FnOnce(&[&T], &Self) -> String,
    ) -> Result<(), Failure> {
        let names = || things.iter().map(|thing| name(thing)).collect();
        match things {
            [] => Ok(()),
            [one] => self.print(one, names, |out| table(things, out)),
            several => self.print(&several, names, |out| table(things, out)),
        }
    }

    /// Prints text on stdout, ending its last line.
    pub fn text(&self, text: &str) -> Result<(), Failure> {
        if text.is_empty() {
            return Ok(());
        }
        let mut stdout = io::stdout().lock();
        let newline: &[u8] = if text.ends_with('\n') { b"" } else { b"\n" };
        let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.write_all(newline));
        written.and_then(|()| stdout.flush()).map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::reader_gone(),
            _ => Failure::new(Code::Failed, format!("cannot write to stdout: {error}")),
        })
    }

    /// Says something that is not data, on stderr.
    pub fn chat(&self, text: &str) {
        if !self.quiet {
            // Nobody may be listening, which is no reason to stop.
            let _ = writeln!(io::stderr(), "{text}");
        }
    }

    /// The form that was chosen.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether the table form was chosen.
    pub fn is_table(&self) -> bool {
        self.format == Format::Table
    }

    /// A bar or spinner on stderr; hidden unless a person looks at it.
    pub fn progress(&self, total: Option<u64>, message: &str) -> indicatif::ProgressBar {
        if self.quiet || !io::stderr().is_terminal() {
            return indicatif::ProgressBar::hidden();
        }
        let (bar, template) = match total {
            Some(total) => (indicatif::ProgressBar::new(total), "{msg} [{bar:30}] {pos}/{len} {eta}"),
            None => (indicatif::ProgressBar::new_spinner(), "{spinner} {msg} {elapsed}"),
        };
        if let Ok(style) = indicatif::ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(message.to_owned());
        bar.enable_steady_tick(std::time::Duration::from_millis(120));
        bar
    }

    /// Columns under a header; nothing is cut.
    pub fn table(&self, header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
        let mut table = Table::new();
        table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(header.to_vec());
        for row in rows {
            table.add_row(row.iter().map(|cell| clean(cell)).collect::<Vec<_>>());
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
        let mut lines = lines.into_iter();
        let head = lines.next().unwrap_or_default();
        let mut text = self.dim(&head);
        for line in lines {
            text.push('\n');
            text.push_str(&self.paint_states(&line));
        }
        text
    }

    /// Names and values, the values aligned.
    pub fn pairs(&self, pairs: &[(&str, String)]) -> String {
        let width = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let lines = pairs.iter().map(|(name, value)| {
            let pad = " ".repeat(width - name.len());
            format!("{}{pad}  {}", self.dim(name), self.paint_states(&clean(value)))
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// An instant: as it is, or, for a person, how far away it is.
    pub fn instant(&self, at: Option<&str>, now: Timestamp) -> String {
        let Some(text) = at else { return "-".into() };
        match text.parse::<Timestamp>() {
            Ok(at) if self.terminal => relative(at, now),
            _ => text.to_owned(),
        }
    }

    /// Text in the colour of its meaning.
    pub fn paint(&self, paint: Paint, text: &str) -> String {
        if self.color { format!("\x1b[{}m{text}\x1b[0m", paint as u8) } else { text.to_owned() }
    }

    fn dim(&self, text: &str) -> String {
        self.paint(Paint::Dim, text)
    }

    /// Colours a word that is a state, where it stands as a cell of its own.
    fn paint_states(&self, line: &str) -> String {
        if !self.color {
            return line.to_owned();
        }
        let words = line.split(' ').map(|word| match word {
            "SUCCEEDED" | "ACTIVE" | "DONE" | "DELIVERED" => self.paint(Paint::Good, word),
            "DEAD" | "FAILED" | "TIMED_OUT" | "WORKER_LOST" => self.paint(Paint::Bad, word),
            "RETRYING" | "PAUSED" | "SKIPPED" | "CANCELLED" | "STOPPED" | "QUIET" | "DRAINING" | "GONE" => {
                self.paint(Paint::Odd, word)
            }
            "RUNNING" => self.paint(Paint::Busy, word),
            _ => word.to_owned(),
        });
        words.collect::<Vec<_>>().join(" ")
    }
}

/// What a colour means.
#[derive(Copy, Clone, Debug)]
pub enum Paint {
    /// Less important.
    Dim = 2,
    /// As it should be.
    Good = 32,
    /// Worth a look.
    Odd = 33,
    /// Not as it should be.
    Bad = 31,
    /// Under way.
    Busy = 36,
}

/// Text of others as it may be shown: control characters (and what turns writing around) escaped.
pub fn clean(text: &str) -> String {
    let unsafe_char = |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if !text.contains(unsafe_char) {
        return text.to_owned();
    }
    text.chars().flat_map(|c| if unsafe_char(c) { c.escape_default().collect::<Vec<_>>() } else { vec![c] }).collect()
}

/// `in 4h12m`, `3s ago`, `now`: the two largest units.
pub fn relative(at: Timestamp, now: Timestamp) -> String {
    let (ahead, behind) = (at.ms_since(now), now.ms_since(at));
    match (ahead, behind) {
        (0..1_000, 0..1_000) => "now".into(),
        (0, behind) => format!("{} ago", rough(behind)),
        (ahead, _) => format!("in {}", rough(ahead)),
    }
}

/// A duration in its two largest units, seconds at the smallest.
pub fn rough(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// A number of bytes for people.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// JSON text as YAML, in the same order, numbers untouched.
pub fn yaml(text: &str) -> String {
    let mut out = String::new();
    yaml_block(text, 0, &mut out);
    out
}

fn yaml_block(text: &str, indent: usize, out: &mut String) {
    let pad = " ".repeat(indent);
    if let Some(members) = json::members(text).filter(|members| !members.is_empty()) {
        for (key, value) in members {
            out.push_str(&format!("{pad}{}:", yaml_string(&key)));
            yaml_value(value, indent + 2, out);
        }
    } else if let Some(elements) = json::elements(text).filter(|elements| !elements.is_empty()) {
        for element in elements {
            out.push_str(&format!("{pad}-"));
            if is_block(element) {
                // The first line of the block goes behind the dash.
                let mut block = String::new();
                yaml_block(element, indent + 2, &mut block);
                out.push(' ');
                out.push_str(block.trim_start_matches(' '));
            } else {
                yaml_value(element, indent + 2, out);
            }
        }
    } else {
        out.push_str(&format!("{pad}{}\n", yaml_scalar(text)));
    }
}

fn yaml_value(value: &str, indent: usize, out: &mut String) {
    if is_block(value) {
        out.push('\n');
        yaml_block(value, indent, out);
    } else {
        out.push_str(&format!(" {}\n", yaml_scalar(value)));
    }
}

fn is_block(text: &str) -> bool {
    json::members(text).is_some_and(|m| !m.is_empty()) || json::elements(text).is_some_and(|e| !e.is_empty())
}

fn yaml_scalar(text: &str) -> String {
    match serde_json::from_str::<String>(text) {
        Ok(string) => yaml_string(&string),
        // Numbers, booleans, null, and empty brackets are YAML already.
        Err(_) => text.split_whitespace().collect(),
    }
}

/// A string: plain where no reader can take it for anything else, otherwise in double quotes as JSON has them.
fn yaml_string(text: &str) -> String {
    const WORDS: [&str; 10] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan"];
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && !text.ends_with(' ')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ' '))
        && !WORDS.contains(&text.to_ascii_lowercase().as_str());
    if plain {
        return text.to_owned();
    }
    let quoted = json::string(text);
    let printable =
        |c: char| !matches!(c, '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}');
    quoted.chars().map(|c| if printable(c) { c.to_string() } else { format!("\\u{:04x}", c as u32) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yaml_keeps_order_and_quotes_what_could_be_misread() {
        let json = r#"{"b":1,"a":"x y","n":null,"yes":"no","t":"2026-01-01","e":[],"o":{},"l":[1,"- x",{"k":[true,[2]]}],
            "m":"a\nb","c":"* * * * *","big":123456789012345678901234567890,"s":" x","empty":"","u":"\u0085\u00fc"}"#;
        let expected = "b: 1\na: x y\n\"n\": null\n\"yes\": \"no\"\nt: \"2026-01-01\"\ne: []\no: {}\nl:\n  - 1\n  - \"- x\"\n  - k:\n      - true\n      - - 2\n\
            m: \"a\\nb\"\nc: \"* * * * *\"\nbig: 123456789012345678901234567890\ns: \" x\"\nempty: \"\"\nu: \"\\u0085ü\"\n";
        assert_eq!(yaml(json), expected);
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(clean("a\x1b[31mb\u{202e}c\n"), "a\\u{1b}[31mb\\u{202e}c\\n");
        assert_eq!(clean("naïve 日本"), "naïve 日本");
    }

    #[test]
    fn distances_are_rough() {
        let now = Timestamp::from_millis(1_000_000_000);
        for (ms, text) in [
            (0, "now"),
            (999, "now"),
            (5_000, "in 5s"),
            (-65_000, "1m05s ago"),
            (15_120_000, "in 4h12m"),
            (90_000_000, "in 1d01h"),
        ] {
            assert_eq!(relative(now.saturating_add_ms(ms), now), text);
        }
        assert_eq!((bytes(5), bytes(1536)), ("5 B".into(), "1.5 KiB".into()));
    }
}
