//! Many short batches of all contenders in turn, and the best batch of each: what disturbs a machine comes and goes,
//! and disturbs them all.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use allocation_counter::measure;

/// How long one batch takes at least: long beside the clock's own cost, short beside a time slice.
const BATCH: Duration = Duration::from_micros(200);
const BATCHES: usize = 300;

/// Two threads need longer batches, so that they run beside each other for most of one.
const SHARED_BATCH: Duration = Duration::from_micros(100);

/// How long two threads are at it in all, for one table.
const SHARED_TIME: Duration = Duration::from_secs(2);

/// How much of a batch two threads must have run beside each other for it to count.
const OVERLAP: f64 = 0.8;

/// Does the work so many times.
pub type Run = Box<dyn FnMut(usize) + Send>;

/// One way to do the work.
pub struct Contender {
    pub name: &'static str,
    /// Whether nothing is beneath it: a peer that is called directly, and is no service.
    pub direct: bool,
    /// Makes a worker. Workers of one contender share its state.
    pub worker: Box<dyn Fn() -> Run>,
}

/// What one unit of work took.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    pub ns: f64,
    pub allocs: f64,
    /// With two threads at it, if they ever ran beside each other.
    pub shared_ns: Option<f64>,
}

impl Contender {
    pub fn new<R>(name: &'static str, worker: impl Fn() -> R + 'static) -> Self
    where
        R: FnMut(usize) + Send + 'static,
    {
        Self { name, direct: false, worker: Box::new(move || Box::new(worker())) }
    }

    /// One with nothing beneath it.
    pub fn direct<R>(name: &'static str, worker: impl Fn() -> R + 'static) -> Self
    where
        R: FnMut(usize) + Send + 'static,
    {
        Self { direct: true, ..Self::new(name, worker) }
    }
}

/// Measures all of them in turn, batch by batch.
pub fn compare(contenders: &[Contender], shared: bool) -> Vec<Cost> {
    let mut workers: Vec<Run> = contenders.iter().map(|contender| (contender.worker)()).collect();
    let sizes: Vec<usize> = workers.iter_mut().map(|run| size(run, BATCH)).collect();
    let mut best = vec![f64::INFINITY; workers.len()];
    for _ in 0..BATCHES {
        for ((run, size), best) in workers.iter_mut().zip(&sizes).zip(&mut best) {
            *best = best.min(nanos(run, *size));
        }
    }
    let allocs = workers
        .iter_mut()
        .zip(&sizes)
        .map(|(run, size)| per(measure(|| run(*size)).count_total as f64, *size));
    let allocs: Vec<f64> = allocs.collect();
    drop(workers);
    let shared = if shared { compare_shared(contenders) } else { vec![None; contenders.len()] };
    best.into_iter()
        .zip(allocs)
        .zip(shared)
        .map(|((ns, allocs), shared_ns)| Cost { ns, allocs, shared_ns })
        .collect()
}

/// The same with two threads, each with a worker of its own.
fn compare_shared(contenders: &[Contender]) -> Vec<Option<f64>> {
    let workers = || contenders.iter().map(|contender| (contender.worker)()).collect::<Vec<Run>>();
    let (mut one, two) = (workers(), workers());
    // Measured with one thread, since with two they take longer, and never less.
    let sizes: Vec<usize> = one.iter_mut().map(|run| size(run, SHARED_BATCH)).collect();
    let runtime = tokio::runtime::Handle::current();
    let (line, over, begun) = (StartLine::default(), AtomicBool::new(false), Instant::now());
    let spans = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for (at, mut workers) in [one, two].into_iter().enumerate() {
            let (runtime, line, over, sizes, spans) = (&runtime, &line, &over, &sizes, &spans);
            scope.spawn(move || {
                let _entered = runtime.enter();
                let mut own = Vec::new();
                loop {
                    // One decides, before both stand at the line, so that both stop at the same.
                    if at == 0 && begun.elapsed() > SHARED_TIME {
                        over.store(true, Ordering::Relaxed);
                    }
                    line.wait();
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                    for (run, size) in workers.iter_mut().zip(sizes) {
                        line.wait();
                        let start = Instant::now();
                        run(*size);
                        own.push((start, Instant::now()));
                    }
                }
                spans.lock().unwrap_or_else(PoisonError::into_inner).push(own);
            });
        }
    });
    let spans = spans.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut best = vec![None; contenders.len()];
    for (at, (one, two)) in spans[0].iter().zip(&spans[1]).enumerate() {
        let longest = (one.1 - one.0).max(two.1 - two.0).as_secs_f64();
        let beside = one.1.min(two.1).saturating_duration_since(one.0.max(two.0)).as_secs_f64();
        if beside >= OVERLAP * longest {
            let which = at % contenders.len();
            let ns = per(longest * 1e9, sizes[which]);
            best[which] = Some(best[which].map_or(ns, |best: f64| best.min(ns)));
        }
    }
    best
}

/// How many units fill a batch.
fn size(run: &mut Run, batch: Duration) -> usize {
    let mut size = 16;
    loop {
        let start = Instant::now();
        run(size);
        if start.elapsed() >= batch {
            return size;
        }
        size *= 2;
    }
}

fn nanos(run: &mut Run, size: usize) -> f64 {
    let start = Instant::now();
    run(size);
    per(start.elapsed().as_secs_f64() * 1e9, size)
}

fn per(sum: f64, size: usize) -> f64 {
    sum / size as f64
}

/// Where two threads wait for each other, awake, so that they start at once.
#[derive(Default)]
struct StartLine(AtomicUsize);

impl StartLine {
    fn wait(&self) {
        let arrived = self.0.fetch_add(1, Ordering::AcqRel) + 1;
        let whole = arrived.div_ceil(2) * 2;
        let mut spins = 0_u32;
        while self.0.load(Ordering::Acquire) < whole {
            spins += 1;
            // On a machine with one free core the other must have its turn.
            if spins.is_multiple_of(1 << 13) {
                std::thread::yield_now();
            }
            spin_loop();
        }
    }
}
