//! The services against servers that no one here wrote: llama.cpp's own with a small model, and an emulator.
//!
//! `.ci/real` installs both into `.real/`. What is not there is said, and its cases count as skipped. The last line
//! counts.
#![allow(clippy::print_stdout, reason = "a test runner of its own")]

mod children;

use std::process::ExitCode;
use std::time::Duration;

use futures_util::StreamExt;
use serde_json::json;
use tower::ServiceExt;
use watertight::chat::{Assembler, Completion, Event, Protocol, Request, Stop, Tool};
use watertight::failure::{Code, Failure};
use watertight::layers::DualClockTimeoutLayer;
use watertight::layers::timeout::Clocks;
use watertight::provider::Provider;

use children::Child;

type Case = Result<(), String>;

const PROTOCOLS: [Protocol; 3] =
    [Protocol::OpenaiChat, Protocol::OpenaiResponses, Protocol::AnthropicMessages];

#[derive(Default)]
struct Count {
    passed: usize,
    failed: usize,
    skipped: usize,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let mut count = Count::default();
    match Child::llama().await {
        Ok(llama) => llama_cases(&llama, &mut count).await,
        Err(why) => count.skip("llama.cpp", 7 * PROTOCOLS.len(), &why),
    }
    match Child::emulator().await {
        Ok(emulator) => emulator_cases(&emulator, &mut count).await,
        Err(why) => count.skip("emulator", 9 * PROTOCOLS.len(), &why),
    }
    println!("{} passed, {} failed, {} skipped", count.passed, count.failed, count.skipped);
    if count.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn llama_cases(llama: &Child, count: &mut Count) {
    for protocol in PROTOCOLS {
        let provider = llama.provider(protocol);
        let short = || Request::new("any").user("Say hello.").max_output_tokens(12).temperature(0.0);
        count.note(llama, protocol, "streams", streams(&provider, short().streaming()).await);
        count.note(llama, protocol, "answers whole", answers(&provider, short()).await);
        let multi = short().system("Be brief.").assistant("Yes?").user("Name a colour.");
        count.note(llama, protocol, "follows a conversation", streams(&provider, multi.streaming()).await);
        let wrong = Provider::new(llama.profile(protocol).with_key("wrong")).expect("a provider");
        count.note(
            llama,
            protocol,
            "refuses a wrong key",
            fails(&wrong, short(), Code::Authentication).await,
        );
        let long = Request::new("any").user("word ".repeat(6000)).max_output_tokens(4);
        let whole = fails(&provider, long.clone(), Code::ContextLength).await;
        count.note(llama, protocol, "tells a prompt that is too long", whole);
        let streamed = fails(&provider, long.streaming(), Code::ContextLength).await;
        count.note(llama, protocol, "tells it of a stream, too", streamed);
        count.note(llama, protocol, "stops when its client leaves", stops(llama, &provider).await);
    }
}

async fn emulator_cases(emulator: &Child, count: &mut Count) {
    for protocol in PROTOCOLS {
        let provider = emulator.provider(protocol);
        let ask = |word: &str| Request::new("any").user(word).max_output_tokens(100);
        let hello = |completion: &Completion| {
            completion.message.to_text() == "Hello from the other side of the wire."
        };
        let streamed = streams_as(&provider, ask("hello").streaming(), hello).await;
        count.note(emulator, protocol, "streams", streamed);
        count.note(emulator, protocol, "answers whole", answers_as(&provider, ask("hello"), hello).await);
        let schema = json!({"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}});
        let weather = || ask("weather").tool(Tool::new("weather", "Tells the weather.", schema.clone()));
        let called = streams_as(&provider, weather().streaming(), calls_weather).await;
        count.note(emulator, protocol, "streams a tool call", called);
        let called = answers_as(&provider, weather(), calls_weather).await;
        count.note(emulator, protocol, "answers with a tool call", called);
        for (word, code) in
            [("overload", Code::Overloaded), ("limit", Code::RateLimited), ("key", Code::Authentication)]
        {
            let failed = fails(&provider, ask(word).streaming(), code).await;
            count.note(emulator, protocol, &format!("fails: {word}"), failed);
        }
        count.note(emulator, protocol, "tells a cut stream", cut(&provider, ask("cut").streaming()).await);
        count.note(
            emulator,
            protocol,
            "is too slow for a clock",
            slow(&provider, ask("slow").streaming()).await,
        );
    }
}

/// A stream with text, a proper end, and the same text in the end as in the pieces.
async fn streams<C: children::Client>(provider: &Provider<C>, request: Request) -> Case {
    streams_as(provider, request, |completion| !completion.message.to_text().is_empty()).await
}

async fn streams_as<C: children::Client>(
    provider: &Provider<C>,
    request: Request,
    right: impl Fn(&Completion) -> bool,
) -> Case {
    let mut reply = provider.clone().oneshot(request).await.map_err(|failure| failure.to_string())?;
    let mut gathered = Assembler::new();
    let completion = reply.gather(&mut gathered).await.map_err(|failure| failure.to_string())?;
    let pieces = gathered.finish();
    if pieces.to_text() != completion.message.to_text() {
        return Err(format!("the pieces say {pieces:?}, the end says {completion:?}"));
    }
    if right(&completion) { Ok(()) } else { Err(format!("{completion:?}")) }
}

async fn answers<C: children::Client>(provider: &Provider<C>, request: Request) -> Case {
    let right =
        |completion: &Completion| !completion.message.to_text().is_empty() && completion.usage.is_some();
    answers_as(provider, request, right).await
}

async fn answers_as<C: children::Client>(
    provider: &Provider<C>,
    request: Request,
    right: impl Fn(&Completion) -> bool,
) -> Case {
    let completion = whole(provider, request).await.map_err(|failure| failure.to_string())?;
    if right(&completion) { Ok(()) } else { Err(format!("{completion:?}")) }
}

async fn whole<C: children::Client>(provider: &Provider<C>, request: Request) -> Result<Completion, Failure> {
    provider.clone().oneshot(request).await?.collect().await
}

async fn fails<C: children::Client>(provider: &Provider<C>, request: Request, code: Code) -> Case {
    match whole(provider, request).await {
        Err(failure) if failure.code() == code => Ok(()),
        other => Err(format!("expected {code}, came {other:?}")),
    }
}

fn calls_weather(completion: &Completion) -> bool {
    let calls: Vec<_> = completion.message.tool_calls().collect();
    let [call] = calls.as_slice() else { return false };
    let arguments: Option<serde_json::Value> = serde_json::from_str(&call.arguments).ok();
    completion.stop == Stop::ToolCalls
        && call.name == "weather"
        && !call.id.is_empty()
        && arguments == Some(json!({"city": "Oslo", "days": 2}))
}

/// The text before the cut is the caller's, and the cut is a failure.
async fn cut<C: children::Client>(provider: &Provider<C>, request: Request) -> Case {
    let reply = provider.clone().oneshot(request).await;
    let mut reply = reply.map_err(|failure| failure.to_string())?;
    match reply.gather(&mut Assembler::new()).await {
        Err(failure) if matches!(failure.code(), Code::Transport | Code::Truncated) => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

/// Four tokens a second are too few for a clock of 120 ms between outputs.
async fn slow<C: children::Client>(provider: &Provider<C>, request: Request) -> Case {
    let clocks = Clocks { idle: Some(Duration::from_millis(120)), ..Clocks::default() };
    let layer = DualClockTimeoutLayer::new(clocks).map_err(|error| error.to_string())?;
    let service = tower::ServiceBuilder::new().layer(layer).service(provider.clone());
    let reply = service.oneshot(request).await.map_err(|failure| failure.to_string())?;
    match reply.collect().await {
        Err(failure) if failure.code().as_str() == "TIMEOUT_IDLE" => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

/// Dropping a reply in the middle stops the generation.
async fn stops<C: children::Client>(llama: &Child, provider: &Provider<C>) -> Case {
    let request = Request::new("any").user("Write a very long story.").max_output_tokens(1500).streaming();
    let mut reply = provider.clone().oneshot(request).await.map_err(|failure| failure.to_string())?;
    loop {
        match reply.next().await {
            Some(Ok(Event::Text { .. })) => break,
            Some(Ok(_)) => {}
            other => return Err(format!("no text came: {other:?}")),
        }
    }
    if llama.working().await? == 0 {
        return Err("it was not seen at work".into());
    }
    drop(reply);
    for _ in 0..50 {
        if llama.working().await? == 0 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Err("it goes on for nobody".into())
}

// === impl Count ===

impl Count {
    fn note(&mut self, child: &Child, protocol: Protocol, what: &str, case: Case) {
        match case {
            Ok(()) => self.passed += 1,
            Err(why) => {
                self.failed += 1;
                println!("FAILED {} {} {what}: {why}", child.name, protocol.as_str());
            }
        }
    }

    fn skip(&mut self, name: &str, cases: usize, why: &str) {
        self.skipped += cases;
        println!("skipped {name}: {why}");
    }
}
