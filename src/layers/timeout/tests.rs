//! The numbers of the clocks, and the rate of a stream.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestError, TestRunner};

use crate::time::{Instant, now};

use super::crawling::{Crawling, Learned};
use super::*;

/// Scenario: the table of defaults in the docs beside the code.
/// Expected: they MUST say the same of each clock.
#[test]
fn the_printed_defaults_are_the_defaults() {
    let written = serde_json::to_value(Clocks::default()).unwrap();
    let mut rows = 0;
    for line in include_str!("mod.rs").lines().filter_map(|line| line.strip_prefix("//! | `")) {
        let (field, rest) = line.split_once("` | ").unwrap();
        let value = rest.split(" | ").next().unwrap().trim_matches('`');
        match written[field].as_str().unwrap() {
            name if field == "keep_alive" => assert_eq!(value, name),
            time => {
                let read = |text: &str| humantime_serde::re::humantime::parse_duration(text).unwrap();
                assert_eq!(read(value), read(time), "{field}");
            }
        }
        rows += 1;
    }
    assert_eq!(rows, 6);
}

/// Scenario: the presets.
/// Expected: MUST be what they are advertised to be, valid, and leave the other clocks as they are by default.
#[test]
fn the_presets_keep_their_word() {
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    let interactive =
        Clocks { first_output: seconds(5), idle: Some(Duration::from_millis(1500)), ..Clocks::default() };
    let reasoning =
        Clocks { first_output: seconds(300), idle: seconds(60), total: seconds(600), ..Clocks::default() };
    assert_eq!(Clocks::interactive(), interactive);
    assert_eq!(Clocks::reasoning(), reasoning);
    for clocks in [interactive, reasoning, Clocks::off(), Clocks::default()] {
        clocks.validate().unwrap();
        let written = serde_json::to_string(&clocks).unwrap();
        assert_eq!(serde_json::from_str::<Clocks>(&written).unwrap(), clocks);
    }
}

/// Scenario: each clock at zero, a crawl that cannot be measured, a field nobody knows, an empty file.
/// Expected: MUST be refused by the name of the field; nothing told is the default.
#[test]
fn a_clock_that_cannot_work_is_refused_by_name() {
    let none = Clocks::default();
    let zero = Some(Duration::ZERO);
    let crawl = |crawl| Clocks { crawl: Some(crawl), ..none };
    let rows = [
        ("first_output", Clocks { first_output: zero, ..none }),
        ("idle", Clocks { idle: zero, ..none }),
        ("silence", Clocks { silence: zero, ..none }),
        ("total", Clocks { total: zero, ..none }),
        ("total_stream", Clocks { total_stream: zero, ..none }),
        ("crawl.window", crawl(Crawl { window: Duration::ZERO, ..Crawl::default() })),
        ("crawl.tokens_per_second", crawl(Crawl { tokens_per_second: 0.0, ..Crawl::default() })),
        ("crawl.tokens_per_second", crawl(Crawl { tokens_per_second: f64::NAN, ..Crawl::default() })),
    ];
    for (field, clocks) in rows {
        assert_eq!(clocks.validate().unwrap_err().field, field);
        assert_eq!(DualClockTimeoutLayer::new(clocks).unwrap_err().field, field);
        assert_eq!(DualClockTimeoutLayer::with_reasoning(none, clocks).unwrap_err().field, field);
    }
    assert!(serde_json::from_str::<Clocks>(r#"{"first_token": "5s"}"#).is_err());
    assert_eq!(serde_json::from_str::<Clocks>("{}").unwrap(), none);
    assert_eq!(serde_json::from_str::<Clocks>(r#"{"idle": null}"#).unwrap(), Clocks { idle: None, ..none });
}

type Rates = fn(&[(u16, u32)], Crawl, Instant) -> Vec<bool>;

/// The law: a window is slow if its bytes over its time are fewer than asked, whatever came in the windows before.
fn each_window_is_judged_alone(rates: Rates) -> Result<(), TestError<Vec<(u16, u32)>>> {
    let config = Config { failure_persistence: None, ..Config::with_cases(128) };
    let crawl = Crawl { tokens_per_second: 10.0, ..Crawl::default() };
    let begun = now();
    TestRunner::new(config).run(&prop::collection::vec((1..60_u16, 0..4000_u32), 1..8), |windows| {
        let wanted: Vec<_> =
            windows.iter().map(|(seconds, bytes)| *bytes < 40 * u32::from(*seconds)).collect();
        prop_assert_eq!(rates(&windows, crawl, begun), wanted);
        Ok(())
    })
}

/// Scenario: windows of any length with any number of bytes.
/// Expected: each MUST be judged by its own; a rate over the whole stream MUST be rejected.
#[test]
fn a_rate_is_of_its_window() {
    each_window_is_judged_alone(|windows, crawl, begun| {
        let mut crawling = Crawling::default();
        let mut at = begun;
        crawling.begin(at);
        let mut judge = |(seconds, bytes): &(u16, u32)| {
            at += Duration::from_secs((*seconds).into());
            crawling.see(*bytes);
            let mut learned = Learned::default();
            crawling.judge(false, at, |rate| learned.is_brisk(rate, crawl)).is_some()
        };
        windows.iter().map(&mut judge).collect()
    })
    .unwrap();
    each_window_is_judged_alone(|windows, crawl, _| {
        let (mut time, mut all) = (0.0, 0.0);
        let mut judge = |(seconds, bytes): &(u16, u32)| {
            time += f64::from(*seconds);
            all += f64::from(*bytes);
            all / time < crawl.tokens_per_second * 4.0
        };
        windows.iter().map(&mut judge).collect()
    })
    .unwrap_err();
}

/// Scenario: windows at a steady rate, then one at a ninth and one at an eleventh of it; the same before enough are
/// known; a rate that sinks by and by.
/// Expected: only under a tenth of what is usual MUST be a crawl, and only once 20 are known; a crawl MUST not become
/// usual, and what sinks slowly MUST.
#[test]
fn the_usual_rate_is_learned() {
    let crawl = Crawl::default();
    let after = |windows: u32, rate: f64| {
        let mut learned = Learned::default();
        assert!((0..windows).all(|_| learned.is_brisk(1000.0, crawl)));
        (0..50).map(|_| learned.is_brisk(rate, crawl)).filter(|brisk| !brisk).count()
    };
    assert_eq!(after(20, 1000.0 / 9.0), 0);
    assert_eq!(after(20, 1000.0 / 11.0), 50);
    assert_eq!(after(19, 1000.0 / 11.0), 49, "the first of them is the twentieth known");
    assert_eq!(after(0, 1.9), 50, "half a token a second is two bytes");
    let mut learned = Learned::default();
    assert!((1..500).all(|window| learned.is_brisk(2000.0 / f64::from(window), crawl)));
}

/// Scenario: the clocks of a call, which every layer above moves with its response.
/// Expected: MUST be no larger than a cache line.
#[test]
fn the_clocks_of_a_call_are_small() {
    assert!(size_of::<Watchdog>() <= 64, "{}", size_of::<Watchdog>());
}
