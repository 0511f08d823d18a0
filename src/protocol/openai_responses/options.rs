//! Sampling and limits, both ways.

use serde_json::{Map, Number, Value};

use crate::chat::{Effort, Extra, Options, ReasoningOptions, ToolChoice};
use crate::failure::Failure;
use crate::protocol::json::{Fields, refuse, take_text};

use super::RESPONSES;
use super::part::{self, object};

/// Budgets of thinking up to these many tokens are called low and medium; above, high.
const BUDGETS: [(u64, &str); 2] = [(2_048, "low"), (8_192, "medium")];

/// Takes the options out of a request. What is null, or has no word of ours, stays.
///
/// # Errors
/// One is of a wrong type.
pub(super) fn take(fields: &mut Fields) -> Result<Options, Failure> {
    let wrong = |name: &str, why: &str| Err(refuse(name, why));
    let mut options = Options {
        temperature: number(fields, "temperature")?,
        top_p: number(fields, "top_p")?,
        tool_choice: choice(fields),
        reasoning: reasoning(fields),
        ..Options::default()
    };
    match fields.get("max_output_tokens") {
        None | Some(Value::Null) => {}
        Some(cap) => match cap.as_u64() {
            Some(cap) => {
                options.max_output_tokens = Some(cap);
                fields.remove("max_output_tokens");
            }
            None => return wrong("max_output_tokens", "must be a whole number"),
        },
    }
    match fields.get("parallel_tool_calls") {
        None | Some(Value::Null) => {}
        Some(Value::Bool(parallel)) => {
            options.parallel_tool_calls = Some(*parallel);
            fields.remove("parallel_tool_calls");
        }
        Some(_) => return wrong("parallel_tool_calls", "must be true or false"),
    }
    Ok(options)
}

/// A number. A whole one stays, to be spelled so again.
fn number(fields: &mut Fields, name: &str) -> Result<Option<f64>, Failure> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Number(number)) => {
            let value = number.as_f64();
            if number.is_f64() {
                fields.remove(name);
            }
            Ok(value)
        }
        Some(_) => Err(refuse(name, "must be a number")),
    }
}

fn choice(fields: &mut Fields) -> Option<ToolChoice> {
    let choice = match fields.get("tool_choice")? {
        Value::String(word) => match word.as_str() {
            "auto" => ToolChoice::Auto,
            "none" => ToolChoice::None,
            "required" => ToolChoice::Required,
            _ => return None,
        },
        Value::Object(named) if named.len() == 2 && named.get("type")? == "function" => {
            ToolChoice::Named(named.get("name")?.as_str()?.to_owned())
        }
        _ => return None,
    };
    fields.remove("tool_choice");
    Some(choice)
}

fn reasoning(fields: &mut Fields) -> Option<ReasoningOptions> {
    if !fields.get("reasoning")?.is_object() {
        return None;
    }
    let Some(Value::Object(mut said)) = fields.remove("reasoning") else { return None };
    let effort = take_text(&mut said, "effort").map(|word| match word.as_str() {
        "none" => Effort::Off,
        _ => Effort::Named(word),
    });
    Some(ReasoningOptions { effort, extra: Extra::rest(RESPONSES, said) })
}

/// Writes the options. `kept` holds what stayed when they were read.
///
/// # Errors
/// A number that JSON cannot hold.
pub(super) fn write(options: &Options, kept: &Extra, native: bool, into: &mut Fields) -> Result<(), Failure> {
    for (name, value) in [("temperature", options.temperature), ("top_p", options.top_p)] {
        let Some(value) = value else { continue };
        let same = |spelled: &&Value| spelled.as_f64().is_some_and(|told| told.to_bits() == value.to_bits());
        let written = match kept.get(RESPONSES, name).filter(same) {
            Some(spelled) => spelled.clone(),
            None => match Number::from_f64(value) {
                Some(number) => Value::Number(number),
                None => return Err(refuse(name, "must be a finite number")),
            },
        };
        into.insert(name.to_owned(), written);
    }
    let choice = options.tool_choice.as_ref().map(|choice| match choice {
        ToolChoice::Auto => Value::from("auto"),
        ToolChoice::None => Value::from("none"),
        ToolChoice::Required => Value::from("required"),
        ToolChoice::Named(name) => Value::Object(object("function", "name", name)),
    });
    let more = [
        ("max_output_tokens", options.max_output_tokens.map(Value::from)),
        ("parallel_tool_calls", options.parallel_tool_calls.map(Value::Bool)),
        ("tool_choice", choice),
        ("reasoning", options.reasoning.as_ref().and_then(|reasoning| reasoning_out(reasoning, native))),
    ];
    into.extend(more.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    Ok(())
}

/// Whether a kept field is only the spelling of an option.
pub(super) fn is_spelling(name: &str, value: &Value) -> bool {
    matches!(name, "temperature" | "top_p") && value.is_number()
}

fn reasoning_out(reasoning: &ReasoningOptions, native: bool) -> Option<Value> {
    let effort = match reasoning.effort.as_ref() {
        Some(Effort::Named(word)) => Some(word.as_str()),
        Some(Effort::Off) => Some("none"),
        Some(Effort::Tokens(budget)) => {
            let named = BUDGETS.iter().find(|(most, _)| budget <= most);
            Some(named.map_or("high", |(_, word)| *word))
        }
        Some(Effort::Adaptive) | None => None,
    };
    let mut fields = Map::new();
    fields.extend(effort.map(|word| ("effort".to_owned(), Value::from(word))));
    part::write_rest(&reasoning.extra, true, &mut fields);
    (native || !fields.is_empty()).then_some(Value::Object(fields))
}
