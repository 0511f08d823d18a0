//! What of a reply was read ahead of the caller.

use std::collections::VecDeque;

use crate::failure::Failure;

use super::event::Event;
use super::head::Head;
use super::sign::Sign;
use super::watch::{End, Observer, Watch};

/// The most events held back before the first output. Keep-alives are never held, and no protocol sends more
/// than half a dozen of others (a dozen with their frames): beyond this the reply is taken as begun.
const MAX_HELD: usize = 64;

/// The most bytes of frames held back. A preamble is a few kilobytes, save where a provider sends the request along.
const MAX_HELD_BYTES: usize = 4 * 1024 * 1024;

/// The head of a reply, and the events that were read ahead of the caller.
#[derive(Debug, Default)]
pub struct Held(pub(super) Box<Core>);

#[derive(Debug, Default)]
pub(super) struct Core {
    pub(super) head: Head,
    pub(super) first: Option<Event>,
    pub(super) more: VecDeque<Event>,
    pub(super) committed: bool,
    /// Bytes of the frames among what is held.
    pub(super) bytes: usize,
    /// The failure that came before any output, kept for whoever asks again or joins late.
    pub(super) failed: Option<Failure>,
}

// === impl Core ===

impl Core {
    #[inline]
    pub(super) const fn new(head: Head) -> Self {
        Self { head, first: None, more: VecDeque::new(), committed: false, bytes: 0, failed: None }
    }

    pub(super) fn hold(&mut self, event: Event) {
        if let Event::Frame(frame) = &event {
            self.bytes += frame.len();
            self.committed |= self.bytes > MAX_HELD_BYTES;
        }
        if self.first.is_none() {
            self.first = Some(event);
        } else {
            self.more.push_back(event);
            self.committed |= self.more.len() >= MAX_HELD;
        }
    }

    /// Tells an observer what it missed.
    #[inline]
    pub(super) fn introduce<O: Observer>(&self, watch: &mut Watch<O>) {
        watch.meet(&self.head.limits);
        if self.is_holding() {
            self.show(watch);
        }
        if let Some(failure) = &self.failed {
            watch.settle(End::from(failure));
        }
    }

    #[inline]
    fn show<O: Observer>(&self, watch: &mut Watch<O>) {
        let mut show = |event: &Event| match event {
            Event::Completed(completion) => watch.settle(completion.end()),
            event => {
                if let Event::Usage(usage) = event {
                    watch.note(usage);
                }
                watch.see(event.sign());
            }
        };
        self.first.iter().for_each(&mut show);
        if !self.more.is_empty() {
            self.more.iter().for_each(show);
        }
    }

    /// What came before the first output, or is the first output.
    pub(super) fn begin(&mut self, item: &Result<Event, Failure>) {
        match item {
            Ok(event) => {
                self.committed = matches!(event.sign(), Sign::Output(_) | Sign::Reset | Sign::End(_));
            }
            Err(failure) => self.failed = Some(failure.clone()),
        }
    }

    /// Asked before every event, and nearly always false.
    #[inline]
    pub(super) const fn is_holding(&self) -> bool {
        self.first.is_some()
    }

    pub(super) fn next_held(&mut self) -> Option<Event> {
        let next = self.more.pop_front();
        std::mem::replace(&mut self.first, next)
    }
}
