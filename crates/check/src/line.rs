//! Reads one line.
//!
//! It is gone through twice: for what all lines have in common, which tells the event, and for the event's own fields.
//! Keys may come in any order, so the event may be named last; to keep what comes before it would cost more.

use crate::event::{Event, Record};
use crate::text::Text;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, IntoDeserializer, MapAccess, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// What all lines have in common.
#[derive(Deserialize)]
struct Head {
    ev: Kind,
    mono_ns: u64,
    wall_ns: u64,
    node: Text,
    seq: u64,
}

/// The names of its fields.
const HEAD: [&str; 5] = ["ev", "mono_ns", "wall_ns", "node", "seq"];

/// The names of the events; see [`Event`].
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Run,
    Op,
    Read,
    Page,
    Fire,
    FireRejected,
    Skip,
    Claim,
    ClaimRejected,
    Start,
    End,
    Effect,
    Report,
    ReportRejected,
    Dead,
    Epoch,
    Fault,
    Dump,
}

/// Reads a line. An unknown event, an unknown field and a missing one are errors.
pub fn read(line: &str) -> Result<Record, serde_json::Error> {
    let Head { ev, mono_ns, wall_ns, node, seq } = serde_json::from_str(line)?;
    let event = match ev {
        Kind::Run => Event::Run(own(line)?),
        Kind::Op => Event::Op(own(line)?),
        Kind::Read => Event::Read(own(line)?),
        Kind::Page => Event::Page(own(line)?),
        Kind::Fire => Event::Fire(own(line)?),
        Kind::FireRejected => Event::FireRejected(own(line)?),
        Kind::Skip => Event::Skip(own(line)?),
        Kind::Claim => Event::Claim(own(line)?),
        Kind::ClaimRejected => Event::ClaimRejected(own(line)?),
        Kind::Start => Event::Start(own(line)?),
        Kind::End => Event::End(own(line)?),
        Kind::Effect => Event::Effect(own(line)?),
        Kind::Report => Event::Report(own(line)?),
        Kind::ReportRejected => Event::ReportRejected(own(line)?),
        Kind::Dead => Event::Dead(own(line)?),
        Kind::Epoch => Event::Epoch(own(line)?),
        Kind::Fault => Event::Fault(own(line)?),
        Kind::Dump => Event::Dump(own(line)?),
    };
    Ok(Record { mono_ns, wall_ns, node, seq, event })
}

/// The event's own fields: all but those of the head.
fn own<'de, T: Deserialize<'de>>(line: &'de str) -> Result<T, serde_json::Error> {
    serde_json::Deserializer::from_str(line).deserialize_map(Own(PhantomData))
}

struct Own<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Own<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event")
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(WithoutHead(fields)))
    }
}

/// The fields of a line, but for those of the head.
struct WithoutHead<A>(A);

/// A key that is not copied, unless it is written with escapes.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de, A: MapAccess<'de>> MapAccess<'de> for WithoutHead<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        while let Some(Key(key)) = self.0.next_key()? {
            if !HEAD.contains(&&*key) {
                return seed.deserialize(key.into_deserializer()).map(Some);
            }
            self.0.next_value::<IgnoredAny>()?;
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.0.next_value_seed(seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Ms;

    const HEAD: &str = r#""mono_ns":1,"wall_ns":2,"node":"a","seq":1"#;

    #[test]
    fn a_line_is_read_and_written_alike() {
        let fire = r#""execution":"exe_x","job":"job_x","fire_at":1000,"shard":3,"epoch":7"#;
        let record = read(&format!(r#"{{"ev":"fire",{HEAD},{fire}}}"#)).expect("a fire");
        let Event::Fire(fire) = &record.event else { panic!("{record:?}") };
        assert_eq!((fire.fire_at, fire.epoch, record.seq), (Ms(1_000), 7, 1));
        let text = serde_json::to_string(&record).expect("JSON");
        assert_eq!(read(&text).expect("the same"), record);
    }

    #[test]
    fn what_is_not_known_is_refused() {
        let epoch = r#""shard":1,"epoch":2,"owner":"a""#;
        assert!(read(&format!(r#"{{"ev":"epoch",{HEAD},{epoch}}}"#)).is_ok());
        let wrong = [
            format!(r#"{{"ev":"epoche",{HEAD},{epoch}}}"#),
            format!(r#"{{"ev":"epoch",{HEAD},{epoch},"shards":1}}"#),
            format!(r#"{{"ev":"epoch",{HEAD},"shard":1,"epoch":2}}"#),
            format!(r#"{{"ev":"epoch","mono_ns":1,"wall_ns":2,"node":"a",{epoch}}}"#),
            format!(r#"{{{HEAD},{epoch}}}"#),
        ];
        for line in wrong {
            assert!(read(&line).is_err(), "{line}");
        }
    }

    #[test]
    fn rows_of_the_api_may_have_more_fields() {
        let row =
            r#"{"job_id":"job_x","from":"2026-11-16T00:00:00Z","to":5,"reason":"PAUSED","recorded_at":6,"more":1}"#;
        let record = read(&format!(r#"{{"ev":"dump",{HEAD},"skips":[{row}]}}"#)).expect("a dump");
        assert!(matches!(&record.event, Event::Dump(dump) if dump.skips.len() == 1));
        assert!(read(&format!(r#"{{"ev":"dump",{HEAD},"skip":[{row}]}}"#)).is_err());
    }
}
