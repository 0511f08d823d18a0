//! The default sink.

use ::tracing::level_filters::LevelFilter;
use ::tracing::{debug, info, warn};

use super::{Fact, Sink};

/// Writes facts as `tracing` events of the target `watertight`: decisions at `info`, failures at `warn`, the
/// ordinary course at `debug`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tracing;

impl Sink for Tracing {
    fn emit(&self, fact: &Fact<'_>) {
        // Two facts a layer and call: where nobody listens, they cost a look.
        if LevelFilter::current() == LevelFilter::OFF {
            return;
        }
        let name = fact.name();
        match *fact {
            Fact::RetryPlanned { call, retry_id, provider, policy, failure, delay, attempt, of } => {
                warn!(target: "watertight", %call, retry_id, provider, policy, %failure, ?delay, attempt, of, "{name}");
            }
            Fact::RetryRefused { call, failure, reason } => {
                warn!(target: "watertight", %call, %failure, ?reason, "{name}");
            }
            Fact::TimedOut { call, clock, after } => {
                warn!(target: "watertight", %call, ?clock, ?after, "{name}");
            }
            Fact::Crawling { call, rate } => warn!(target: "watertight", %call, rate, "{name}"),
            Fact::Skipped { call, candidate, failure } => {
                info!(target: "watertight", %call, candidate, %failure, "{name}");
            }
            Fact::FailedOver { call, from, to, failure } => {
                warn!(target: "watertight", %call, from, to, %failure, "{name}");
            }
            Fact::Moved { from, to, rest } => warn!(target: "watertight", from, to, ?rest, "{name}"),
            Fact::Reset { call, reason, failure, delay } => {
                warn!(target: "watertight", %call, ?reason, %failure, ?delay, "{name}");
            }
            Fact::Trial { call, candidate } | Fact::SprungBack { call, candidate } => {
                info!(target: "watertight", %call, candidate, "{name}");
            }
            Fact::Attempt { call, provider, model, attempt } => {
                debug!(target: "watertight", %call, provider, model, attempt, "{name}");
            }
            Fact::Adapted { call, provider, option, change } => {
                info!(target: "watertight", %call, provider, option, ?change, "{name}");
            }
            Fact::RetryStarted { call, retry_id } => {
                debug!(target: "watertight", %call, retry_id, "{name}");
            }
            Fact::Settled { call, provider, outcome, usage, first_output, elapsed } => {
                debug!(target: "watertight", %call, provider, ?outcome, ?usage, ?first_output, ?elapsed, "{name}");
            }
            Fact::Ended { call, outcome, level } => {
                debug!(target: "watertight", %call, ?outcome, level = level.as_str(), "{name}");
            }
            _ => gated(fact),
        }
    }
}

/// What gates and the degradation ladder tell.
fn gated(fact: &Fact<'_>) {
    let name = fact.name();
    match *fact {
        Fact::Admitted { call, gate, key, waited } => {
            debug!(target: "watertight", %call, gate, key, ?waited, "{name}");
        }
        Fact::Released { call, gate, key, outcome } => {
            debug!(target: "watertight", %call, gate, key, ?outcome, "{name}");
        }
        Fact::Refused { call, gate, key, failure } => {
            info!(target: "watertight", %call, gate, key, %failure, "{name}");
        }
        Fact::Transition { key, from, to, cause, rest } => {
            warn!(target: "watertight", key, ?from, ?to, cause, ?rest, "{name}");
        }
        Fact::Probe { call, key } => info!(target: "watertight", %call, key, "{name}"),
        Fact::CacheLost { key } => warn!(target: "watertight", key, "{name}"),
        Fact::Calibrated { key, dimension, limit, remaining } => {
            info!(target: "watertight", key, ?dimension, limit, remaining, "{name}");
        }
        Fact::Frozen { key, length } => warn!(target: "watertight", key, ?length, "{name}"),
        Fact::Slowed { key, share, length } => {
            warn!(target: "watertight", key, share, ?length, "{name}");
        }
        Fact::BudgetWarning { key, used, limit } => {
            warn!(target: "watertight", key, used, limit, "{name}");
        }
        Fact::Rung { call, rung, failure } => {
            let failure = failure.map(::tracing::field::display);
            info!(target: "watertight", %call, rung, failure, "{name}");
        }
        Fact::Degraded { call, rung, quality, failure } => {
            warn!(target: "watertight", %call, rung, quality, %failure, "{name}");
        }
        _ => {}
    }
}
