//! What one session holds, counted.

use std::fmt;

use serde::Serialize;

/// What a session holds of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Kind {
    /// Open handles: files, sockets, processes.
    Handles,
    /// Files made.
    Files,
    /// Bytes on disk.
    Disk,
    /// Bytes held in memory.
    Memory,
}

/// The counters of one session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ledger([u64; Kind::ALL.len()]);

/// What there is no room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Over {
    pub(super) current: u64,
    pub(super) limit: u64,
}

// === impl Kind ===

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Handles, Self::Files, Self::Disk, Self::Memory];

    /// Its stable word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Handles => "handles",
            Self::Files => "files",
            Self::Disk => "disk",
            Self::Memory => "memory",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

// === impl Ledger ===

impl Ledger {
    /// Takes so much of a kind. A refusal changes nothing.
    pub(super) fn take(&mut self, kind: Kind, amount: u64, limit: u64) -> Result<(), Over> {
        let held = &mut self.0[kind as usize];
        match held.checked_add(amount).filter(|sum| *sum <= limit) {
            Some(sum) => *held = sum,
            None => return Err(Over { current: *held, limit }),
        }
        Ok(())
    }

    pub(super) fn give_back(&mut self, kind: Kind, amount: u64) {
        let held = &mut self.0[kind as usize];
        *held = held.saturating_sub(amount);
    }

    pub(super) const fn held(&self, kind: Kind) -> u64 {
        self.0[kind as usize]
    }
}
