//! One item of a reply under way: what it goes by, and what was told of it.

use serde_json::Value;

use crate::protocol::json::string;

use super::output::Kind;

/// Blocks kept for the parts of one item.
const PARTS: u32 = 1_024;

/// An item.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) kind: Kind,
    id: String,
    call_id: String,
    /// Its index, as told.
    told: Option<u32>,
    /// Its place among the blocks: as told, if that was free.
    pub(super) place: u32,
    slots: Vec<Slot>,
    /// Whether the call was told of.
    pub(super) announced: bool,
    pub(super) closed: bool,
    /// Whether the terminal event repeated it.
    pub(super) repeated: bool,
}

/// What was told of one part.
#[derive(Debug)]
pub(super) struct Slot {
    voice: Voice,
    index: Option<u32>,
    part: u32,
    /// Bytes told.
    pub(super) told: usize,
    /// Whether it was said to be whole.
    pub(super) ended: bool,
    /// Whether the finished item has it.
    pub(super) matched: bool,
}

/// What a part says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Voice {
    Text,
    Refusal,
    Thought,
    Summary,
    Arguments,
    Other,
}

/// By what an event names its item.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name<'a> {
    pub(super) kind: Kind,
    pub(super) id: &'a str,
    /// What the results of a call name; only whole items tell it.
    call_id: &'a str,
    pub(super) index: Option<u32>,
}

// === impl Item ===

impl Item {
    /// An item of this name, of which nothing was told.
    pub(super) fn new(name: Name<'_>, place: u32) -> Self {
        Self {
            kind: name.kind,
            id: name.id.to_owned(),
            call_id: name.call_id.to_owned(),
            told: name.index,
            place,
            slots: Vec::new(),
            announced: false,
            closed: false,
            repeated: false,
        }
    }

    /// Learns of its name what was not known.
    pub(super) fn learn(&mut self, name: Name<'_>) {
        for (known, told) in [(&mut self.id, name.id), (&mut self.call_id, name.call_id)] {
            if known.is_empty() {
                known.push_str(told);
            }
        }
    }

    /// Whether it goes by this id.
    pub(super) fn has_id(&self, id: &str) -> bool {
        !id.is_empty() && self.id == id
    }

    /// Whether it stands at this index, and no other item does: calls differ by the id that their results name,
    /// others by their own once this one is finished.
    pub(super) fn stands_at(&self, name: Name<'_>) -> bool {
        self.told == name.index && self.may_be(name)
    }

    /// Whether it may be meant where no index tells, by an event without an id or with one where it has none.
    pub(super) fn is_nameless(&self, name: Name<'_>) -> bool {
        let unknown = name.index.is_none() || self.told.is_none();
        unknown && !self.closed && (name.id.is_empty() || self.id.is_empty())
    }

    /// Whether nothing speaks against its being the item of this name.
    pub(super) fn may_be(&self, name: Name<'_>) -> bool {
        let other = self.closed && differ(&self.id, name.id);
        !other && !differ(&self.call_id, name.call_id)
    }

    pub(super) fn has_name(&self, name: Name<'_>) -> bool {
        let same = |known: &str, told: &str| !known.is_empty() && known == told;
        self.kind == name.kind && (same(&self.call_id, name.call_id) || same(&self.id, name.id))
    }

    pub(super) fn has_index(&self, name: Name<'_>) -> bool {
        self.told == name.index && self.is_like(name)
    }

    pub(super) fn is_like(&self, name: Name<'_>) -> bool {
        self.kind == name.kind && !differ(&self.call_id, name.call_id)
    }

    /// Whether something was told of it.
    pub(super) fn is_told(&self) -> bool {
        self.slots.iter().any(|slot| slot.told > 0)
    }

    /// Whether another part was told in the block of this one before its first word.
    pub(super) fn follows(&self, at: usize) -> bool {
        let Some(slot) = self.slots.get(at) else { return false };
        slot.told == 0 && self.slots.iter().any(|other| other.part == slot.part && other.told > 0)
    }

    /// The block of its first part, which is the only one unless it is a message.
    pub(super) const fn first_block(&self) -> u32 {
        self.place * PARTS
    }

    /// The block of a part.
    pub(super) fn block(&self, at: usize) -> u32 {
        self.first_block() + self.slots.get(at).map_or(0, |slot| slot.part)
    }

    pub(super) fn slot_mut(&mut self, at: usize) -> Option<&mut Slot> {
        self.slots.get_mut(at)
    }

    /// What comes without an index from here on belongs to a new part.
    pub(super) fn next_part(&mut self) {
        for slot in self.slots.iter_mut().filter(|slot| slot.told > 0) {
            slot.ended = true;
        }
    }

    /// Closes it. Returns the blocks that were told of but that the finished item does not have.
    pub(super) fn close(&mut self) -> Vec<u32> {
        self.closed = true;
        let matched = |part: u32| self.slots.iter().any(|slot| slot.part == part && slot.matched);
        let mut left: Vec<u32> =
            self.slots.iter().map(|slot| slot.part).filter(|part| !matched(*part)).collect();
        left.sort_unstable();
        left.dedup();
        left.into_iter().map(|part| self.first_block() + part).collect()
    }

    /// Where the part with this voice and index is; made if there is none. Without an index it is the last that is
    /// not said to be whole.
    pub(super) fn slot(&mut self, voice: Voice, index: Option<u32>) -> usize {
        let slots = &self.slots;
        let exact = || slots.iter().rposition(|slot| slot.voice == voice && slot.index == index);
        let nameless = |slot: &Slot| slot.voice == voice && slot.index.is_none() && !slot.matched;
        let known = match index {
            Some(_) => exact().or_else(|| slots.iter().position(nameless)),
            None => slots.iter().rposition(|slot| slot.voice == voice && !slot.ended),
        };
        if let Some(known) = known {
            return known;
        }
        let next = slots.iter().map(|slot| slot.part + 1).max().unwrap_or(0);
        let free = |part: &u32| slots.iter().all(|slot| slot.part != *part);
        let part = match self.kind {
            Kind::Message => index.filter(free).unwrap_or(next).min(PARTS - 1),
            _ => 0,
        };
        if slots.len() < PARTS as usize {
            self.slots.push(Slot { voice, index, part, told: 0, ended: false, matched: false });
        }
        self.slots.len() - 1
    }
}

// === impl Name ===

impl<'a> Name<'a> {
    pub(super) const fn new(kind: Kind, id: &'a str, index: Option<u32>) -> Self {
        Self { kind, id, call_id: "", index }
    }

    /// The name that an item itself has.
    pub(super) fn of(item: &'a Value, index: Option<u32>) -> Self {
        Self { kind: Kind::of(item), id: string(item, "id"), call_id: string(item, "call_id"), index }
    }
}

/// Whether both are told and not the same.
fn differ(known: &str, told: &str) -> bool {
    !known.is_empty() && !told.is_empty() && known != told
}
