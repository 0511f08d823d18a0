//! Files of a session, counted as they are written.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Component, Path};

use crate::failure::{Code, Failure};

use super::ledger::Kind;
use super::session::{Holding, Session};

/// A new file in the directory of a session.
///
/// While it is open it is one of the session's handles. The file, and each byte written, count until the session ends:
/// that is when they are removed.
#[derive(Debug)]
pub struct SessionFile {
    session: Session,
    file: File,
    _handle: Holding,
}

// === impl Session ===

impl Session {
    /// Makes a file in the session's directory.
    ///
    /// # Errors
    /// [`Code::BulkheadFull`] if the session may have no more handles or files; [`Code::InvalidRequest`], local, if the
    /// name leads out of the directory, is taken, or cannot be made.
    pub fn create(&self, name: impl AsRef<Path>) -> Result<SessionFile, Failure> {
        let name = name.as_ref();
        let inside = name.components().all(|part| matches!(part, Component::Normal(_)));
        let refuse = |why: &str| Failure::local(Code::InvalidRequest, format!("{}: {why}", name.display()));
        if !inside || name.as_os_str().is_empty() {
            return Err(refuse("the name leads out of the session's directory"));
        }
        let handle = self.hold(Kind::Handles, 1)?;
        self.take(Kind::Files, 1)?;
        match File::create_new(self.directory().join(name)) {
            Ok(file) => Ok(SessionFile { session: self.clone(), file, _handle: handle }),
            Err(error) => {
                self.give_back(Kind::Files, 1);
                Err(refuse("the file cannot be made").with_source(error))
            }
        }
    }
}

// === impl SessionFile ===

impl Write for SessionFile {
    /// # Errors
    /// Of the kind [`io::ErrorKind::StorageFull`], around a [`Failure`], if the session may have no more bytes on disk.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let asked = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let full = |failure| io::Error::new(io::ErrorKind::StorageFull, failure);
        self.session.take(Kind::Disk, asked).map_err(full)?;
        let written = self.file.write(bytes);
        let used = written.as_ref().map_or(0, |written| u64::try_from(*written).unwrap_or(asked));
        self.session.give_back(Kind::Disk, asked.saturating_sub(used));
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
