//! Sessions: their directories, and what they hold.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use watertight::event::{Fact, Facts};
use watertight::failure::{Code, Failure};
use watertight::key::SessionId;
use watertight::layers::bulkhead::{Holding, Kind, SessionConfig, Sessions};

fn id(name: &str) -> SessionId {
    SessionId::new(name)
}

fn sessions() -> Sessions {
    let config =
        SessionConfig { max_sessions: 2, max_handles: 2, max_files: 3, max_disk: 10, max_memory: 100 };
    Sessions::new(config).unwrap()
}

/// Scenario: a session with files in folders, opened twice, with a permit that outlives both handles.
/// Expected: one id MUST be one session; all of it MUST be gone with the last of what it held, and a new one of that id
/// MUST begin empty.
#[test]
fn nothing_of_a_session_stays() {
    let sessions = sessions();
    let first = sessions.open(&id("s")).unwrap();
    let again = sessions.open(&id("s")).unwrap();
    assert_eq!(first.directory(), again.directory());
    let directory = first.directory().to_owned();
    fs::create_dir(directory.join("folder")).unwrap();
    fs::write(directory.join("folder/file"), "x").unwrap();
    let held = first.hold(Kind::Memory, 60).unwrap();
    assert_eq!(again.held(Kind::Memory), 60);
    drop((first, again));
    assert!(directory.exists());
    assert_eq!(sessions.len(), 1);
    drop(held);
    assert!(!directory.exists());
    assert!(sessions.is_empty());
    let new = sessions.open(&id("s")).unwrap();
    assert_ne!(new.directory(), directory);
    assert_eq!(fs::read_dir(new.directory()).unwrap().count(), 0);
    assert_eq!(new.held(Kind::Memory), 0);
}

/// Scenario: each kind is taken to its cap, and then one more; then one is given back.
/// Expected: MUST be refused with the session, the kind, the figures, and a word on when to come back, and be told;
/// another session MUST not notice; what is given back MUST be free again.
#[test]
fn each_cap_is_held() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&told);
    let facts = Facts::from_fn(move |fact| {
        if let Fact::Refused { gate, key, failure, .. } = *fact {
            sink.lock().unwrap().push(format!("{gate} {key} {}", failure.code()));
        }
    });
    let sessions = sessions().named("agent").facts(&facts);
    let (session, other) = (sessions.open(&id("s")).unwrap(), sessions.open(&id("t")).unwrap());
    for (kind, most) in [(Kind::Handles, 2), (Kind::Files, 3), (Kind::Disk, 10), (Kind::Memory, 100)] {
        let mut held: Vec<Holding> = (0..most).map(|_| session.hold(kind, 1).unwrap()).collect();
        let refused = session.hold(kind, 1).unwrap_err();
        assert_eq!((refused.code(), refused.is_local()), (Code::BulkheadFull, true));
        assert_eq!(
            refused.message(),
            format!("agent:s: {most} of {most} of its {kind} taken, and 1 more asked")
        );
        assert!(refused.retry_after().is_some());
        assert!(held[0].grow(1).is_err());
        assert_eq!((held[0].amount(), session.held(kind)), (1, most));
        drop(other.hold(kind, most).unwrap());
        held.pop();
        drop(session.hold(kind, 1).unwrap());
    }
    assert_eq!(*told.lock().unwrap(), ["bulkhead agent:s BULKHEAD_FULL"; 8]);
    let snapshot = serde_json::to_value(session.snapshot()).unwrap();
    let held = serde_json::json!([["handles", 0, 2], ["files", 0, 3], ["disk", 0, 10], ["memory", 0, 100]]);
    assert_eq!(snapshot, serde_json::json!({ "id": "s", "held": held }));
}

/// Scenario: a session too many; one ends; it is asked for again.
/// Expected: MUST be refused, then opened.
#[test]
fn a_session_too_many_is_refused() {
    let sessions = sessions();
    let first = sessions.open(&id("1")).unwrap();
    let _second = sessions.open(&id("2")).unwrap();
    let refused = sessions.open(&id("3")).unwrap_err();
    assert_eq!(
        (refused.code(), refused.message()),
        (Code::BulkheadFull, "session: 2 of 2 sessions are open")
    );
    assert!(sessions.open(&id("2")).is_ok(), "it is open");
    drop(first);
    assert!(sessions.open(&id("3")).is_ok());
}

/// Scenario: files are written to the cap of bytes, and more of them made than there are handles, and then than may be.
/// Expected: what is written MUST count, to the byte; the write beyond MUST fail with the failure inside; a closed file
/// MUST give back its handle and stay one of the files made.
#[test]
fn files_are_counted_as_they_are_written() {
    let sessions = sessions();
    let session = sessions.open(&id("s")).unwrap();
    let mut first = session.create("first").unwrap();
    first.write_all(b"12345678").unwrap();
    let full = first.write_all(b"901").unwrap_err();
    assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    let inner: &Failure = full.get_ref().unwrap().downcast_ref().unwrap();
    assert_eq!(inner.message(), "session:s: 8 of 10 of its disk taken, and 3 more asked");
    first.write_all(b"90").unwrap();
    first.flush().unwrap();
    assert_eq!(fs::read(session.directory().join("first")).unwrap(), b"1234567890");
    let second = session.create("second").unwrap();
    assert_eq!(session.create("third").unwrap_err().code(), Code::BulkheadFull, "no handle is left");
    drop((first, second));
    drop(session.create("third").unwrap());
    assert_eq!(session.create("fourth").unwrap_err().code(), Code::BulkheadFull, "no file is left");
    assert_eq!([Kind::Handles, Kind::Files, Kind::Disk].map(|kind| session.held(kind)), [0, 3, 10]);
}

/// Scenario: names that lead out of the directory, are taken, or lie in a folder that is not there.
/// Expected: each MUST be refused as an invalid request, and leave no count behind.
#[test]
fn a_name_cannot_lead_out_of_the_directory() {
    let sessions = sessions();
    let session = sessions.open(&id("s")).unwrap();
    drop(session.create("taken").unwrap());
    for name in ["", ".", "..", "../x", "a/../../x", "/tmp/x", "taken", "no/such/folder"] {
        let refused = session.create(name).unwrap_err();
        assert_eq!((refused.code(), refused.is_local()), (Code::InvalidRequest, true), "{name}");
        assert_eq!([Kind::Handles, Kind::Files].map(|kind| session.held(kind)), [0, 1], "{name}");
    }
    fs::create_dir(session.directory().join("folder")).unwrap();
    assert!(session.create("folder/inside").is_ok());
}

/// Scenario: configurations written and read back, with an unknown field, and with each cap zero.
/// Expected: MUST be what they were; be refused; be refused by the name of the field.
#[test]
fn a_configuration_of_sessions_is_checked() {
    let text = serde_json::to_string(&SessionConfig::default()).unwrap();
    assert_eq!(serde_json::from_str::<SessionConfig>(&text).unwrap(), SessionConfig::default());
    assert!(serde_json::from_str::<SessionConfig>(r#"{"max_file": 1}"#).is_err());
    for field in ["max_sessions", "max_handles", "max_files", "max_disk", "max_memory"] {
        let config: SessionConfig = serde_json::from_str(&format!(r#"{{"{field}": 0}}"#)).unwrap();
        assert_eq!(Sessions::new(config).unwrap_err().field, field);
    }
}

#[derive(Clone, Debug)]
enum Act {
    Open(usize),
    Hold(usize, Kind, u64),
    Grow(usize, u64),
    Drop(usize),
    Close(usize),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let kind = proptest::sample::select(Kind::ALL.to_vec());
    let act = prop_oneof![
        2 => (0_usize..3).prop_map(Act::Open),
        5 => (0_usize..4, kind, 0_u64..12).prop_map(|(at, kind, amount)| Act::Hold(at, kind, amount)),
        2 => (0_usize..8, prop_oneof![0_u64..8, Just(u64::MAX)]).prop_map(|(at, more)| Act::Grow(at, more)),
        3 => (0_usize..8).prop_map(Act::Drop),
        1 => (0_usize..4).prop_map(Act::Close),
    ];
    proptest::collection::vec(act, 1..60)
}

/// What the holds of a script add up to is what each session says; no cap is passed; in the end nothing is there.
/// `forgets` is the fault of the twin: a hold that is never given back.
fn adds_up(script: &[Act], forgets: bool) -> Result<(), TestCaseError> {
    let sessions = sessions();
    let mut open: Vec<watertight::layers::bulkhead::Session> = Vec::new();
    let mut held: Vec<(SessionId, Kind, Holding)> = Vec::new();
    let mut directories = Vec::new();
    let mut forgotten = Vec::new();
    for act in script {
        match *act {
            Act::Open(n) => {
                if let Ok(session) = sessions.open(&id(&n.to_string())) {
                    directories.push(session.directory().to_owned());
                    open.push(session);
                }
            }
            Act::Hold(at, kind, amount) if !open.is_empty() => {
                let session = &open[at % open.len()];
                if let Ok(hold) = session.hold(kind, amount) {
                    held.push((session.id().clone(), kind, hold));
                }
            }
            Act::Grow(at, more) if !held.is_empty() => {
                let at = at % held.len();
                let _ = held[at].2.grow(more);
            }
            Act::Drop(at) if !held.is_empty() => {
                let gone = held.swap_remove(at % held.len());
                forgotten.extend(forgets.then_some(gone));
            }
            Act::Close(at) if !open.is_empty() => drop(open.swap_remove(at % open.len())),
            _ => {}
        }
        for snapshot in sessions.snapshot() {
            for (kind, says, most) in snapshot.held {
                let of =
                    |(id, its, _): &&(SessionId, Kind, Holding)| id.as_str() == snapshot.id && *its == kind;
                let sum: u64 = held.iter().filter(of).map(|(.., hold)| hold.amount()).sum();
                prop_assert_eq!(says, sum, "{:?} of {}", kind, &snapshot.id);
                prop_assert!(says <= most);
            }
        }
    }
    drop((open, held));
    prop_assert!(sessions.is_empty());
    prop_assert!(directories.iter().all(|directory| !directory.exists()));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    /// Scenario: any script of sessions opened and closed, of holds taken, grown and dropped.
    /// Expected: each count MUST be the sum of what is held; in the end no count and no directory MUST be left.
    #[test]
    fn what_sessions_hold_adds_up(script in acts()) {
        adds_up(&script, false)?;
    }
}

/// Scenario: the same law, held against a twin that forgets to give a hold back.
/// Expected: MUST be rejected.
#[test]
fn a_hold_that_is_forgotten_is_rejected() {
    let script = [Act::Open(0), Act::Hold(0, Kind::Files, 1), Act::Drop(0)];
    assert!(adds_up(&script, false).is_ok());
    assert!(adds_up(&script, true).is_err());
}
