//! What a model does not take is left out, what it limits is clamped, what it demands is supplied; all of it told.

use crate::chat::{Content, Parts, Request};
use crate::event::{Change, Fact, Facts};
use crate::protocol::Target;

use super::model::Model;

/// Adapts a request to a model. It is copied only if something changes.
pub(super) fn adapt(
    request: &mut Request,
    model: Option<&Model>,
    mut told: impl FnMut(&'static str, Change),
) {
    let Some(model) = model else { return };
    for option in &model.rejects {
        if let Some((name, take)) = OPTIONS.iter().find(|(name, _)| name == option) {
            // Looked at in a copy of the options alone, which holds no conversation.
            let mut probe = Parts { options: request.options.clone(), ..Parts::default() };
            if take(&mut probe) {
                take(request.edit());
                told(name, Change::Dropped);
            }
        }
    }
    match (request.options.max_output_tokens, model.max_output, model.default_output) {
        (Some(asked), Some(most), _) if asked > most => {
            request.edit().options.max_output_tokens = Some(most);
            told("max_output_tokens", Change::Clamped);
        }
        (None, _, Some(default)) => {
            request.edit().options.max_output_tokens = Some(default);
            told("max_output_tokens", Change::Supplied);
        }
        _ => {}
    }
}

/// Takes an option out; says whether it was there.
type Take = fn(&mut Parts) -> bool;

/// The options a model may reject, by name.
const OPTIONS: [(&str, Take); 8] = [
    ("temperature", |parts| parts.options.temperature.take().is_some()),
    ("top_p", |parts| parts.options.top_p.take().is_some()),
    ("top_k", |parts| parts.options.top_k.take().is_some()),
    ("stop", |parts| !std::mem::take(&mut parts.options.stop).is_empty()),
    ("seed", |parts| parts.options.seed.take().is_some()),
    ("parallel_tool_calls", |parts| parts.options.parallel_tool_calls.take().is_some()),
    ("tool_choice", |parts| parts.options.tool_choice.take().is_some()),
    ("reasoning", |parts| parts.options.reasoning.take().is_some()),
];

/// Whether an option of this name can be rejected.
pub(super) fn is_option(name: &str) -> bool {
    OPTIONS.iter().any(|(known, _)| *known == name)
}

/// Tells that replay state of another provider will not be sent.
pub(super) fn tell_stripped(request: &Request, target: &Target<'_>, provider: &str, facts: &Facts) {
    use crate::chat::Ask;
    let foreign =
        request.messages.iter().flat_map(|message| &message.parts).any(|part| match &part.content {
            Content::Reasoning(reasoning) => !target.owns(reasoning),
            _ => false,
        });
    if foreign {
        let call = request.call().id;
        facts.emit(&Fact::Adapted { call, provider, option: "reasoning", change: Change::Stripped });
    }
}
