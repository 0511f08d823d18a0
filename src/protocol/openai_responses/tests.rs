mod replies;
mod requests;
mod streams;

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::Value;

use super::Decoder;
use crate::chat::{Completion, Event};
use crate::failure::Failure;
use crate::protocol::Dialect;
use crate::time::Wall;

fn wall() -> Wall {
    Wall::at(Duration::from_secs(1_800_000_000))
}

fn decoder() -> Decoder {
    Decoder::new(&Dialect::default(), wall())
}

/// Reads events that are named by their `type` alone, and the end.
fn play(frames: &[Value]) -> (Vec<Event>, Option<Failure>) {
    let mut decoder = decoder();
    let mut out = VecDeque::new();
    for frame in frames {
        if let Err(failure) = decoder.frame(None, frame.to_string().as_bytes(), &mut out) {
            assert!(decoder.is_done(), "a failure is the end");
            return (out.into(), Some(failure));
        }
    }
    let failure = decoder.end(&mut out).err();
    (out.into(), failure)
}

/// Reads events up to the completion.
fn completion(frames: &[Value]) -> Completion {
    let (events, failure) = play(frames);
    match events.into_iter().last() {
        Some(Event::Completed(completion)) => *completion,
        other => panic!("not completed but {other:?}, {failure:?}"),
    }
}

/// The events in short: what was told, block by block.
fn told(events: &[Event]) -> Vec<String> {
    let short = |event: &Event| match event {
        Event::Started { id, .. } => format!("start {id}"),
        Event::Text { index, text } => format!("{index} text {text}"),
        Event::Refusal { index, text } => format!("{index} refusal {text}"),
        Event::Reasoning { index, text } => format!("{index} reasoning {text}"),
        Event::ToolCall { index, start } => format!("{index} call {} {}", start.id, start.name),
        Event::ToolArguments { index, text } => format!("{index} arguments {text}"),
        Event::Closed { index, part } => {
            format!("{index} closed{}", if part.is_some() { " whole" } else { "" })
        }
        Event::KeepAlive => "alive".to_owned(),
        Event::Completed(_) => "completed".to_owned(),
        other => panic!("never told here: {other:?}"),
    };
    events.iter().map(short).collect()
}
