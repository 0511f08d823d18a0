//! Which tool call a fragment belongs to.

use serde_json::Value;

use crate::failure::{Code, Failure};

/// The block of the first tool call. Below it stand reasoning, text and refusal.
const FIRST_BLOCK: u32 = 16;

/// The most calls of one turn: far above any real one, and few enough to look through for every fragment.
/// It is also the number of blocks kept for calls that share a wire index.
const MAX_CALLS: u32 = 4096;

/// Wire indices from here on share their blocks, so that block numbers fit.
const MAX_SLOT: u32 = (u32::MAX - FIRST_BLOCK) / MAX_CALLS - 1;

/// The tool calls of a turn, by the rules that survive every known provider:
///
/// 1. a known id is that call;
/// 2. a new id is a new call, even on an index that is taken, unless it completes a call that has no id yet;
/// 3. no id and an index: the call opened last on that index, else a new one;
/// 4. neither: the call opened last, unless it bears another name.
///
/// Ids and names are set once, from the first that is not empty.
#[derive(Debug, Default)]
pub(super) struct Calls(Vec<Call>);

/// One tool call.
#[derive(Debug)]
pub(super) struct Call {
    /// Its block, which gives its order.
    pub(super) block: u32,
    /// Its id; empty until known.
    pub(super) id: String,
    /// Its name; empty until known.
    pub(super) name: String,
    /// State that the provider wants back with it.
    pub(super) state: Option<Value>,
    /// Whether anything of it was told.
    pub(super) told: bool,
    /// Whether it came in the older spelling.
    pub(super) legacy: bool,
    wire: u64,
}

// === impl Calls ===

impl Calls {
    /// The call that a fragment belongs to, opened if it is new.
    ///
    /// # Errors
    /// There are more calls than any turn has.
    pub(super) fn find(&mut self, wire: Option<u64>, id: &str, name: &str) -> Result<&mut Call, Failure> {
        let at = match self.known(wire, id, name) {
            Some(at) => at,
            None => self.open(wire)?,
        };
        Ok(&mut self.0[at])
    }

    /// The calls in order.
    pub(super) fn into_sorted(mut self) -> Vec<Call> {
        self.0.sort_by_key(|call| call.block);
        self.0
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn known(&self, wire: Option<u64>, id: &str, name: &str) -> Option<usize> {
        if !id.is_empty()
            && let Some(at) = self.0.iter().rposition(|call| call.id == id)
        {
            return Some(at);
        }
        let at = match wire {
            Some(wire) => self.0.iter().rposition(|call| call.wire == wire)?,
            None => self.0.len().checked_sub(1)?,
        };
        let call = self.0.get(at)?;
        let renamed = !name.is_empty() && !call.name.is_empty() && call.name != name;
        let other = if id.is_empty() { wire.is_none() && renamed } else { !call.id.is_empty() || renamed };
        (!other).then_some(at)
    }

    fn open(&mut self, wire: Option<u64>) -> Result<usize, Failure> {
        let next = || self.0.iter().map(|call| call.wire).max().map_or(0, |last| last.saturating_add(1));
        let wire = wire.unwrap_or_else(next);
        let slot = slot(wire);
        let (mut opened, mut beside) = (0, 0);
        for call in &self.0 {
            opened += 1;
            beside += u32::from(self::slot(call.wire) == slot);
        }
        if opened >= MAX_CALLS {
            return Err(Failure::new(Code::InvalidResponse, "one turn holds thousands of tool calls"));
        }
        let block = FIRST_BLOCK + slot * MAX_CALLS + beside;
        let (id, name) = (String::new(), String::new());
        self.0.push(Call { block, id, name, state: None, told: false, legacy: false, wire });
        Ok(self.0.len() - 1)
    }
}

fn slot(wire: u64) -> u32 {
    u32::try_from(wire).unwrap_or(MAX_SLOT).min(MAX_SLOT)
}
