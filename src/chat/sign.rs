//! What an arrival means.

use super::usage::Usage;

/// What an arrival means, which is all that gates, clocks and the commit point see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sign {
    /// The other side lives; nothing came.
    Liveness,
    /// Something came that is no output.
    Preamble,
    /// Output, of so many bytes.
    Output(u32),
    /// What comes comes slower than it should.
    Crawling,
    /// All output so far is void.
    Reset,
    /// The end, with what was used where that is known.
    End(Option<Usage>),
}
