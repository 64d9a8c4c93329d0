//! Ids, computed again: text to bytes and back, the id of a fire, the shard of a job.
//!
//! The hash is XXH3 by its specification, for the lengths that occur here, written plainly and not for speed.

/// Sixteen bytes of an id.
pub type Bytes = [u8; 16];

const LETTERS: &str = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

pub const SHARDS: u64 = 256;

/// Why an execution exists, as it goes into its id.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Its schedule came due.
    Scheduled,
    Manual,
}

/// Reads `job_...` or `exe_...`: 26 letters of base 32.
pub fn parse(text: &str, prefix: &str) -> Option<Bytes> {
    let digits = text.strip_prefix(prefix)?;
    if digits.len() != 26 {
        return None;
    }
    let mut value: u128 = 0;
    for (position, letter) in digits.bytes().enumerate() {
        let digit = LETTERS.bytes().position(|known| known == letter.to_ascii_uppercase())? as u128;
        if position == 0 && digit > 7 {
            return None;
        }
        value = value * 32 + digit;
    }
    Some(value.to_be_bytes())
}

pub fn format(bytes: Bytes, prefix: &str) -> String {
    let mut value = u128::from_be_bytes(bytes);
    let letters: Vec<char> = LETTERS.chars().collect();
    let mut digits = ['0'; 26];
    for digit in digits.iter_mut().rev() {
        *digit = letters[(value % 32) as usize];
        value /= 32;
    }
    format!("{prefix}{}", digits.iter().collect::<String>())
}

/// The id of a fire. None where the key is longer than this hash goes (191 bytes).
pub fn execution(tenant: u32, job: Bytes, fire_at_ms: i64, kind: Kind, key: &[u8]) -> Option<Bytes> {
    let code = [match kind {
        Kind::Scheduled => 0u8,
        Kind::Manual => 1,
    }];
    let mut text = Vec::new();
    for field in [&tenant.to_be_bytes()[..], &job[..], &fire_at_ms.to_be_bytes()[..], &code[..], key] {
        text.extend((field.len() as u32).to_be_bytes());
        text.extend(field);
    }
    let mut bytes = hash_128(&text)?.to_be_bytes();
    let millis = (fire_at_ms.clamp(0, (1 << 48) - 1) as u64).to_be_bytes();
    bytes[0..6].copy_from_slice(&millis[2..8]);
    bytes[6] = (bytes[6] & 0x0f) + 0x80;
    bytes[8] = (bytes[8] & 0x3f) + 0x80;
    Some(bytes)
}

/// The shard of a job.
pub fn shard(job: Bytes) -> u16 {
    (hash_64(job) % SHARDS) as u16
}

/// How far a spread of this width moves the fires of a job.
pub fn spread_offset_ms(job: Bytes, spread_ms: u64) -> u64 {
    if spread_ms == 0 { 0 } else { hash_64(job) % spread_ms }
}

const PRIME_1: u64 = 0x9E37_79B1_85EB_CA87;
const PRIME_2: u64 = 0xC2B2_AE3D_27D4_EB4F;
const PRIME_4: u64 = 0x85EB_CA77_C2B2_AE63;
const PRIME_MX: u64 = 0x1656_6791_9E37_79F9;

/// The default secret of XXH3.
const SECRET: [u64; 24] = [
    0xbe4b_a423_396c_feb8,
    0x1cad_21f7_2c81_017c,
    0xdb97_9083_e96d_d4de,
    0x1f67_b3b7_a4a4_4072,
    0x78e5_c0cc_4ee6_79cb,
    0x2172_ffcc_7dd0_5a82,
    0x8e24_43f7_7446_08b8,
    0x4c26_3a81_e690_35e0,
    0xcb00_c391_bb52_283c,
    0xa32e_531b_8b65_d088,
    0x4ef9_0da2_9748_6471,
    0xd8ac_dea9_46ef_1938,
    0x3f34_9ce3_3f76_faa8,
    0x1d4f_0bc7_c7bb_dcf9,
    0x3159_b4cd_4be0_518a,
    0x6473_78d9_c97e_9fc8,
    0xc3eb_d334_83ac_c5ea,
    0xeb63_13fa_ffa0_81c5,
    0x49da_f0b7_51dd_0d17,
    0x9e68_d429_2655_16d3,
    0xfca1_477d_58be_162b,
    0xce31_d07a_d1b8_f88f,
    0x2804_1695_8f3a_cb45,
    0x7e40_4bbb_cafb_d7af,
];

fn word(bytes: &[u8], at: usize) -> u64 {
    (0..8).map(|i| u64::from(bytes[at + i]) << (8 * i)).sum()
}

/// A word of the secret, from any byte on.
fn secret(at: usize) -> u64 {
    let byte = |n: usize| SECRET[n / 8] >> (8 * (n % 8)) & 0xff;
    (0..8).map(|i| byte(at + i) << (8 * i)).sum()
}

fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ (product >> 64) as u64
}

fn avalanche(value: u64) -> u64 {
    let value = (value ^ (value >> 37)).wrapping_mul(PRIME_MX);
    value ^ (value >> 32)
}

fn hash_64(text: Bytes) -> u64 {
    let low = word(&text, 0) ^ secret(24) ^ secret(32);
    let high = word(&text, 8) ^ secret(40) ^ secret(48);
    avalanche(16u64.wrapping_add(low.swap_bytes()).wrapping_add(high).wrapping_add(fold(low, high)))
}

/// XXH3 of 128 bits for 17 to 240 bytes.
fn hash_128(text: &[u8]) -> Option<u128> {
    let len = text.len();
    // Which 16 bytes are mixed with which, and with which part of the secret.
    let mut steps: Vec<(usize, usize, usize)> = Vec::new();
    match len {
        17..=128 => steps.extend((0..=(len - 1) / 32).rev().map(|i| (16 * i, len - 16 * (i + 1), 32 * i))),
        129..=240 => {
            steps.extend((0..4).map(|i| (32 * i, 32 * i + 16, 32 * i)));
            steps.extend((4..len / 32).map(|i| (32 * i, 32 * i + 16, 3 + 32 * (i - 4))));
            steps.push((len - 16, len - 32, 103));
        }
        _ => return None,
    }
    let pair = |at: usize, key: usize| fold(word(text, at) ^ secret(key), word(text, at + 8) ^ secret(key + 8));
    let plain = |at: usize| word(text, at).wrapping_add(word(text, at + 8));
    let (mut low, mut high) = (PRIME_1.wrapping_mul(len as u64), 0u64);
    for (number, (first, second, key)) in steps.into_iter().enumerate() {
        if len > 128 && number == 4 {
            (low, high) = (avalanche(low), avalanche(high));
        }
        low = low.wrapping_add(pair(first, key)) ^ plain(second);
        high = high.wrapping_add(pair(second, key + 16)) ^ plain(first);
    }
    Some(finish(low, high, len))
}

fn finish(low: u64, high: u64, len: usize) -> u128 {
    let mixed = low.wrapping_mul(PRIME_1).wrapping_add(high.wrapping_mul(PRIME_4));
    let upper = mixed.wrapping_add((len as u64).wrapping_mul(PRIME_2));
    let (low, high) = (avalanche(low.wrapping_add(high)), avalanche(upper).wrapping_neg());
    u128::from(high) << 64 | u128::from(low)
}
