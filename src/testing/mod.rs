//! A scripted LLM provider: what it will do is written down first, then played.

mod format;
mod journal;
mod play;
mod script;
mod stage;
mod step;
mod wording;

pub use self::journal::{Ending, Journal, Seen};
pub use self::play::{PlayBody, PlayError, Player, Playing};
pub use self::script::{Line, Script};
pub use self::step::{Chunk, Connect, End, Step};
pub use self::wording::{Dialect, Reply, Trouble};
