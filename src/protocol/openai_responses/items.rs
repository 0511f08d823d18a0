//! The items of a reply under way: which event belongs to which.

use serde_json::Value;

use crate::failure::{Code, Failure};

use super::item::{Item, Name, Slot, Voice};

/// The most items of one reply. A reply of an agent has dozens; the searches among them stay cheap.
const MAX_ITEMS: u32 = 4_096;

/// The items in the order they opened.
#[derive(Debug, Default)]
pub(super) struct Items {
    all: Vec<Item>,
    /// Where the last delta went: they come in runs.
    last: usize,
}

/// A part of an item, as it was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    item: usize,
    slot: usize,
    pub(super) block: u32,
    /// Bytes told of it.
    pub(super) told: usize,
    /// Whether another part was told in its block before its first word.
    pub(super) follows: bool,
}

// === impl Items ===

impl Items {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Item> {
        self.all.iter_mut()
    }

    pub(super) fn get_mut(&mut self, item: usize) -> Option<&mut Item> {
        self.all.get_mut(item)
    }

    /// The item that an event names; opened if there is none.
    pub(super) fn named(&mut self, name: Name<'_>) -> Result<usize, Failure> {
        if !self.all.get(self.last).is_some_and(|last| last.kind == name.kind && last.has_id(name.id)) {
            self.last = match self.find(name) {
                Some(found) => found,
                None => self.insert(name)?,
            };
        }
        Ok(self.last)
    }

    /// The item that stands in an event, which opens it or finishes it; opened if there is none.
    pub(super) fn standing(&mut self, name: Name<'_>) -> Result<usize, Failure> {
        let Some(at) = self.find(name) else { return self.insert(name) };
        match self.all.get_mut(at) {
            Some(known) if known.may_be(name) => {
                known.learn(name);
                Ok(at)
            }
            _ => self.insert(name),
        }
    }

    /// For each item that the terminal event repeats, the known one; opened if there is none.
    pub(super) fn repeated(&mut self, output: &[Value]) -> Result<Vec<usize>, Failure> {
        if output.len() > MAX_ITEMS as usize {
            return Err(too_many());
        }
        let names: Vec<Name<'_>> =
            (0..).zip(output).map(|(index, item)| Name::of(item, Some(index))).collect();
        let mut found = vec![None; names.len()];
        // Names first, so that no item takes what another one names.
        for by in [Item::has_name, Item::has_index, Item::is_like] {
            for (name, found) in names.iter().zip(&mut found).filter(|(_, found)| found.is_none()) {
                *found = self.all.iter().position(|known| !known.repeated && by(known, *name));
                if let Some(known) = found.and_then(|at: usize| self.all.get_mut(at)) {
                    known.repeated = true;
                }
            }
        }
        let found = names.into_iter().zip(found);
        found.map(|(name, found)| found.map_or_else(|| self.insert(name), Ok)).collect()
    }

    /// A new part opens in an item, if it is known.
    pub(super) fn next_part(&mut self, name: Name<'_>) {
        if let Some(item) = self.find(name).and_then(|found| self.all.get_mut(found)) {
            item.next_part();
        }
    }

    /// A part of an item; opened if there is none. `None` if nothing more may be told of the item.
    pub(super) fn place(&mut self, item: usize, voice: Voice, index: Option<u32>) -> Option<Place> {
        let known = self.all.get_mut(item).filter(|known| !known.closed)?;
        let slot = known.slot(voice, index);
        let (block, follows) = (known.block(slot), known.follows(slot));
        let told = known.slot_mut(slot)?.told;
        Some(Place { item, slot, block, told, follows })
    }

    /// What was told of a part.
    pub(super) fn slot_mut(&mut self, place: Place) -> Option<&mut Slot> {
        self.all.get_mut(place.item)?.slot_mut(place.slot)
    }

    /// By id, else by index, else the item of that kind opened last. An id that nobody knows may be a known item's
    /// under a new name, since some servers give it another one in each event; but not if that item is finished.
    fn find(&self, name: Name<'_>) -> Option<usize> {
        let last = |fits: &dyn Fn(&Item) -> bool| {
            self.all.iter().rposition(|item| item.kind == name.kind && fits(item))
        };
        let by_index = || last(&|item| name.index.is_some() && item.stands_at(name));
        last(&|item| item.has_id(name.id)).or_else(by_index).or_else(|| last(&|item| item.is_nameless(name)))
    }

    fn insert(&mut self, name: Name<'_>) -> Result<usize, Failure> {
        let free = |place: &u32| *place < MAX_ITEMS && self.all.iter().all(|item| item.place != *place);
        let next = || self.all.iter().map(|item| item.place + 1).max().or(Some(0)).filter(free);
        let place = name.index.filter(free).or_else(next).ok_or_else(too_many)?;
        self.all.push(Item::new(name, place));
        Ok(self.all.len() - 1)
    }
}

fn too_many() -> Failure {
    Failure::new(Code::InvalidResponse, format!("the reply has more than {MAX_ITEMS} items"))
}
