//! Sessions: a directory of their own, and caps on what they hold.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::chat::CallId;
use crate::event::{Fact, Facts};
use crate::failure::{Code, ConfigError, Failure};
use crate::key::SessionId;

use super::session::{Inner, Session, SessionSnapshot};
use super::session_config::SessionConfig;
use super::state::{GATE, refusal};

/// Hands out sessions by their id. Clones share them.
#[derive(Clone, Debug)]
pub struct Sessions {
    shared: Arc<Shared>,
}

/// What the sessions of one layer of them share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) name: Box<str>,
    pub(super) config: SessionConfig,
    facts: Facts,
    pub(super) open: Mutex<HashMap<SessionId, Weak<Inner>>>,
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
                Some(inner) => Ok(Session::of(inner)),
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
            open.values().filter_map(Weak::upgrade).map(Session::of).collect()
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
        let inner = Arc::new(Inner::new(id, self, directory));
        open.insert(id.clone(), Arc::downgrade(&inner));
        Ok(Session::of(inner))
    }

    pub(super) fn emit_refused(&self, id: &SessionId, failure: &Failure) {
        let key = format!("{}:{}", self.name, id.as_str());
        self.facts.emit(&Fact::Refused { call: CallId::default(), gate: GATE, key: &key, failure });
    }
}

type Open = HashMap<SessionId, Weak<Inner>>;
