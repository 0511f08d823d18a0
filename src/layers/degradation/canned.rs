//! Replies that no provider sends.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;

use crate::chat::{
    BoxEvents, BoxReply, Completion, Content, Event, Head, Message, Reply, Request, Role, Stop, Usage,
};
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
        for (index, part) in (0..).zip(&completion.message.parts) {
            events.extend(Event::deltas(index, &part.content));
            let is_told = matches!(part.content, Content::Text(_) | Content::Refusal(_));
            events.push(Event::Closed { index, part: (!is_told).then(|| Box::new(part.clone())) });
        }
    }
    events.push(Event::Completed(Box::new(completion)));
    let events: BoxEvents = Box::pin(Made(events.into_iter()));
    Reply::new(Head::default(), events)
}

// === impl Made ===

impl Stream for Made {
    type Item = Result<Event, Failure>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.0.next().map(Ok))
    }
}
