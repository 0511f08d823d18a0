//! Pieces of `reasoning_details`, put together.

use serde_json::Value;

use crate::protocol::json::Fields;

/// The fields whose pieces are joined; others are set once.
const JOINED: [&str; 2] = ["text", "summary"];

/// Adds a piece: to the last detail, if that is of the same type and index and of a type that comes in pieces.
pub(super) fn add(details: &mut Vec<Value>, piece: Value) {
    let Value::Object(piece) = piece else { return };
    match details.last_mut().and_then(Value::as_object_mut) {
        Some(last) if belongs(last, &piece) => join(last, piece),
        _ => details.push(Value::Object(piece)),
    }
}

fn belongs(last: &Fields, piece: &Fields) -> bool {
    let kind = |detail: &Fields| detail.get("type").and_then(Value::as_str).map(str::to_owned);
    let comes_in_pieces = matches!(kind(piece).as_deref(), Some("reasoning.text" | "reasoning.summary"));
    comes_in_pieces && kind(last) == kind(piece) && last.get("index") == piece.get("index")
}

fn join(last: &mut Fields, piece: Fields) {
    for (name, value) in piece {
        match (last.get_mut(&name), value) {
            (_, Value::Null) => {}
            (Some(Value::String(all)), Value::String(more)) if JOINED.contains(&name.as_str()) => {
                all.push_str(&more);
            }
            (None | Some(Value::Null), value) => {
                last.insert(name, value);
            }
            (Some(_), _) => {}
        }
    }
}
