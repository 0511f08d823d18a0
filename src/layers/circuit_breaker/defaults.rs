//! The values the layer has unless it is told others: what they are, why, and whose practice they are.

use std::time::Duration;

/// Failures in a row that open: five are no accident, and few enough that an outage costs little. The usual figure of
/// breakers in the field.
pub const DEFAULT_FAILURES: u32 = 5;

/// How far apart the first and last of them may be: one minute, so that a failure an hour is no row.
pub const DEFAULT_FAILURES_WITHIN: Duration = Duration::from_secs(60);

/// The share of failures that opens: at half, an answer is as likely as none. The usual figure of breakers.
pub const DEFAULT_RATIO: f64 = 0.5;

/// Outcomes that are needed before a share says anything: ten are enough that one failure moves it by a tenth only.
pub const DEFAULT_MIN_CALLS: u32 = 10;

/// How far back shares look: one minute, in which providers recover or do not.
pub const DEFAULT_WINDOW: Duration = Duration::from_secs(60);

/// The first rest: thirty seconds, in which most restarts and overloads pass.
pub const DEFAULT_REST: Duration = Duration::from_secs(30);

/// By how much each rest is longer than the one before: doubling, as backoff does.
pub const DEFAULT_GROWTH: f64 = 2.0;

/// The longest rest: five minutes, beyond which a healed provider would be left out for too long.
pub const DEFAULT_MAX_REST: Duration = Duration::from_secs(5 * 60);

/// The health after which the next rest is one step shorter: a minute, the window of the verdict.
pub const DEFAULT_FORGIVE: Duration = Duration::from_secs(60);

/// The share of a rest that is left to chance: its last fifth, so that many processes do not come back as one.
pub const DEFAULT_JITTER: f64 = 0.2;

/// The rest of an account without quota, where nobody says how long: a quarter of an hour, since a person must act.
pub const DEFAULT_QUOTA_REST: Duration = Duration::from_secs(15 * 60);

/// The longest stated wait that is believed: a day, the longest period of a quota that refills by itself.
pub const DEFAULT_MAX_STATED: Duration = Duration::from_secs(24 * 60 * 60);

/// Calls that try at a time: two, so that one that hangs does not stop the healing.
pub const DEFAULT_PROBES: u32 = 2;

/// Successes in a row that close: two, since one may be luck.
pub const DEFAULT_SUCCESSES: u32 = 2;

/// How long a probe that does not report keeps its place: a minute, the longest wait for a first output by default.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(60);

/// How long calls come back only in part: fifteen seconds, so that a provider that just came up is not buried.
pub const DEFAULT_RAMP: Duration = Duration::from_secs(15);

/// The shares of calls that pass on the ramp: a tenth, which shows whether it bears more than probes, then a half, which
/// warms it up. The figures are ours.
pub const DEFAULT_RAMP_SHARES: [f64; 2] = [0.1, 0.5];

/// The share of the waste budget that failures may burn: a fifth, beyond which every fifth token is paid and lost. The
/// figure is ours.
pub const DEFAULT_WASTE_SHARE: f64 = 0.2;

/// Failures that are needed before their waste says anything: three, since one or two large ones are the caller's and
/// not the provider's. The figure is ours.
pub const DEFAULT_WASTE_FAILURES: u32 = 3;

/// What one failed call may burn in the preset `frugal`: 5,000 tokens are a long answer that is paid and lost.
pub const FRUGAL_TOKEN_TRIP: u64 = 5_000;

/// The tokens a minute of the preset `frugal`, of which a fifth may be wasted: the bulkhead's budget of one user.
pub const FRUGAL_WASTE_BUDGET: u64 = 100_000;

/// How many times the usual a call may take in the preset `frugal`: ten are no longer chance.
pub const FRUGAL_ANOMALY: f64 = 10.0;
