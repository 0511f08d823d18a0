//! The account of one request, closed once; and its span.
//!
//! The span is named `chat MODEL` and carries the attributes that OpenTelemetry's conventions for generative AI name:
//! `gen_ai.operation.name`, `gen_ai.provider.name`, `gen_ai.request.model`, `server.address`, and at its end
//! `gen_ai.usage.input_tokens`, `gen_ai.usage.output_tokens`, `gen_ai.usage.cache_read.input_tokens`,
//! `gen_ai.usage.cache_creation.input_tokens`, `gen_ai.server.time_to_first_token` in seconds, and `error.type`, which is the code of
//! the failure. It holds nothing of the conversation.

use std::sync::Arc;
use std::time::Duration;

use tracing::field::Empty;
use tracing::{Span, info_span};

use crate::chat::{CallId, End, Observer, Sign, Usage};
use crate::event::{Fact, Facts};
use crate::time::{Instant, now};

/// Tells how one request to a provider ended: [`Fact::Settled`].
#[derive(Debug)]
pub struct Settlement {
    facts: Facts,
    call: CallId,
    provider: Arc<str>,
    started: Instant,
    first_output: Option<Duration>,
    /// What was told before the end.
    used: Option<Usage>,
    span: Span,
}

// === impl Settlement ===

impl Settlement {
    pub(super) fn new(facts: &Facts, call: CallId, provider: &Arc<str>, span: Span) -> Self {
        let (facts, provider) = (facts.clone(), Arc::clone(provider));
        Self { facts, call, provider, started: now(), first_output: None, used: None, span }
    }

    /// Writes the end into the span.
    fn close(&self, how: End<'_>, usage: Option<Usage>) {
        if self.span.is_disabled() {
            return;
        }
        if let End::Failed(failure) = how {
            self.span.record("error.type", failure.code().as_str());
            self.span.record("otel.status_code", "ERROR");
        }
        if let Some(first) = self.first_output {
            self.span.record("gen_ai.server.time_to_first_token", first.as_secs_f64());
        }
        if let Some(usage) = usage {
            self.span.record("gen_ai.usage.input_tokens", usage.input);
            self.span.record("gen_ai.usage.output_tokens", usage.output);
            self.span.record("gen_ai.usage.cache_read.input_tokens", usage.cached_read);
            self.span.record("gen_ai.usage.cache_creation.input_tokens", usage.cached_write);
        }
    }
}

/// The span of a request to this provider, while it lasts.
pub(super) fn span(provider: &str, model: &str, host: Option<&str>, call: CallId) -> Span {
    info_span!(
        target: "watertight",
        "chat",
        otel.name = format_args!("chat {model}"),
        otel.kind = "client",
        otel.status_code = Empty,
        gen_ai.operation.name = "chat",
        gen_ai.provider.name = provider,
        gen_ai.request.model = model,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        gen_ai.usage.cache_read.input_tokens = Empty,
        gen_ai.usage.cache_creation.input_tokens = Empty,
        gen_ai.server.time_to_first_token = Empty,
        server.address = host,
        error.type = Empty,
        %call,
    )
}

impl Observer for Settlement {
    fn see(&mut self, sign: Sign) {
        if self.first_output.is_none() && matches!(sign, Sign::Output(_)) {
            self.first_output = Some(self.started.elapsed());
        }
    }

    fn note(&mut self, usage: &Usage) {
        self.used = Some(*usage);
    }

    fn settle(self, how: End<'_>) {
        let usage = match how {
            End::Completed(usage) => usage.or(self.used),
            End::Failed(_) | End::Abandoned => self.used,
        };
        self.close(how, usage);
        self.facts.emit(&Fact::Settled {
            call: self.call,
            provider: &self.provider,
            outcome: how.into(),
            usage,
            first_output: self.first_output,
            elapsed: self.started.elapsed(),
        });
    }
}
