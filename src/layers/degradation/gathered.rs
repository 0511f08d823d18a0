//! What came of an answer so far, in case it breaks off.

use crate::chat::{Assembler, Event, Sign};

/// What came of an answer so far. Nothing is held before the first output passes, and nothing once it is too long.
#[derive(Debug)]
pub(super) struct Gathered {
    /// How many bytes of output may still come; `None` where nothing is gathered.
    left: Option<usize>,
    so_far: Option<Box<Assembler>>,
}

// === impl Gathered ===

impl Gathered {
    pub(super) const fn new(most: Option<usize>) -> Self {
        Self { left: most, so_far: None }
    }

    pub(super) fn push(&mut self, event: &Event) {
        let Some(left) = self.left else { return };
        match event.sign() {
            Sign::Output(bytes) => {
                self.left = left.checked_sub(bytes as usize);
                if self.left.is_none() {
                    self.so_far = None;
                    return;
                }
            }
            // Nothing before the first output is of use.
            _ if self.so_far.is_none() => return,
            _ => {}
        }
        self.so_far.get_or_insert_default().push(event);
    }

    /// All of it; nothing where there was none, or too much.
    pub(super) fn take(&mut self) -> Option<Assembler> {
        self.left = None;
        self.so_far.take().map(|so_far| *so_far)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: text up to the limit, and one byte beyond it.
    /// Expected: the first MUST be kept whole; beyond it nothing MUST be kept, then or later.
    #[test]
    fn what_is_too_long_is_not_kept() {
        let mut gathered = Gathered::new(Some(4));
        gathered.push(&Event::text(0, "ab"));
        gathered.push(&Event::text(0, "cd"));
        assert_eq!(gathered.take().unwrap().partial().to_text(), "abcd");
        let mut gathered = Gathered::new(Some(4));
        gathered.push(&Event::text(0, "abcd"));
        gathered.push(&Event::text(0, "e"));
        gathered.push(&Event::text(0, "f"));
        assert!(gathered.take().is_none());
        let mut off = Gathered::new(None);
        off.push(&Event::text(0, "a"));
        assert!(off.take().is_none());
    }
}
