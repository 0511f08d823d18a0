//! The layers of watertight beside those of other crates: the same work, one process, batches in turn.
//!
//! Run: `cargo run --release --manifest-path benches/peers/Cargo.toml`. You should see: for each kind of work our cost
//! and below it that of each peer, and the ratio of ours to theirs. Only ratios of one run mean anything; the
//! allocations are exact. The work is a call through a service that is ready and answers at once, so a cost contains
//! that of the bare service, which each table begins with.

mod measure;
mod theirs;
mod work;

use measure::{Contender, compare};
use tower::Layer;
use watertight::event::Facts;
use watertight::layers::{DualClockTimeoutLayer, FailoverLayer, RetryLayer};
use watertight::observe::Plain;
use work::{Chat, Http, Value, calls, makes, reads};

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let _entered = runtime.enter();
    println!(
        "{:44} {:>8} {:>6} {:>9} {:>12} {:>12}",
        "", "ns", "allocs", "2 threads", "ours/theirs", "2 threads"
    );
    timeouts();
    retries();
    failovers();
    stacks();
    chunks();
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
