//! Sampling and limits, both ways.

use serde_json::Value;

use crate::chat::{Effort, Options, ReasoningOptions, ToolChoice};
use crate::protocol::field::{Field, TEMPERATURE, TOP_K, TOP_P};
use crate::protocol::json::Fields;
use crate::protocol::{OutputCap, Target};

/// The names of the cap on output, the one we write by ourselves first.
const CAPS: [&str; 2] = ["max_completion_tokens", "max_tokens"];

/// The fields that tell how hard to think, the one we write by ourselves first.
const THINKING: [&str; 2] = ["reasoning_effort", "reasoning"];

/// Budgets of thinking up to these many tokens are called low and medium; above, high.
const BUDGETS: [(u64, &str); 2] = [(2_048, "low"), (8_192, "medium")];

const FIELDS: [Field; 7] = [
    TEMPERATURE,
    TOP_P,
    TOP_K,
    Field { name: "stop", read: read_stop, write: write_stop },
    Field {
        name: "seed",
        read: |value, options| options.seed = value.as_i64(),
        write: |options| options.seed.map(Value::from),
    },
    Field { name: "tool_choice", read: read_choice, write: write_choice },
    Field {
        name: "parallel_tool_calls",
        read: |value, options| options.parallel_tool_calls = value.as_bool(),
        write: |options| options.parallel_tool_calls.map(Value::Bool),
    },
];

/// Takes the options out of a request. A field that we would spell otherwise stays, to be spelled so again.
pub(super) fn take(fields: &mut Fields) -> Options {
    let mut options = Options::default();
    FIELDS.iter().for_each(|field| field.take(fields, &mut options));
    options.max_output_tokens = caps(fields).map(|(_, cap)| cap).max();
    options.reasoning = effort(fields).map(ReasoningOptions::new);
    if fields.get("reasoning_effort").is_some_and(Value::is_string) && !fields.contains_key("reasoning") {
        fields.remove("reasoning_effort");
    }
    options
}

/// Writes the options, each as it was spelled if its meaning is unchanged. `foreign` tells that the request was read
/// from another protocol.
pub(super) fn write(
    options: &Options,
    kept: &Fields,
    (target, foreign): (&Target<'_>, bool),
    into: &mut Fields,
) {
    // The first party has no `top_k`; it goes out only to those who asked for it.
    for field in FIELDS.iter().filter(|field| !(foreign && field.name == TOP_K.name)) {
        let spelled = field.spell(options, kept.get(field.name));
        into.extend(spelled.map(|value| (field.name.to_owned(), value)));
    }
    write_caps(options.max_output_tokens, kept, target, into);
    write_effort(options.reasoning.as_ref(), kept, into);
}

/// Whether a field holds an option, so that only [`write`] writes it.
pub(super) fn is_option(name: &str) -> bool {
    FIELDS.iter().any(|field| field.name == name) || CAPS.contains(&name) || THINKING.contains(&name)
}

fn read_stop(value: &Value, options: &mut Options) {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    options.stop = match value {
        Value::Array(texts) => texts.iter().map(text).collect::<Option<_>>().unwrap_or_default(),
        value => text(value).into_iter().collect(),
    };
}

fn write_stop(options: &Options) -> Option<Value> {
    (!options.stop.is_empty()).then(|| Value::from(options.stop.clone()))
}

fn read_choice(value: &Value, options: &mut Options) {
    options.tool_choice = match value.as_str() {
        Some("auto") => Some(ToolChoice::Auto),
        Some("none") => Some(ToolChoice::None),
        Some("required" | "any") => Some(ToolChoice::Required),
        _ => named(value).map(|name| ToolChoice::Named(name.to_owned())),
    };
}

fn named(value: &Value) -> Option<&str> {
    value.get("function")?.get("name")?.as_str()
}

fn write_choice(options: &Options) -> Option<Value> {
    Some(match options.tool_choice.as_ref()? {
        ToolChoice::Auto => Value::from("auto"),
        ToolChoice::None => Value::from("none"),
        ToolChoice::Required => Value::from("required"),
        ToolChoice::Named(name) => Value::from_iter([
            ("type", Value::from("function")),
            ("function", Value::from_iter([("name", name.as_str())])),
        ]),
    })
}

/// The caps declared, by name.
fn caps(fields: &Fields) -> impl Iterator<Item = (&'static str, u64)> {
    CAPS.into_iter().filter_map(|name| Some((name, fields.get(name)?.as_u64()?)))
}

/// Writes the cap under the name the dialect demands; else under the names it came with, the largest of which is the
/// option; else under the newer name.
fn write_caps(cap: Option<u64>, kept: &Fields, target: &Target<'_>, into: &mut Fields) {
    let demanded = target.dialect.output_cap.map(|name| match name {
        OutputCap::MaxTokens => "max_tokens",
        OutputCap::MaxCompletionTokens => "max_completion_tokens",
    });
    let largest = caps(kept).map(|(_, cap)| cap).max();
    match (cap, demanded) {
        (Some(cap), Some(name)) => {
            into.insert(name.to_owned(), Value::from(cap));
        }
        (Some(cap), None) => {
            let came =
                caps(kept).map(|(name, own)| (name, if Some(own) == largest { cap } else { own.min(cap) }));
            into.extend(came.map(|(name, cap)| (name.to_owned(), Value::from(cap))));
            if largest.is_none() {
                into.insert(CAPS[0].to_owned(), Value::from(cap));
            }
        }
        (None, _) => {}
    }
    // A cap that is no count (null, -1) means what it means to the provider.
    if demanded.is_none() && (cap.is_some() || largest.is_none()) {
        for name in CAPS.into_iter().filter(|name| !kept.get(*name).is_some_and(Value::is_u64)) {
            if !into.contains_key(name) {
                into.extend(kept.get(name).map(|raw| (name.to_owned(), raw.clone())));
            }
        }
    }
}

fn effort(fields: &Fields) -> Option<Effort> {
    let named = |name: &str| if name == "none" { Effort::Off } else { Effort::Named(name.to_owned()) };
    if let Some(name) = fields.get("reasoning_effort").and_then(Value::as_str) {
        return Some(named(name));
    }
    let object = fields.get("reasoning")?.as_object()?;
    let enabled = object.get("enabled").and_then(Value::as_bool);
    match (object.get("effort").and_then(Value::as_str), object.get("max_tokens").and_then(Value::as_u64)) {
        _ if enabled == Some(false) => Some(Effort::Off),
        (Some(name), _) => Some(named(name)),
        (None, Some(tokens)) => Some(Effort::Tokens(tokens)),
        (None, None) => enabled.map(|_| Effort::Adaptive),
    }
}

fn write_effort(reasoning: Option<&ReasoningOptions>, kept: &Fields, into: &mut Fields) {
    let asked = reasoning.and_then(|reasoning| reasoning.effort.as_ref());
    if effort(kept).as_ref() == asked {
        for name in THINKING {
            into.extend(kept.get(name).map(|raw| (name.to_owned(), raw.clone())));
        }
        return;
    }
    let word = match asked {
        None | Some(Effort::Adaptive) => return,
        Some(Effort::Off) => "none",
        Some(Effort::Named(name)) => name,
        Some(Effort::Tokens(budget)) => {
            BUDGETS.iter().find(|(most, _)| budget <= most).map_or("high", |(_, word)| word)
        }
    };
    into.insert(THINKING[0].to_owned(), Value::from(word));
}
