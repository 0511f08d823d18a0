//! A service beside the one that failed, whatever its type.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;

use futures_core::Stream;
use tower_service::Service;

use crate::chat::{BoxReply, Event, Reply, Request, Watchers};
use crate::failure::Failure;

type Asking = Pin<Box<dyn Future<Output = Result<BoxReply, Failure>> + Send>>;

/// A service beside the one that failed. Cloned for each call, so that it is asked unready and readied there.
#[derive(Clone)]
pub(super) struct Other(Arc<dyn Fn(Request) -> Asking + Send + Sync>);

// === impl Other ===

impl Other {
    pub(super) fn new<S, E, W>(service: S) -> Self
    where
        S: Service<Request, Response = Reply<E, W>, Error = Failure> + Clone + Send + Sync + 'static,
        S::Future: Send,
        E: Stream<Item = Result<Event, Failure>> + Unpin + Send + 'static,
        W: Watchers + Unpin + Send + 'static,
    {
        Self(Arc::new(move |request| {
            let mut service = service.clone();
            Box::pin(async move {
                poll_fn(|cx| service.poll_ready(cx)).await?;
                let mut reply = service.call(request).await?;
                poll_fn(|cx| reply.poll_commit(cx)).await?;
                Ok(reply.boxed())
            })
        }))
    }

    /// A reply whose first output is there.
    pub(super) async fn ask(&self, request: Request) -> Result<BoxReply, Failure> {
        (self.0)(request).await
    }
}

impl fmt::Debug for Other {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Other").finish_non_exhaustive()
    }
}
