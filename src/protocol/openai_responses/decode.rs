//! A whole reply.

use serde_json::Value;

use crate::chat::{Completion, Extra, Message, Role};
use crate::failure::{Code, Failure};
use crate::protocol::errors;
use crate::protocol::json::{self, string};
use crate::time::Wall;

use super::wire::{parts, stop, usage};

/// Reads a whole reply. Blanks before it are skipped.
///
/// # Errors
/// The failure that it carries, or `INVALID_RESPONSE` for what is not a reply.
pub fn decode(body: &[u8], wall: Wall) -> Result<Completion, Failure> {
    let reply = json::whole(body)?;
    if errors::has_error(&reply) || string(&reply, "type") == "error" {
        return Err(errors::in_band(&reply, wall.unix()));
    }
    if reply.get("output").is_none() && reply.get("status").is_none() {
        return Err(Failure::new(Code::InvalidResponse, "the reply has neither output nor a status"));
    }
    let items = reply.get("output").and_then(Value::as_array).into_iter().flatten();
    let message = Message::new(Role::Assistant, items.flat_map(parts).collect());
    let calls = message.tool_calls().next().is_some();
    Ok(Completion {
        stop: stop(&reply, calls, wall)?,
        message,
        usage: usage(&reply),
        id: string(&reply, "id").into(),
        model: string(&reply, "model").into(),
        extra: Extra::NONE,
    })
}
