//! What a call took, before its end tells.

/// Bytes of output to a token, where the provider does not tell: English as of Chinese text, as the tokenizers of the large
/// providers cut it. An answer that ends without a word on usage is rare, and a guess within a factor of two is enough.
const BYTES_PER_TOKEN: u32 = 4;

/// What a call took so far: what the provider told before the end, else its input as it was reckoned, and its output by
/// the bytes seen. Small, since it is moved with permits; what does not fit 32 bits is as good as endless.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// The input, until it is told.
    input: u32,
    /// Bytes of output seen, or as many as a told output stands for.
    bytes: u32,
}

// === impl Seen ===

impl Seen {
    /// Nothing but an input that was reckoned so.
    #[inline]
    pub(crate) const fn of(input: u32) -> Self {
        Self { input, bytes: 0 }
    }

    /// So many bytes of output came.
    #[inline]
    pub(crate) const fn see(&mut self, bytes: u32) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// The provider told what was used so far. Output that was seen and not told stays.
    pub(crate) fn note(&mut self, input: u64, output: u64) {
        self.input = tokens(input);
        self.bytes = self.bytes.max(tokens(output).saturating_mul(BYTES_PER_TOKEN));
    }

    /// Whether there was output.
    pub(crate) const fn has_output(self) -> bool {
        self.bytes > 0
    }

    pub(crate) const fn input(self) -> u32 {
        self.input
    }

    /// The output in tokens; one that was begun counts.
    pub(crate) const fn output(self) -> u32 {
        self.bytes.div_ceil(BYTES_PER_TOKEN)
    }
}

/// A count of tokens in 32 bits.
#[inline]
pub(crate) fn tokens(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
