//! What came of an answer so far, in case it breaks off.

use std::cell::Cell;

use crate::chat::{Assembler, Event, Sign};

/// The most room that is kept for the next answer, in bytes: 64 KiB, which all but the longest answers fit in.
const MAX_SPARE: usize = 64 * 1024;

/// What came of an answer so far. Nothing but its usage is held before the first output passes, and nothing once it is too
/// long.
#[derive(Debug)]
pub(super) enum Gathered {
    /// Nothing is gathered, or no more.
    Off,
    /// No output came, and no word of what is used; so many bytes of output may.
    Nothing(usize),
    Some(Lent),
}

/// What an answer is gathered in, until it is over. Then its room is left to the next answer.
#[derive(Debug)]
pub(super) struct Lent(Option<Box<SoFar>>);

/// The pieces of the block that grows now, beside those that came before it.
#[derive(Debug, Default)]
pub(super) struct SoFar {
    /// How many bytes of output may still come.
    left: usize,
    /// Whether output came.
    begun: bool,
    before: Assembler,
    run: Option<Run>,
    text: String,
}

/// A block of text that grows. Deltas of one come in runs, and each is told apart from the others by one look.
#[derive(Clone, Copy, Debug)]
struct Run {
    index: u32,
    closed: bool,
}

thread_local! {
    /// What the last answer on this thread was gathered in: nearly all of them come whole, and nothing is to be made
    /// for those.
    static SPARE: Cell<Option<Box<SoFar>>> = const { Cell::new(None) };
}

// === impl Gathered ===

impl Gathered {
    pub(super) const OFF: Self = Self::Off;

    #[inline]
    pub(super) const fn new(most: Option<usize>) -> Self {
        match most {
            Some(most) => Self::Nothing(most),
            None => Self::Off,
        }
    }

    #[inline(always)]
    pub(super) fn push(&mut self, event: &Event) {
        let fits = match self {
            Self::Some(so_far) => so_far.push(event),
            // Nothing before the first output is of use, but what is paid.
            Self::Nothing(most)
                if matches!(event, Event::Usage(_)) || matches!(event.sign(), Sign::Output(_)) =>
            {
                let mut so_far = Lent::begin(*most);
                let fits = so_far.push(event);
                *self = Self::Some(so_far);
                fits
            }
            Self::Nothing(_) | Self::Off => return,
        };
        if !fits {
            *self = Self::Off;
        }
    }

    /// All of it; nothing where there was none, or too much.
    pub(super) fn take(&mut self) -> Option<Assembler> {
        let whole = match self {
            Self::Some(lent) => lent.0.as_mut().map(|so_far| so_far.take()),
            Self::Nothing(_) | Self::Off => None,
        };
        *self = Self::Off;
        whole
    }
}

// === impl Lent ===

impl Lent {
    #[inline]
    fn begin(most: usize) -> Self {
        let mut so_far = SPARE.try_with(Cell::take).ok().flatten().unwrap_or_default();
        so_far.left = most;
        Self(Some(so_far))
    }

    #[inline]
    fn push(&mut self, event: &Event) -> bool {
        self.0.as_mut().is_some_and(|so_far| so_far.push(event))
    }
}

impl Drop for Lent {
    #[inline]
    fn drop(&mut self) {
        let Some(mut so_far) = self.0.take() else { return };
        so_far.clear();
        // A thread that ends needs none.
        let _ = SPARE.try_with(|spare| spare.set(Some(so_far)));
    }
}

// === impl SoFar ===

impl SoFar {
    /// Takes in one event, unless it is too much.
    #[inline]
    fn push(&mut self, event: &Event) -> bool {
        if let Event::Text { index, text } = event
            && let Some(run) = self.run
            && run.index == *index
        {
            let Some(left) = self.left.checked_sub(text.len()) else { return false };
            self.left = left;
            if !run.closed {
                self.text.push_str(text);
            }
            return true;
        }
        self.push_other(event)
    }

    #[inline(never)]
    fn push_other(&mut self, event: &Event) -> bool {
        if let Sign::Output(bytes) = event.sign() {
            let Some(left) = self.left.checked_sub(bytes as usize) else { return false };
            (self.left, self.begun) = (left, true);
        }
        // Before it, only what is paid is of use, and what makes that void.
        if !self.begun && !matches!(event, Event::Usage(_) | Event::Reset(_)) {
            return true;
        }
        match (event, &mut self.run) {
            (Event::Text { index, text }, _) => {
                self.end_run();
                self.run = Some(Run { index: *index, closed: false });
                self.text.push_str(text);
            }
            (Event::Closed { index, part: None }, Some(run)) if run.index == *index => run.closed = true,
            // These are no part of any block, and end no run.
            (Event::Started { .. } | Event::Usage(_) | Event::KeepAlive | Event::Frame(_), _) => {
                self.before.push(event);
            }
            _ => {
                self.end_run();
                self.before.push(event);
            }
        }
        true
    }

    /// Puts the block that grew to those before it, which take no more of it than they would have of its pieces.
    fn end_run(&mut self) {
        let Some(Run { index, closed }) = self.run.take() else { return };
        self.before.push(&Event::Text { index, text: std::mem::take(&mut self.text) });
        if closed {
            self.before.push(&Event::Closed { index, part: None });
        }
    }

    fn take(&mut self) -> Assembler {
        self.end_run();
        std::mem::take(&mut self.before)
    }

    fn clear(&mut self) {
        self.before = Assembler::default();
        self.begun = false;
        self.run = None;
        self.text.clear();
        self.text.shrink_to(MAX_SPARE);
    }
}

#[cfg(test)]
mod tests {
    use crate::chat::{Content, Message, Reset, ToolCallStart, Usage};
    use crate::failure::{Code, Failure};

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

    /// What the fold of a whole answer makes of the events from the first output on, and of what was used before it.
    fn folded<'a>(events: impl Iterator<Item = &'a Event>) -> (Message, Option<Usage>) {
        let (mut whole, mut begun) = (Assembler::new(), false);
        let counts = |event: &&Event| {
            begun |= matches!(event.sign(), Sign::Output(_));
            begun || matches!(event, Event::Usage(_) | Event::Reset(_))
        };
        events.filter(counts).for_each(|event| whole.push(event));
        let usage = whole.usage();
        (whole.partial(), usage)
    }

    fn gathered(events: &[Event]) -> (Message, Option<Usage>) {
        let mut gathered = Gathered::new(Some(64));
        events.iter().for_each(|event| gathered.push(event));
        let whole = gathered.take().unwrap_or_default();
        let usage = whole.usage();
        (whole.partial(), usage)
    }

    /// Every sequence of up to four events of these kinds.
    fn sequences() -> Vec<Vec<Event>> {
        let kinds = [
            Event::text(0, "a"),
            Event::text(1, "b"),
            Event::text(0, ""),
            Event::Reasoning { index: 0, text: "r".into() },
            Event::ToolCall { index: 1, start: Box::new(ToolCallStart::new("1", "search")) },
            Event::Closed { index: 0, part: None },
            Event::Closed { index: 0, part: Some(Box::new(Content::Text("whole".into()).into())) },
            Event::Usage(Box::default()),
            Event::Reset(Box::new(Reset::after(Failure::new(Code::Server, "scripted")))),
        ];
        let mut all = vec![Vec::new()];
        let mut last = all.clone();
        for _ in 0..4 {
            let longer =
                |events: &Vec<Event>, kind: &Event| [&events[..], std::slice::from_ref(kind)].concat();
            last = last.iter().flat_map(|events| kinds.iter().map(|kind| longer(events, kind))).collect();
            all.extend_from_slice(&last);
        }
        all
    }

    /// Scenario: every sequence of up to four events, gathered and folded.
    /// Expected: both MUST make the same of it.
    #[test]
    fn gathering_is_the_fold_of_a_whole_answer() {
        for events in sequences() {
            assert_eq!(gathered(&events), folded(events.iter()), "{events:?}");
        }
    }

    /// Scenario: the same beside a fold that takes no notice of closed blocks, as a run that forgot them would.
    /// Expected: some sequence MUST tell them apart.
    #[test]
    fn a_fold_that_forgets_closes_is_told_apart() {
        let open = |event: &&Event| !matches!(event, Event::Closed { part: None, .. });
        assert!(sequences().iter().any(|events| gathered(events) != folded(events.iter().filter(open))));
    }

    /// Scenario: an answer breaks off, and another one on the same thread after it.
    /// Expected: nothing of the first MUST be in the second.
    #[test]
    fn an_answer_finds_nothing_of_the_one_before() {
        let mut first = Gathered::new(Some(64));
        first.push(&Event::text(0, "secret"));
        drop(first);
        assert_eq!(gathered(&[Event::text(1, "b")]).0.to_text(), "b");
    }
}
