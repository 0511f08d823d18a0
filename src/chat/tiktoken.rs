//! Exact counts, with the vocabularies of OpenAI's models.

use std::fmt;
use std::sync::Arc;

use tiktoken_rs::CoreBPE;

use crate::failure::ConfigError;

use super::estimate::CountTokens;

/// Counts tokens as OpenAI's models do. Clones share the vocabulary.
///
/// Making one reads a whole vocabulary, which takes about a second: make it when the program starts, on a thread that
/// nobody waits for, and not when a call comes. Counting goes through some two megabytes a second.
///
/// ```
/// use watertight::chat::{Ask, Request, Tiktoken};
///
/// let counter = Tiktoken::o200k()?;
/// let request = Request::new("gpt-5").user("The quick brown fox").counted_by(&counter);
/// assert_eq!(request.cost().input, 8);
/// # Ok::<_, watertight::failure::ConfigError>(())
/// ```
#[derive(Clone)]
pub struct Tiktoken {
    vocabulary: Arc<CoreBPE>,
    name: &'static str,
}

// === impl Tiktoken ===

impl Tiktoken {
    /// The vocabulary of the models since GPT-4o.
    ///
    /// # Errors
    /// If the vocabulary that was built in cannot be read.
    pub fn o200k() -> Result<Self, ConfigError> {
        Self::read("o200k_base", tiktoken_rs::o200k_base().map_err(|error| error.to_string()))
    }

    /// The vocabulary of GPT-4 and GPT-3.5.
    ///
    /// # Errors
    /// If the vocabulary that was built in cannot be read.
    pub fn cl100k() -> Result<Self, ConfigError> {
        Self::read("cl100k_base", tiktoken_rs::cl100k_base().map_err(|error| error.to_string()))
    }

    fn read(name: &'static str, vocabulary: Result<CoreBPE, String>) -> Result<Self, ConfigError> {
        let vocabulary = vocabulary.map_err(|error| ConfigError::new(name, error))?;
        Ok(Self { vocabulary: Arc::new(vocabulary), name })
    }
}

impl CountTokens for Tiktoken {
    fn count(&self, text: &str) -> u64 {
        u64::try_from(self.vocabulary.encode_ordinary(text).len()).unwrap_or(u64::MAX)
    }
}

impl fmt::Debug for Tiktoken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tiktoken").field(&self.name).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::{Ask, Request};

    /// Scenario: a text in several scripts, counted by two vocabularies, and estimated.
    /// Expected: the counts MUST be those of the vocabularies; the estimate MUST be near the dearer one.
    #[test]
    fn a_count_is_that_of_the_vocabulary() {
        let text = "The quick brown fox jumps over the lazy dog. 春天来了，万物复苏。";
        let (new, old) = (Tiktoken::o200k().unwrap(), Tiktoken::cl100k().unwrap());
        let counted = [new.count(text), old.count(text)];
        assert!(counted[0] < counted[1], "{counted:?}");
        assert_eq!(new.count("The quick brown fox"), 4);
        let estimated = Request::new("model").user(text).cost().input - 4;
        assert!(estimated * 3 >= counted[0] * 2 && estimated <= counted[1] * 2, "{estimated}, {counted:?}");
    }
}
