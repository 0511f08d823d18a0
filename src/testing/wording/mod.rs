//! Well-formed replies and errors in the three protocols.

mod chat;
mod dialect;
mod messages;
mod reply;
mod responses;
mod sheet;
mod trouble;

pub use self::dialect::Dialect;
pub use self::reply::Reply;
pub use self::trouble::Trouble;

#[cfg(test)]
mod tests;
