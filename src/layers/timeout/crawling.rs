//! How fast a stream comes.

use std::time::Duration;

use crate::time::Instant;

use super::clocks::Crawl;

/// Bytes of a token of ordinary text, near enough for a rate.
const BYTES_PER_TOKEN: f64 = 4.0;

/// The step of the timer: a shorter window would be due again as soon as it was judged.
const TICK: Duration = Duration::from_millis(1);

/// Windows that are known before the usual rate counts: fewer are an accident.
const KNOWN: u32 = 20;

/// A stream crawls that comes at less than this share of the usual rate.
const CRAWLING_SHARE: f64 = 0.1;

/// What came of a stream in the present window.
#[derive(Debug, Default)]
pub(super) struct Crawling {
    bytes: u64,
    since: Option<Instant>,
    told: bool,
}

/// The rate at which streams through the layer usually come, learned where a crawl is looked for.
#[derive(Debug, Default)]
pub(super) struct Learned {
    windows: u32,
    mean: f64,
}

/// A stream that came slower than it should.
#[derive(Debug)]
pub(super) struct Slow {
    /// Bytes of output a second.
    pub(super) rate: f64,
    /// Whether the window before was not slow.
    pub(super) is_news: bool,
}

// === impl Crawling ===

impl Crawling {
    pub(super) fn see(&mut self, bytes: u32) {
        self.bytes += u64::from(bytes);
    }

    /// Begins the first window, in which nothing came yet; later ones begin where one ends.
    pub(super) fn begin(&mut self, now: Instant) {
        if self.since.is_none() {
            *self = Self { since: Some(now), ..Self::default() };
        }
    }

    /// When the window ends.
    pub(super) fn due(&self, crawl: Crawl) -> Option<Instant> {
        self.since?.checked_add(crawl.window.max(TICK))
    }

    /// Judges the window that ends, and begins the next. What a consumer that was away did not fetch says nothing.
    pub(super) fn judge(
        &mut self,
        away: bool,
        now: Instant,
        is_brisk: impl FnOnce(f64) -> bool,
    ) -> Option<Slow> {
        let since = self.since.replace(now)?;
        let bytes = std::mem::take(&mut self.bytes);
        if away {
            return None;
        }
        #[expect(clippy::cast_precision_loss, reason = "a rate, not an account")]
        let rate = bytes as f64 / now.duration_since(since).as_secs_f64();
        let slow = !is_brisk(rate);
        let told = std::mem::replace(&mut self.told, slow);
        slow.then_some(Slow { rate, is_news: !told })
    }
}

// === impl Learned ===

impl Learned {
    /// Whether a window's rate is no crawl; it is learned from then.
    pub(super) fn is_brisk(&mut self, rate: f64, crawl: Crawl) -> bool {
        let slowest = self.usual().map_or(0.0, |usual| usual * CRAWLING_SHARE);
        let brisk = rate >= (crawl.tokens_per_second * BYTES_PER_TOKEN).max(slowest);
        if brisk {
            self.windows = self.windows.saturating_add(1);
            self.mean += (rate - self.mean) / f64::from(self.windows.min(KNOWN));
        }
        brisk
    }

    /// The usual rate, in bytes of output a second, once enough windows are known.
    pub(super) fn usual(&self) -> Option<f64> {
        (self.windows >= KNOWN).then_some(self.mean)
    }
}
