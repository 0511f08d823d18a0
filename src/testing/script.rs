//! What a provider does, request by request.

use super::step::{PRIMARY, Step};
use super::wording::{ScriptedReply, Trouble, Wording};

/// One line of a script.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Line {
    /// Exact bytes, whoever asks.
    Step(Step),
    /// An answer, worded in the protocol of the request, streamed or whole as it asks; 404 if the path is none
    /// of a protocol.
    Reply(ScriptedReply),
    /// An error status, worded in the protocol of the request.
    Trouble(Trouble),
}

/// What one provider does, request by request in order of arrival.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    provider: String,
    lines: Vec<Line>,
    for_ever: bool,
}

// === impl Line ===

impl Line {
    /// The bytes of this line for a request to `path`.
    pub(super) fn word(&self, path: &str, stream: bool) -> Step {
        match (self, Wording::of_path(path)) {
            (Self::Step(step), _) => step.clone(),
            (Self::Reply(reply), Some(wording)) if stream => reply.streamed(wording),
            (Self::Reply(reply), Some(wording)) => reply.whole(wording),
            (Self::Trouble(trouble), wording) => trouble.refused(wording.unwrap_or(Wording::Chat)),
            (Self::Reply(_), None) => Trouble::UnknownModel.refused(Wording::Chat),
        }
    }
}

impl From<Step> for Line {
    fn from(step: Step) -> Self {
        Self::Step(step)
    }
}

impl From<ScriptedReply> for Line {
    fn from(reply: ScriptedReply) -> Self {
        Self::Reply(reply)
    }
}

impl From<Trouble> for Line {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

// === impl Script ===

impl Script {
    /// A script of these lines, for the primary provider.
    pub fn new<L: Into<Line>>(lines: impl IntoIterator<Item = L>) -> Self {
        lines.into_iter().fold(Self::default(), Self::then)
    }

    /// The steps of one provider, out of the steps of a case. None is a provider nobody may ask.
    #[must_use]
    pub fn of(provider: &str, steps: &[Step]) -> Self {
        let own = steps.iter().filter(|step| step.provider == provider).cloned();
        Self { provider: provider.to_owned(), ..Self::new(own) }
    }

    /// The same for a provider of this name.
    #[must_use]
    pub fn named(mut self, provider: &str) -> Self {
        provider.clone_into(&mut self.provider);
        self
    }

    /// The same with one more line; a step that repeats is that many lines.
    #[must_use]
    pub fn then(mut self, line: impl Into<Line>) -> Self {
        let line = line.into();
        let times = if let Line::Step(step) = &line { step.repeat.get() } else { 1 };
        self.lines.extend((0..times).map(|_| line.clone()));
        self
    }

    /// The same, with the last line said again for ever.
    #[must_use]
    pub fn for_ever(mut self) -> Self {
        self.for_ever = true;
        self
    }

    /// Whose script it is.
    #[must_use]
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// How many lines there are, repeats counted out.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether there is no line at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// What the `nth` request meets, none when the script is over.
    pub(super) fn line(&self, nth: usize) -> Option<&Line> {
        let last = self.lines.len().checked_sub(1)?;
        self.lines.get(if self.for_ever { nth.min(last) } else { nth })
    }
}

impl Default for Script {
    /// No line, for the primary provider.
    fn default() -> Self {
        Self { provider: PRIMARY.to_owned(), lines: Vec::new(), for_ever: false }
    }
}
