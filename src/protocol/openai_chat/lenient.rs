//! A chunk that does not fit its shape, read as well as can be; and errors that travel inside.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use serde_json::Value;

use crate::protocol::json::Fields;

use super::wire::{
    Aside, Choice, Chunk, CompletionDetails, Delta, Figures, First, Fragment, Function, PromptDetails, Str,
};

/// The part of a frame or body that tells of an error, if one does.
///
/// It may be an `error` of any kind that is not empty, at the top or in the first choice; a frame that calls itself an
/// error; or, where there are no choices, a bare message. Some wrap it into a list.
pub(super) fn error_in(frame: &Value) -> Option<&Value> {
    let object = match frame {
        Value::Array(items) => return error_in(items.first().filter(|item| item.is_object())?),
        frame => frame.as_object()?,
    };
    let says = |name: &str| object.get(name).and_then(Value::as_str) == Some("error");
    if object.get("error").is_some_and(is_something) || says("type") || says("object") {
        return Some(frame);
    }
    let Some(choices) = object.get("choices").and_then(Value::as_array) else {
        let message = object.get("message").is_some_and(Value::is_string);
        let coded = ["code", "status", "type"].into_iter().any(|name| object.contains_key(name));
        let bare = message && (coded || object.len() == 1) || object.contains_key("detail");
        return bare.then_some(frame);
    };
    choices
        .iter()
        .find(|choice| number(choice.get("index")).unwrap_or(0) == 0)
        .filter(|choice| choice.get("error").is_some_and(is_something))
}

/// Reads a chunk from a frame of any shape.
pub(super) fn chunk(frame: &Value) -> Chunk<'_> {
    let mut first = First::default();
    let choices = frame.get("choices").and_then(Value::as_array);
    for item in choices.into_iter().flatten() {
        first.offer(choice(item));
    }
    Chunk {
        id: text(frame.get("id")),
        model: text(frame.get("model")),
        choices: choices.map(|_| first),
        usage: figures(frame.get("usage")).map(Box::new),
        x_groq: frame
            .get("x_groq")
            .map(|aside| Box::new(Aside { usage: figures(aside.get("usage")).map(Box::new) })),
        error: None,
    }
}

/// Figures from any object.
pub(super) fn figures(value: Option<&Value>) -> Option<Figures> {
    let object = value?.as_object()?;
    let prompt = object.get("prompt_tokens_details");
    let completion = object.get("completion_tokens_details");
    let of = |part: Option<&Value>, name: &str| number(part?.get(name));
    Some(Figures {
        prompt_tokens: number(object.get("prompt_tokens").or_else(|| object.get("input_tokens"))),
        completion_tokens: number(object.get("completion_tokens").or_else(|| object.get("output_tokens"))),
        total_tokens: number(object.get("total_tokens")),
        prompt_tokens_details: Some(PromptDetails {
            cached_tokens: of(prompt, "cached_tokens"),
            cache_write_tokens: of(prompt, "cache_write_tokens"),
        }),
        completion_tokens_details: Some(CompletionDetails {
            reasoning_tokens: of(completion, "reasoning_tokens"),
        }),
        prompt_cache_hit_tokens: number(object.get("prompt_cache_hit_tokens")),
        cached_tokens: number(object.get("cached_tokens")),
    })
}

/// The thoughts in a list of content parts, joined; `None` if there are none.
pub(super) fn thoughts(part: &Value) -> Option<String> {
    (part.get("type")?.as_str()? == "thinking").then(|| match part.get("thinking") {
        Some(Value::Array(pieces)) => pieces.iter().filter_map(|piece| piece.get("text")?.as_str()).collect(),
        thinking => thinking.and_then(Value::as_str).unwrap_or_default().to_owned(),
    })
}

fn choice(value: &Value) -> Choice<'_> {
    Choice {
        index: number(value.get("index")),
        delta: value.get("delta").and_then(Value::as_object).map(|it| Box::new(delta(it))),
        message: value.get("message").and_then(Value::as_object).map(|turn| Box::new(delta(turn))),
        finish_reason: text(value.get("finish_reason")),
        usage: figures(value.get("usage")).map(Box::new),
        error: None,
    }
}

fn delta(object: &Fields) -> Delta<'_> {
    let list = |name: &str| object.get(name).and_then(Value::as_array);
    let content = object.get("content");
    let parts = content.and_then(Value::as_array);
    let spoken = parts.map(|parts| {
        let texts = parts.iter().filter_map(|part| part.as_str().or_else(|| part.get("text")?.as_str()));
        Str(Cow::Owned(texts.collect()))
    });
    let thinking = parts.map(|parts| Box::new(Str(Cow::Owned(parts.iter().filter_map(thoughts).collect()))));
    Delta {
        content: spoken.or_else(|| text(content)),
        reasoning_content: text(object.get("reasoning_content")),
        reasoning: text(object.get("reasoning")),
        refusal: text(object.get("refusal")),
        tool_calls: list("tool_calls").map(|calls| calls.iter().map(fragment).collect()),
        function_call: object
            .get("function_call")
            .filter(|call| call.is_object())
            .map(|call| Box::new(function(call))),
        reasoning_details: list("reasoning_details").map(|list| list.as_slice().into()),
        annotations: list("annotations").map(|list| list.as_slice().into()),
        audio: object.get("audio").filter(|audio| audio.is_object()).map(|_| IgnoredAny),
        thinking,
    }
}

fn fragment(value: &Value) -> Fragment<'_> {
    Fragment {
        index: number(value.get("index")),
        id: text(value.get("id")),
        function: value.get("function").map(function),
        extra_content: value.get("extra_content").filter(|extra| !extra.is_null()).cloned(),
        legacy: false,
    }
}

fn function(value: &Value) -> Function<'_> {
    Function {
        name: text(value.get("name")),
        arguments: match value.get("arguments") {
            Some(whole @ (Value::Object(_) | Value::Array(_))) => Some(Str(Cow::Owned(whole.to_string()))),
            arguments => text(arguments),
        },
    }
}

/// A string, or a number where a string belongs.
fn text(value: Option<&Value>) -> Option<Str<'_>> {
    match value? {
        Value::String(text) => Some(Str(Cow::Borrowed(text))),
        Value::Number(number) => Some(Str(Cow::Owned(number.to_string()))),
        _ => None,
    }
}

/// A count: an integer, a decimal without a fraction, or either in a string.
fn number(value: Option<&Value>) -> Option<u64> {
    match value? {
        Value::Number(number) => number.as_u64().or_else(|| whole(number.as_f64()?)),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

fn whole(number: f64) -> Option<u64> {
    let fits = number >= 0.0 && number <= f64::from(u32::MAX) && number.fract() == 0.0;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked in the line above")]
    fits.then_some(number as u64)
}

fn is_something(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Object(object) => !object.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Bool(true) | Value::Number(_) => true,
    }
}
