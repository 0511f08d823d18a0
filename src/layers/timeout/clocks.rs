//! How long each clock is.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::failure::ConfigError;

const FIRST_OUTPUT: Duration = Duration::from_secs(60);
const IDLE: Duration = Duration::from_secs(30);
const SILENCE: Duration = Duration::from_secs(5 * 60);
const TOTAL: Duration = Duration::from_secs(5 * 60);
const TOTAL_STREAM: Duration = Duration::from_secs(30 * 60);

/// How long each clock is; `None` switches one off. See the [module](super).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Clocks {
    /// Clock 1: from dispatch to the first output of a stream.
    #[serde(with = "crate::off::time")]
    pub first_output: Option<Duration>,
    /// Clock 2: between two outputs of a stream.
    #[serde(with = "crate::off::time")]
    pub idle: Option<Duration>,
    /// Without a byte of any kind on a stream.
    #[serde(with = "crate::off::time")]
    pub silence: Option<Duration>,
    /// The whole attempt, when it is not streamed.
    #[serde(with = "crate::off::time")]
    pub total: Option<Duration>,
    /// The whole attempt, when it is streamed.
    #[serde(with = "crate::off::time")]
    pub total_stream: Option<Duration>,
    /// What keep-alives do to clocks 1 and 2.
    pub keep_alive: KeepAlive,
    /// What stops clock 1.
    pub first: FirstClock,
    /// When a stream is too slow to be of use.
    #[serde(with = "crate::off")]
    pub crawl: Option<Crawl>,
}

/// What keep-alives do to clocks 1 and 2. All of them restart `silence`; none moves `total` or the deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum KeepAlive {
    /// Nothing: a stalled generation held open by comments is still stalled.
    #[default]
    Ignore,
    /// Before the first output they restart clock 1: for local servers that show life while they read the prompt.
    ExtendFirst,
    /// They restart both.
    Any,
}

/// What stops clock 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FirstClock {
    /// The first output.
    #[default]
    Output,
    /// The response head.
    Byte,
}

/// When a stream is too slow to be of use. Off by default.
///
/// It crawls under the rate given here, or under a tenth of the rate at which streams through the layer usually come,
/// once 20 windows of them are known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Crawl {
    /// The least output a second, in tokens of about four bytes.
    pub tokens_per_second: f64,
    /// Over which time it is measured.
    #[serde(with = "humantime_serde")]
    pub window: Duration,
    /// Whether the stream is ended for it, as a `TIMEOUT_IDLE`. Otherwise it is only told.
    pub cut: bool,
}

// === impl Clocks ===

impl Clocks {
    /// For a person who waits, with another candidate at hand: first output within 5 s, then 1.5 s between outputs.
    #[must_use]
    pub const fn interactive() -> Self {
        Self {
            first_output: Some(Duration::from_secs(5)),
            idle: Some(Duration::from_millis(1500)),
            ..Self::SAFE
        }
    }

    /// For models that think first: 5 min to the first output, 60 s between outputs, 10 min for a whole answer.
    #[must_use]
    pub const fn reasoning() -> Self {
        Self {
            first_output: Some(Duration::from_secs(5 * 60)),
            idle: Some(Duration::from_secs(60)),
            total: Some(Duration::from_secs(10 * 60)),
            ..Self::SAFE
        }
    }

    /// The same clocks for a request that asks for reasoning: each at least as long as in [`Clocks::reasoning`]. One
    /// that is off stays off.
    #[must_use]
    pub fn for_reasoning(self) -> Self {
        let preset = Self::reasoning();
        let at_least = |own: Option<Duration>, preset: Option<Duration>| {
            own.map(|own| preset.map_or(own, |preset| own.max(preset)))
        };
        Self {
            first_output: at_least(self.first_output, preset.first_output),
            idle: at_least(self.idle, preset.idle),
            silence: at_least(self.silence, preset.silence),
            total: at_least(self.total, preset.total),
            total_stream: at_least(self.total_stream, preset.total_stream),
            ..self
        }
    }

    /// No clock at all; the call's deadline still holds.
    #[must_use]
    pub const fn off() -> Self {
        Self { first_output: None, idle: None, silence: None, total: None, total_stream: None, ..Self::SAFE }
    }

    const SAFE: Self = Self {
        first_output: Some(FIRST_OUTPUT),
        idle: Some(IDLE),
        silence: Some(SILENCE),
        total: Some(TOTAL),
        total_stream: Some(TOTAL_STREAM),
        keep_alive: KeepAlive::Ignore,
        first: FirstClock::Output,
        crawl: None,
    };

    /// Checks that no clock is zero.
    ///
    /// # Errors
    /// Names the field that is.
    pub fn validate(&self) -> Result<(), ConfigError> {
        ConfigError::unless_positive("first_output", self.first_output)?;
        ConfigError::unless_positive("idle", self.idle)?;
        ConfigError::unless_positive("silence", self.silence)?;
        ConfigError::unless_positive("total", self.total)?;
        ConfigError::unless_positive("total_stream", self.total_stream)?;
        if let Some(crawl) = self.crawl {
            ConfigError::unless_positive("crawl.window", crawl.window)?;
            if !(crawl.tokens_per_second > 0.0 && crawl.tokens_per_second.is_finite()) {
                return Err(ConfigError::new("crawl.tokens_per_second", "must be a number above 0"));
            }
        }
        Ok(())
    }
}

impl Default for Clocks {
    fn default() -> Self {
        Self::SAFE
    }
}

impl Default for Crawl {
    /// Half a token a second over 30 s: slower than anyone reads, and slower than any healthy model was seen.
    fn default() -> Self {
        Self { tokens_per_second: 0.5, window: Duration::from_secs(30), cut: false }
    }
}
