//! Sessions: a directory of their own, and caps on what they hold.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde::Serialize;
use tempfile::TempDir;

use crate::chat::CallId;
use crate::event::{Fact, Facts};
use crate::failure::{Code, ConfigError, Failure};
use crate::key::SessionId;

use super::ledger::{Kind, Ledger, Over};
use super::session_config::SessionConfig;
use super::state::{GATE, refusal};

/// Hands out sessions by their id. Clones share them.
#[derive(Clone, Debug)]
pub struct Sessions {
    shared: Arc<Shared>,
}

/// A session: it ends when its last clone is dropped and all it held was given back. Its directory is then removed.
#[derive(Clone)]
pub struct Session {
    inner: Arc<Inner>,
}

/// Something a session holds; given back on drop.
#[derive(Debug)]
pub struct Held {
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

#[derive(Debug)]
struct Shared {
    name: Box<str>,
    config: SessionConfig,
    facts: Facts,
    open: Mutex<HashMap<SessionId, Weak<Inner>>>,
}

struct Inner {
    id: SessionId,
    shared: Arc<Shared>,
    ledger: Mutex<Ledger>,
    /// Removed on drop.
    directory: TempDir,
}

// === impl Sessions ===

impl Sessions {
    /// Sessions that may hold so much.
    ///
    /// # Errors
    /// If a field of the configuration cannot work.
    pub fn new(config: SessionConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self::of("session", config, Facts::default()))
    }

    /// Names them in facts and refusals. None of those that are open is among them.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self::of(name, self.shared.config.clone(), self.shared.facts.clone())
    }

    /// Tells facts to this sink. None of those that are open is among them.
    #[must_use]
    pub fn facts(self, facts: &Facts) -> Self {
        Self::of(&self.shared.name, self.shared.config.clone(), facts.clone())
    }

    fn of(name: &str, config: SessionConfig, facts: Facts) -> Self {
        let shared = Shared { name: name.into(), config, facts, open: Mutex::default() };
        Self { shared: Arc::new(shared) }
    }

    /// The session of this id: the one that is open, else a new one with an empty directory.
    ///
    /// # Errors
    /// [`Code::BulkheadFull`] if there are as many as may be, and [`Code::Server`], local, if no directory can be made.
    pub fn open(&self, id: &SessionId) -> Result<Session, Failure> {
        let opened = {
            let mut open = self.shared.open.lock().unwrap_or_else(PoisonError::into_inner);
            match open.get(id).and_then(Weak::upgrade) {
                Some(inner) => Ok(Session { inner }),
                None => self.shared.make(id, &mut open),
            }
        };
        opened.inspect_err(|failure| self.shared.emit_refused(id, failure))
    }

    /// How many are open.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.open.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every open session, by id.
    #[must_use]
    pub fn snapshot(&self) -> Vec<SessionSnapshot> {
        // Those whose last clone goes away meanwhile end when this list does, with the lock open again.
        let open: Vec<_> = {
            let open = self.shared.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.values().filter_map(Weak::upgrade).map(|inner| Session { inner }).collect()
        };
        let mut all: Vec<_> = open.iter().map(Session::snapshot).collect();
        all.sort_by(|one, other| one.id.cmp(&other.id));
        all
    }
}

impl Default for Sessions {
    fn default() -> Self {
        Self::of("session", SessionConfig::default(), Facts::default())
    }
}

// === impl Shared ===

impl Shared {
    fn make(self: &Arc<Self>, id: &SessionId, open: &mut Open) -> Result<Session, Failure> {
        let (name, most) = (&self.name, self.config.max_sessions);
        // One that ended, and waits for the lock to be taken off the list, is none.
        let current = open.len() - usize::from(open.contains_key(id));
        if current >= most {
            return Err(refusal(&format!("{name}: {current} of {most} sessions are open"), None));
        }
        let directory = tempfile::Builder::new().prefix("session-").tempdir().map_err(|error| {
            let message = format!("{name}:{}: no directory can be made", id.as_str());
            Failure::local(Code::Server, message).with_source(error)
        })?;
        let (shared, ledger) = (Arc::clone(self), Mutex::default());
        let inner = Arc::new(Inner { id: id.clone(), shared, ledger, directory });
        open.insert(id.clone(), Arc::downgrade(&inner));
        Ok(Session { inner })
    }

    fn emit_refused(&self, id: &SessionId, failure: &Failure) {
        let key = format!("{}:{}", self.name, id.as_str());
        self.facts.emit(&Fact::Refused { call: CallId::default(), gate: GATE, key: &key, failure });
    }
}

type Open = HashMap<SessionId, Weak<Inner>>;

// === impl Session ===

impl Session {
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
    /// [`Code::BulkheadFull`], which names the session, the kind, what is held and how much may be.
    pub fn hold(&self, kind: Kind, amount: u64) -> Result<Held, Failure> {
        self.take(kind, amount)?;
        Ok(Held { session: self.clone(), kind, amount })
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

impl Drop for Inner {
    fn drop(&mut self) {
        let mut open = self.shared.open.lock().unwrap_or_else(PoisonError::into_inner);
        // Another of the same id may have been opened since.
        if open.get(&self.id).is_some_and(|known| known.strong_count() == 0) {
            open.remove(&self.id);
        }
    }
}

// === impl Held ===

impl Held {
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

impl Drop for Held {
    fn drop(&mut self) {
        self.session.give_back(self.kind, self.amount);
    }
}
