//! A service that plays scripts in memory: what it is asked is counted, what it holds is counted, too.
#![allow(
    dead_code,
    unreachable_pub,
    missing_debug_implementations,
    clippy::unwrap_used,
    reason = "each test uses its part"
)]

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::Stream;
use tokio::time::{Instant, Sleep, sleep};
use tower::Service;
use watertight::chat::{Call, Completion, Event, Head, Message, Reply, Request, Role, Stop, Usage};
use watertight::event::{Fact, Facts};
use watertight::failure::{Code, Failure};

/// One thing that happens in a call.
#[derive(Clone, Debug)]
pub enum Act {
    /// So much time passes.
    Wait(u64),
    /// A text comes.
    Text(&'static str),
    /// Something comes that is no output.
    Preamble,
    /// So much input and output was used so far.
    Used(u64, u64),
    /// The other side lives.
    KeepAlive,
    /// The call fails.
    Fail(Failure),
    /// The terminal event.
    Done,
    /// The stream ends without one.
    End,
    /// Nothing more ever comes.
    Hang,
}

/// A call: what happens before its head, and after it.
#[derive(Clone, Debug, Default)]
pub struct Script {
    pub head: Vec<Act>,
    pub body: Vec<Act>,
}

/// Plays a script a call; the last one again and again.
#[derive(Clone)]
pub struct Stage {
    pub name: &'static str,
    scripts: Arc<Mutex<VecDeque<Script>>>,
    pub log: Log,
    ready: bool,
}

/// What a stage saw.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    calls: Vec<(&'static str, Instant, Call)>,
    open: usize,
}

/// Counts one call as open until it is dropped.
pub struct Open(Log);

pub struct Playing {
    script: Script,
    wait: Option<Pin<Box<Sleep>>>,
    open: Option<Open>,
    name: &'static str,
}

pub struct Body {
    acts: VecDeque<Act>,
    wait: Option<Pin<Box<Sleep>>>,
    name: &'static str,
    _open: Open,
}

impl Script {
    pub fn head(acts: impl IntoIterator<Item = Act>) -> Self {
        Self { head: acts.into_iter().collect(), body: vec![] }
    }

    pub fn body(acts: impl IntoIterator<Item = Act>) -> Self {
        Self { head: vec![], body: acts.into_iter().collect() }
    }

    pub fn fails(code: Code) -> Self {
        Self::head([Act::Fail(Failure::new(code, "scripted"))])
    }

    pub fn says(text: &'static str) -> Self {
        Self::body([Act::Text(text), Act::Done])
    }
}

impl Stage {
    pub fn new(name: &'static str, log: &Log, scripts: impl IntoIterator<Item = Script>) -> Self {
        let scripts = Arc::new(Mutex::new(scripts.into_iter().collect()));
        Self { name, scripts, log: log.clone(), ready: false }
    }
}

impl Log {
    pub fn calls(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().calls.iter().map(|(name, ..)| *name).collect()
    }

    pub fn times(&self) -> Vec<Instant> {
        self.0.lock().unwrap().calls.iter().map(|(_, at, _)| *at).collect()
    }

    pub fn seen(&self) -> Vec<Call> {
        self.0.lock().unwrap().calls.iter().map(|(.., call)| *call).collect()
    }

    /// Calls and streams that are not dropped.
    pub fn open(&self) -> usize {
        self.0.lock().unwrap().open
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.0.lock().unwrap().open -= 1;
    }
}

impl Service<Request> for Stage {
    type Response = Reply<Body>;
    type Error = Failure;
    type Future = Playing;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    /// # Panics
    /// When it was not polled ready: a clone starts unready, too.
    fn call(&mut self, request: Request) -> Playing {
        use watertight::chat::Ask;
        assert!(std::mem::take(&mut self.ready), "called unready");
        let mut scripts = self.scripts.lock().unwrap();
        let script = if scripts.len() > 1 { scripts.pop_front() } else { scripts.front().cloned() };
        let mut seen = self.log.0.lock().unwrap();
        seen.calls.push((self.name, Instant::now(), request.call()));
        seen.open += 1;
        let open = Some(Open(self.log.clone()));
        Playing { script: script.unwrap_or_default(), wait: None, open, name: self.name }
    }
}

/// The time that a wait takes still; nothing once it is over.
fn poll_wait(wait: &mut Option<Pin<Box<Sleep>>>, cx: &mut Context<'_>) -> Poll<()> {
    if let Some(sleep) = wait {
        std::task::ready!(sleep.as_mut().poll(cx));
        *wait = None;
    }
    Poll::Ready(())
}

impl Future for Playing {
    type Output = Result<Reply<Body>, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            std::task::ready!(poll_wait(&mut self.wait, cx));
            if self.script.head.is_empty() {
                let open = self.open.take().expect("polled after it was ready");
                let acts = std::mem::take(&mut self.script.body).into();
                let body = Body { acts, wait: None, name: self.name, _open: open };
                return Poll::Ready(Ok(Reply::new(Head::of(self.name), body)));
            }
            match self.script.head.remove(0) {
                Act::Wait(ms) => self.wait = Some(Box::pin(sleep(Duration::from_millis(ms)))),
                Act::Fail(failure) => return Poll::Ready(Err(failure.with_provider(&self.name.into()))),
                Act::Hang => {
                    self.script.head.insert(0, Act::Hang);
                    return Poll::Pending;
                }
                _ => {}
            }
        }
    }
}

impl Stream for Body {
    type Item = Result<Event, Failure>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            std::task::ready!(poll_wait(&mut self.wait, cx));
            let event = match self.acts.pop_front() {
                Some(Act::Wait(ms)) => {
                    self.wait = Some(Box::pin(sleep(Duration::from_millis(ms))));
                    continue;
                }
                Some(Act::Used(input, output)) => {
                    Event::Usage(Box::new(Usage { input, output, ..Usage::default() }))
                }
                Some(Act::Text(text)) => Event::text(0, format!("{}{text}", self.name)),
                Some(Act::Preamble) => Event::Started { id: "id".into(), model: self.name.into() },
                Some(Act::KeepAlive) => Event::KeepAlive,
                Some(Act::Fail(failure)) => {
                    return Poll::Ready(Some(Err(failure.with_provider(&self.name.into()))));
                }
                Some(Act::Done) => {
                    let message = Message::text(Role::Assistant, "");
                    Event::Completed(Box::new(Completion::new(message, Stop::End, None)))
                }
                Some(Act::Hang) => {
                    self.acts.push_front(Act::Hang);
                    return Poll::Pending;
                }
                Some(Act::End) | None => return Poll::Ready(None),
            };
            return Poll::Ready(Some(Ok(event)));
        }
    }
}

pub fn request() -> Request {
    Request::new("model").user("hello").streaming()
}

pub fn fail(code: Code) -> Failure {
    Failure::new(code, "scripted")
}

/// The names of all facts, in order.
pub fn facts() -> (Facts, Arc<Mutex<Vec<String>>>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&told);
    let facts = Facts::to(move |fact: &Fact<'_>| sink.lock().unwrap().push(fact.name().to_owned()));
    (facts, told)
}

/// What a caller gets of a reply: all text, and how it ended.
pub async fn read<T>(mut reply: T) -> (String, Result<(), Failure>)
where
    T: Stream<Item = Result<Event, Failure>> + Unpin,
{
    use futures_util::StreamExt;
    let mut text = String::new();
    let mut end = None;
    while let Some(item) = reply.next().await {
        assert!(end.is_none(), "something came after the end: {item:?}");
        match item {
            Ok(Event::Text { text: more, .. }) => text.push_str(&more),
            Ok(Event::Reset(_)) => text.clear(),
            Ok(Event::Completed(_)) => end = Some(Ok(())),
            Ok(_) => {}
            Err(failure) => end = Some(Err(failure)),
        }
    }
    (text, end.expect("a reply ends with an event or a failure"))
}

/// Calls a service, and reads what comes.
pub async fn ask<S, T>(service: &mut S, request: Request) -> (String, Result<(), Failure>)
where
    S: Service<Request, Response = T, Error = Failure>,
    T: Stream<Item = Result<Event, Failure>> + Unpin,
{
    use tower::ServiceExt;
    let ready = service.ready().await;
    match ready {
        Ok(service) => match service.call(request).await {
            Ok(reply) => read(reply).await,
            Err(failure) => (String::new(), Err(failure)),
        },
        Err(failure) => (String::new(), Err(failure)),
    }
}
