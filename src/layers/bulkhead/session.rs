//! One session, and what it holds.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use tempfile::TempDir;

use crate::failure::Failure;
use crate::key::SessionId;

use super::ledger::{Kind, Ledger, Over};
use super::sessions::Shared;
use super::state::refusal;

/// A session: it ends when its last clone is dropped and all it held was given back. Its directory is then removed.
#[derive(Clone)]
pub struct Session {
    inner: Arc<Inner>,
}

/// Something a session holds; given back on drop.
#[derive(Debug)]
pub struct Holding {
    session: Session,
    kind: Kind,
    amount: u64,
}

/// A session at one instant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SessionSnapshot {
    /// Its id.
    pub id: String,
    /// What it holds of each kind, and how much it may.
    pub held: Vec<(Kind, u64, u64)>,
}

/// What the clones of a session share.
pub(super) struct Inner {
    id: SessionId,
    shared: Arc<Shared>,
    ledger: Mutex<Ledger>,
    /// Removed on drop.
    directory: TempDir,
}

// === impl Session ===

impl Session {
    pub(super) const fn of(inner: Arc<Inner>) -> Self {
        Self { inner }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.inner.id
    }

    /// Its directory, removed with all that is in it when the session ends.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.inner.directory.path()
    }

    /// Takes so much of a kind, until what is returned is dropped.
    ///
    /// # Errors
    /// [`Code::BulkheadFull`](crate::failure::Code::BulkheadFull), which names the session, the kind, what is held and how much may be.
    pub fn hold(&self, kind: Kind, amount: u64) -> Result<Holding, Failure> {
        self.take(kind, amount)?;
        Ok(Holding { session: self.clone(), kind, amount })
    }

    /// How much it holds of a kind.
    #[must_use]
    pub fn held(&self, kind: Kind) -> u64 {
        self.inner.ledger.lock().unwrap_or_else(PoisonError::into_inner).held(kind)
    }

    /// What it holds.
    #[must_use]
    pub fn snapshot(&self) -> SessionSnapshot {
        let ledger = *self.inner.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        let config = &self.inner.shared.config;
        let held = Kind::ALL.map(|kind| (kind, ledger.held(kind), config.most(kind)));
        SessionSnapshot { id: self.inner.id.as_str().to_owned(), held: held.to_vec() }
    }

    pub(super) fn take(&self, kind: Kind, amount: u64) -> Result<(), Failure> {
        let Inner { id, shared, ledger, .. } = &*self.inner;
        let limit = shared.config.most(kind);
        let taken = ledger.lock().unwrap_or_else(PoisonError::into_inner).take(kind, amount, limit);
        taken.map_err(|Over { current, limit }| {
            let (name, id_word) = (&shared.name, id.as_str());
            let message = format!(
                "{name}:{id_word}: {current} of {limit} of its {kind} taken, and {amount} more asked"
            );
            let failure = refusal(&message, None);
            shared.emit_refused(id, &failure);
            failure
        })
    }

    pub(super) fn give_back(&self, kind: Kind, amount: u64) {
        self.inner.ledger.lock().unwrap_or_else(PoisonError::into_inner).give_back(kind, amount);
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.snapshot().fmt(f)
    }
}

// === impl Inner ===

impl Inner {
    pub(super) fn new(id: &SessionId, shared: &Arc<Shared>, directory: TempDir) -> Self {
        Self { id: id.clone(), shared: Arc::clone(shared), ledger: Mutex::default(), directory }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let mut open = self.shared.open.lock().unwrap_or_else(PoisonError::into_inner);
        // Another of the same id may have been opened since.
        if open.get(&self.id).is_some_and(|known| known.strong_count() == 0) {
            open.remove(&self.id);
        }
    }
}

// === impl Holding ===

impl Holding {
    /// How much it is.
    #[must_use]
    pub const fn amount(&self) -> u64 {
        self.amount
    }

    /// Takes so much more.
    ///
    /// # Errors
    /// As [`Session::hold`]; then it is what it was.
    pub fn grow(&mut self, more: u64) -> Result<(), Failure> {
        self.session.take(self.kind, more)?;
        self.amount += more;
        Ok(())
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.session.give_back(self.kind, self.amount);
    }
}
