//! The layers of watertight beside those of other crates: the same work, one process, batches in turn.
//!
//! Run: `cargo run --release --manifest-path benches/peers/Cargo.toml`. You should see: for each kind of work our cost
//! and below it that of each peer, and the ratio of ours to theirs. Only ratios of one run mean anything; the
//! allocations are exact. The work is a call through a service that is ready and answers at once, so a cost contains
//! that of the bare service, which each table begins with.

mod keys;
mod measure;
mod ours;
mod theirs;
mod work;

use measure::{Contender, compare};
use ours::{breaker, facts, limit, stack_of_seven, stack_of_six, wall};
use tower::Layer;
use watertight::key::KeyBy;
use watertight::layers::rate_limit::Mode;
use watertight::layers::{DegradationLayer, DualClockTimeoutLayer, FailoverLayer, RetryLayer};
use watertight::observe::Plain;
use work::{Answer, Chat, Down, Http, Stuck, Value, answers, calls, makes, reads, refusals};

/// What the columns are. The ratios are of ours to theirs: of the whole, of what is above the bare service, and of the
/// whole with two threads.
const HEAD: &str = "                                                   ns allocs 2 threads        whole  above bare 2 threads";

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let handle = runtime.handle().clone();
    let _entered = handle.enter();
    // Timers must run for those peers that wait by one when two threads meet.
    std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
    println!("{HEAD}");
    timeouts();
    bulkheads();
    breakers();
    limiters();
    retries();
    failovers();
    ladders();
    stacks();
    growing();
    chunks();
    keyed();
}

/// Prints a table: the bare service, ours, and the peers.
fn table(title: &str, shared: bool, contenders: &[Contender]) {
    println!("\n{title}");
    let costs = compare(contenders, shared);
    let ours = costs[1];
    for (at, (contender, cost)) in contenders.iter().zip(&costs).enumerate() {
        let two = cost.shared_ns.map_or_else(|| "–".to_owned(), |ns| format!("{ns:.1}"));
        print!("  {:42} {:8.1} {:6.2} {two:>9}", contender.name, cost.ns, cost.allocs);
        if at > 1 && !contender.name.starts_with("ours") {
            let beneath = if contender.direct { 0.0 } else { costs[0].ns };
            let above = (ours.ns - costs[0].ns) / (cost.ns - beneath);
            print!(" {:12.2} {above:11.2}", ours.ns / cost.ns);
            if let (Some(ours), Some(theirs)) = (ours.shared_ns, cost.shared_ns) {
                print!(" {:9.2}", ours / theirs);
            }
        }
        println!();
    }
}

fn timeouts() {
    table(
        "clocks, over an HTTP response",
        true,
        &[
            calls("bare", Http),
            calls("ours: DualClockTimeout", DualClockTimeoutLayer::default().facts(&facts()).layer(Http)),
            calls("tower Timeout", theirs::tower_timeout(Http)),
            calls("tower-resilience time limiter", theirs::time_limiter(Http)),
        ],
    );
}

fn bulkheads() {
    table(
        "bulkhead, with room",
        true,
        &[
            calls("bare", Value),
            calls("ours: Bulkhead", wall(KeyBy::Nothing, 1 << 20, 32).layer(Value)),
            calls("ours: Bulkhead by caller", wall(KeyBy::Caller, 1 << 20, 32).layer(Value)),
            calls("tower ConcurrencyLimit", theirs::tower_concurrency(Value)),
            calls("tower-resilience bulkhead", theirs::bulkhead(1 << 20, Value)),
        ],
    );
    // The peer refuses by a timer of no length, which takes a turn of the runtime's clock: a millisecond. It is left out.
    table(
        "bulkhead, full",
        true,
        &[
            calls("bare", Value),
            refusals("ours: Bulkhead, refused", 1, wall(KeyBy::Nothing, 1, 0).layer(Stuck)),
        ],
    );
}

fn breakers() {
    table(
        "circuit breaker, closed",
        true,
        &[
            calls("bare", Value),
            calls("ours: CircuitBreaker", breaker(KeyBy::Nothing).layer(Value)),
            calls("ours: CircuitBreaker by caller", breaker(KeyBy::Caller).layer(Value)),
            calls("tower-resilience breaker, count window", theirs::breaker(Value)),
            calls("tower-resilience breaker, time window", theirs::timed_breaker(Value)),
            theirs::failsafe("failsafe, called directly"),
            theirs::recloser("recloser, called directly"),
        ],
    );
    table(
        "circuit breaker, open",
        true,
        &[
            calls("bare", Value),
            refusals("ours: CircuitBreaker, refused", 100, breaker(KeyBy::Nothing).layer(Down)),
            refusals("tower-resilience breaker, refused", 100, theirs::open_breaker(Down)),
            theirs::open_failsafe("failsafe, called directly"),
            theirs::open_recloser("recloser, called directly"),
        ],
    );
}

fn limiters() {
    let few = theirs::limiter(1, Value);
    table(
        "rate limit, within it",
        true,
        &[
            calls("bare", Value),
            calls(
                "ours: RateLimit, requests and tokens",
                limit(KeyBy::Nothing, u32::MAX, Mode::Wait).layer(Value),
            ),
            calls("ours: the same by caller", limit(KeyBy::Caller, u32::MAX, Mode::Wait).layer(Value)),
            makes("tower RateLimit, requests", || theirs::tower_rate(Value)),
            calls("tower-resilience rate limiter, requests", theirs::limiter(theirs::plenty(), Value)),
            theirs::governor("governor direct, requests", true),
            keys::checks("governor keyed, requests", keys::governor()),
        ],
    );
    table(
        "rate limit, used up",
        true,
        &[
            calls("bare", Value),
            refusals("ours: RateLimit, refused", 5, limit(KeyBy::Nothing, 1, Mode::Reject).layer(Value)),
            refusals("tower-resilience rate limiter, refused", 5, few),
            theirs::governor("governor direct, refused", false),
        ],
    );
}

fn retries() {
    table(
        "retry, nothing to try again",
        true,
        &[
            calls("bare", Value),
            calls("ours: Retry, with its budget", RetryLayer::default().facts(&facts()).layer(Value)),
            calls("tower Retry, with TpsBudget", theirs::tower_retry(Value)),
            calls("tower-resilience retry, no budget", theirs::retry(Value)),
        ],
    );
}

fn failovers() {
    table(
        "another answer, not needed",
        true,
        &[
            calls("bare", Value),
            calls("ours: Failover of three", FailoverLayer::new([Value, Value]).facts(&facts()).layer(Value)),
            calls("tower-resilience fallback to a value", theirs::fallback(Plain(2), Value)),
        ],
    );
}

fn ladders() {
    table(
        "a ladder that is not needed, over a reply read to its end",
        false,
        &[
            answers("bare", || Answer),
            answers("ours: Degradation", || DegradationLayer::default().facts(&facts()).layer(Answer)),
        ],
    );
}

/// Ours: ladder, bulkhead by caller, failover of three, and in each retry, breaker, limiter and clocks.
fn stacks() {
    let (seven, six) = (stack_of_seven(Answer), stack_of_six(Answer));
    table(
        "stacks, over a reply of a text and its end, read",
        true,
        &[
            answers("bare", || Answer),
            answers("ours: stack of seven, with facts and keys", move || seven.clone()),
            answers("ours: without the ladder", move || six.clone()),
            answers("tower, stack of 4", || theirs::tower_stack_of_four(Answer)),
            answers("tower-resilience, stack of 5", {
                let five = theirs::stack_of_five(Answer);
                move || five.clone()
            }),
        ],
    );
}

/// The stack of seven as it grows: what each layer costs where it stands, and how large its call and its answer are.
fn growing() {
    let steps = ours::steps(Answer);
    println!("\nbytes of a call, and of its answer, as the stack grows");
    for (name, call, answer, _) in &steps {
        println!("  {name:42} {call:8} {answer:6}");
    }
    let contenders: Vec<_> = steps.into_iter().map(|(.., contender)| contender).collect();
    table("the stack as it grows, over a reply read to its end", false, &contenders);
}

/// A unit is one event of a stream that has no end.
fn chunks() {
    table(
        "an event of a stream",
        false,
        &[
            reads("bare", Chat),
            reads("ours: stack of seven", stack_of_seven(Chat)),
            reads("ours: without the ladder", stack_of_six(Chat)),
            reads("ours: DualClockTimeout", DualClockTimeoutLayer::default().facts(&facts()).layer(Chat)),
            reads("ours: CircuitBreaker", breaker(KeyBy::Nothing).layer(Chat)),
            reads("ours: RateLimit", limit(KeyBy::Nothing, u32::MAX, Mode::Wait).layer(Chat)),
            reads("ours: Bulkhead", wall(KeyBy::Nothing, 1 << 20, 32).layer(Chat)),
            reads("ours: Degradation", DegradationLayer::default().facts(&facts()).layer(Chat)),
        ],
    );
}

/// One caller alone, and among a million others; and what each of those takes.
fn keyed() {
    let key = KeyBy::Caller;
    let bulkhead = || wall(key, 1 << 20, 32).layer(Value);
    let circuit = || breaker(key).layer(Value);
    let limiter = || limit(key, u32::MAX, Mode::Wait).layer(Value);
    let (one, many) = (keys::governor(), keys::governor());
    let full = (bulkhead(), circuit(), limiter());
    let bytes = [
        ("Bulkhead", keys::fill(full.0.clone())),
        ("CircuitBreaker", keys::fill(full.1.clone())),
        ("RateLimit", keys::fill(full.2.clone())),
        ("governor", keys::fill_governor(&many)),
    ];
    println!("\nbytes of an idle key, of {} keys", keys::MANY);
    for (name, bytes) in bytes {
        println!("  {name:42} {bytes:8.0}");
    }
    for (title, alone, among) in [
        ("one hot key of a bulkhead", calls("ours: alone", bulkhead()), calls("among 1,000,000", full.0)),
        ("one hot key of a breaker", calls("ours: alone", circuit()), calls("among 1,000,000", full.1)),
        ("one hot key of a limiter", calls("ours: alone", limiter()), calls("among 1,000,000", full.2)),
        ("one hot key of governor", keys::checks("alone", one), keys::checks("among 1,000,000", many)),
    ] {
        table(title, false, &[calls("bare", Value), alone, among]);
    }
}
