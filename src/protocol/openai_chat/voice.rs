//! What a delta that says one thing says.

use super::wire::{Choice, Chunk, Delta, Fragment, Function, Str};

/// As what a text is said.
#[derive(Clone, Copy, Debug)]
pub(super) enum Voice {
    Text,
    /// A thought, and the field it came in, if not the usual one.
    Thought(Option<&'static str>),
    /// Arguments of a call that is known by its index.
    Arguments(Option<u64>),
}

// === impl Voice ===

impl Voice {
    /// The only text that a chunk says, and as what; `None` if it says more, or nothing.
    ///
    /// Every field is named here: one that is added must be thought of.
    pub(super) fn only<'a>(chunk: &'a Chunk<'_>) -> Option<(&'a str, Self)> {
        let Chunk { id: _, model: _, choices, usage: None, x_groq: None, error: None } = chunk else {
            return None;
        };
        let Choice { index: _, delta: Some(delta), message: None, finish_reason, usage: None, error: None } =
            choices.as_ref()?.0.as_ref()?
        else {
            return None;
        };
        let Delta {
            content,
            reasoning_content,
            reasoning,
            refusal,
            tool_calls,
            function_call: None,
            reasoning_details: None,
            annotations: None,
            audio: None,
            thinking: None,
        } = &**delta
        else {
            return None;
        };
        let arguments = match tool_calls.as_deref().unwrap_or_default() {
            [] => None,
            [fragment] => Some(arguments(fragment)?),
            _ => return None,
        };
        let text = |voice: Self, text| Some((Str::of(text), voice)).filter(|(text, _)| !text.is_empty());
        let mut said = [
            text(Self::Text, content),
            text(Self::Thought(None), reasoning_content),
            text(Self::Thought(Some("reasoning")), reasoning),
            arguments,
        ]
        .into_iter()
        .flatten();
        let only = said.next();
        let plain = Str::of(refusal).is_empty() && Str::of(finish_reason).is_empty();
        only.filter(|_| plain && said.next().is_none())
    }
}

/// The arguments of a fragment that brings nothing else.
fn arguments<'a>(fragment: &'a Fragment<'_>) -> Option<(&'a str, Voice)> {
    let Fragment { index, id, function: Some(function), extra_content: None, legacy: false } = fragment
    else {
        return None;
    };
    let Function { name, arguments } = function;
    let named = !Str::of(id).is_empty() || !Str::of(name).is_empty();
    let arguments = Str::of(arguments);
    (!named && !arguments.is_empty()).then_some((arguments, Voice::Arguments(*index)))
}
