//! A whole reply.

use serde_json::Value;

use crate::chat::{Completion, Message, Role};
use crate::failure::{Code, Failure};
use crate::protocol::errors;
use crate::protocol::json::{self, string};
use crate::time::Wall;

use super::output;

/// Reads a whole reply. Blanks before it are skipped.
///
/// # Errors
/// The failure that it carries, or `INVALID_RESPONSE` for what is not a reply.
pub fn decode(body: &[u8], wall: Wall) -> Result<Completion, Failure> {
    let mut reply = json::whole(body)?;
    let bare = reply.get("output").is_none() && reply.get("status").is_none();
    if errors::has_error(&reply) || (bare && reply.get("message").is_some_and(Value::is_string)) {
        return Err(errors::in_band(&reply, wall.unix()));
    }
    if bare {
        return Err(Failure::new(Code::InvalidResponse, "the reply has neither output nor a status"));
    }
    let items = match reply.get_mut("output").map(Value::take) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    };
    let mut message = Message::new(Role::Assistant, items.into_iter().flat_map(output::parts).collect());
    message.fill_arguments();
    let calls = message.tool_calls().next().is_some();
    let stop = output::stop(&reply, "", calls, wall)?;
    let mut completion = Completion::new(message, stop, output::usage(&reply));
    completion.id = string(&reply, "id").into();
    completion.model = string(&reply, "model").into();
    completion.extra = output::beside(reply);
    Ok(completion)
}
