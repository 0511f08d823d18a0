//! The one place that folds events into a message.

use super::event::Event;
use super::message::{Message, Role};
use super::part::{Content, Part, Reasoning, ToolCall};
use super::usage::Usage;

/// Folds events into a message.
///
/// Within a block pieces are appended in the order they come; ids and names are set once, from the first that is
/// not empty; the first close of a block wins. Blocks are ordered by index at the end, whatever order they opened
/// in. Tool arguments stay the string that came; a tool call that got none has `{}`.
#[derive(Debug, Default)]
pub struct Assembler {
    blocks: Vec<Block>,
    usage: Option<Usage>,
    /// Where the last event went: deltas of one block come in runs.
    last: usize,
}

#[derive(Debug)]
struct Block {
    index: u32,
    part: Part,
    closed: bool,
}

// === impl Assembler ===

impl Assembler {
    /// With nothing gathered.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in one event.
    pub fn push(&mut self, event: &Event) {
        match event {
            Event::Text { index, text } => {
                if let Some(Content::Text(all)) = self.open(*index, || Content::Text(String::new())) {
                    all.push_str(text);
                }
            }
            Event::Refusal { index, text } => {
                if let Some(Content::Refusal(all)) = self.open(*index, || Content::Refusal(String::new())) {
                    all.push_str(text);
                }
            }
            Event::Reasoning { index, text } => {
                if let Some(Content::Reasoning(all)) = self.open(*index, reasoning) {
                    all.text.push_str(text);
                }
            }
            Event::ToolCall { index, start } => {
                if let Some(Content::ToolCall(call)) = self.open(*index, tool_call) {
                    set_once(&mut call.id, &start.id);
                    set_once(&mut call.name, &start.name);
                }
            }
            Event::ToolArguments { index, text } => {
                if let Some(Content::ToolCall(call)) = self.open(*index, tool_call) {
                    call.arguments.push_str(text);
                }
            }
            Event::Closed { index, part } => self.close(*index, part.as_deref()),
            Event::Usage(usage) => self.usage = Some(**usage),
            Event::Reset(_) => *self = Self::default(),
            Event::Completed(completion) => {
                if completion.usage.is_some() {
                    self.usage = completion.usage;
                }
            }
            Event::Started { .. } | Event::KeepAlive | Event::Crawling { .. } | Event::Frame(_) => {}
        }
    }

    /// The usage known so far.
    #[must_use]
    pub const fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// Whether no block was opened.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The whole message, at a proper end.
    #[must_use]
    pub fn finish(self) -> Message {
        self.message(|_| true)
    }

    /// What came of it where the end was not proper: tool calls that were not closed are left out, since half
    /// arguments must never be run.
    #[must_use]
    pub fn partial(self) -> Message {
        self.message(|block| block.closed || !matches!(block.part.content, Content::ToolCall(_)))
    }

    fn message(mut self, keep: impl Fn(&Block) -> bool) -> Message {
        self.blocks.sort_by_key(|block| block.index);
        let parts = self.blocks.into_iter().filter(keep).map(|block| block.part);
        let mut message = Message::new(Role::Assistant, parts.collect());
        message.fill_arguments();
        message
    }

    /// The content of a block, opened as this kind if it is new; `None` once it is closed.
    fn open(&mut self, index: u32, kind: impl FnOnce() -> Content) -> Option<&mut Content> {
        let at = self.find(index).unwrap_or_else(|| self.insert(index, kind().into(), false));
        self.last = at;
        let block = &mut self.blocks[at];
        (!block.closed).then_some(&mut block.part.content)
    }

    fn close(&mut self, index: u32, part: Option<&Part>) {
        match (self.find(index), part) {
            (Some(at), part) if !self.blocks[at].closed => {
                self.blocks[at].closed = true;
                if let Some(part) = part {
                    let told = std::mem::replace(&mut self.blocks[at].part, part.clone()).content;
                    keep_thoughts(&mut self.blocks[at].part.content, told);
                }
            }
            (None, Some(part)) => {
                self.insert(index, part.clone(), true);
            }
            _ => {}
        }
    }

    fn find(&self, index: u32) -> Option<usize> {
        match self.blocks.get(self.last) {
            Some(block) if block.index == index => Some(self.last),
            _ => self.blocks.iter().position(|block| block.index == index),
        }
    }

    fn insert(&mut self, index: u32, part: Part, closed: bool) -> usize {
        self.blocks.push(Block { index, part, closed });
        self.blocks.len() - 1
    }
}

/// Thoughts may be told as they come and sealed at the end: what was told is kept.
fn keep_thoughts(whole: &mut Content, told: Content) {
    if let (Content::Reasoning(whole), Content::Reasoning(told)) = (whole, told)
        && whole.text.is_empty()
    {
        whole.text = told.text;
    }
}

fn reasoning() -> Content {
    Content::Reasoning(Reasoning::default())
}

fn tool_call() -> Content {
    Content::ToolCall(ToolCall::default())
}

fn set_once(field: &mut String, value: &str) {
    if field.is_empty() {
        field.push_str(value);
    }
}
