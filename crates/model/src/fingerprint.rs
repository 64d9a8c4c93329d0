//! Fingerprints of failures: which dead executions died of the same thing.
//!
//! Two failures are the same when they share the handler, the kind of error and the message without what varies from
//! case to case. [`normalise`] takes that out and leaves a mark in its place:
//!
//! | Mark | Stands for |
//! |---|---|
//! | `<n>` | numbers with what is glued to them (`30s`, `1.5MB`, line numbers, ports), hexadecimal ids |
//! | `<id>` | UUIDs, our own ids (`job_<id>`), long ids of letters and digits |
//! | `<time>` | dates, times of day, instants |
//! | `<ip>` | IPv4 and IPv6 addresses |
//! | `<str>` | whatever stands in quotes |
//! | `<user>` | the part of an e-mail address before the `@` |
//!
//! A list of the same mark is one mark, and a URL ends after its host. Numbers and hexadecimal ids share a mark because
//! one id in sixteen of six digits has no letter in it. When in doubt the two messages are grouped: two causes under one
//! heading are seen by opening it, one cause under a thousand headings hides everything else.
//!
//! Fingerprints are stored with executions, so a change of these rules starts new groups for old failures.

use crate::limits::ERROR_BYTES_MAX;
use std::net::{Ipv4Addr, Ipv6Addr};
use xxhash_rust::xxh3::xxh3_64;

/// What is kept of a message, in characters: the start names the failure, the rest is detail.
pub const MESSAGE_CHARS_MAX: usize = 200;

/// The fingerprint of a failure; `message` as it came, since it is normalised here.
pub fn fingerprint(handler: &str, kind: &str, message: &str) -> u64 {
    let message = normalise(message);
    let mut input = Vec::with_capacity(handler.len() + kind.len() + message.len() + 12);
    // Every field is preceded by its length, as in ids: ("a", "bc") and ("ab", "c") must differ.
    for field in [handler, kind, &message] {
        input.extend_from_slice(&(field.len() as u32).to_be_bytes());
        input.extend_from_slice(field.as_bytes());
    }
    xxh3_64(&input)
}

/// A fingerprint as it is shown and searched for: sixteen hexadecimal digits.
pub fn show(fingerprint: u64) -> String {
    format!("{fingerprint:016x}")
}

/// A message without what varies from case to case, on one line of at most [`MESSAGE_CHARS_MAX`] characters.
pub fn normalise(message: &str) -> String {
    // What is stored of a message must have the fingerprint of the whole; and looking ahead for a quote's end is bounded.
    let message = &message[..message.floor_char_boundary(ERROR_BYTES_MAX)];
    let mut pass = Pass { text: message, at: 0, out: String::with_capacity(256), blank: false };
    // A character has at most four bytes, so at this length there are enough of them.
    while pass.at < message.len() && pass.out.len() < 4 * MESSAGE_CHARS_MAX {
        pass.step();
    }
    let end = pass.out.char_indices().nth(MESSAGE_CHARS_MAX).map_or(pass.out.len(), |(end, _)| end);
    pass.out.truncate(end);
    pass.out
}

const NUMBER: &str = "<n>";
const ID: &str = "<id>";
const TIME: &str = "<time>";
const IP: &str = "<ip>";
const STRING: &str = "<str>";
const USER: &str = "<user>";

/// One walk over a message. Every step looks at a bounded piece ahead (a quote's end apart) and never back.
struct Pass<'a> {
    text: &'a str,
    at: usize,
    out: String,
    /// A blank is owed before the next character.
    blank: bool,
}

impl<'a> Pass<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Whether the character before this place is a letter or digit.
    fn within_word(&self) -> bool {
        self.text[..self.at].chars().next_back().is_some_and(char::is_alphanumeric)
    }

    /// Takes the next piece of the message.
    fn step(&mut self) {
        let Some(c) = self.rest().chars().next() else { return };
        if c.is_whitespace() || c.is_control() {
            self.blank = true;
            self.at += c.len_utf8();
        } else if let Some(length) = quoted_length(self.rest(), self.within_word()) {
            self.mark(STRING, length);
        } else if self.within_word() {
            self.copy(c.len_utf8());
        } else if !self.url() && !self.shaped() {
            self.plain(c);
        }
    }

    /// Copies this many bytes.
    fn copy(&mut self, length: usize) {
        if std::mem::take(&mut self.blank) && !self.out.is_empty() {
            self.out.push(' ');
        }
        self.out.push_str(&self.rest()[..length]);
        self.at += length;
    }

    /// Puts a mark in the place of this many bytes. After the same mark and a comma it is one more of a list.
    fn mark(&mut self, mark: &str, length: usize) {
        self.at += length;
        if self.out.strip_suffix(',').is_some_and(|head| head.ends_with(mark)) {
            self.out.pop();
            self.blank = false;
            return;
        }
        if std::mem::take(&mut self.blank) && !self.out.is_empty() {
            self.out.push(' ');
        }
        self.out.push_str(mark);
    }

    /// Takes what has a form of its own; says whether there was such a thing.
    fn shaped(&mut self) -> bool {
        let rest = self.rest();
        let shapes: [(&str, LengthOf); 5] = [
            (USER, email_user_length),
            (ID, uuid_length),
            (TIME, time_length),
            (TIME, calendar_word_length),
            (IP, ip_length),
        ];
        for (mark, length_of) in shapes {
            if let Some(length) = length_of(rest) {
                self.mark(mark, length);
                return true;
            }
        }
        false
    }

    /// Takes a word, a signed number, or one character.
    fn plain(&mut self, c: char) {
        let signed = matches!(c, '-' | '+')
            && self.rest()[1..].starts_with(|c: char| c.is_ascii_digit())
            && !self.text[..self.at].ends_with([')', ']', '-', '_', '.', '/']);
        if signed {
            self.at += 1;
        }
        if signed || c.is_alphanumeric() { self.word() } else { self.copy(c.len_utf8()) }
    }

    /// Takes a run of letters and digits.
    fn word(&mut self) {
        let length = word_length(self.rest());
        let word = &self.rest()[..length];
        if is_opaque(word) {
            self.mark(ID, length);
        } else if word.starts_with(|c: char| c.is_ascii_digit()) {
            self.mark(NUMBER, number_length(self.rest()));
        } else if is_hex_id(word) {
            self.mark(NUMBER, length);
        } else {
            self.letters(self.at + length);
        }
    }

    /// Takes a word that starts with a letter: its letters stay, its digits do not (`node12`, `utf8`).
    fn letters(&mut self, end: usize) {
        while self.at < end {
            let rest = &self.text[self.at..end];
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            if digits > 0 {
                self.mark(NUMBER, digits);
            } else {
                self.copy(rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len()));
            }
        }
    }

    /// Takes a URL: scheme and host stay; who logs in, path, query and fragment do not. Says whether there was one.
    fn url(&mut self) -> bool {
        let Some(url) = Url::at(self.rest()) else { return false };
        let start = self.at;
        self.letters(start + url.scheme);
        // The host is a message of its own: what looks ahead in it must not see the path.
        let text = &self.text[..start + url.host.1];
        let mut host = Pass { text, at: start + url.host.0, out: std::mem::take(&mut self.out), blank: false };
        while host.at < text.len() {
            host.step();
        }
        (self.out, self.blank) = (host.out, host.blank);
        self.at = start + url.length;
        true
    }
}

/// Where the parts of a URL end.
struct Url {
    /// After `://`.
    scheme: usize,
    host: (usize, usize),
    length: usize,
}

impl Url {
    /// The URL at the start of the text.
    fn at(text: &str) -> Option<Url> {
        const SCHEME_BYTES_MAX: usize = 16;
        let in_scheme = |b: &u8| b.is_ascii_alphanumeric() || *b == b'+';
        let name = text.bytes().take(SCHEME_BYTES_MAX).take_while(in_scheme).count();
        let scheme = name + "://".len();
        if !text.starts_with(|c: char| c.is_ascii_alphabetic()) || !text[name..].starts_with("://") {
            return None;
        }
        let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '<' | '>' | '(' | ')' | '{' | '}');
        let end = text.find(ends).unwrap_or(text.len());
        let host_end = text[scheme..end].find(['/', '?', '#', ',', ';']).map_or(end, |length| scheme + length);
        let host = text[scheme..host_end].rfind('@').map_or(scheme, |user| scheme + user + 1);
        let has_path = text[host_end..end].starts_with(['/', '?', '#']);
        // What ends a sentence or a bracket around the URL is not part of its path.
        let path_end = text[..end].trim_end_matches(['.', ',', ':', ';', '!', '?', ']']).len();
        let length = if has_path { host_end.max(path_end) } else { host_end };
        Some(Url { scheme, host: (host, host_end), length })
    }
}

/// How many bytes at the start of a text have a certain form.
type LengthOf = fn(&str) -> Option<usize>;

/// The length of a text in quotes with its quotes, if it starts here.
fn quoted_length(text: &str, within_word: bool) -> Option<usize> {
    let open = text.chars().next()?;
    let close = match open {
        '"' | '`' => open,
        // Within a word it is an apostrophe.
        '\'' if !within_word => '\'',
        '“' => '”',
        '‘' => '’',
        '«' => '»',
        _ => return None,
    };
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c == '\\' {
            chars.next();
            continue;
        }
        let apostrophe = matches!(c, '\'' | '’') && chars.peek().is_some_and(|(_, next)| next.is_alphabetic());
        if c == close && !apostrophe {
            return Some(at + c.len_utf8());
        }
    }
    None
}

/// The length of what stands before the `@` of an e-mail address.
fn email_user_length(text: &str) -> Option<usize> {
    const USER_BYTES_MAX: usize = 64;
    let in_user = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'%' | b'+' | b'-');
    let user = text.bytes().take(USER_BYTES_MAX + 1).take_while(in_user).count();
    let domain = text.get(user..)?.strip_prefix('@').filter(|_| user > 0)?;
    let end = domain.bytes().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-')).count();
    // `lodash@4.17.21` is not an address: the last label of a domain starts with a letter.
    let (_, last) = domain[..end].trim_end_matches(['.', '-']).rsplit_once('.')?;
    last.starts_with(|c: char| c.is_ascii_alphabetic()).then_some(user)
}

/// The length of a UUID.
fn uuid_length(text: &str) -> Option<usize> {
    shape(text, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx").filter(|length| ends_at(text, *length))
}

/// The length of a date, a time of day, or both.
fn time_length(text: &str) -> Option<usize> {
    let date = shape(text, "dddd-dd-dd").or_else(|| shape(text, "dddd/dd/dd"));
    let length = match date {
        Some(date) => {
            let rest = text[date..].strip_prefix(['T', 't', ' ', ':']);
            rest.and_then(|rest| clock_length(rest, "dd:dd")).map_or(date, |clock| date + 1 + clock)
        }
        // `12:34` alone is more often a line and its column.
        None => clock_length(text, "dd:dd:dd")?,
    };
    ends_at(text, length).then_some(length)
}

/// The length of a time of day of at least this form, with fraction and zone.
fn clock_length(text: &str, least: &str) -> Option<usize> {
    let mut length = shape(text, "dd:dd:dd").or_else(|| shape(text, least))?;
    let fraction = text[length..].strip_prefix(['.', ',']).unwrap_or("");
    let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
    length += if digits > 0 { digits + 1 } else { 0 };
    let zone = &text[length..];
    let zones = ["Z", "z", "+dd:dd", "-dd:dd", "+dddd", "-dddd", " +dddd", " -dddd", " UTC", " GMT"];
    let zone = zones.iter().find_map(|pattern| shape(zone, pattern).filter(|length| ends_at(zone, *length)));
    Some(length + zone.unwrap_or(0))
}

/// The length of a day's or month's name within a date such as `Mon, 16 Nov 2026`.
fn calendar_word_length(text: &str) -> Option<usize> {
    let name = calendar_name(text)?;
    let after = text[name.len()..].trim_start_matches([',', ' ', '-', '/']);
    let dated = after.starts_with(|c: char| c.is_ascii_digit()) || calendar_name(after).is_some();
    (dated && ends_at(text, name.len())).then_some(name.len())
}

fn calendar_name(text: &str) -> Option<&str> {
    const NAMES: &str = "Mon Tue Wed Thu Fri Sat Sun Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec";
    text.get(..3).filter(|name| NAMES.split(' ').any(|known| known == *name))
}

/// The length of an IP address, without its port.
fn ip_length(text: &str) -> Option<usize> {
    const ADDRESS_BYTES_MAX: usize = 45;
    let run = |wanted: fn(&u8) -> bool| text.bytes().take(ADDRESS_BYTES_MAX + 1).take_while(wanted).count();
    let four = text[..run(|b| b.is_ascii_digit() || *b == b'.')].trim_end_matches('.');
    if four.parse::<Ipv4Addr>().is_ok() && ends_at(text, four.len()) {
        return Some(four.len());
    }
    let six = &text[..run(|b| b.is_ascii_hexdigit() || matches!(b, b':' | b'.'))];
    // A colon or full stop after the address belongs to the sentence.
    let six = six.strip_suffix(['.', ':']).unwrap_or(six);
    // Without a digit it is a path such as `a::b`.
    let found = six.contains(|c: char| c.is_ascii_digit()) && six.parse::<Ipv6Addr>().is_ok();
    (found && ends_at(text, six.len())).then_some(six.len())
}

/// The length of a number that starts here: digits in groups (`1,234.5`, `1.2.3`), and what is glued to the last one.
fn number_length(text: &str) -> usize {
    let mut length = word_length(text);
    let mut digits = text[..length].bytes().all(|b| b.is_ascii_digit());
    while digits {
        let Some(group) = text[length..].strip_prefix(['.', ',']) else { break };
        if !group.starts_with(|c: char| c.is_ascii_digit()) {
            break;
        }
        let more = word_length(group);
        digits = group[..more].bytes().all(|b| b.is_ascii_digit());
        length += 1 + more;
    }
    length
}

/// The length of the run of letters and digits at the start.
fn word_length(text: &str) -> usize {
    text.find(|c: char| !c.is_alphanumeric()).unwrap_or(text.len())
}

/// Whether a word is an id of letters and digits, such as ours. Names have few digits: `Utf8ToUtf16Converter`.
fn is_opaque(word: &str) -> bool {
    const BYTES_MIN: usize = 16;
    const DIGITS_MIN: usize = 4;
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let ours = word.len() == 26 && word.starts_with('0') && digits > 1;
    let hex = word.bytes().all(|b| b.is_ascii_hexdigit());
    word.is_ascii() && !hex && (ours || word.len() >= BYTES_MIN && digits >= DIGITS_MIN)
}

/// Whether a word is a hexadecimal id. Without a digit it is a word: `facade`, `decade`.
fn is_hex_id(word: &str) -> bool {
    word.len() >= 6 && word.bytes().all(|b| b.is_ascii_hexdigit()) && word.bytes().any(|b| b.is_ascii_digit())
}

/// The length of `pattern` if the text starts so: `d` is a digit, `x` a hexadecimal one, everything else itself.
fn shape(text: &str, pattern: &str) -> Option<usize> {
    let head = text.as_bytes().get(..pattern.len())?;
    let fits = head.iter().zip(pattern.bytes()).all(|(byte, wanted)| match wanted {
        b'd' => byte.is_ascii_digit(),
        b'x' => byte.is_ascii_hexdigit(),
        _ => *byte == wanted,
    });
    fits.then_some(pattern.len())
}

/// Whether no letter or digit follows at this byte.
fn ends_at(text: &str, length: usize) -> bool {
    !text[length..].starts_with(char::is_alphanumeric)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_varies_is_replaced() {
        for (message, normal) in [
            ("", ""),
            ("  connection \t reset\nby peer ", "connection reset by peer"),
            // Numbers, with units, signs and groups.
            ("timed out after 30s", "timed out after <n>"),
            ("took 1.5s, limit 250ms", "took <n>, limit <n>"),
            ("1,234,567.89 of 2_000 bytes (93%)", "<n> of <n>_<n> bytes (<n>%)"),
            ("expected 3, got -1", "expected <n>, got <n>"),
            ("offset=-12 x-3 3-4 (+5)", "offset=<n> x-<n> <n>-<n> (<n>)"),
            ("version 1.2.3-beta", "version <n>-beta"),
            ("node12 lost shard_7 of worker-42", "node<n> lost shard_<n> of worker-<n>"),
            ("missing ids: 1, 2,3, 4", "missing ids: <n>"),
            ("第3次失败", "第<n>次失败"),
            ("0x7ffee3b0 at 0XFF", "<n> at <n>"),
            // Ids.
            ("commit 9f3a2c1 not found", "commit <n> not found"),
            ("commit 1234567 not found", "commit <n> not found"),
            ("the facade of a decade", "the facade of a decade"),
            ("user 550e8400-e29b-41d4-a716-446655440000 is gone", "user <id> is gone"),
            ("order_550E8400-E29B-41D4-A716-446655440000", "order_<id>"),
            ("job_01J9ZC4V8N3QK2M7W5XBYD6F0T failed", "job_<id> failed"),
            ("no execution exe_01j9zc4v8n3qk2m7w5xbyd6f0t", "no execution exe_<id>"),
            ("object 507f1f77bcf86cd799439011", "object <n>"),
            ("trace 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "trace <n>-<n>-<n>-<n>"),
            ("Utf8ToUtf16Converter", "Utf<n>ToUtf<n>Converter"),
            // Addresses.
            ("dial tcp 10.0.3.7:5432: refused", "dial tcp <ip>:<n>: refused"),
            ("connect to [::1]:5432", "connect to [<ip>]:<n>"),
            ("no route to fe80::1ff:fe23:4567:890a.", "no route to <ip>."),
            ("no route to 2001:db8::7: host down", "no route to <ip>: host down"),
            ("db-1.internal:5432 is down", "db-<n>.internal:<n> is down"),
            ("std::f64::parse a::b", "std::f<n>::parse a::b"),
            // E-mail.
            ("cannot send to anna.b+x@example.com: full", "cannot send to <user>@example.com: full"),
            ("<bob@mail.example.org> unknown", "<<user>@mail.example.org> unknown"),
            ("needs lodash@4.17.21", "needs lodash@<n>"),
            ("mail @home", "mail @home"),
            // Times.
            ("due 2026-11-16T02:00:00.123Z", "due <time>"),
            ("due 2026-11-16 02:00:00,123 +0100 or 2026-11-16", "due <time> or <time>"),
            ("due 2026/11/16 02:00 UTC.", "due <time>."),
            ("at 02:00:00", "at <time>"),
            ("expired Mon, 16 Nov 2026 02:00:00 GMT", "expired <time>, <n> <time> <n> <time>"),
            ("since 1794794400123", "since <n>"),
            ("Mon repos, May I", "Mon repos, May I"),
            // Quotes.
            ("unknown column 'price' in `orders`", "unknown column <str> in <str>"),
            ("unknown columns \"a\", \"b\"", "unknown columns <str>"),
            (r#"bad "x \" y" end"#, "bad <str> end"),
            ("no key “größe” or «été»", "no key <str> or <str>"),
            ("can't read the job's file", "can't read the job's file"),
            ("field 'it's here' ok", "field <str> ok"),
            ("an open \" quote", "an open \" quote"),
            // URLs.
            ("GET https://api.example.com/v1/users/42?x=y#z failed", "GET https://api.example.com failed"),
            ("for url (https://api.example.com/a): timeout", "for url (https://api.example.com): timeout"),
            ("see https://api.example.com/a/b.", "see https://api.example.com."),
            ("postgres://app:secret@db-3:5432/main is down", "postgres://db-<n>:<n> is down"),
            ("http://10.0.0.5:8080/x, http://[::1]:80/y", "http://<ip>:<n>, http://[<ip>]:<n>"),
            ("no s3://bucket/a/b", "no s<n>://bucket"),
            ("http://http://http://", "http://http:"),
            ("https://example.com", "https://example.com"),
            ("https://example.com: refused", "https://example.com: refused"),
            // Files and lines.
            ("panicked at src/main.rs:42:7", "panicked at src/main.rs:<n>:<n>"),
            ("File \"/app/x.py\", line 31, in run", "File <str>, line <n>, in run"),
            ("/tmp/upload-8f3a9c.csv: no space", "/tmp/upload-<n>.csv: no space"),
        ] {
            assert_eq!(normalise(message), normal, "{message}");
            assert_eq!(normalise(normal), normal, "again: {message}");
        }
    }

    #[test]
    fn the_same_failure_groups() {
        for group in [
            &[
                "request to https://api.stripe.com/v1/charges/ch_1a2b?expand=x timed out after 30s",
                "request to https://api.stripe.com/v1/refunds timed out after 1.5s",
            ][..],
            &[
                "pq: duplicate key value violates unique constraint \"orders_pkey\" (id)=(1042)",
                "pq: duplicate key value violates unique constraint \"orders_pkey\" (id)=(7)",
            ],
            &[
                "dial tcp 10.1.2.3:5432: connect: connection refused",
                "dial tcp 10.200.0.17:6432:  connect: connection refused",
            ],
            &[
                "Deadlock found; transaction 9f3a2c1d, waited 12ms at 2026-11-16T02:00:00Z",
                "Deadlock found; transaction 12345678, waited 1,200ms at 2026-11-17 03:10:59.5+01:00",
            ],
            &["KeyError: 'user_id'", "KeyError: 'e-mail'"],
            &["lease of exe_01J9ZC4V8N3QK2M7W5XBYD6F0T ended", "lease of exe_01J9ZC4V8N3QK2M7W5XBYD6F0V ended"],
            &["mailbox of a.b@example.com is full", "mailbox of c@example.com is full"],
            &["unknown ids 1, 2, 3", "unknown ids 7"],
            &[
                "index out of bounds: the len is 3 but the index is 5, src/a.rs:10:9",
                "index out of bounds: the len is 0 but the index is 0, src/a.rs:118:21",
            ],
        ] {
            for message in group {
                assert_eq!(fingerprint("h", "k", message), fingerprint("h", "k", group[0]), "{message}");
            }
        }
    }

    #[test]
    fn different_failures_do_not_group() {
        let failures = [
            ("send_email", "timeout", "timed out after 30s"),
            ("send_sms", "timeout", "timed out after 30s"),
            ("send_email", "http_504", "timed out after 30s"),
            ("send_email", "timeout", "connect timed out after 30s"),
            ("send_email", "", "timeouttimed out after 30s"),
            ("send_email", "http", "https://api.stripe.com/a: connection refused"),
            ("send_email", "http", "https://api.github.com/a: connection refused"),
            ("send_email", "http", "https://api.github.com/a: connection reset"),
            ("send_email", "smtp", "mailbox of a@example.com is full"),
            ("send_email", "smtp", "mailbox of a@example.org is full"),
            ("send_email", "smtp", "mailbox of a@example.org is not full"),
            ("send_email", "panic", "overflow in src/a.rs:10"),
            ("send_email", "panic", "overflow in src/b.rs:10"),
            ("send_email", "panic", ""),
        ];
        let mut seen: Vec<u64> =
            failures.iter().map(|(handler, kind, text)| fingerprint(handler, kind, text)).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), failures.len());
    }

    #[test]
    fn fingerprints_are_for_ever() {
        assert_eq!(show(fingerprint("send_email", "timeout", "timed out after 30s")), "1b7614295139290e");
        assert_eq!(show(0xff), "00000000000000ff");
    }

    #[test]
    fn long_messages_are_cut_and_cheap() {
        assert_eq!(normalise(&"é".repeat(300)), "é".repeat(MESSAGE_CHARS_MAX));
        assert_eq!(normalise(&format!("{} tail", "x".repeat(200))), "x".repeat(200));
        // Worst cases of looking ahead: without a bound, a walk over these would take minutes or overflow the stack.
        for piece in ["'", "\" \\", "a.", "1,", "::1", "http://", "Mon ", "12:34:"] {
            assert!(normalise(&piece.repeat(300_000)).chars().count() <= MESSAGE_CHARS_MAX, "{piece}");
        }
    }

    /// Everything that has a form of its own, and what may stand beside it.
    const PIECES: [&str; 22] = [
        "2026-11-16",
        "T",
        "02:00:00",
        ".5",
        "Z",
        "Mon, ",
        "16",
        "10.0.0.1",
        "::1",
        "a@b.example",
        "@",
        "http://",
        "/p",
        "9f3a2c1",
        "550e8400-e29b-41d4-a716-446655440000",
        "'",
        "\"",
        "\\",
        "é",
        " ",
        ", ",
        "_",
    ];

    /// What holds of every message.
    fn check_any(message: &str) -> Result<(), TestCaseError> {
        let normal = normalise(message);
        prop_assert!(normal.chars().count() <= MESSAGE_CHARS_MAX);
        prop_assert!(!normal.contains(|c: char| c.is_ascii_digit() || c.is_control()), "{normal}");
        prop_assert!(!normal.contains("  ") && !normal.starts_with(' '), "{normal:?}");
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn arbitrary_messages(message in any::<String>()) {
            check_any(&message)?;
        }

        #[test]
        fn messages_of_the_alphabet(message in "[0-9a-fTZ:./@?'\"\\\\ ,_<>(+é\u{a0}-]{0,80}") {
            check_any(&message)?;
        }

        #[test]
        fn nearly_urls(message in "(http|a b)://[a-z0-9@:.\\[\\]]{0,12}[/?#,'é ]{0,3}[a-z0-9.)]{0,6}") {
            check_any(&message)?;
        }

        #[test]
        fn pieces_glued_together(pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..12)) {
            check_any(&pieces.concat())?;
        }

        #[test]
        fn the_value_of_a_number_does_not_matter(a in any::<u64>(), b in 0.0..1e9f64) {
            let message = |a: u64, b: f64| normalise(&format!("job {a} took {b:.3}s, {a:016x}"));
            prop_assert_eq!(message(a, b), message(7, 1.5));
        }
    }
}
