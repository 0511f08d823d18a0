//! The sink.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use metrics::{SharedString, counter, gauge, histogram};

use crate::chat::{Level, Outcome, Usage};
use crate::event::{Fact, Sink};

use super::labels;

/// How many names that come from traffic have a series of their own. A scrape of so many is a few hundred kilobytes;
/// a series for each user of an application would break any store.
pub const DEFAULT_MAX_LABELS: usize = 200;

/// What a name becomes that is one too many.
const OTHER: &str = "other";

/// Counts facts through the `metrics` facade. See the [module](super).
pub struct Metrics {
    names: Mutex<HashSet<Arc<str>>>,
    most: usize,
}

// === impl Metrics ===

impl Metrics {
    /// With so many different names in labels.
    #[must_use]
    pub fn with_max_labels(most: usize) -> Self {
        Self { names: Mutex::new(HashSet::new()), most }
    }

    /// A name as a label: shared, and bounded in number.
    fn name(&self, name: &str) -> SharedString {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = names.get(name) {
            return SharedString::from_shared(Arc::clone(known));
        }
        if names.len() >= self.most {
            return SharedString::const_str(OTHER);
        }
        let new: Arc<str> = name.into();
        names.insert(Arc::clone(&new));
        SharedString::from_shared(new)
    }

    fn settled(&self, provider: &str, how: Outcome, first: Option<Duration>, elapsed: Duration) {
        let (provider, outcome) = (self.name(provider), labels::outcome(how));
        counter!("watertight_settled_total", "provider" => provider.clone(), "outcome" => outcome)
            .increment(1);
        histogram!("watertight_settled_seconds", "provider" => provider.clone(), "outcome" => outcome)
            .record(elapsed);
        if let Some(first) = first {
            histogram!("watertight_first_output_seconds", "provider" => provider).record(first);
        }
    }

    fn used(&self, provider: &str, usage: Usage) {
        for (kind, tokens) in [
            ("input", usage.input),
            ("cached_read", usage.cached_read),
            ("cached_write", usage.cached_write),
            ("output", usage.output),
            ("reasoning", usage.reasoning),
        ] {
            counter!("watertight_tokens_total", "provider" => self.name(provider), "kind" => kind)
                .increment(tokens);
        }
    }

    /// What gates tell, and the ladder.
    fn gated(&self, fact: &Fact<'_>) {
        match *fact {
            Fact::Admitted { gate, key, waited, .. } => {
                let key = self.name(key);
                counter!("watertight_admitted_total", "gate" => gate, "key" => key.clone()).increment(1);
                gauge!("watertight_in_flight", "gate" => gate, "key" => key.clone()).increment(1.0);
                if !waited.is_zero() {
                    histogram!("watertight_wait_seconds", "gate" => gate, "key" => key).record(waited);
                }
            }
            Fact::Released { gate, key, .. } => {
                gauge!("watertight_in_flight", "gate" => gate, "key" => self.name(key)).decrement(1.0);
            }
            Fact::Refused { gate, key, failure, .. } => {
                let (key, code) = (self.name(key), failure.code().as_str());
                counter!("watertight_refused_total", "gate" => gate, "key" => key, "code" => code)
                    .increment(1);
            }
            Fact::Transition { key, to, .. } => {
                let key = self.name(key);
                let (level, to) = labels::circuit(to);
                gauge!("watertight_circuit", "key" => key.clone()).set(level);
                counter!("watertight_transitions_total", "key" => key, "to" => to).increment(1);
            }
            Fact::Probe { key, .. } => {
                counter!("watertight_probes_total", "key" => self.name(key)).increment(1);
            }
            Fact::Rung { rung, failure, .. } => {
                let outcome = if failure.is_some() { "failed" } else { "answered" };
                counter!("watertight_rungs_total", "rung" => self.name(rung), "outcome" => outcome)
                    .increment(1);
            }
            Fact::Degraded { rung, .. } => {
                counter!("watertight_degraded_total", "rung" => self.name(rung)).increment(1);
            }
            _ => self.limited(fact),
        }
    }

    /// What gates tell of one key, whoever calls.
    fn limited(&self, fact: &Fact<'_>) {
        match *fact {
            Fact::Calibrated { key, dimension, limit, remaining } => {
                let (key, dimension) = (self.name(key), labels::dimension(dimension));
                gauge!("watertight_limit", "key" => key.clone(), "dimension" => dimension).set(limit as f64);
                gauge!("watertight_remaining", "key" => key, "dimension" => dimension).set(remaining as f64);
            }
            Fact::Frozen { key, .. } => {
                counter!("watertight_freezes_total", "key" => self.name(key)).increment(1);
            }
            Fact::Slowed { key, .. } => {
                counter!("watertight_slow_downs_total", "key" => self.name(key)).increment(1);
            }
            Fact::CacheLost { key } => {
                counter!("watertight_caches_lost_total", "key" => self.name(key)).increment(1);
            }
            Fact::BudgetWarning { key, .. } => {
                counter!("watertight_budget_warnings_total", "key" => self.name(key)).increment(1);
            }
            _ => {}
        }
    }

    /// What failover and reset tell.
    fn moved(&self, fact: &Fact<'_>) {
        match *fact {
            Fact::Skipped { candidate, failure, .. } => {
                let (candidate, why) = (self.name(candidate), labels::skip(failure));
                counter!("watertight_skips_total", "candidate" => candidate, "skip" => why).increment(1);
            }
            Fact::FailedOver { from, to, failure, .. } => {
                let (from, to) = (self.name(from), self.name(to));
                let code = failure.code().as_str();
                counter!("watertight_failovers_total", "from" => from, "to" => to, "code" => code)
                    .increment(1);
            }
            Fact::Moved { from, to, .. } => {
                counter!("watertight_moves_total", "from" => self.name(from), "to" => self.name(to))
                    .increment(1);
            }
            Fact::Trial { candidate, .. } => {
                counter!("watertight_trials_total", "candidate" => self.name(candidate)).increment(1);
            }
            Fact::SprungBack { candidate, .. } => {
                counter!("watertight_springs_back_total", "candidate" => self.name(candidate)).increment(1);
            }
            Fact::Reset { reason, .. } => {
                counter!("watertight_resets_total", "reason" => labels::reset(reason)).increment(1);
            }
            _ => self.gated(fact),
        }
    }
}

impl Sink for Metrics {
    fn emit(&self, fact: &Fact<'_>) {
        match *fact {
            Fact::Attempt { provider, model, .. } => {
                let (provider, model) = (self.name(provider), self.name(model));
                counter!("watertight_attempts_total", "provider" => provider, "model" => model).increment(1);
            }
            Fact::Settled { provider, outcome, usage, first_output, elapsed, .. } => {
                self.settled(provider, outcome, first_output, elapsed);
                if let Some(usage) = usage {
                    self.used(provider, usage);
                }
            }
            Fact::Ended { outcome, level, .. } => ended(outcome, level),
            Fact::Adapted { provider, option, change, .. } => {
                let (provider, option) = (self.name(provider), self.name(option));
                let change = labels::change(change);
                counter!("watertight_adaptions_total", "provider" => provider, "option" => option, "change" => change)
                    .increment(1);
            }
            Fact::RetryPlanned { policy, failure, delay, .. } => {
                let policy = self.name(policy);
                let code = failure.code().as_str();
                counter!("watertight_retries_total", "policy" => policy.clone(), "code" => code).increment(1);
                histogram!("watertight_retry_wait_seconds", "policy" => policy).record(delay);
            }
            Fact::RetryRefused { failure, reason, .. } => {
                let code = failure.code().as_str();
                counter!("watertight_retries_refused_total", "reason" => labels::refusal(reason), "code" => code)
                    .increment(1);
            }
            Fact::TimedOut { clock, .. } => {
                counter!("watertight_timeouts_total", "clock" => labels::clock(clock)).increment(1);
            }
            Fact::Crawling { .. } => counter!("watertight_crawling_total").increment(1),
            // Counted when it was planned.
            Fact::RetryStarted { .. } => {}
            _ => self.moved(fact),
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::with_max_labels(DEFAULT_MAX_LABELS)
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").field("most", &self.most).finish_non_exhaustive()
    }
}

fn ended(how: Outcome, level: Level) {
    let (outcome, level) = (labels::outcome(how), level.as_str());
    counter!("watertight_calls_total", "outcome" => outcome, "level" => level).increment(1);
}
