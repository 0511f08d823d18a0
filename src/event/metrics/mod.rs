//! Facts as metrics. Feature `metrics`.
//!
//! [`Metrics`] is a sink that counts facts through the `metrics` facade: install any recorder of that crate, and give
//! the layers `Facts::to(Metrics::default())`, or a pair of it and [`Tracing`](super::Tracing).
//!
//! | name | kind | labels |
//! |---|---|---|
//! | `watertight_calls_total` | counter, whole calls that ended | `outcome`, `level`: `none`, `partial`, `fallback`, `deferred`, `failed` |
//! | `watertight_attempts_total` | counter | `provider`, `model` |
//! | `watertight_settled_total` | counter, attempts that ended | `provider`, `outcome` |
//! | `watertight_tokens_total` | counter | `provider`, `kind`: `input`, `cached_read`, `cached_write`, `output`, `reasoning` |
//! | `watertight_first_output_seconds` | histogram | `provider` |
//! | `watertight_settled_seconds` | histogram | `provider`, `outcome` |
//! | `watertight_adaptions_total` | counter | `provider`, `option`, `change` |
//! | `watertight_retries_total` | counter | `policy`, `code` |
//! | `watertight_retry_wait_seconds` | histogram | `policy` |
//! | `watertight_retries_refused_total` | counter | `reason`, `code` |
//! | `watertight_timeouts_total` | counter | `clock` |
//! | `watertight_crawling_total` | counter | |
//! | `watertight_skips_total` | counter | `candidate`, `skip`: why it was passed over, else the code |
//! | `watertight_failovers_total` | counter | `from`, `to`, `code` |
//! | `watertight_moves_total` | counter | `from`, `to` |
//! | `watertight_trials_total` | counter | `candidate` |
//! | `watertight_springs_back_total` | counter | `candidate` |
//! | `watertight_resets_total` | counter | `reason` |
//! | `watertight_admitted_total` | counter | `gate`, `key` |
//! | `watertight_wait_seconds` | histogram, of those who waited | `gate`, `key` |
//! | `watertight_refused_total` | counter | `gate`, `key`, `code` |
//! | `watertight_in_flight` | gauge | `gate`, `key` |
//! | `watertight_circuit` | gauge: 0 closed, 1 half open, 2 open, 3 forced open, 4 disabled, 5 observe | `key` |
//! | `watertight_transitions_total` | counter | `key`, `to` |
//! | `watertight_probes_total` | counter | `key` |
//! | `watertight_caches_lost_total` | counter | `key` |
//! | `watertight_limit` | gauge | `key`, `dimension` |
//! | `watertight_remaining` | gauge | `key`, `dimension` |
//! | `watertight_freezes_total` | counter, stated waits | `key` |
//! | `watertight_slow_downs_total` | counter | `key` |
//! | `watertight_budget_warnings_total` | counter | `key` |
//! | `watertight_rungs_total` | counter | `rung`, `outcome`: `answered`, `failed` |
//! | `watertight_degraded_total` | counter | `rung` |
//!
//! # Calls and attempts
//! `watertight_calls_total` counts what an application asked and how each ended for it: one a call of the degradation
//! layer, which is the outermost of a [`Stack`](crate::stack::Stack), whatever retries, candidates and rungs it took. All
//! other figures are of attempts and decisions on the way. A stack without that layer has no such count; the `bulkhead`
//! in `watertight_admitted_total` and `watertight_refused_total` comes nearest.
//!
//! An answer of a rung is `completed`, and its `level` says how far it is from what was asked; `none` is a whole answer,
//! or no answer at all. So what to alert on is, in the words of Prometheus:
//! ```text
//! no answer:    sum(rate(watertight_calls_total{outcome!~"completed|abandoned"}[5m]))
//!             + sum(rate(watertight_calls_total{outcome="completed", level="failed"}[5m]))
//! less than was asked:  sum(rate(watertight_calls_total{level=~"partial|fallback|deferred"}[5m]))
//! of how many:          sum(rate(watertight_calls_total[5m]))
//! ```
//!
//! # Labels
//! Outcomes are `completed`, `truncated`, `abandoned`, or the code of a failure. Labels that come from traffic
//! (models, keys) are bounded: what is new after [`DEFAULT_MAX_LABELS`] of them is counted as `other`.

mod labels;
mod sink;
#[cfg(test)]
mod tests;

pub use sink::{DEFAULT_MAX_LABELS, Metrics};
