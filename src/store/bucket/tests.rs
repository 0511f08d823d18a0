//! The laws of a bucket, held to random calls, and twins that break them.

use std::cell::Cell;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::store::pace::{pace, weight};

/// A minute in nanoseconds.
const MINUTE: Duration = Duration::from_secs(60);

/// What is asked of a bucket.
#[derive(Clone, Copy, Debug)]
enum Ask {
    /// So much time passes.
    Pass(u64),
    /// So many are taken, if they are there.
    Take(u32),
    /// Of what was taken last, so much is given back.
    Back(u32),
    /// So many more were used.
    Owe(u32),
    /// A header tells that so many are left, and maybe when the rest comes back.
    Lower(u32, Option<u64>),
    /// A header tells a limit, in percent of the first.
    Resize(u32),
    /// Its refill stops for so long.
    Pause(u64),
}

impl Ask {
    /// Passes the time, or edits a bucket as a header does. Whether it was any of that.
    fn edits(self, bucket: &impl Bucketlike, (limit, capacity): (u32, u32), now: &mut u64) -> bool {
        let share = |whole: u32, percent: u32| (whole * percent / 100).max(1);
        match self {
            Self::Pass(time) => *now += time,
            Self::Lower(remaining, reset) => {
                _ = bucket.lower(remaining.into(), reset.map(|reset| *now + reset), *now);
            }
            Self::Resize(percent) => {
                bucket.resize(pace(share(limit, percent), MINUTE), share(capacity, percent), *now);
            }
            Self::Pause(time) => bucket.pause(*now, *now + time),
            Self::Take(_) | Self::Back(_) | Self::Owe(_) => return false,
        }
        true
    }
}

fn asks() -> impl Strategy<Value = Vec<Ask>> {
    let ask = prop_oneof![
        3 => (0_u64..20_000_000_000).prop_map(Ask::Pass),
        6 => (0_u32..120).prop_map(Ask::Take),
        2 => (0_u32..60).prop_map(Ask::Back),
        1 => (0_u32..60).prop_map(Ask::Owe),
        1 => (0_u32..120, proptest::option::of(1_u64..60_000_000_000)).prop_map(|(left, reset)| Ask::Lower(left, reset)),
        1 => (10_u32..=100).prop_map(Ask::Resize),
        1 => (1_u64..10_000_000_000).prop_map(Ask::Pause),
    ];
    proptest::collection::vec(ask, 1..60)
}

/// Why a bucket did not give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dry {
    /// Not before this instant.
    Until(u64),
    /// It can never hold as much.
    Never,
}

/// Something that can be asked as a bucket is.
trait Bucketlike {
    fn take(&self, cost: u32, now: u64) -> Result<(), Dry>;
    fn give_back(&self, count: u32);
    fn owe(&self, count: u32, now: u64);
    fn lower(&self, remaining: i64, reset_at: Option<u64>, now: u64) -> bool;
    fn resize(&self, period: u64, capacity: u32, now: u64);
    fn pause(&self, from: u64, until: u64);
}

impl Bucketlike for Bucket<'_> {
    fn take(&self, cost: u32, now: u64) -> Result<(), Dry> {
        if Self::take(*self, cost, now) {
            Ok(())
        } else if cost > self.capacity() {
            Err(Dry::Never)
        } else {
            Err(Dry::Until(self.grown(cost.max(1).into(), now, None)))
        }
    }

    fn give_back(&self, count: u32) {
        Self::give_back(*self, count);
    }

    fn owe(&self, count: u32, now: u64) {
        Self::owe(*self, count, now);
    }

    fn lower(&self, remaining: i64, reset_at: Option<u64>, now: u64) -> bool {
        Self::lower(*self, remaining, reset_at, now)
    }

    fn resize(&self, period: u64, capacity: u32, now: u64) {
        Self::resize(*self, period, capacity, now);
    }

    fn pause(&self, from: u64, until: u64) {
        Self::pause(*self, from, until);
    }
}

/// What is in a bucket, and from when on a hundred are.
trait Stands {
    fn stands(&self, now: u64) -> (u32, u64);
}

impl Stands for Bucket<'_> {
    fn stands(&self, now: u64) -> (u32, u64) {
        (self.remaining(now), self.grown(100, now, None))
    }
}

impl Stands for Twin {
    fn stands(&self, now: u64) -> (u32, u64) {
        match self {
            Self::Fixed(_, used) => (100_u32.saturating_sub(used.get()), now),
            _ => self.bucket().map_or((0, now), |bucket| bucket.stands(now)),
        }
    }
}

/// Twins that get one thing wrong.
#[derive(Debug)]
enum Twin {
    /// Counts afresh each minute on the minute: a burst at its end and one at the beginning of the next both pass.
    Fixed(Cell<u64>, Cell<u32>),
    /// Adds a debt to a word that lies in the past, where it is lost.
    Forgetful(Bucket<'static>),
    /// Rounds its period down, and so gives more than the quota.
    Hasty(Bucket<'static>),
    /// Tells instants in whole milliseconds.
    Coarse(Bucket<'static>),
    /// Gives back one less than was taken.
    Stingy(Bucket<'static>),
    /// Gives back at the pace at which it was made, whatever the pace is now.
    Stale(Bucket<'static>, u64),
    /// Gives back at the reset all that was missing when a header came, and not what the header took out.
    Lavish(Bucket<'static>),
}

impl Twin {
    fn bucket(&self) -> Option<Bucket<'static>> {
        match self {
            Self::Fixed(..) => None,
            Self::Forgetful(bucket)
            | Self::Hasty(bucket)
            | Self::Coarse(bucket)
            | Self::Stingy(bucket)
            | Self::Stale(bucket, _)
            | Self::Lavish(bucket) => Some(*bucket),
        }
    }
}

impl Bucketlike for Twin {
    fn take(&self, cost: u32, now: u64) -> Result<(), Dry> {
        match self {
            Self::Fixed(minute, used) => {
                let this = now / 60_000_000_000;
                if minute.replace(this) != this {
                    used.set(0);
                }
                let then = used.get() + cost;
                if then > 100 {
                    return Err(Dry::Until((this + 1) * 60_000_000_000));
                }
                used.set(then);
                Ok(())
            }
            Self::Forgetful(bucket)
            | Self::Hasty(bucket)
            | Self::Stingy(bucket)
            | Self::Stale(bucket, _)
            | Self::Lavish(bucket) => Bucketlike::take(bucket, cost, now),
            Self::Coarse(bucket) => Bucketlike::take(bucket, cost, now).map_err(|dry| match dry {
                Dry::Until(until) => Dry::Until(until.next_multiple_of(1_000_000)),
                Dry::Never => Dry::Never,
            }),
        }
    }

    fn give_back(&self, count: u32) {
        match self {
            Self::Fixed(_, used) => used.set(used.get().saturating_sub(count)),
            Self::Forgetful(bucket) | Self::Hasty(bucket) | Self::Coarse(bucket) | Self::Lavish(bucket) => {
                bucket.give_back(count);
            }
            Self::Stingy(bucket) => bucket.give_back(count.saturating_sub(1)),
            Self::Stale(bucket, period) => {
                _ = bucket.change(|word| word.saturating_sub(weight(count.into(), *period)));
            }
        }
    }

    fn owe(&self, count: u32, now: u64) {
        match self {
            Self::Fixed(_, used) => used.set(used.get() + count),
            Self::Forgetful(bucket) => _ = bucket.change(|word| word + bucket.weight(count.into())),
            Self::Hasty(bucket)
            | Self::Coarse(bucket)
            | Self::Stingy(bucket)
            | Self::Stale(bucket, _)
            | Self::Lavish(bucket) => bucket.owe(count, now),
        }
    }

    fn lower(&self, remaining: i64, reset_at: Option<u64>, now: u64) -> bool {
        let Some(bucket) = self.bucket() else { return false };
        let lowered = bucket.lower(remaining, reset_at, now);
        if let (Self::Lavish(_), Some(_)) = (self, reset_at) {
            let missing = bucket.word.load(Ordering::SeqCst).saturating_sub(now);
            bucket.pace.withheld.store(missing, Ordering::SeqCst);
        }
        lowered
    }

    fn resize(&self, period: u64, capacity: u32, now: u64) {
        if let Some(bucket) = self.bucket() {
            bucket.resize(period, capacity, now);
        }
    }

    fn pause(&self, from: u64, until: u64) {
        if let Some(bucket) = self.bucket() {
            bucket.pause(from, until);
        }
    }
}

/// A full bucket that lives as long as the tests do.
fn full(period: u64, capacity: u32) -> Bucket<'static> {
    let pace = Box::leak(Box::new(Pace::new(period, capacity)));
    Bucket::new(Box::leak(Box::new(AtomicU64::new(pace.word(capacity, ORIGIN)))), pace)
}

fn bucket(limit: u32, capacity: u32) -> Bucket<'static> {
    full(pace(limit, MINUTE), capacity)
}

/// Holds a bucket of `limit` a minute to the first law: what is used within any window is at most what it holds, what
/// comes back in the window, and the debt made in it; and a debt is waited for. No word of a header makes it more.
fn keeps_within(bucket: &impl Bucketlike, limit: u32, capacity: u32, asks: &[Ask]) -> Result<(), String> {
    let (mut now, mut last) = (ORIGIN, 0);
    // Of each change: when, what was used, and what of it was debt.
    let mut used: Vec<(u64, i64, i64)> = Vec::new();
    for ask in asks {
        if ask.edits(bucket, (limit, capacity), &mut now) {
            continue;
        }
        match *ask {
            Ask::Take(cost) if bucket.take(cost, now).is_ok() => {
                last = cost;
                used.push((now, cost.into(), 0));
            }
            Ask::Back(count) => {
                let count = count.min(std::mem::take(&mut last));
                bucket.give_back(count);
                used.push((now, -i64::from(count), 0));
            }
            Ask::Owe(count) => {
                bucket.owe(count, now);
                used.push((now, count.into(), count.into()));
            }
            _ => {}
        }
    }
    for (from, (start, ..)) in used.iter().enumerate() {
        let (mut sum, mut debt) = (0, 0);
        for (at, (end, cost, owed)) in used.iter().enumerate().skip(from) {
            sum += cost;
            debt += owed;
            let window = u128::from(end - start);
            let grown =
                i64::try_from(window * u128::from(limit) / 60_000_000_000).map_err(|e| e.to_string())?;
            let most = i64::from(capacity) + grown + debt;
            if sum > most {
                return Err(format!("{sum} of {most} from {from} to {at}: {used:?}"));
            }
        }
    }
    Ok(())
}

/// Holds a bucket of `limit` a minute to the second law: who is refused until an instant is refused a nanosecond before,
/// and granted then, whatever headers told before.
fn is_exact(bucket: &impl Bucketlike, limit: u32, asks: &[Ask], cost: u32) -> Result<(), String> {
    let mut now = ORIGIN;
    for ask in asks {
        if ask.edits(bucket, (limit, limit), &mut now) {
            continue;
        }
        match *ask {
            Ask::Take(cost) => _ = bucket.take(cost, now),
            Ask::Back(count) => bucket.give_back(count),
            Ask::Owe(count) => bucket.owe(count, now),
            _ => {}
        }
    }
    let Err(Dry::Until(until)) = bucket.take(cost, now) else { return Ok(()) };
    if until <= now || bucket.take(cost, until - 1).is_ok() {
        return Err(format!("{until} is late, from {now}"));
    }
    bucket.take(cost, until).map_err(|dry| format!("{until} is early: {dry:?}"))
}

/// Holds a bucket of a hundred a minute to the third law: after a reservation that is given back whole, whatever happened
/// between, it stands as another that never saw it.
///
/// Two things between break that, and can: the other bucket would have run over, so that the gap grew back by itself; or
/// a header lowered both to the same. Then it stands no lower than the other, and no higher than by what was reserved.
fn is_undone(
    one: &(impl Bucketlike + Stands),
    other: Bucket<'_>,
    (before, cost, between): (&[Ask], u32, &[Ask]),
    later: u64,
) -> Result<(), String> {
    const SIZE: (u32, u32) = (100, 100);
    let mut now = ORIGIN;
    let mut strict = true;
    for ask in before {
        alike(one, &other, *ask, now)?;
        ask.edits(one, SIZE, &mut now.clone());
        ask.edits(&other, SIZE, &mut now);
    }
    let reserved = one.take(cost, now).is_ok();
    for ask in between {
        alike(one, &other, *ask, now)?;
        let stood = other.word.load(Ordering::SeqCst);
        ask.edits(one, SIZE, &mut now.clone());
        ask.edits(&other, SIZE, &mut now);
        let lowered = matches!(ask, Ask::Lower(..)) && other.word.load(Ordering::SeqCst) != stood;
        let word = other.word.load(Ordering::SeqCst);
        strict &= !lowered && word.saturating_sub(other.pace.withheld.load(Ordering::SeqCst)) >= now;
    }
    if reserved {
        one.give_back(cost);
    }
    let (one, other) = (one.stands(now + later), other.stands(now + later));
    let within = (other.0..=other.0 + cost).contains(&one.0);
    if one == other || (!strict && within) { Ok(()) } else { Err(format!("{one:?} and not {other:?}")) }
}

/// Asks both the same. What one refuses, being lower, the other is not asked for.
fn alike(one: &impl Bucketlike, other: &impl Bucketlike, ask: Ask, now: u64) -> Result<(), String> {
    match ask {
        Ask::Take(cost) if one.take(cost, now).is_ok() => {
            other.take(cost, now).map_err(|dry| format!("{cost} of one and not of the other: {dry:?}"))?;
        }
        Ask::Owe(count) => {
            one.owe(count, now);
            other.owe(count, now);
        }
        _ => {}
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// Scenario: any takes, refunds and debts, over minutes, between headers that tell less is left, with a reset or
    /// without, or a lower limit and the old one again, and while its refill is stopped.
    /// Expected: what is used in any window MUST be at most what the bucket holds, what comes back in it, and the debt.
    #[test]
    fn no_window_sees_more_than_the_quota(asks in asks(), limit in 1_u32..7_000, share in 1_u32..=6) {
        let capacity = (limit / share).max(1);
        prop_assert_eq!(keeps_within(&bucket(limit, capacity), limit, capacity, &asks), Ok(()));
    }

    /// Scenario: a call refused until an instant, after any history.
    /// Expected: it MUST be refused a nanosecond before, and granted then.
    #[test]
    fn a_refusal_tells_the_exact_instant(asks in asks(), limit in 1_u32..7_000, cost in 0_u32..100) {
        prop_assert_eq!(is_exact(&bucket(limit, limit), limit, &asks, cost), Ok(()));
    }

    /// Scenario: a reservation that is given back whole, after any history, and with any between: takes, debts, time,
    /// headers, a stop.
    /// Expected: the bucket MUST be as if it had never been.
    #[test]
    fn a_refund_undoes_its_reservation(
        before in asks(), cost in 1_u32..100, between in asks(), later in 0_u64..90_000_000_000,
    ) {
        let script = (&*before, cost, &*between);
        prop_assert_eq!(is_undone(&bucket(100, 100), bucket(100, 100), script, later), Ok(()));
        let script = (&*before, cost, &between[..between.len().min(3)]);
        prop_assert_eq!(is_undone(&bucket(100, 100), bucket(100, 100), script, later), Ok(()));
    }

    /// Scenario: a header lowers what is left, any takes follow, and the reset comes.
    /// Expected: at the reset it MUST stand as if nothing had been withheld, and before it never above that.
    #[test]
    fn what_is_withheld_comes_back_at_the_reset(
        asks in asks(), remaining in 0_u32..100, reset in 1_u64..60_000_000_000,
    ) {
        let (one, other) = (bucket(100, 100), bucket(100, 100));
        let mut now = ORIGIN;
        one.lower(remaining.into(), Some(now + reset), now);
        for ask in asks {
            if let Ask::Pass(time) = ask {
                now += time;
            }
            if let Ask::Take(cost) = ask && one.take(cost, now) {
                other.owe(cost, now);
            }
            prop_assert!(one.remaining(now) <= other.remaining(now));
        }
        let end = now.max(ORIGIN + reset);
        prop_assert_eq!(one.remaining(end), other.remaining(end));
    }
}

/// Scenario: the law of the window, held against a counter of fixed minutes, a bucket that loses debts, and one that
/// rounds its pace down.
/// Expected: each MUST be rejected.
#[test]
fn a_bucket_that_gives_too_much_is_rejected() {
    let fixed = Twin::Fixed(Cell::new(0), Cell::new(0));
    let minute = 60_000_000_000 - ORIGIN % 60_000_000_000;
    let around = [Ask::Pass(minute - 1), Ask::Take(100), Ask::Pass(1), Ask::Take(100)];
    assert!(keeps_within(&fixed, 100, 100, &around).is_err());
    assert!(keeps_within(&bucket(100, 100), 100, 100, &around).is_ok());

    let hasty = Twin::Hasty(full(60_000_000_000 / 7_000_001, 7_000_001));
    let minutes = [Ask::Take(7_000_001), Ask::Pass(59_997_100_000), Ask::Take(7_000_001)];
    assert!(keeps_within(&hasty, 7_000_001, 7_000_001, &minutes).is_err());
    assert!(keeps_within(&bucket(7_000_001, 7_000_001), 7_000_001, 7_000_001, &minutes).is_ok());
}

/// Scenario: the law of the exact instant, held against a bucket that tells whole milliseconds; the law of refunds, held
/// against one that keeps a token.
/// Expected: each MUST be rejected, and the bucket pass under the same calls.
#[test]
fn a_bucket_that_is_inexact_is_rejected() {
    let asks = [Ask::Take(90), Ask::Pass(1_234_567)];
    assert!(is_exact(&Twin::Coarse(bucket(7_000, 100)), 100, &asks, 50).is_err());
    assert_eq!(is_exact(&bucket(7_000, 100), 100, &asks, 50), Ok(()));
    let between = [Ask::Take(5), Ask::Pass(1_000_000_000), Ask::Lower(60, Some(5)), Ask::Owe(3)];
    let script = (&asks[..], 5, &between[..]);
    assert!(is_undone(&Twin::Stingy(bucket(100, 100)), bucket(100, 100), script, 0).is_err());
    assert_eq!(is_undone(&bucket(100, 100), bucket(100, 100), script, 0), Ok(()));
}

/// Scenario: random scripts with headers between, on a bucket that gives back at a pace which is no more, on one that
/// keeps a token, and on one that gives back at a reset what no header took out.
/// Expected: each MUST be rejected.
#[test]
fn a_bucket_that_forgets_a_header_is_rejected() {
    use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
    type Holds = fn(&[Ask], &[Ask]) -> Result<(), String>;
    let rows: [(&str, Holds); 3] = [
        ("stale", |before, between| {
            let twin = Twin::Stale(bucket(100, 100), pace(100, MINUTE));
            is_undone(&twin, bucket(100, 100), (before, 20, &between[..between.len().min(3)]), 0)
        }),
        ("stingy", |before, between| {
            let twin = Twin::Stingy(bucket(100, 100));
            is_undone(&twin, bucket(100, 100), (before, 20, &between[..between.len().min(3)]), 0)
        }),
        ("lavish", |before, _| keeps_within(&Twin::Lavish(bucket(100, 100)), 100, 100, before)),
    ];
    for (twin, holds) in rows {
        let config =
            Config { cases: 3_000, failure_persistence: None, max_shrink_iters: 0, ..Config::default() };
        let verdict = TestRunner::new(config).run(&(asks(), asks()), |(before, between)| {
            holds(&before, &between).map_err(TestCaseError::fail)
        });
        assert!(matches!(verdict, Err(TestError::Fail(..))), "{twin} is not noticed");
    }
}

/// Scenario: a debt of a whole minute made on a bucket that was full for an hour, and a twin that forgets it.
/// Expected: the next call MUST wait for it; the twin MUST be caught letting it pass.
#[test]
fn a_debt_delays_the_next() {
    let hour = ORIGIN + 3_600_000_000_000;
    let honest = bucket(100, 100);
    honest.owe(100, hour);
    assert_eq!(Bucketlike::take(&honest, 1, hour), Err(Dry::Until(hour + 600_000_000)));

    let forgetful = Twin::Forgetful(bucket(100, 100));
    forgetful.owe(100, hour);
    assert_eq!(forgetful.take(1, hour), Ok(()), "the twin forgets");
}

/// Scenario: a call that costs as much as the bucket holds, and one that costs more.
/// Expected: the first MUST pass on a full bucket, the second never.
#[test]
fn a_bucket_holds_its_capacity_exactly() {
    let bucket = bucket(8_000, 8_000);
    assert_eq!(Bucketlike::take(&bucket, 8_001, ORIGIN), Err(Dry::Never));
    assert_eq!(Bucketlike::take(&bucket, 8_000, ORIGIN), Ok(()));
    assert_eq!(
        Bucketlike::take(&bucket, 0, ORIGIN),
        Err(Dry::Until(ORIGIN + 7_500_000)),
        "nothing passes an empty bucket"
    );
    assert_eq!(
        Bucketlike::take(&bucket, 8_000, ORIGIN + 59_999_999_999),
        Err(Dry::Until(ORIGIN + 60_000_000_000))
    );
    assert_eq!(Bucketlike::take(&bucket, 8_000, ORIGIN + 60_000_000_000), Ok(()));
}

/// Scenario: half is used; the limit is halved, then doubled back.
/// Expected: what was used MUST stay used, in number.
#[test]
fn a_new_size_keeps_what_was_used() {
    let bucket = bucket(1_000, 1_000);
    assert!(bucket.take(400, ORIGIN));
    bucket.resize(pace(500, MINUTE), 500, ORIGIN);
    assert_eq!(bucket.remaining(ORIGIN), 100);
    bucket.resize(pace(1_000, MINUTE), 1_000, ORIGIN);
    assert_eq!(bucket.remaining(ORIGIN), 600);
}

/// Scenario: the reset moves on with each header, as where a window slides, and later comes.
/// Expected: nothing MUST come back before the last instant told, and all then.
#[test]
fn the_last_word_on_a_reset_counts() {
    let bucket = bucket(60, 60);
    let second = 1_000_000_000;
    bucket.lower(0, Some(ORIGIN + 10 * second), ORIGIN);
    bucket.lower(9, Some(ORIGIN + 30 * second), ORIGIN + 9 * second);
    assert_eq!(bucket.remaining(ORIGIN + 10 * second), 10, "only what grew");
    assert_eq!(bucket.remaining(ORIGIN + 30 * second), 60);
}
