//! Injected randomness.
//!
//! Nothing below the binary draws from the machine's entropy: the engine asks the `Random` it was given, so that a
//! simulation replays from its seed.

use std::sync::atomic::{AtomicU64, Ordering};

/// A source of numbers. Not for secrets.
pub trait Random: Send + Sync + 'static {
    fn next(&self) -> u64;
}

/// SplitMix64: small, fast, and the same sequence for the same seed.
#[derive(Debug)]
pub struct SplitMix(AtomicU64);

impl SplitMix {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }
}

impl Random for SplitMix {
    fn next(&self) -> u64 {
        let mut z = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
