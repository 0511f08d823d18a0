//! A whole reply.

use serde_json::Value;

use crate::chat::{Completion, Extra, Message, Role, Stop};
use crate::failure::{Code, Failure};
use crate::protocol::errors;
use crate::protocol::json::{self, string};
use crate::time::Wall;

use super::wire::{Figures, block, stop};

/// Reads a whole reply. Blanks before it are skipped.
///
/// # Errors
/// The failure that it carries, or `INVALID_RESPONSE` for what is not a reply.
pub fn decode(body: &[u8], wall: Wall) -> Result<Completion, Failure> {
    let reply = json::whole(body)?;
    if errors::has_error(&reply) || string(&reply, "type") == "error" {
        return Err(errors::in_band(&reply, wall.unix()));
    }
    let Some(blocks) = reply.get("content").and_then(Value::as_array) else {
        return Err(Failure::new(Code::InvalidResponse, "the reply has no content"));
    };
    let parts = blocks.iter().filter_map(Value::as_object).cloned().map(block).collect();
    let mut figures = Figures::default();
    if let Some(usage) = reply.get("usage") {
        figures.update(usage);
    }
    let sequence = reply.get("stop_sequence").and_then(Value::as_str);
    let stop = reply
        .get("stop_reason")
        .and_then(Value::as_str)
        .map_or(Stop::Unknown, |reason| stop(reason, sequence));
    Ok(Completion {
        message: Message::new(Role::Assistant, parts),
        stop,
        usage: figures.usage(),
        id: string(&reply, "id").into(),
        model: string(&reply, "model").into(),
        extra: Extra::NONE,
    })
}
