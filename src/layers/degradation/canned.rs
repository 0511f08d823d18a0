//! Replies that no provider sends.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;

use crate::chat::{BoxEvents, BoxReply, Completion, Content, Event, Head, Message, Part, Reply, Role, Stop};
use crate::chat::{Request, Usage};
use crate::failure::Failure;

/// Events made beforehand.
struct Made(std::vec::IntoIter<Event>);

/// A reply of these words. It used no tokens.
pub(super) fn words(request: &Request, text: &str) -> BoxReply {
    let message = Message::text(Role::Assistant, text);
    reply(request, Completion::new(message, Stop::End, Some(Usage::default())))
}

/// A reply of this answer: as a stream where one was asked for, else as its end alone.
pub(super) fn reply(request: &Request, completion: Completion) -> BoxReply {
    let mut events = Vec::new();
    if request.stream {
        let parts = completion.message.parts.iter().zip(0..);
        parts.for_each(|(part, index)| play(part, index, &mut events));
    }
    events.push(Event::Completed(Box::new(completion)));
    let events: BoxEvents = Box::pin(Made(events.into_iter()));
    Reply::new(Head::default(), events)
}

/// A part as the events that it is made of.
fn play(part: &Part, index: u32, events: &mut Vec<Event>) {
    let whole = match &part.content {
        Content::Text(text) => {
            events.push(Event::text(index, text.as_str()));
            None
        }
        Content::Refusal(text) => {
            events.push(Event::Refusal { index, text: text.clone() });
            None
        }
        Content::Reasoning(reasoning) => {
            events.push(Event::Reasoning { index, text: reasoning.text.clone() });
            Some(Box::new(part.clone()))
        }
        _ => Some(Box::new(part.clone())),
    };
    events.push(Event::Closed { index, part: whole });
}

// === impl Made ===

impl Stream for Made {
    type Item = Result<Event, Failure>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.0.next().map(Ok))
    }
}
