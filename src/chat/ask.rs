//! What a layer may ask of a request.

use http::Extensions;

use super::call::Call;

/// The tokens a call will likely take. Attach one to a request to say so exactly; nothing is estimated then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Of input.
    pub input: u64,
    /// The most of output, where the call has a cap.
    pub output: Option<u64>,
}

/// What a layer may ask of a request, and change about it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no request that a layer can ask",
    note = "the service's request must be a `chat::Request` or an `http::Request`; retry and failover ask `Clone`, too: buffer its body"
)]
pub trait Ask {
    /// The call.
    fn call(&self) -> Call;

    /// Changes the call.
    fn set_call(&mut self, call: Call);

    /// Whatever the caller attached: identity, tags, clocks.
    fn extensions(&self) -> Option<&Extensions> {
        None
    }

    /// Whether the answer is a stream of outputs, so that clocks may wait for the next.
    fn is_stream(&self) -> bool {
        true
    }

    /// Whether the model is asked to think first, so that the first output comes late.
    fn is_reasoning(&self) -> bool {
        false
    }

    /// The model asked, where there is one.
    fn model(&self) -> Option<&str> {
        None
    }

    /// The tool called, where it is a call of one.
    fn tool(&self) -> Option<&str> {
        None
    }

    /// The tokens it will take, where somebody counted them: what was attached.
    fn counted(&self) -> Option<Cost> {
        self.extensions().and_then(Extensions::get).copied()
    }

    /// The tokens it will likely take: what was counted, else none.
    fn cost(&self) -> Cost {
        self.counted().unwrap_or_default()
    }

    /// Bytes of the conversation, to tell a smaller request from a larger one; `None` where nobody can say.
    fn size(&self) -> Option<usize> {
        None
    }
}

impl<B> Ask for http::Request<B> {
    fn call(&self) -> Call {
        self.extensions().get().copied().unwrap_or(Call::UNNAMED)
    }

    fn set_call(&mut self, call: Call) {
        self.extensions_mut().insert(call);
    }

    fn extensions(&self) -> Option<&Extensions> {
        Some(self.extensions())
    }
}
