//! What goes into a program and what comes out, bounded: a program that prints for ever costs time, not memory.

use campanile_client::worker::limits::{MESSAGE_BYTES_MAX, OUTPUT_BYTES_MAX};
use std::collections::VecDeque;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Read at once.
const CHUNK: usize = 8 * 1024;
/// Room for the note about what is missing.
const NOTE_BYTES: usize = 64;
/// Lines that make the message of an error.
const TAIL_LINES: usize = 20;

/// Writes all of `input` and closes the pipe. A program need not read it.
pub async fn feed(pipe: Option<impl AsyncWrite + Unpin>, input: &str) {
    if let Some(mut pipe) = pipe {
        let _ = pipe.write_all(input.as_bytes()).await;
        let _ = pipe.shutdown().await;
    }
}

/// The beginning of what was printed.
#[derive(Debug, Default)]
pub struct Head {
    kept: Vec<u8>,
    total: usize,
}

impl Head {
    /// Reads to the end, and keeps what there is room for.
    pub async fn read(&mut self, pipe: Option<impl AsyncRead + Unpin>) {
        read(pipe, |chunk| {
            self.total += chunk.len();
            let room = (OUTPUT_BYTES_MAX - NOTE_BYTES).saturating_sub(self.kept.len());
            self.kept.extend_from_slice(&chunk[..chunk.len().min(room)]);
        })
        .await;
    }

    /// As text, without blanks at the end; where something is missing, it says so.
    pub fn into_text(self) -> String {
        let whole = self.total == self.kept.len();
        let text = String::from_utf8_lossy(&self.kept);
        if whole { text.trim_end().to_owned() } else { format!("{text}... (cut, {} bytes)", self.total) }
    }
}

/// The end of what was complained about.
#[derive(Debug, Default)]
pub struct Tail {
    lines: VecDeque<String>,
    bytes: usize,
}

impl Tail {
    /// Reads to the end, hands each line on, and keeps the last ones.
    pub async fn read(&mut self, pipe: Option<impl AsyncRead + Unpin>, mut line: impl FnMut(&str)) {
        let mut lines = Lines::default();
        let mut take = |text: &str| {
            line(text);
            self.push(text);
        };
        read(pipe, |chunk| lines.push(chunk, &mut take)).await;
        lines.end(&mut take);
    }

    fn push(&mut self, line: &str) {
        if line.trim().is_empty() {
            return;
        }
        self.bytes += line.len() + 1;
        self.lines.push_back(line.to_owned());
        while self.lines.len() > TAIL_LINES || (self.bytes > MESSAGE_BYTES_MAX && self.lines.len() > 1) {
            self.bytes -= self.lines.pop_front().map_or(0, |line| line.len() + 1);
        }
    }

    /// The last lines.
    pub fn into_text(self) -> String {
        Vec::from(self.lines).join("\n")
    }
}

/// Bytes as lines. A line beyond the limit of a message comes in pieces.
#[derive(Debug, Default)]
struct Lines {
    open: Vec<u8>,
}

impl Lines {
    fn push(&mut self, chunk: &[u8], take: &mut impl FnMut(&str)) {
        for part in chunk.split_inclusive(|byte| *byte == b'\n') {
            for piece in part.chunks(MESSAGE_BYTES_MAX) {
                if self.open.len() + piece.len() > MESSAGE_BYTES_MAX {
                    self.end(take);
                }
                self.open.extend_from_slice(piece);
            }
            if self.open.ends_with(b"\n") {
                self.end(take);
            }
        }
    }

    fn end(&mut self, take: &mut impl FnMut(&str)) {
        if !self.open.is_empty() {
            let text = String::from_utf8_lossy(&self.open);
            take(text.trim_end_matches(['\n', '\r']));
            self.open.clear();
        }
    }
}

async fn read(pipe: Option<impl AsyncRead + Unpin>, mut take: impl FnMut(&[u8])) {
    let Some(mut pipe) = pipe else { return };
    let mut buffer = vec![0; CHUNK];
    loop {
        match pipe.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(count) => take(&buffer[..count]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_printed_is_kept_up_to_a_limit() {
        let mut short = Head::default();
        short.read(Some(&b"{\"a\": 1}\n\n"[..])).await;
        assert_eq!(short.into_text(), "{\"a\": 1}");
        let mut long = Head::default();
        long.read(Some(&vec![b'x'; 1_000_000][..])).await;
        let text = long.into_text();
        assert!(text.ends_with("x... (cut, 1000000 bytes)") && text.len() <= OUTPUT_BYTES_MAX, "{}", text.len());
    }

    #[tokio::test]
    async fn lines_are_handed_on_and_the_last_ones_kept() {
        let mut said = Vec::new();
        let mut tail = Tail::default();
        let text = (1..=30).map(|n| format!("line {n}\r\n")).collect::<String>();
        let bytes = [text.as_bytes(), b"\n\xffend"].concat();
        tail.read(Some(&bytes[..]), |line| said.push(line.to_owned())).await;
        assert_eq!((said.len(), said[0].as_str(), said[31].as_str()), (32, "line 1", "\u{fffd}end"));
        let kept = tail.into_text();
        assert!(kept.starts_with("line 12\n") && kept.ends_with("line 30\n\u{fffd}end"), "{kept}");
    }

    #[tokio::test]
    async fn endless_lines_come_in_pieces() {
        let mut said = Vec::new();
        let mut tail = Tail::default();
        tail.read(Some(&vec![b'x'; 3 * MESSAGE_BYTES_MAX + 1][..]), |line| said.push(line.len())).await;
        assert_eq!(said.iter().sum::<usize>(), 3 * MESSAGE_BYTES_MAX + 1);
        assert!(said.iter().all(|bytes| *bytes <= MESSAGE_BYTES_MAX));
        assert!(tail.into_text().len() <= MESSAGE_BYTES_MAX + 1);
    }
}
