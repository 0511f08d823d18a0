//! The three protocols behind one type, so that one provider type serves all.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::chat::{Completion, Event, Parts, Protocol, Request};
use crate::failure::Failure;
use crate::time::Wall;

use super::sse::Frame;
use super::{Dialect, Target, anthropic_messages, openai_chat, openai_responses};

/// Reads a client's request of this protocol.
///
/// # Errors
/// A local `INVALID_REQUEST` that names what is wrong and where.
pub fn read(protocol: Protocol, body: &[u8]) -> Result<Request, Failure> {
    match protocol {
        Protocol::OpenaiChat => openai_chat::read(body),
        Protocol::OpenaiResponses => openai_responses::read(body),
        Protocol::AnthropicMessages => anthropic_messages::read(body),
    }
}

/// Writes a request in this protocol.
///
/// # Errors
/// A local `INVALID_REQUEST` that names what cannot be written.
pub fn encode(protocol: Protocol, parts: &Parts, target: &Target<'_>) -> Result<Bytes, Failure> {
    match protocol {
        Protocol::OpenaiChat => openai_chat::encode(parts, target),
        Protocol::OpenaiResponses => openai_responses::encode(parts, target),
        Protocol::AnthropicMessages => anthropic_messages::encode(parts, target),
    }
}

/// Reads a whole reply of this protocol.
///
/// # Errors
/// The failure that the reply is or carries.
pub fn decode(protocol: Protocol, body: &[u8], wall: Wall) -> Result<Completion, Failure> {
    match protocol {
        Protocol::OpenaiChat => openai_chat::decode(body, wall),
        Protocol::OpenaiResponses => openai_responses::decode(body, wall),
        Protocol::AnthropicMessages => anthropic_messages::decode(body, wall),
    }
}

/// Reads a streamed reply of any of the protocols, frame by frame.
#[derive(Debug)]
#[non_exhaustive]
pub enum Decoder {
    /// OpenAI Chat Completions.
    OpenaiChat(openai_chat::Decoder),
    /// OpenAI Responses.
    OpenaiResponses(openai_responses::Decoder),
    /// Anthropic Messages.
    AnthropicMessages(anthropic_messages::Decoder),
}

// === impl Decoder ===

impl Decoder {
    /// A decoder of this protocol.
    #[must_use]
    pub fn new(protocol: Protocol, dialect: &Dialect, wall: Wall) -> Self {
        match protocol {
            Protocol::OpenaiChat => Self::OpenaiChat(openai_chat::Decoder::new(dialect, wall)),
            Protocol::OpenaiResponses => Self::OpenaiResponses(openai_responses::Decoder::new(dialect, wall)),
            Protocol::AnthropicMessages => {
                Self::AnthropicMessages(anthropic_messages::Decoder::new(dialect, wall))
            }
        }
    }

    /// Reads one frame; what it says goes to the end of `out`.
    ///
    /// # Errors
    /// The failure that the frame carries, or that it is. Nothing more may be read then.
    pub fn frame(&mut self, frame: &Frame, out: &mut VecDeque<Event>) -> Result<(), Failure> {
        let event = frame.event().and_then(name);
        let data = frame.data();
        match self {
            Self::OpenaiChat(decoder) => decoder.frame(event, data, out),
            Self::OpenaiResponses(decoder) => decoder.frame(event, data, out),
            Self::AnthropicMessages(decoder) => decoder.frame(event, data, out),
        }
    }

    /// The bytes ended.
    ///
    /// # Errors
    /// `TRUNCATED`, if the terminal marker is missing.
    pub fn end(&mut self, out: &mut VecDeque<Event>) -> Result<(), Failure> {
        match self {
            Self::OpenaiChat(decoder) => decoder.end(out),
            Self::OpenaiResponses(decoder) => decoder.end(out),
            Self::AnthropicMessages(decoder) => decoder.end(out),
        }
    }

    /// Whether nothing more is to be read.
    #[must_use]
    pub fn is_done(&self) -> bool {
        match self {
            Self::OpenaiChat(decoder) => decoder.is_done(),
            Self::OpenaiResponses(decoder) => decoder.is_done(),
            Self::AnthropicMessages(decoder) => decoder.is_done(),
        }
    }

    /// Whether the answer is complete, and only its usage or its sentinel is awaited.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        match self {
            Self::OpenaiChat(decoder) => decoder.is_settled(),
            Self::OpenaiResponses(decoder) => decoder.is_settled(),
            Self::AnthropicMessages(decoder) => decoder.is_settled(),
        }
    }
}

/// A name as text. The two that nearly every frame bears are known at a glance.
#[inline]
fn name(bytes: &[u8]) -> Option<&str> {
    match bytes {
        b"content_block_delta" => Some("content_block_delta"),
        b"response.output_text.delta" => Some("response.output_text.delta"),
        bytes => std::str::from_utf8(bytes).ok(),
    }
}
