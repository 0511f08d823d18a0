//! Tools that block: on threads of their own.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::sync::oneshot;
use tower_service::Service;

use crate::chat::{ToolRequest, ToolResult};
use crate::event::Facts;
use crate::failure::{Code, ConfigError, Failure};
use crate::gate::{Admission, Admit, Waiting};
use crate::key::KeyBy;
use crate::observe::Plain;

use super::config::BulkheadConfig;
use super::layer::BulkheadLayer;
use super::permit::Permit;
use super::pool::{Pool, Work};
use super::snapshot::BulkheadSnapshot;

/// A tool that blocks its thread, as a service: a bulkhead whose slots are threads of the tool's own.
///
/// A call that finds every thread at work waits in line, as in any bulkhead, and then is refused. A call that is at work
/// keeps its slot until the function returns, also when nobody waits for its result any more: no thread can be taken
/// back. A panic is a failure of its call, and the thread goes on. Each failure names the tool ([`Failure::tool`]). The threads end when the last clone is dropped and
/// the calls made before are done.
///
/// It needs no runtime; a call that waits in line needs its timers, as every wait does.
///
/// ```
/// use watertight::chat::{ToolRequest, ToolResult};
/// use watertight::layers::bulkhead::BlockingTool;
///
/// # fn main() -> Result<(), watertight::failure::ConfigError> {
/// let read = BlockingTool::new("read_file", 4, |request: ToolRequest| {
///     let path = request.tool.arguments;
///     Ok(match std::fs::read_to_string(&path) {
///         Ok(text) => ToolResult::text(request.tool.id, text),
///         Err(error) => ToolResult::text(request.tool.id, error.to_string()).failed(),
///     })
/// })?;
/// # let _ = read;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct BlockingTool {
    pool: Arc<Pool>,
}

/// A call of a tool that blocks.
pub struct Blocking {
    state: State,
    tool: Arc<str>,
}

enum State {
    // => Working | done
    Waiting { wait: Waiting<Permit>, job: Option<(ToolRequest, Arc<Pool>)> },
    // => done
    Working(oneshot::Receiver<Result<ToolResult, Failure>>),
    // => done
    Refused(Option<Failure>),
}

// === impl BlockingTool ===

impl BlockingTool {
    /// A tool of this name, on so many threads. Its line is that of [`BulkheadConfig::default`].
    ///
    /// # Errors
    /// If there is to be no thread, or the system gives none.
    pub fn new<F>(name: &str, threads: u32, work: F) -> Result<Self, ConfigError>
    where
        F: Fn(ToolRequest) -> Result<ToolResult, Failure> + Send + Sync + 'static,
    {
        let config = BulkheadConfig { max_concurrent: Some(threads), ..BulkheadConfig::default() };
        Self::with(name, config, &Facts::default(), work)
    }

    /// A tool of this name, on as many threads as calls may be in flight, that tells facts to this sink.
    ///
    /// # Errors
    /// If a field of the configuration cannot work, if it is keyed or sets no limit, or if the system gives no thread.
    pub fn with<F>(name: &str, config: BulkheadConfig, facts: &Facts, work: F) -> Result<Self, ConfigError>
    where
        F: Fn(ToolRequest) -> Result<ToolResult, Failure> + Send + Sync + 'static,
    {
        let Some(threads) = config.max_concurrent else {
            return Err(ConfigError::new("max_concurrent", "must be there: each call takes a thread"));
        };
        if config.key != KeyBy::Nothing {
            return Err(ConfigError::new("key", "must be `nothing`: all calls share the tool's threads"));
        }
        let bulkhead = BulkheadLayer::new(config)?.named(name).facts(facts).handle();
        let work: Arc<Work> = Arc::new(work);
        let pool = Pool::new(name, bulkhead, threads, &work)?;
        Ok(Self { pool: Arc::new(pool) })
    }

    /// How many threads work, and how many calls wait.
    #[must_use]
    pub fn snapshot(&self) -> BulkheadSnapshot {
        self.pool.bulkhead().snapshot()
    }
}

impl Service<ToolRequest> for BlockingTool {
    type Response = Plain<ToolResult>;
    type Error = Failure;
    type Future = Blocking;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: ToolRequest) -> Blocking {
        let state = match self.pool.bulkhead().admit(&request) {
            Admit::Granted(permit) => State::Working(self.pool.start(request, permit)),
            Admit::Refused(failure) => State::Refused(Some(failure)),
            Admit::Wait(wait) => State::Waiting { wait, job: Some((request, Arc::clone(&self.pool))) },
        };
        Blocking { state, tool: Arc::clone(self.pool.name()) }
    }
}

impl fmt::Debug for BlockingTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockingTool").field("bulkhead", &self.snapshot()).finish_non_exhaustive()
    }
}

// === impl Blocking ===

impl Future for Blocking {
    type Output = Result<Plain<ToolResult>, Failure>;

    /// # Panics
    /// When polled after it was ready, as any future may.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = ready!(self.poll_result(cx));
        Poll::Ready(result.map(Plain).map_err(|failure| failure.with_tool(&self.tool)))
    }
}

impl Blocking {
    fn poll_result(&mut self, cx: &mut Context<'_>) -> Poll<Result<ToolResult, Failure>> {
        loop {
            match &mut self.state {
                State::Waiting { wait, job } => {
                    let permit = ready!(wait.as_mut().poll(cx))?;
                    let (request, pool) = job.take().expect("polled after it was ready");
                    self.state = State::Working(pool.start(request, permit));
                }
                State::Working(answer) => {
                    let answer = ready!(Pin::new(answer).poll(cx));
                    let gone = |_| Err(Failure::new(Code::Server, "the tool's threads are gone"));
                    return Poll::Ready(answer.unwrap_or_else(gone));
                }
                State::Refused(failure) => {
                    return Poll::Ready(Err(failure.take().expect("polled after it was ready")));
                }
            }
        }
    }
}

impl fmt::Debug for Blocking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocking").finish_non_exhaustive()
    }
}
