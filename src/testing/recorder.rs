//! A sink that keeps what it is told.

use std::sync::{Arc, Mutex, PoisonError};

use crate::event::{Fact, Facts, Sink};
use crate::time::{Instant, now};

/// Keeps every fact it is told, with its time. Clones share one record.
///
/// ```
/// use tower::{Layer, ServiceExt, service_fn};
/// use watertight::chat::{BoxReply, Request};
/// use watertight::failure::{Code, Failure};
/// use watertight::layers::RetryLayer;
/// use watertight::testing::Recorder;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let recorder = Recorder::new();
/// let down = service_fn(|_: Request| async { Err::<BoxReply, _>(Failure::new(Code::Server, "down")) });
/// let service = RetryLayer::default().facts(&recorder.facts()).layer(down);
/// assert!(service.oneshot(Request::new("any")).await.is_err());
/// assert_eq!(recorder.names()[..2], ["retry_planned", "retry_started"]);
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    record: Arc<Mutex<Vec<Recorded>>>,
}

/// A fact as it was told.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Recorded {
    /// When.
    pub at: Instant,
    /// The fact's name.
    pub name: &'static str,
    /// All of it, for reading.
    pub text: String,
}

// === impl Recorder ===

impl Recorder {
    /// With nothing recorded.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The sink to give to layers and providers.
    #[must_use]
    pub fn facts(&self) -> Facts {
        Facts::to(self.clone())
    }

    /// Everything told so far, in order.
    #[must_use]
    pub fn recorded(&self) -> Vec<Recorded> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The names of all facts told so far, in order.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        self.recorded().into_iter().map(|fact| fact.name).collect()
    }
}

impl Sink for Recorder {
    fn emit(&self, fact: &Fact<'_>) {
        let recorded = Recorded { at: now(), name: fact.name(), text: format!("{fact:?}") };
        self.record.lock().unwrap_or_else(PoisonError::into_inner).push(recorded);
    }
}
