//! Where answers are kept.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use moka::policy::EvictionPolicy;
use moka::sync::Cache;

use crate::chat::{Completion, Request, Stop};
use crate::failure::ConfigError;
use crate::key::Caller;
use crate::time::{Instant, now};

use super::config::CacheConfig;
use super::fingerprint::fingerprint;

/// What a kept answer weighs beside its text, in bytes: its own structs and the cache's.
const OVERHEAD: usize = 512;

/// The largest part of the whole that one answer may take, so that a giant does not drive all others out.
const MAX_PART: u64 = 100;

/// Answers of earlier calls. Clones share them.
#[derive(Clone)]
pub struct AnswerCache {
    config: CacheConfig,
    answers: Cache<AnswerKey, Arc<Answer>>,
    similar: Option<Arc<dyn Similar>>,
}

/// The name of a kept answer: a hash of its request and caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AnswerKey([u8; 32]);

/// A look for a similar request on its way.
pub type Finding<'a> = Pin<Box<dyn Future<Output = Option<AnswerKey>> + Send + 'a>>;

/// Finds requests that mean the same in other words, by embeddings or otherwise. There is none unless you give one.
///
/// A key of another caller is never served, whatever is found.
pub trait Similar: Send + Sync {
    /// An answer to this request was kept under this key. On the path of the answer's end: keep it short.
    fn learn(&self, request: &Request, key: AnswerKey);

    /// The key of a request that means the same, if one is known.
    fn find<'a>(&'a self, request: &'a Request) -> Finding<'a>;
}

/// An answer, whose it is, and since when.
struct Answer {
    scope: Arc<str>,
    completion: Completion,
    at: Instant,
}

// === impl AnswerCache ===

impl AnswerCache {
    /// An empty cache.
    ///
    /// # Errors
    /// If a field of the configuration cannot work.
    pub fn new(config: CacheConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        // Both bounds in one weight: an answer weighs its bytes, and never less than its share of the count.
        let least = u32::try_from(config.max_bytes / config.max_answers).unwrap_or(u32::MAX);
        let answers = Cache::builder()
            .max_capacity(config.max_bytes)
            .eviction_policy(EvictionPolicy::lru())
            .weigher(move |_, answer: &Arc<Answer>| {
                u32::try_from(size(&answer.completion)).unwrap_or(u32::MAX).max(least)
            })
            .build();
        Ok(Self { config, answers, similar: None })
    }

    /// Looks for similar requests, too, where there is no answer to the very same.
    #[must_use]
    pub fn similar(mut self, similar: impl Similar + 'static) -> Self {
        self.similar = Some(Arc::new(similar));
        self
    }

    /// How many answers there are, nearly: those that were just put in or driven out may not be counted yet.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.answers.run_pending_tasks();
        self.answers.entry_count()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets all answers.
    pub fn clear(&self) {
        self.answers.invalidate_all();
    }

    /// Keeps an answer, if it may be.
    pub(super) fn keep(&self, request: &Request, completion: &Completion) {
        let Some(scope) = self.scope(request).filter(|_| self.may_keep(completion)) else { return };
        let key = AnswerKey(fingerprint(request, &scope));
        let answer = Answer { scope, completion: completion.clone(), at: now() };
        self.answers.insert(key, Arc::new(answer));
        if let Some(similar) = &self.similar {
            similar.learn(request, key);
        }
    }

    /// The answer to this request, or to a similar one, and its age.
    pub(super) async fn find(&self, request: &Request) -> Option<(Completion, Duration)> {
        let scope = self.scope(request)?;
        let exact = self.get(&AnswerKey(fingerprint(request, &scope)), &scope);
        if let (None, Some(similar)) = (&exact, &self.similar) {
            let key = similar.find(request).await?;
            return self.get(&key, &scope);
        }
        exact
    }

    /// Whether an answer of this age is past its time.
    pub(super) fn is_stale(&self, age: Duration) -> bool {
        age >= self.config.ttl
    }

    /// Whether this request can have an answer here at all.
    pub(super) fn takes(&self, request: &Request) -> bool {
        self.scope(request).is_some()
    }

    fn get(&self, key: &AnswerKey, scope: &str) -> Option<(Completion, Duration)> {
        let answer = self.answers.get(key).filter(|answer| *answer.scope == *scope)?;
        let age = now().saturating_duration_since(answer.at);
        if age >= self.config.keep {
            self.answers.invalidate(key);
            return None;
        }
        Some((answer.completion.clone(), age))
    }

    /// Whose answer it is; none where nobody can say.
    fn scope(&self, request: &Request) -> Option<Arc<str>> {
        if self.config.shared {
            return Some("".into());
        }
        request.extensions.get::<Caller>().map(|caller| caller.as_str().into())
    }

    fn may_keep(&self, completion: &Completion) -> bool {
        let whole = matches!(completion.stop, Stop::End | Stop::StopSequence(_) | Stop::Length);
        let most = (self.config.max_bytes / MAX_PART).max(1);
        let fits = u64::try_from(size(completion)).is_ok_and(|size| size <= most);
        let acts = completion.message.tool_calls().next().is_some();
        whole && fits && !acts && !completion.message.is_empty() && completion.degradation.is_none()
    }
}

impl fmt::Debug for AnswerCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerCache").field("config", &self.config).finish_non_exhaustive()
    }
}

fn size(completion: &Completion) -> usize {
    completion.message.size() + OVERHEAD
}
