//! Laws that hold for every play. Beside each stand twins that break it.

use crate::keyed::Idle;

use super::*;

/// The lease, the rest and the ramp of [`quick`] are over after it.
const LEASE: u64 = 3_000;

/// Whose calls of older generations pass for calls of the present.
#[derive(Clone, Copy, Debug)]
enum Forge {
    Nobody,
    /// Of all.
    All,
    /// Of those from before a hand.
    BeforeHand,
    /// Of probes that are dropped.
    Dropped,
    /// Of calls that are throttled.
    Throttled,
}

impl Forge {
    fn takes(self, out: &Out, how: How) -> bool {
        match self {
            Self::Nobody => false,
            Self::All => true,
            Self::BeforeHand => out.before_hand,
            Self::Dropped => how == How::Dropped && out.trial.is_probe(),
            Self::Throttled => how == How::Throttled,
        }
    }
}

/// Plays, and looks after each step whether what may be is so.
fn play(config: &CircuitBreakerConfig, steps: Vec<Step>, may_be: impl Fn(&Play) -> bool) -> bool {
    on_a_paused_clock(async {
        let mut play = Play::new(config);
        for step in steps {
            play.step(step).await;
            if !may_be(&play) {
                return false;
            }
        }
        true
    })
}

/// Probes of this generation in flight: those whose lease runs, and all.
fn probes(play: &Play) -> (usize, usize) {
    let generation = play.breaker.generation();
    let since =
        play.out.iter().filter(|out| out.trial.generation() == generation).filter_map(|out| out.probe);
    let since: Vec<Instant> = since.collect();
    let leased = since.iter().filter(|since| now() - **since < Duration::from_millis(LEASE)).count();
    (leased, since.len())
}

/// Whether no more probes are out than there are places, and the circuit knows of each. The twin takes probes from
/// before a hand for its own.
fn keeps_to_the_places(config: &CircuitBreakerConfig, steps: Vec<Step>, forge: bool) -> bool {
    on_a_paused_clock(async {
        let mut play = Play::new(config);
        for step in steps {
            play.step(step).await;
            if forge {
                let generation = play.breaker.generation();
                let old = play.out.iter_mut().filter(|out| out.before_hand);
                old.for_each(|out| out.trial.forge(generation));
            }
            let (look, (leased, all)) = (play.look(), probes(&play));
            // One whose lease is over has its place until another wants it.
            if leased > 2 || look.probes < leased || look.probes > all {
                return false;
            }
        }
        true
    })
}

/// Scenario: any interleaving of calls, ends, hands and time; the same with one place more than is allowed for; and with
/// probes from before a hand taken for those of the present.
/// Expected: never MUST more probes be out, their leases running, than there are places, nor fewer or more be told than
/// are out; the twins MUST be found out.
#[test]
fn never_are_there_more_probes_than_places() {
    let config = quick();
    assert!(holds(steps(), |steps| keeps_to_the_places(&config, steps, false)));
    assert!(!holds(steps(), |steps| keeps_to_the_places(&config, steps, true)), "the twin that confuses");
    let wide = CircuitBreakerConfig { probes: 3, ..config };
    assert!(!holds(steps(), |steps| keeps_to_the_places(&wide, steps, false)), "the wide twin");
}

/// Ends calls of older generations, and looks whether anything changes. The twins take them for calls of the present.
fn old_calls_change_nothing(steps: Vec<Step>, forge: Forge) -> bool {
    on_a_paused_clock(async {
        let mut play = Play::new(&quick());
        for step in steps {
            let Step::End(at, how) = step else {
                play.step(step).await;
                continue;
            };
            let Some(mut out) = play.take(at) else { continue };
            let (generation, before) = (play.breaker.generation(), play.look());
            let is_old = out.trial.generation() != generation;
            if is_old && forge.takes(&out, how) {
                out.trial.forge(generation);
            }
            end(out.trial, how);
            if is_old && play.look() != before {
                return false;
            }
        }
        true
    })
}

/// Any play, and those that begin with a circuit that is tried once more while a probe of the first time is out.
fn tried_twice() -> impl Strategy<Value = Vec<Step>> {
    let fails = |at| Step::End(at, How::Fails);
    let opens = [Step::Begin, fails(0), Step::Begin, fails(0), Step::Begin, fails(0), Step::Wait(2_000)];
    let tried = [Step::Begin, Step::Begin, fails(1), Step::Wait(4_000), Step::Begin, Step::Begin];
    let before: Vec<_> = opens.into_iter().chain(tried).collect();
    prop_oneof![steps(), steps().prop_map(move |steps| before.iter().cloned().chain(steps).collect())]
}

/// Scenario: calls that end, each in its way, after the circuit changed, by itself or by hand; and breakers that take
/// them, or those of one kind, for calls of the present.
/// Expected: the circuit MUST stay what it is; each twin MUST be found out.
#[test]
fn calls_of_older_generations_change_nothing() {
    assert!(holds(tried_twice(), |steps| old_calls_change_nothing(steps, Forge::Nobody)));
    for forge in [Forge::All, Forge::BeforeHand, Forge::Dropped, Forge::Throttled] {
        assert!(!holds(tried_twice(), |steps| old_calls_change_nothing(steps, forge)), "the twin: {forge:?}");
    }
}

/// What a play is not held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slack {
    None,
    /// The lease is longer than is allowed for.
    LongLease,
    /// A circuit held open by hand is taken for one that rests.
    IgnoresHold,
}

/// Opens a circuit, lets it be tried, and plays; then waits for the rest that is told and for a lease. Whether a call
/// passes then; and at once where a hand let calls pass.
fn frees_itself(steps: Vec<Step>, slack: Slack) -> bool {
    on_a_paused_clock(async {
        let lease = Duration::from_millis(if slack == Slack::LongLease { 10 * LEASE } else { LEASE });
        let mut play = Play::new(&CircuitBreakerConfig { lease, ..quick() });
        (0..3).for_each(|_| play.call(How::Fails));
        wait(2_000).await;
        for step in steps {
            let lets_pass = matches!(step, Step::Hand(Hand::Disable | Hand::Observe | Hand::Reset));
            play.step(step).await;
            if lets_pass && !(play.layer.handle().unwrap().is_callable() && play.ask("").is_some()) {
                return false;
            }
        }
        let look = play.look();
        if look.state == Circuit::ForcedOpen && slack != Slack::IgnoresHold {
            wait(24 * 60 * 60 * 1_000).await;
            return !play.layer.handle().unwrap().is_callable() && !play.begin();
        }
        let rest = look.next_try.map_or(0, |rest| u64::try_from(rest.as_millis()).unwrap() + 1);
        wait(rest + LEASE).await;
        play.layer.handle().unwrap().is_callable() && play.begin()
    })
}

/// Scenario: an open circuit that is due; any play on it, of probes that never report, that end, and that are dropped, and
/// of hands; and the same with a longer lease than is allowed for, or without regard for a hand that holds it.
/// Expected: after the rest that is told and a lease a call MUST pass, unless a hand holds it; the twins MUST be found
/// out.
#[test]
fn a_half_open_circuit_frees_itself_within_the_lease() {
    assert!(holds(steps(), |steps| frees_itself(steps, Slack::None)));
    for slack in [Slack::LongLease, Slack::IgnoresHold] {
        assert!(!holds(steps(), |steps| frees_itself(steps, slack)), "the twin: {slack:?}");
    }
}

/// Whether another key looks as if nobody called it, whatever happens to this one.
fn leaves_others_alone(key: KeyBy, steps: Vec<Step>) -> bool {
    let config = CircuitBreakerConfig { key, ..quick() };
    play(&config, steps, |play| {
        let other = play.layer.handle_of("other").unwrap();
        other.is_callable() && other.snapshot().is_plain() && play.layer.callable().is_callable("unknown")
    })
}

/// Scenario: any play on one key, hands in it; and a breaker that does not tell keys apart.
/// Expected: another key MUST NOT notice; the twin MUST be found out.
#[test]
fn one_key_never_changes_another() {
    assert!(holds(steps(), |steps| leaves_others_alone(KeyBy::Attached, steps)));
    assert!(!holds(steps(), |steps| leaves_others_alone(KeyBy::Nothing, steps)), "the twin");
}

/// What is not dropped at the end of a play.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leak {
    Nothing,
    /// No call is.
    All,
    /// Only calls from before a hand are.
    SinceTheHand,
}

/// Plays, drops whatever is in flight, and looks for probes; then resets it and looks for anything at all. The twins keep
/// what they should drop.
fn drops_all(steps: Vec<Step>, leak: Leak) -> bool {
    on_a_paused_clock(async {
        let mut play = Play::new(&quick());
        for step in steps {
            play.step(step).await;
        }
        let is_dropped = |out: &Out| match leak {
            Leak::Nothing => true,
            Leak::All => false,
            Leak::SinceTheHand => out.before_hand,
        };
        let (dropped, _kept): (Vec<_>, Vec<_>) = play.out.drain(..).partition(is_dropped);
        dropped.into_iter().for_each(|out| end(out.trial, How::Dropped));
        if play.look().probes != 0 {
            return false;
        }
        play.hand(Hand::Reset);
        play.look().is_plain() && play.breaker.states().get("").unwrap().is_idle()
    })
}

/// Scenario: any play, hands in it, and all calls in flight dropped at its end, and a reset; and plays that do not drop
/// them, or those alone from before the last hand.
/// Expected: no probe MUST be out, and nothing at all be told after the reset; the twins MUST be found out.
#[test]
fn no_probe_is_out_once_all_is_dropped() {
    assert!(holds(steps(), |steps| drops_all(steps, Leak::Nothing)));
    for leak in [Leak::All, Leak::SinceTheHand] {
        assert!(!holds(steps(), |steps| drops_all(steps, leak)), "the twin: {leak:?}");
    }
}
