//! The work: a call through a service that is always ready, in three kinds of answers.

use std::future::{Future, Pending, Ready, pending, ready};
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures_core::Stream;
use http_body_util::Empty;
use tower::Service;
use watertight::chat::{Completion, Cost, Event, Head, Message, Reply, Request, Role, Stop};
use watertight::failure::Failure;
use watertight::key::Caller;
use watertight::observe::Plain;

use crate::measure::Contender;

/// Answers at once with a value.
#[derive(Clone, Copy, Debug)]
pub struct Value;

/// Answers at once with an HTTP response without a body.
#[derive(Clone, Copy, Debug)]
pub struct Http;

/// Answers at once with a stream that has no end.
#[derive(Clone, Copy, Debug)]
pub struct Chat;

/// Answers at once with a stream of one text and its end.
#[derive(Clone, Copy, Debug)]
pub struct Answer;

/// Never answers.
#[derive(Clone, Copy, Debug)]
pub struct Stuck;

/// Fails at once.
#[derive(Clone, Copy, Debug)]
pub struct Down;

/// One text after the other.
#[derive(Debug)]
pub struct Texts;

/// One text, and the end.
#[derive(Debug)]
pub struct Short(u8);

pub type HttpResponse = http::Response<Empty<Bytes>>;

pub fn request() -> Request {
    let cost = Cost { input: 1, output: Some(1) };
    Request::new("model").user("hello").streaming().attach(Caller::new("user-17")).attach(cost)
}

macro_rules! answers {
    ($($service:ty => $response:ty, $make:expr;)*) => {$(
        impl Service<Request> for $service {
            type Response = $response;
            type Error = Failure;
            type Future = Ready<Result<$response, Failure>>;

            fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
                Poll::Ready(Ok(()))
            }

            fn call(&mut self, request: Request) -> Self::Future {
                black_box(&request);
                ready($make)
            }
        }
    )*};
}

answers! {
    Value => Plain<u64>, Ok(Plain(1));
    Http => HttpResponse, Ok(http::Response::new(Empty::new()));
    Chat => Reply<Texts>, Ok(Reply::new(Head::default(), Texts));
    Answer => Reply<Short>, Ok(Reply::new(Head::default(), Short(0)));
    Down => Plain<u64>, Err(Failure::new(watertight::failure::Code::Server, "down"));
}

impl Stream for Texts {
    type Item = Result<Event, Failure>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(Some(Ok(Event::text(0, "x"))))
    }
}

impl Stream for Short {
    type Item = Result<Event, Failure>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0 += 1;
        Poll::Ready(match self.0 {
            1 => Some(Ok(Event::text(0, "x"))),
            2 => {
                let message = Message::text(Role::Assistant, "x");
                Some(Ok(Event::Completed(Box::new(Completion::new(message, Stop::End, None)))))
            }
            _ => None,
        })
    }
}

impl Service<Request> for Stuck {
    type Response = Plain<u64>;
    type Error = Failure;
    type Future = Pending<Result<Plain<u64>, Failure>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request) -> Self::Future {
        pending()
    }
}

/// Calls a service, and drops what it answers.
pub fn calls<S>(name: &'static str, service: S) -> Contender
where
    S: Service<Request> + Clone + Send + 'static,
{
    makes(name, move || service.clone())
}

/// The same, where a service cannot be cloned and each worker must have its own.
pub fn makes<S>(name: &'static str, make: impl Fn() -> S + 'static) -> Contender
where
    S: Service<Request> + Send + 'static,
{
    Contender::new(name, move || {
        let (mut service, request) = (make(), request());
        move |calls| {
            let mut cx = Context::from_waker(Waker::noop());
            for _ in 0..calls {
                while service.poll_ready(&mut cx).is_pending() {}
                let mut call = pin!(service.call(request.clone()));
                // One that waits for a lock is asked until it has it.
                while call.as_mut().poll(&mut cx).map(black_box).is_pending() {
                    std::hint::spin_loop();
                }
            }
        }
    })
}

/// Makes so many calls of a service, keeps those that have no answer, and measures calls that are refused from then on.
pub fn refusals<S>(name: &'static str, before: usize, service: S) -> Contender
where
    S: Service<Request> + Clone + Send + 'static,
{
    let (mut first, mut cx) = (service.clone(), Context::from_waker(Waker::noop()));
    let mut kept = Vec::new();
    for _ in 0..before {
        assert!(first.poll_ready(&mut cx).is_ready());
        let mut call = Box::pin(first.call(request()));
        if call.as_mut().poll(&mut cx).is_pending() {
            kept.push(call);
        }
    }
    Contender::new(name, move || {
        // The maker holds them as long as there are workers to be made and measured.
        let _ = &kept;
        let (mut service, request) = (service.clone(), request());
        move |calls| {
            let mut cx = Context::from_waker(Waker::noop());
            for _ in 0..calls {
                while service.poll_ready(&mut cx).is_pending() {}
                let mut call = pin!(service.call(request.clone()));
                let answer = loop {
                    if let Poll::Ready(answer) = call.as_mut().poll(&mut cx) {
                        break answer;
                    }
                };
                assert!(black_box(answer).is_err(), "{name} is not refused");
            }
        }
    })
}

/// Calls a service, and reads its answer to the end.
pub fn answers<S, T>(name: &'static str, make: impl Fn() -> S + 'static) -> Contender
where
    S: Service<Request, Response = T> + Send + 'static,
    T: Stream<Item = Result<Event, Failure>> + Unpin,
{
    Contender::new(name, move || {
        let (mut service, request) = (make(), request());
        move |calls| {
            let mut cx = Context::from_waker(Waker::noop());
            for _ in 0..calls {
                while service.poll_ready(&mut cx).is_pending() {}
                let mut call = pin!(service.call(request.clone()));
                let answer = loop {
                    if let Poll::Ready(answer) = call.as_mut().poll(&mut cx) {
                        break answer;
                    }
                };
                let Ok(mut reply) = answer else { panic!("{name} fails") };
                let mut events = 0;
                while let Poll::Ready(Some(event)) = Pin::new(&mut reply).poll_next(&mut cx) {
                    assert!(black_box(event).is_ok(), "{name} fails");
                    events += 1;
                }
                assert_eq!(events, 2, "{name} does not end");
            }
        }
    })
}

/// Calls a service, and reads so many events of its answer.
pub fn reads<S, T>(name: &'static str, service: S) -> Contender
where
    S: Service<Request, Response = T, Error: std::fmt::Debug> + Clone + Send + 'static,
    T: Stream<Item = Result<Event, Failure>> + Unpin,
{
    Contender::new(name, move || {
        let (mut service, request) = (service.clone(), request());
        move |events| {
            let mut cx = Context::from_waker(Waker::noop());
            assert!(service.poll_ready(&mut cx).is_ready());
            let call = pin!(service.call(request.clone()));
            let Poll::Ready(answer) = call.poll(&mut cx) else { panic!("{name} does not answer at once") };
            let mut reply = answer.expect("it answers");
            let mut left = events;
            while left > 0 {
                // After so much without a wait the clocks are asked first, and it is pending once.
                left -= usize::from(Pin::new(&mut reply).poll_next(&mut cx).map(black_box).is_ready());
            }
        }
    })
}
