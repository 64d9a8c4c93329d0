//! Rows as PostgreSQL's binary `COPY` has them: made of rows of the source, and cut out of what the target sends. Equal
//! rows are equal bytes, so one checksum serves both sides.

use super::tables::Resolved;
use campanile_model::error::{Error, Kind, Result};
use campanile_model::ids::JobId;
use campanile_model::shard::shard_of;
use rusqlite::Row;
use rusqlite::types::ValueRef;

/// What a stream begins with: a signature, and two numbers that are zero.
const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// What it ends with, where a row would have the number of its columns.
const TRAILER: [u8; 2] = (-1i16).to_be_bytes();

/// What a column holds.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Type {
    Code,
    Number,
    Fraction,
    Flag,
    Text,
    Bytes,
    Id,
}

impl Type {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "int2" => Type::Code,
            "int8" => Type::Number,
            "float8" => Type::Fraction,
            "bool" => Type::Flag,
            "text" => Type::Text,
            "bytea" => Type::Bytes,
            "uuid" => Type::Id,
            _ => return None,
        })
    }
}

/// Rows of one table.
#[derive(Default)]
pub(super) struct Rows {
    bytes: Vec<u8>,
    count: u64,
}

impl Rows {
    /// Appends a row, and answers its bytes.
    pub(super) fn push(&mut self, row: &Row<'_>, table: &Resolved) -> Result<&[u8]> {
        if self.bytes.is_empty() {
            self.bytes.extend_from_slice(HEADER);
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&(table.columns.len() as i16).to_be_bytes());
        for (at, column) in table.columns.iter().enumerate() {
            let unreadable = |how: &str| {
                Error::new(Kind::Corrupt, format!("cannot read the stored {}.{}: {how}", table.table.name, column.name))
            };
            // What the source does not have follows from the key, which comes first.
            let from = if column.stored { at } else { 0 };
            let value = row.get_ref(from).map_err(|error| unreadable(&error.to_string()))?;
            if column.stored {
                self.value(column.kind, value).ok_or_else(|| unreadable("it is of another type"))?;
            } else {
                let id = value.as_blob().ok().and_then(|id| id.try_into().ok());
                let id = id.ok_or_else(|| unreadable("the id is not one"))?;
                self.field(&(shard_of(JobId::from_bytes(id)).0 as i16).to_be_bytes());
            }
        }
        self.count += 1;
        Ok(&self.bytes[start..])
    }

    fn value(&mut self, kind: Type, value: ValueRef<'_>) -> Option<()> {
        match (kind, value) {
            (_, ValueRef::Null) => self.bytes.extend_from_slice(&(-1i32).to_be_bytes()),
            (Type::Code, ValueRef::Integer(number)) => self.field(&i16::try_from(number).ok()?.to_be_bytes()),
            (Type::Number, ValueRef::Integer(number)) => self.field(&number.to_be_bytes()),
            (Type::Flag, ValueRef::Integer(flag)) => self.field(&[u8::from(flag != 0)]),
            (Type::Fraction, ValueRef::Real(fraction)) => self.field(&fraction.to_be_bytes()),
            (Type::Fraction, ValueRef::Integer(whole)) => self.field(&(whole as f64).to_be_bytes()),
            (Type::Bytes, ValueRef::Blob(bytes)) => self.field(bytes),
            (Type::Id, ValueRef::Blob(bytes)) if bytes.len() == 16 => self.field(bytes),
            (Type::Text, ValueRef::Text(text)) => match std::str::from_utf8(text) {
                Ok(text) if !text.contains('\0') => self.field(text.as_bytes()),
                // As the target can store it.
                _ => self.field(String::from_utf8_lossy(text).replace('\0', "\u{fffd}").as_bytes()),
            },
            _ => return None,
        }
        Some(())
    }

    fn field(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(&(bytes.len() as i32).to_be_bytes());
        self.bytes.extend_from_slice(bytes);
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// All rows as a whole stream; starts again with none.
    pub(super) fn take(&mut self) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.extend_from_slice(&TRAILER);
        self.count = 0;
        bytes
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.count = 0;
    }
}

/// Cuts a stream into rows, however it arrives.
#[derive(Default)]
pub(super) struct Cutter {
    /// What is not a whole row yet.
    rest: Vec<u8>,
    begun: bool,
}

impl Cutter {
    /// Takes what came, and hands on every row that is whole now.
    pub(super) fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8])) -> Result<()> {
        self.rest.extend_from_slice(bytes);
        let mut at = 0;
        if !self.begun {
            if self.rest.len() < HEADER.len() {
                return Ok(());
            }
            if !self.rest.starts_with(HEADER) {
                return Err(Error::new(Kind::Bug, "PostgreSQL sends rows in a form that we do not know"));
            }
            (at, self.begun) = (HEADER.len(), true);
        }
        while let Some(length) = row_length(&self.rest[at..]) {
            each(&self.rest[at..at + length]);
            at += length;
        }
        self.rest.drain(..at);
        Ok(())
    }

    /// Whether the stream has ended where it should.
    pub(super) fn is_whole(&self) -> bool {
        self.begun && self.rest == TRAILER
    }
}

/// The length of the row that is first in `bytes`, if all of it is there.
fn row_length(bytes: &[u8]) -> Option<usize> {
    let count = i16::from_be_bytes(bytes.get(..2)?.try_into().ok()?);
    if count < 0 {
        return None;
    }
    fields_length(bytes, count as usize)
}

/// The length of a row up to its `count`th column.
fn fields_length(row: &[u8], count: usize) -> Option<usize> {
    let mut at = 2;
    for _ in 0..count {
        let length = i32::from_be_bytes(row.get(at..at + 4)?.try_into().ok()?);
        at += 4 + length.max(0) as usize;
    }
    (row.len() >= at).then_some(at)
}

/// The bytes of the first `count` columns of a row.
pub(super) fn key(row: &[u8], count: usize) -> &[u8] {
    &row[2..fields_length(row, count).unwrap_or(row.len())]
}

/// A key for people.
pub(super) fn show(mut key: &[u8], table: &Resolved) -> String {
    let mut parts = Vec::new();
    for column in table.columns.iter().take(table.table.key.len()) {
        let Some((length, rest)) = key.split_first_chunk::<4>() else { break };
        let length = i32::from_be_bytes(*length).max(0) as usize;
        let (field, rest) = rest.split_at(length.min(rest.len()));
        key = rest;
        let hex = || field.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let shown = match (column.kind, field.len()) {
            (Type::Id, 16) => JobId::from_bytes(field.try_into().unwrap_or_default()).to_string(),
            (Type::Code | Type::Number, _) => {
                let sign = if field.first().is_some_and(|byte| byte & 0x80 != 0) { -1 } else { 0 };
                field.iter().fold(sign, |number: i64, byte| number << 8 | i64::from(*byte)).to_string()
            }
            (Type::Text, _) => format!("{:?}", String::from_utf8_lossy(field)),
            _ => hex(),
        };
        parts.push(format!("{}={shown}", column.name));
    }
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(rows: &[&[Option<&[u8]>]]) -> Vec<u8> {
        let mut made = Rows::default();
        made.bytes.extend_from_slice(HEADER);
        for row in rows {
            made.bytes.extend_from_slice(&(row.len() as i16).to_be_bytes());
            for field in *row {
                match field {
                    Some(bytes) => made.field(bytes),
                    None => made.bytes.extend_from_slice(&(-1i32).to_be_bytes()),
                }
            }
        }
        made.take()
    }

    #[test]
    fn rows_are_cut_however_they_arrive() {
        let rows: [&[Option<&[u8]>]; 3] = [&[Some(b"a"), None], &[Some(b""), Some(b"\xff\xff\xff\xff")], &[None, None]];
        let whole = stream(&rows);
        for step in 1..=whole.len() {
            let mut cutter = Cutter::default();
            let mut cut: Vec<Vec<u8>> = Vec::new();
            for piece in whole.chunks(step) {
                cutter.feed(piece, |row| cut.push(row.to_vec())).unwrap();
            }
            assert!(cutter.is_whole(), "in steps of {step}");
            assert_eq!(cut.concat(), whole[HEADER.len()..whole.len() - 2], "in steps of {step}");
            assert_eq!(cut.len(), 3);
            assert_eq!((key(&cut[0], 1), key(&cut[1], 2).len()), (&b"\0\0\0\x01a"[..], 12));
        }
        let mut cutter = Cutter::default();
        cutter.feed(&whole[..whole.len() - 1], |_| {}).unwrap();
        assert!(!cutter.is_whole(), "its end is missing");
        assert!(Cutter::default().feed(&[b'x'; 40], |_| {}).is_err());
    }
}
