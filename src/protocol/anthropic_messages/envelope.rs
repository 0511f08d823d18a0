//! What a streamed reply says beside its blocks.

use std::collections::VecDeque;

use serde_json::Value;

use crate::chat::{Completion, Event, Message, Stop, Usage};

use super::Fields;
use super::decode::{name, rest};
use super::wire::{self, Figures};

/// What a streamed reply says beside its blocks: who answers, why it stopped, what it used.
#[derive(Debug, Default)]
pub(super) struct Envelope {
    figures: Figures,
    /// The usage told last.
    told: Option<Usage>,
    stop: Option<Stop>,
    id: Box<str>,
    model: Box<str>,
    /// What the reply says beyond our words.
    rest: Fields,
    started: bool,
}

// === impl Envelope ===

impl Envelope {
    /// Whether the stop reason came.
    pub(super) const fn is_stopped(&self) -> bool {
        self.stop.is_some()
    }

    /// Takes in a `message_start`. A second one changes neither id nor model.
    pub(super) fn start(&mut self, mut frame: Fields, out: &mut VecDeque<Event>) {
        let Some(Value::Object(mut message)) = frame.remove("message") else { return };
        let (id, model) = (name(&mut message, "id"), name(&mut message, "model"));
        if !self.started {
            (self.id, self.model) = (id, model);
            if !self.id.is_empty() || !self.model.is_empty() {
                out.push_back(Event::Started { id: self.id.clone(), model: self.model.clone() });
            }
        }
        self.started = true;
        self.usage(message.remove("usage"), out);
        message.remove("content");
        self.rest.append(&mut message);
    }

    /// Takes in a `message_delta`.
    pub(super) fn change(&mut self, mut frame: Fields, out: &mut VecDeque<Event>) {
        let mut usage = frame.remove("usage");
        if let Some(Value::Object(mut delta)) = frame.remove("delta") {
            if let Some(stop) = wire::stop(&delta) {
                self.stop = Some(stop);
            }
            usage = usage.or_else(|| delta.remove("usage"));
            self.rest.append(&mut delta);
        }
        self.usage(usage, out);
        self.rest.append(&mut frame);
    }

    /// The whole reply, of this message.
    pub(super) fn close(&mut self, message: Message) -> Completion {
        let Self { figures, stop, id, model, rest: fields, .. } = std::mem::take(self);
        let mut completion = Completion::new(message, stop.unwrap_or(Stop::Unknown), figures.usage());
        completion.id = id;
        completion.model = model;
        completion.extra = rest(fields);
        completion
    }

    fn usage(&mut self, usage: Option<Value>, out: &mut VecDeque<Event>) {
        let Some(Value::Object(mut usage)) = usage else { return };
        self.figures.take(&mut usage);
        usage.retain(|_, value| !value.is_null());
        match self.rest.get_mut("usage") {
            Some(Value::Object(known)) => known.append(&mut usage),
            _ => {
                self.rest.insert("usage".to_owned(), Value::Object(usage));
            }
        }
        let known = self.figures.usage();
        if let Some(usage) = known.filter(|_| known != self.told) {
            out.push_back(Event::Usage(Box::new(usage)));
        }
        self.told = known;
    }
}
