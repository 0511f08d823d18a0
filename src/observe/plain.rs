//! A response with nothing to follow.

use std::ops::Deref;
use std::task::{Context, Poll};

use crate::chat::{End, Observer, Watch};
use crate::failure::Failure;

use super::Follow;

/// A response that is whole when it comes: a tool's result, a row, a number. Whoever follows it is told at once
/// that it is complete.
///
/// ```
/// use tower::{ServiceExt, service_fn};
/// use watertight::chat::{ToolRequest, ToolResult};
/// use watertight::failure::Failure;
/// use watertight::observe::Plain;
///
/// async fn weather(request: ToolRequest) -> Result<ToolResult, Failure> {
///     Ok(ToolResult::text(request.tool.id, "Sunny, 21 degrees."))
/// }
///
/// let tool = service_fn(weather).map_response(Plain);
/// # let _ = tool;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plain<T>(pub T);

// === impl Plain ===

impl<T> Plain<T> {
    /// What came.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> Deref for Plain<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Follow for Plain<T> {
    type Followed<O: Observer> = Self;

    fn follow<O: Observer>(self, mut watch: Watch<O>) -> Self {
        watch.settle(End::Completed(None));
        self
    }

    fn poll_commit(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }
}
