//! Well-formed replies and errors in the three protocols.

mod chat;
mod messages;
mod protocol;
mod reply;
mod responses;
mod sheet;
mod trouble;

pub use self::protocol::Wording;
pub use self::reply::ScriptedReply;
pub use self::trouble::Trouble;

#[cfg(test)]
mod tests;
