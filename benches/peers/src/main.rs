//! The layers of watertight beside those of other crates: the same work, one process, batches in turn.
//!
//! Run: `cargo run --release --manifest-path benches/peers/Cargo.toml`. You should see: for each kind of work our cost
//! and below it that of each peer, and the ratio of ours to theirs. Only ratios of one run mean anything; the
//! allocations are exact. The work is a call through a service that is ready and answers at once, so a cost contains
//! that of the bare service, which each table begins with.

mod keys;
mod measure;
mod theirs;
mod work;

use measure::{Contender, compare};
use tower::Layer;
use watertight::event::Facts;
use watertight::key::KeyBy;
use watertight::layers::bulkhead::BulkheadConfig;
use watertight::layers::{BulkheadLayer, DualClockTimeoutLayer, FailoverLayer, RetryLayer};
use watertight::observe::Plain;
use work::{Chat, Http, Stuck, Value, calls, makes, reads, refusals};

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let _entered = runtime.enter();
    println!(
        "{:44} {:>8} {:>6} {:>9} {:>12} {:>12}",
        "", "ns", "allocs", "2 threads", "ours/theirs", "2 threads"
    );
    timeouts();
    bulkheads();
    retries();
    failovers();
    stacks();
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
            print!(" {:12.2}", ours.ns / cost.ns);
            if let (Some(ours), Some(theirs)) = (ours.shared_ns, cost.shared_ns) {
                print!(" {:12.2}", ours / theirs);
            }
        }
        println!();
    }
}

/// A sink that hears every fact, as an application's would.
fn facts() -> Facts {
    Facts::from_fn(|fact| {
        std::hint::black_box(fact);
    })
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

/// At most so many calls of each caller, or of all.
fn wall(key: KeyBy, max_concurrent: u32, max_waiting: u32) -> BulkheadLayer {
    let max_concurrent = Some(max_concurrent);
    let max_keys = 2 * keys::MANY;
    let config = BulkheadConfig { key, max_concurrent, max_waiting, max_keys, ..BulkheadConfig::default() };
    BulkheadLayer::new(config).expect("it can work").facts(&facts())
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
    // The peer's refuses by a timer of no length, which takes a turn of the runtime's clock: a millisecond.
    table(
        "bulkhead, full",
        true,
        &[
            calls("bare", Value),
            refusals("ours: Bulkhead, refused", 1, wall(KeyBy::Nothing, 1, 0).layer(Stuck)),
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

fn stacks() {
    let facts = facts();
    let candidate = || {
        RetryLayer::default().facts(&facts).layer(DualClockTimeoutLayer::default().facts(&facts).layer(Http))
    };
    let ours = FailoverLayer::new([candidate(), candidate()]).facts(&facts).layer(candidate());
    table(
        "stacks, over an HTTP response",
        true,
        &[
            calls("bare", Http),
            calls("ours", ours),
            makes("tower, stack of 4", || theirs::tower_stack_of_four(Http)),
            calls("tower-resilience, stack of 5", theirs::stack_of_five(Http)),
        ],
    );
}

/// One caller alone, and among a million others; and what each of those takes.
fn keyed() {
    let alone = wall(KeyBy::Caller, 1 << 20, 32).layer(Value);
    let among = wall(KeyBy::Caller, 1 << 20, 32).layer(Value);
    let bulkhead = keys::fill(among.clone());
    let (one, many) = (keys::governor(), keys::governor());
    let governor = keys::fill_governor(&many);
    table(
        "one hot key",
        true,
        &[
            calls("bare", Value),
            calls("ours: Bulkhead, alone", alone),
            calls("ours: Bulkhead, among 1,000,000", among),
            keys::checks("governor keyed, alone", one),
            keys::checks("governor keyed, among 1,000,000", many),
        ],
    );
    println!("\nbytes of an idle key: Bulkhead {bulkhead:.0}, governor {governor:.0}");
}

/// A unit is one event of a stream that has no end.
fn chunks() {
    let facts = facts();
    let clocks = || DualClockTimeoutLayer::default().facts(&facts);
    let candidate = || RetryLayer::default().facts(&facts).layer(clocks().layer(Chat));
    let all = FailoverLayer::new([candidate(), candidate()]).facts(&facts).layer(candidate());
    table(
        "an event of a stream",
        false,
        &[
            reads("bare", Chat),
            reads("ours: all layers", all),
            reads("ours: DualClockTimeout", clocks().layer(Chat)),
        ],
    );
}
