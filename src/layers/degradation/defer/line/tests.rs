//! The line on its own: any run of joins, runs, ends, drops and waits keeps its laws.

use proptest::prelude::*;

use crate::chat::{Message, Role, Stop};
use crate::time::now;

use super::*;

fn answer() -> Completion {
    Completion::new(Message::text(Role::Assistant, "!"), Stop::End, None)
}

/// One thing that happens to a line. Jobs at work are named by their order.
#[derive(Clone, Debug)]
enum Step {
    Join(Option<u64>),
    Next,
    Finish(usize, bool),
    Again(usize, Option<u64>),
    PutBack(usize),
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let at = 0_usize..4;
    let step = prop_oneof![
        3 => proptest::option::of(0_u64..50).prop_map(Step::Join),
        3 => Just(Step::Next),
        2 => (at.clone(), any::<bool>()).prop_map(|(at, well)| Step::Finish(at, well)),
        1 => (at.clone(), proptest::option::of(0_u64..50)).prop_map(|(at, wait)| Step::Again(at, wait)),
        1 => at.prop_map(Step::PutBack),
        2 => (0_u64..40).prop_map(Step::Wait),
    ];
    proptest::collection::vec(step, 0..60)
}

fn config() -> DeferConfig {
    DeferConfig { max_waiting: 5, max_finished: 3, keep: Duration::from_secs(60), ..DeferConfig::default() }
}

/// Runs the steps, and holds the line to the bounds of this configuration after each.
fn holds(mut line: Line, told: &DeferConfig, steps: &[Step]) -> Result<(), TestCaseError> {
    let (mut now, mut names, mut at_work) = (now(), 0_u32, Vec::<Arc<str>>::new());
    for step in steps {
        match step.clone() {
            Step::Join(wait) => {
                names += 1;
                let id = Arc::from(format!("{names}"));
                let open = line.running.len() + line.waiting.len();
                let ticket = line.join(&id, Request::new("m"), wait.map(Duration::from_secs), now);
                prop_assert_eq!(ticket.is_ok(), open < told.max_waiting);
                prop_assert!(ticket.is_err() || ticket.unwrap().position == open + 1);
            }
            Step::Next => {
                if let Next::Run(id, _) = line.next(now) {
                    prop_assert!(!at_work.contains(&id), "{id} is at work twice");
                    at_work.push(id);
                }
            }
            Step::Finish(at, well) if at < at_work.len() => {
                let end = if well { Ok(answer()) } else { Err(Failure::new(Code::Server, "")) };
                let id = at_work.remove(at);
                line.finish(&id, end, Duration::from_secs(1), now);
                prop_assert!(matches!(
                    line.status(&id, None, now),
                    JobStatus::Done(_) | JobStatus::Failed(_)
                ));
            }
            Step::Again(at, wait) if at < at_work.len() => {
                if line.again(&at_work[at], wait.map(Duration::from_secs), now) {
                    at_work.remove(at);
                }
            }
            Step::PutBack(at) if at < at_work.len() => line.put_back(&at_work.remove(at)),
            Step::Wait(seconds) => now += Duration::from_secs(seconds),
            Step::Finish(..) | Step::Again(..) | Step::PutBack(..) => {}
        }
        let open: Vec<_> = line.running.iter().chain(&line.waiting).collect();
        let apart: std::collections::HashSet<_> = open.iter().collect();
        prop_assert_eq!(open.len(), apart.len(), "a job is in line twice");
        prop_assert!(open.len() <= told.max_waiting, "{} in line", open.len());
        prop_assert_eq!(line.running.iter().collect::<Vec<_>>().len(), at_work.len());
        // Every job is in line or finished, and nothing is kept of others.
        prop_assert_eq!(line.jobs.len(), open.len() + line.finished.len());
        prop_assert!(line.finished.len() <= told.max_finished, "{} finished", line.finished.len());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Scenario: any steps.
    /// Expected: a job MUST be in one place only, one worker MUST have it, and the bounds MUST hold.
    #[test]
    fn any_steps_keep_the_laws(steps in steps()) {
        holds(Line::new(config()), &config(), &steps)?;
    }
}

/// Scenario: the laws, held against twins: a line that is longer than it is told to be, one that keeps more ends, and
/// one that forgets to take a job off when it is put back.
/// Expected: each MUST be rejected.
#[test]
fn a_line_that_keeps_too_much_is_rejected() {
    let many = |step: Step| vec![step; 6];
    let long = Line::new(DeferConfig { max_waiting: 6, ..config() });
    assert!(holds(long, &config(), &many(Step::Join(None))).is_err());
    let each = || [Step::Join(None), Step::Next, Step::Finish(0, true)];
    let keeps = Line::new(DeferConfig { max_finished: 6, ..config() });
    let ends: Vec<_> = (0..6).flat_map(|_| each()).collect();
    assert!(holds(Line::new(config()), &config(), &ends).is_ok());
    assert!(holds(keeps, &config(), &ends).is_err());
    let mut twice = Line::new(config());
    let id = Arc::from("x");
    twice.join(&id, Request::new("m"), None, now()).unwrap();
    twice.running.push_back(id);
    assert!(holds(twice, &config(), &[Step::Wait(0)]).is_err());
}

/// Scenario: two jobs, the first to be run later.
/// Expected: the second MUST be next; then nothing before the first is due, and the line MUST say when that is.
#[test]
fn a_job_that_is_not_due_is_passed() {
    let (mut line, start) = (Line::new(config()), now());
    let [one, two] = ["1", "2"].map(Arc::<str>::from);
    line.join(&one, Request::new("m"), Some(Duration::from_secs(9)), start).unwrap();
    line.join(&two, Request::new("m"), None, start).unwrap();
    assert!(matches!(line.next(start), Next::Run(id, _) if id == two));
    let due = start + Duration::from_secs(9);
    assert!(matches!(line.next(start), Next::WaitUntil(at) if at == due));
    assert!(matches!(line.next(due), Next::Run(id, _) if id == one));
    assert!(matches!(line.next(due), Next::Nothing));
}
