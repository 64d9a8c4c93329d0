//! Identities: who owns, what is defined, what happens.
//!
//! A job's id is a UUIDv7: time-ordered, so that bulk creation appends to the B-trees. An execution's id is a UUIDv8:
//! 48 bits of `fire_at`, then a hash of length-prefixed (tenant, job, fire_at, kind). It is deterministic, so that
//! firing twice inserts once; and time-ordered, so that inserts append. Lengths are prefixed because plain concatenation
//! makes ("a1", "2") and ("a", "12") the same id.
//!
//! In text, ids are a prefix and 26 characters of Crockford base32: `job_01J9...`, `exe_01J9...`.

use crate::fault::{Bug, planted};
use crate::time::Timestamp;
use std::fmt;
use std::str::FromStr;
use xxhash_rust::xxh3::xxh3_128;

/// Who owns jobs and quotas. A small number on every row; its name lives in the store.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TenantId(pub u32);

impl TenantId {
    /// The one tenant that exists until authentication does.
    pub const DEFAULT: TenantId = TenantId(1);
    pub const DEFAULT_NAME: &'static str = "default";
}

/// Identity of a job.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId([u8; 16]);

/// Identity of an execution: one fire of one job.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExecutionId([u8; 16]);

/// Identity of an operation.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId([u8; 16]);

/// Identity of an endpoint for notifications.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointId([u8; 16]);

/// Why an execution exists; part of its identity.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum FireKind {
    /// The schedule came due.
    Schedule,
    /// Somebody asked for it.
    Manual,
    /// A backfill asked for it. Where nothing ran at its instant, it has the identity of the scheduled fire.
    Backfill,
}

impl FireKind {
    /// All kinds, in the order of their codes.
    pub const ALL: [FireKind; 3] = [FireKind::Schedule, FireKind::Manual, FireKind::Backfill];

    /// The word used in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            FireKind::Schedule => "SCHEDULE",
            FireKind::Manual => "MANUAL",
            FireKind::Backfill => "BACKFILL",
        }
    }

    /// The number used in the store; never reused.
    pub const fn code(self) -> u8 {
        match self {
            FireKind::Schedule => 0,
            FireKind::Manual => 1,
            FireKind::Backfill => 2,
        }
    }

    /// The kind with this number.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

/// A UUIDv7 from the creation instant, a sequence number within it and randomness, all injected.
fn time_ordered(at: Timestamp, sequence: u16, random: u64) -> [u8; 16] {
    let mut bytes = [0u8; 16];
    put_millis(&mut bytes, at);
    bytes[6..8].copy_from_slice(&(0x7000 | (sequence & 0x0fff)).to_be_bytes());
    bytes[8..16].copy_from_slice(&((random & 0x3fff_ffff_ffff_ffff) | 0x8000_0000_0000_0000).to_be_bytes());
    bytes
}

macro_rules! time_ordered_id {
    ($name:ident) => {
        impl $name {
            /// A new id from the creation instant, a sequence number within it and randomness, all injected.
            pub fn new(at: Timestamp, sequence: u16, random: u64) -> Self {
                Self(time_ordered(at, sequence, random))
            }

            /// The sixteen bytes, as stored.
            pub const fn as_bytes(&self) -> &[u8; 16] {
                &self.0
            }

            /// An id from its stored bytes.
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(bytes)
            }

            /// The bytes as 32 hexadecimal digits: the key of a record, which SQL can make of the bytes too.
            pub fn to_digits(&self) -> String {
                format!("{:032x}", u128::from_be_bytes(self.0))
            }

            /// An id from its digits.
            pub fn from_digits(digits: &str) -> Option<Self> {
                let bytes = u128::from_str_radix(digits, 16).ok()?.to_be_bytes();
                (digits.len() == 32).then_some(Self(bytes))
            }
        }
    };
}
time_ordered_id!(JobId);
time_ordered_id!(OperationId);
time_ordered_id!(EndpointId);

impl ExecutionId {
    /// The id of a job's scheduled fire.
    pub fn scheduled(tenant: TenantId, job: JobId, fire_at: Timestamp) -> Self {
        Self::derive(tenant, job, fire_at, FireKind::Schedule, &[])
    }

    /// The id of a manual fire; `key` is the caller's idempotency key, or randomness where there is none.
    pub fn manual(tenant: TenantId, job: JobId, fire_at: Timestamp, key: &[u8]) -> Self {
        Self::derive(tenant, job, fire_at, FireKind::Manual, key)
    }

    fn derive(tenant: TenantId, job: JobId, fire_at: Timestamp, kind: FireKind, key: &[u8]) -> Self {
        // Every field is preceded by its length; the layout is fixed for ever, since ids are compared across releases.
        let mut input = Vec::with_capacity(64 + key.len());
        for field in [&tenant.0.to_be_bytes()[..], &job.0, &fire_at.millis().to_be_bytes(), &[kind.code()], key] {
            input.extend_from_slice(&(field.len() as u32).to_be_bytes());
            input.extend_from_slice(field);
        }
        if planted(Bug("id-concatenated")) {
            // Sketch S2: fields as texts, one after the other.
            let texts = [tenant.0.to_string(), fire_at.millis().to_string(), kind.code().to_string()];
            input = [texts[0].as_bytes(), &job.0, texts[1].as_bytes(), texts[2].as_bytes(), key].concat();
        }
        let mut bytes = xxh3_128(&input).to_be_bytes();
        put_millis(&mut bytes, fire_at);
        bytes[6] = 0x80 | (bytes[6] & 0x0f);
        bytes[8] = 0x80 | (bytes[8] & 0x3f);
        Self(bytes)
    }

    /// The smallest id of any execution that fires at or after `at`; the start of a time window in id order.
    pub fn floor(at: Timestamp) -> Self {
        let mut bytes = [0u8; 16];
        put_millis(&mut bytes, at);
        Self(bytes)
    }

    /// The instant of its fire.
    pub fn instant(&self) -> Timestamp {
        Timestamp::from_millis(self.0[..6].iter().fold(0, |millis, byte| millis << 8 | i64::from(*byte)))
    }

    /// The sixteen bytes, as stored.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// An id from its stored bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }
}

fn put_millis(bytes: &mut [u8; 16], at: Timestamp) {
    let millis = at.millis().clamp(0, (1 << 48) - 1) as u64;
    bytes[..6].copy_from_slice(&millis.to_be_bytes()[2..]);
}

/// Text that is not an id of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an id: expected `{prefix}` and 26 letters or digits")]
pub struct InvalidId {
    text: String,
    prefix: &'static str,
}

const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

fn encode(f: &mut fmt::Formatter<'_>, prefix: &str, bytes: &[u8; 16]) -> fmt::Result {
    let value = u128::from_be_bytes(*bytes);
    let mut text = [0u8; 26];
    for (i, slot) in text.iter_mut().enumerate() {
        *slot = ALPHABET[(value >> (125 - 5 * i)) as usize & 31];
    }
    f.write_str(prefix)?;
    f.write_str(std::str::from_utf8(&text).expect("the alphabet is ASCII"))
}

fn decode(text: &str, prefix: &'static str) -> Result<[u8; 16], InvalidId> {
    let refused = || InvalidId { text: text.chars().take(64).collect(), prefix };
    let digits = text.strip_prefix(prefix).filter(|d| d.len() == 26).ok_or_else(refused)?;
    let mut value = 0u128;
    for (i, byte) in digits.bytes().enumerate() {
        let digit = ALPHABET.iter().position(|&a| a == byte.to_ascii_uppercase()).ok_or_else(refused)?;
        if i == 0 && digit > 7 {
            return Err(refused());
        }
        value = value << 5 | digit as u128;
    }
    Ok(value.to_be_bytes())
}

macro_rules! text_id {
    ($name:ident, $prefix:literal) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                encode(f, $prefix, &self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                encode(f, $prefix, &self.0)
            }
        }
        impl FromStr for $name {
            type Err = InvalidId;
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                decode(text, $prefix).map(Self)
            }
        }
    };
}
text_id!(JobId, "job_");
text_id!(ExecutionId, "exe_");
text_id!(OperationId, "op_");
text_id!(EndpointId, "ntf_");

#[cfg(test)]
mod tests {
    use super::*;

    const T: Timestamp = Timestamp::from_millis(1_794_794_400_000);

    #[test]
    fn ids_round_trip_as_text() {
        let job = JobId::new(T, 7, u64::MAX);
        assert_eq!(job.to_string().parse::<JobId>(), Ok(job));
        let execution = ExecutionId::scheduled(TenantId::DEFAULT, job, T);
        assert_eq!(execution.to_string().parse::<ExecutionId>(), Ok(execution));
        assert_eq!(execution.to_string().to_lowercase().parse::<ExecutionId>(), Ok(execution));
        for text in ["", "job_", "exe_01", "job_ZZZZZZZZZZZZZZZZZZZZZZZZZZ", "job_0000000000000000000000000U"] {
            assert!(text.parse::<JobId>().is_err(), "{text}");
        }
    }

    #[test]
    fn execution_ids_are_deterministic_distinct_and_time_ordered() {
        let (a, b) = (JobId::new(T, 0, 1), JobId::new(T, 0, 2));
        let later = T.saturating_add_ms(1);
        assert_eq!(ExecutionId::scheduled(TenantId(1), a, T), ExecutionId::scheduled(TenantId(1), a, T));
        assert_ne!(ExecutionId::scheduled(TenantId(1), a, T), ExecutionId::scheduled(TenantId(1), b, T));
        assert_ne!(ExecutionId::scheduled(TenantId(1), a, T), ExecutionId::scheduled(TenantId(2), a, T));
        assert_ne!(ExecutionId::scheduled(TenantId(1), a, T), ExecutionId::manual(TenantId(1), a, T, b""));
        assert_ne!(ExecutionId::manual(TenantId(1), a, T, b"x"), ExecutionId::manual(TenantId(1), a, T, b"y"));
        assert!(ExecutionId::scheduled(TenantId(1), a, T) < ExecutionId::scheduled(TenantId(1), b, later));
        assert!(ExecutionId::floor(T) < ExecutionId::scheduled(TenantId(1), a, T));
        assert!(ExecutionId::scheduled(TenantId(1), a, T) < ExecutionId::floor(later));
    }

    #[test]
    fn fields_do_not_run_into_each_other() {
        // As texts one after the other, these two are the same: 1 222... 111... 1 and 12 22... 1111...
        let at = Timestamp::from_millis(1_111_111_111_111);
        let (a, mut b) = ([b'2'; 16], [b'2'; 16]);
        b[15] = b'1';
        let one = ExecutionId::manual(TenantId(1), JobId::from_bytes(a), at, b"1x");
        let other = ExecutionId::manual(TenantId(12), JobId::from_bytes(b), at, b"x");
        assert_ne!(one, other);
    }

    #[test]
    fn job_ids_sort_by_creation() {
        assert!(JobId::new(T, 1, u64::MAX) < JobId::new(T, 2, 0));
        assert!(JobId::new(T, 4095, u64::MAX) < JobId::new(T.saturating_add_ms(1), 0, 0));
    }
}
