//! A scripted LLM provider: what it will do is written down first, then played.

mod format;
mod script;
mod step;
mod wording;

pub use self::script::{Line, Script};
pub use self::step::{Chunk, Connect, End, Step};
pub use self::wording::{Dialect, Reply, Trouble};
