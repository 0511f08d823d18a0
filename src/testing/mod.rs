//! A scripted LLM provider: what it will do is written down first, then played.
//!
//! A [`Script`] is a list of lines, one for each request. A line is a [`Step`] (exact bytes, waits, breaks), a
//! [`ScriptedReply`] (a well-formed answer, worded in the protocol it is asked in) or a [`Trouble`] (an error of that
//! protocol). The same script can be played in two places:
//!
//! - [`Server`] plays it as real HTTP/1.1 on loopback, under the real clock;
//! - [`Player`] plays it in-process as a tower service, exact to the millisecond under a paused clock.
//!
//! Both write each attempt into a [`Journal`]: what was asked, when, how the exchange ended, and when.
//!
//! | | [`Player`] | [`Server`] |
//! |---|---|---|
//! | refused connection | [`PlayError::Refused`] | accepted and reset unread; [`Server::refusing`] truly refuses |
//! | `gzip` | plain bytes, as a client that decodes sees them | packed, with `content-encoding` |
//! | `bytewise` | a frame for each byte | a write for each byte; the client may still read several at once |
//! | client leaves | the reply is dropped | the connection is closed |
//! | beyond the script | [`PlayError::Over`] | status 500 |
//!
//! # Example
//!
//! ```
//! use watertight::testing::{ScriptedReply, Script, Server, Trouble};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let script = Script::default()
//!     .then(Trouble::Overloaded)
//!     .then(ScriptedReply::of(["Hello, ", "world"]).pace(20).usage(9, 3))
//!     .for_ever();
//! let server = Server::start(script).await?;
//! assert!(server.url().starts_with("http://127.0.0.1:"));
//! assert_eq!(server.journal().attempts(), 0);
//! # Ok(())
//! # }
//! ```
//!
//! In-process a [`Player`] stands where a provider's HTTP client would; on tokio's paused clock (its `test-util`
//! feature) every wait of the script is exact and takes no time:
//!
//! ```
//! use tower::ServiceExt;
//! use watertight::chat::{Protocol, Request};
//! use watertight::provider::{Profile, Provider};
//! use watertight::testing::{Journal, Player, ScriptedReply, Script};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//! let journal = Journal::new();
//! let player = Player::new(Script::new([ScriptedReply::words("hello there").pace(1000)]), &journal);
//! let profile = Profile::new("scripted", Protocol::OpenaiChat, "http://scripted.test/v1").with_key("any");
//! let provider = Provider::over(player, profile)?;
//! let answer = provider.oneshot(Request::new("any").user("hi").streaming()).await?.collect().await?;
//! assert_eq!(answer.message.to_text(), "hello there");
//! assert_eq!(journal.attempts(), 1);
//! # Ok(())
//! # }
//! ```

mod format;
mod journal;
mod play;
mod recorder;
mod script;
mod server;
mod stage;
mod step;
mod wire;
mod wording;

pub use self::journal::{Ending, Journal, Seen};
pub use self::play::{PlayBody, PlayError, Player, Playing};
pub use self::recorder::{Recorded, Recorder};
pub use self::script::{Line, Script};
pub use self::server::Server;
pub use self::step::{BodyEnd, Chunk, Connect, Step};
pub use self::wording::{ScriptedReply, Trouble, Wording};
