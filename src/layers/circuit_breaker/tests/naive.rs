//! A judge that remembers every outcome, told what the breaker is told.

use super::super::window::BUCKETS;
use super::*;

/// What is wrong with a judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Its window has a bucket too many.
    ForgetsLate,
    /// It wants a failure more in a row.
    IsPatient,
    /// It takes a call that was dropped for a failure.
    BlamesDrops,
    /// It takes a neutral end for a success.
    PraisesNeutral,
    /// It takes a throttled call for a failure.
    BlamesThrottled,
    /// An outcome is of the instant its call began, not of that in which it ended.
    DatesByBeginning,
    /// Outcomes of calls from before a hand, or an opening, weigh.
    HearsTheOld,
    /// What was seen before a hand, or an opening, weighs.
    Remembers,
    /// It opens a circuit that only observes.
    OpensObserved,
    /// It counts while the circuit is switched off.
    CountsDisabled,
    /// It begins anew after a pause.
    ForgetsByPausing,
}

impl Fault {
    pub(super) const ALL: [Self; 11] = [
        Self::ForgetsLate,
        Self::IsPatient,
        Self::BlamesDrops,
        Self::PraisesNeutral,
        Self::BlamesThrottled,
        Self::DatesByBeginning,
        Self::HearsTheOld,
        Self::Remembers,
        Self::OpensObserved,
        Self::CountsDisabled,
        Self::ForgetsByPausing,
    ];
}

/// A call that the judge knows to be in flight.
#[derive(Clone, Copy, Debug)]
struct Call {
    begun: Duration,
    life: u32,
}

/// Every outcome with its time, judged anew each time. It knows a circuit that is closed, held by hand, or open, which
/// it never heals.
pub(super) struct Naive<'a> {
    config: &'a CircuitBreakerConfig,
    fault: Option<Fault>,
    start: Instant,
    state: Circuit,
    paused: Duration,
    /// One more with each change.
    life: u32,
    /// Since the instant the breaker was made.
    all: Vec<(Duration, bool)>,
    opened_with: u32,
    would_open: u64,
    calls: Vec<Call>,
}

impl<'a> Naive<'a> {
    pub(super) fn new(config: &'a CircuitBreakerConfig, fault: Option<Fault>) -> Self {
        Self {
            config,
            fault,
            start: now(),
            state: Circuit::Closed,
            paused: Duration::ZERO,
            life: 0,
            all: Vec::new(),
            opened_with: 0,
            would_open: 0,
            calls: Vec::new(),
        }
    }

    /// Whether a call passes.
    pub(super) fn begin(&mut self) -> bool {
        let passes = match self.state() {
            Circuit::Open | Circuit::ForcedOpen | Circuit::HalfOpen => false,
            Circuit::Closed | Circuit::Disabled | Circuit::Observe => true,
        };
        if passes {
            self.calls.push(Call { begun: self.at(), life: self.life });
        }
        passes
    }

    pub(super) fn end(&mut self, at: usize, how: How) {
        let call = self.calls.swap_remove(at % self.calls.len());
        if call.life != self.life && !self.is(Fault::HearsTheOld) {
            return;
        }
        if self.state == Circuit::Closed && how == How::Throttled {
            self.paused = self.paused.max(self.at() + THROTTLED);
            if self.is(Fault::ForgetsByPausing) {
                self.all.clear();
            }
        }
        let failed = match how {
            How::Serves => false,
            How::Neutral if self.is(Fault::PraisesNeutral) => false,
            How::Fails => true,
            How::Dropped if self.is(Fault::BlamesDrops) => true,
            How::Throttled if self.is(Fault::BlamesThrottled) => true,
            How::Neutral | How::Throttled | How::Dropped => return,
        };
        let when = if self.is(Fault::DatesByBeginning) { call.begun } else { self.at() };
        self.hear(when, failed);
    }

    pub(super) fn hand(&mut self, hand: Hand) {
        let state = match hand {
            Hand::ForceOpen => Circuit::ForcedOpen,
            Hand::Disable => Circuit::Disabled,
            Hand::Observe => Circuit::Observe,
            Hand::Reset => Circuit::Closed,
        };
        if hand == Hand::Reset {
            self.would_open = 0;
        }
        self.change(state);
    }

    pub(super) fn is_open(&self) -> bool {
        self.state == Circuit::Open
    }

    /// Whether the circuit looks as it should.
    pub(super) fn agrees(&self, look: &CircuitSnapshot) -> bool {
        let failures = if self.is_open() { self.opened_with } else { self.failures() };
        (look.state, look.failures, look.would_have_opened) == (self.state(), failures, self.would_open)
    }

    fn is(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn at(&self) -> Duration {
        now() - self.start
    }

    fn state(&self) -> Circuit {
        if self.state == Circuit::Closed && self.paused > self.at() { Circuit::Open } else { self.state }
    }

    fn hear(&mut self, when: Duration, failed: bool) {
        let counts = match self.state {
            Circuit::Closed | Circuit::Observe => true,
            Circuit::Disabled => self.is(Fault::CountsDisabled),
            Circuit::Open | Circuit::HalfOpen | Circuit::ForcedOpen => false,
        };
        if !counts {
            return;
        }
        self.all.push((when, failed));
        if !failed || !self.is_sick() {
            return;
        }
        if self.state == Circuit::Observe && !self.is(Fault::OpensObserved) {
            self.would_open += 1;
            self.all.clear();
        } else {
            let failures = self.failures();
            self.change(Circuit::Open);
            self.opened_with = failures;
        }
    }

    fn change(&mut self, state: Circuit) {
        self.life += 1;
        self.state = state;
        self.paused = Duration::ZERO;
        if !self.is(Fault::Remembers) {
            self.all.clear();
        }
    }

    fn is_sick(&self) -> bool {
        let most = self.config.failures.unwrap() as usize + usize::from(self.is(Fault::IsPatient));
        if self.row(most) >= most {
            return true;
        }
        let (all, failed) = self.window();
        all >= self.config.min_calls as usize && 2 * failed >= all
    }

    /// The failures on record.
    fn failures(&self) -> u32 {
        let (_, failed) = self.window();
        u32::try_from(failed.max(self.row(self.config.failures.unwrap() as usize))).unwrap()
    }

    /// The latest failures in a row that are no longer ago than a row may be long.
    fn row(&self, most: usize) -> usize {
        let is_near = |at: &Duration| self.at().saturating_sub(*at) <= self.config.failures_within;
        let row = self.all.iter().rev().take_while(|(_, failed)| *failed).take(most);
        row.filter(|(at, _)| is_near(at)).count()
    }

    /// What the window holds, and the failures in it.
    fn window(&self) -> (usize, usize) {
        let width = self.config.window.as_nanos() / BUCKETS as u128;
        let bucket = |at: Duration| at.as_nanos() / width;
        let buckets = BUCKETS as u128 + u128::from(self.is(Fault::ForgetsLate));
        let within = |at: Duration| bucket(at) + buckets > bucket(self.at());
        let recent: Vec<_> = self.all.iter().filter(|(at, _)| within(*at)).collect();
        (recent.len(), recent.iter().filter(|(_, failed)| *failed).count())
    }
}

/// Whether the breaker looks, after every step, as the judge says. Who opened it is reset by hand.
fn agrees(steps: Vec<Step>, fault: Option<Fault>) -> bool {
    on_a_paused_clock(async {
        let config = CircuitBreakerConfig { failures: Some(4), ..CircuitBreakerConfig::default() };
        let (mut play, mut naive) = (Play::new(&config), Naive::new(&config, fault));
        for step in steps {
            match step {
                Step::Wait(ms) => wait(ms).await,
                Step::Begin => {
                    if play.begin() != naive.begin() {
                        return false;
                    }
                }
                Step::End(at, how) => {
                    if let Some(out) = play.take(at) {
                        end(out.trial, how);
                        naive.end(at, how);
                    }
                }
                Step::Hand(hand) => {
                    play.hand(hand);
                    naive.hand(hand);
                }
            }
            if !naive.agrees(&play.look()) {
                return false;
            }
            if naive.is_open() {
                play.hand(Hand::Reset);
                naive.hand(Hand::Reset);
            }
        }
        true
    })
}

/// Scenario: calls at any distance that overlap, serve, fail, are throttled, dropped, or end for reasons of their own,
/// and hands that hold, switch off, observe and reset; a judge that remembers them all; and judges that have a fault.
/// Expected: it MUST open exactly when the first judge says so, with the failures it has on record; each of the others
/// MUST be found out.
#[test]
fn it_opens_exactly_when_a_naive_judge_says_so() {
    let steps = || prop_oneof![steps_of(8_000, 4), steps_of(30_000, 1)];
    assert!(holds(steps(), |steps| agrees(steps, None)));
    for fault in Fault::ALL {
        assert!(!holds(steps(), |steps| agrees(steps, Some(fault))), "the twin: {fault:?}");
    }
}
