//! Sampling, limits and thinking, both ways.

use serde_json::{Map, Value};

use crate::chat::{Effort, Extra, Options, Parts, ReasoningOptions, ToolChoice};
use crate::protocol::field::{Field, TEMPERATURE, TOP_K, TOP_P};

use super::{Fields, MESSAGES};

/// The cap on output where a request has none, since the protocol demands one: what every model in use takes.
pub const DEFAULT_MAX_TOKENS: u64 = 4096;

/// The least budget of thinking that the protocol takes.
const MIN_BUDGET: u64 = 1024;

/// The cap on output.
const CAP: &str = "max_tokens";

const FIELDS: [Field; 6] = [
    Field {
        name: CAP,
        read: |value, options| options.max_output_tokens = value.as_u64(),
        write: |options| options.max_output_tokens.map(Value::from),
    },
    TEMPERATURE,
    TOP_P,
    TOP_K,
    Field { name: "stop_sequences", read: read_stop, write: write_stop },
    Field { name: "tool_choice", read: read_choice, write: write_choice },
];

/// Takes the options out of a request. A field that we would spell otherwise stays, to be spelled so again.
pub(super) fn take(fields: &mut Fields) -> Options {
    let mut options = Options::default();
    FIELDS.iter().for_each(|field| field.take(fields, &mut options));
    options.reasoning = take_reasoning(fields);
    options
}

/// Writes the options and what else was kept of the request, each option as it was spelled if its meaning is
/// unchanged.
pub(super) fn write(parts: &Parts, body: &mut Fields) {
    let options = &parts.options;
    let native = parts.protocol == Some(MESSAGES);
    // A choice among no tools is refused.
    let is_refused = |name: &str| name == "tool_choice" && parts.tools.is_empty() && !native;
    for field in FIELDS.iter().filter(|field| !is_refused(field.name)) {
        let spelled = field.spell(options, parts.extra.get(MESSAGES, field.name));
        body.extend(spelled.map(|value| (field.name.to_owned(), value)));
    }
    let kept = parts.extra.fields(MESSAGES).into_iter().flatten();
    for (name, value) in kept.filter(|(name, _)| FIELDS.iter().all(|field| field.name != **name)) {
        if !body.contains_key(name) {
            body.insert(name.clone(), value.clone());
        }
    }
    let effort = options.reasoning.as_ref().and_then(|reasoning| reasoning.effort.as_ref());
    if body.get(CAP).is_none_or(Value::is_null) {
        let budget = if let Some(Effort::Tokens(budget)) = effort { *budget } else { 0 };
        body.insert(CAP.to_owned(), Value::from(DEFAULT_MAX_TOKENS.saturating_add(budget)));
    }
    if let Some(reasoning) = &options.reasoning {
        write_reasoning(reasoning, options, body);
    }
}

fn read_stop(value: &Value, options: &mut Options) {
    let texts = value.as_array().map_or(&[][..], Vec::as_slice);
    options.stop =
        texts.iter().map(|text| text.as_str().map(str::to_owned)).collect::<Option<_>>().unwrap_or_default();
}

fn write_stop(options: &Options) -> Option<Value> {
    (!options.stop.is_empty()).then(|| Value::from(options.stop.clone()))
}

fn read_choice(value: &Value, options: &mut Options) {
    let text = |name: &str| value.get(name).and_then(Value::as_str);
    options.tool_choice = match text("type") {
        Some("auto") => Some(ToolChoice::Auto),
        Some("any") => Some(ToolChoice::Required),
        Some("none") => Some(ToolChoice::None),
        Some("tool") => text("name").map(|name| ToolChoice::Named(name.to_owned())),
        _ => None,
    };
    options.parallel_tool_calls =
        value.get("disable_parallel_tool_use").and_then(Value::as_bool).map(|off| !off);
}

fn write_choice(options: &Options) -> Option<Value> {
    let single = options.parallel_tool_calls == Some(false);
    let (kind, name) = match &options.tool_choice {
        Some(ToolChoice::Auto) => ("auto", None),
        Some(ToolChoice::Required) => ("any", None),
        Some(ToolChoice::Named(name)) => ("tool", Some(name)),
        Some(ToolChoice::None) => ("none", None),
        None if single => ("auto", None),
        None => return None,
    };
    let mut fields = Map::from_iter([("type".to_owned(), Value::from(kind))]);
    fields.extend(name.map(|name| ("name".to_owned(), Value::from(name.as_str()))));
    if single && kind != "none" {
        fields.insert("disable_parallel_tool_use".to_owned(), Value::Bool(true));
    }
    Some(Value::Object(fields))
}

/// Takes thinking and effort out of a request, if there is either. How they were spelled is kept beside them.
fn take_reasoning(fields: &mut Fields) -> Option<ReasoningOptions> {
    let config = fields.get("output_config");
    let asked = effort(fields.get("thinking"), config.and_then(|config| config.get("effort")))?;
    let mut reasoning = ReasoningOptions::new(asked);
    if fields.get("thinking").is_some_and(Value::is_object) {
        let thinking = fields.remove("thinking").unwrap_or_default();
        reasoning.extra.set(MESSAGES, "thinking", thinking);
    }
    if let Some(Value::Object(config)) = fields.get_mut("output_config")
        && config.get("effort").is_some_and(Value::is_string)
    {
        let effort = config.remove("effort").unwrap_or_default();
        reasoning.extra.set(MESSAGES, "effort", effort);
        if config.is_empty() {
            fields.remove("output_config");
        }
    }
    Some(reasoning)
}

/// What is asked of the model's thinking. A budget or a switch says more than a word beside it; of thinking as the
/// model sees fit, the word says how much.
fn effort(thinking: Option<&Value>, word: Option<&Value>) -> Option<Effort> {
    let named = word.and_then(Value::as_str).map(|word| Effort::Named(word.to_owned()));
    let thinking = thinking.filter(|thinking| thinking.is_object());
    let budget = thinking.and_then(|thinking| thinking.get("budget_tokens")?.as_u64());
    match thinking.map(|thinking| thinking.get("type").and_then(Value::as_str)) {
        None => named,
        Some(Some("disabled")) => Some(Effort::Off),
        Some(Some("enabled")) => budget.map(Effort::Tokens).or(named).or(Some(Effort::Adaptive)),
        Some(_) => named.or(Some(Effort::Adaptive)),
    }
}

fn write_reasoning(reasoning: &ReasoningOptions, options: &Options, body: &mut Fields) {
    let kept = |name: &str| reasoning.extra.get(MESSAGES, name).cloned();
    let (thinking, word) = (kept("thinking"), kept("effort"));
    let spelled = reasoning.extra != Extra::NONE
        && effort(thinking.as_ref(), word.as_ref()).as_ref() == reasoning.effort.as_ref();
    let (thinking, word) = if spelled { (thinking, word) } else { spell(reasoning, options, body) };
    body.extend(thinking.map(|thinking| ("thinking".to_owned(), thinking)));
    if let Some(word) = word {
        let config = body.entry("output_config").or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(config) = config {
            config.insert("effort".to_owned(), word);
        }
    }
}

/// Thinking and effort in this protocol's words: a word asks for thinking as the model sees fit, of that effort. A
/// budget must be smaller than the cap, and thinking and a forced call exclude each other.
fn spell(reasoning: &ReasoningOptions, options: &Options, body: &Fields) -> (Option<Value>, Option<Value>) {
    let cap = body.get(CAP).and_then(Value::as_u64).unwrap_or(DEFAULT_MAX_TOKENS);
    let forced = matches!(options.tool_choice, Some(ToolChoice::Required | ToolChoice::Named(_)));
    let of = |kind: &str| Value::from_iter([("type", kind)]);
    let adaptive = (!forced).then(|| of("adaptive"));
    match &reasoning.effort {
        None => (None, None),
        Some(Effort::Off) => (Some(of("disabled")), None),
        Some(Effort::Named(word)) if word == "none" => (Some(of("disabled")), None),
        Some(Effort::Named(word)) => {
            let word = if word == "minimal" { "low" } else { word };
            (adaptive, Some(Value::from(word)))
        }
        Some(Effort::Adaptive) => (adaptive, None),
        Some(Effort::Tokens(budget)) => {
            let fits = !forced && cap > MIN_BUDGET;
            let budget = |cap: u64| Value::from((*budget).clamp(MIN_BUDGET, cap - 1));
            let thinking =
                || Value::from_iter([("type", Value::from("enabled")), ("budget_tokens", budget(cap))]);
            (fits.then(thinking), None)
        }
    }
}
