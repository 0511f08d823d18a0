//! A script played as real HTTP/1.1 on loopback.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use super::journal::{Ending, Exchange, Journal, Seen};
use super::script::Script;
use super::stage::Stage;
use super::step::{BodyEnd, Connect, Step};
use super::wire::{self, Framing};
use crate::time::sleep;

/// The wait between the last bytes and a reset: a reset throws away what the peer's kernel has not yet taken.
const LAST_BYTES: Duration = Duration::from_millis(5);
/// The status of a request beyond the script.
const OVER: u16 = 500;

/// A scripted provider on a loopback port of its own. Dropped, it closes the port and every connection.
///
/// A connection carries one request, and a step is taken when its request is whole, in order of arrival. A step
/// that refuses or breaks the connection is taken as soon as a connection is accepted. **Refused** is as near as
/// an open port can come: the connection is reset before a byte is read, which the client may notice while it
/// still connects or with its first read. For a port where nobody listens, which
/// the client's own kernel reports as refused, see [`refusing`](Self::refusing).
///
/// Its waits follow the clock of the runtime; sockets do not, so let that be the real one.
#[derive(Debug)]
pub struct Server {
    url: String,
    journal: Journal,
    port: Port,
}

/// What stands behind the port.
#[derive(Debug)]
enum Port {
    Serving(JoinHandle<()>),
    /// Bound, never listening: nobody else can get the port meanwhile.
    Refusing(#[expect(dead_code, reason = "held, so that the port is")] TcpSocket),
}

// === impl Server ===

impl Server {
    /// Serves a script on a free port.
    ///
    /// # Errors
    /// If no loopback port can be had.
    pub async fn start(script: Script) -> io::Result<Self> {
        Self::start_with(script, &Journal::new()).await
    }

    /// Serves a script on a free port, and writes into this journal.
    ///
    /// # Errors
    /// If no loopback port can be had.
    pub async fn start_with(script: Script, journal: &Journal) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let stage = Arc::new(Stage::new(script, journal.clone()));
        Ok(Self { url, journal: journal.clone(), port: Port::Serving(tokio::spawn(serve(listener, stage))) })
    }

    /// A port that truly refuses every connection, for as long as this is held. Its journal stays empty: nobody
    /// can see a connection that is not there.
    ///
    /// # Errors
    /// If no loopback port can be had.
    pub fn refusing() -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(([127, 0, 0, 1], 0).into())?;
        let url = format!("http://{}", socket.local_addr()?);
        Ok(Self { url, journal: Journal::new(), port: Port::Refusing(socket) })
    }

    /// Scheme, host and port, without a slash at the end.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The journal it writes into.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// All attempts so far, in order of arrival.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        self.journal.seen()
    }

    /// Waits until the `nth` attempt (from 0) has ended, and gives it: [`Ending::Left`] if the client hung up.
    pub async fn closed(&self, nth: usize) -> Seen {
        self.journal.ended(nth).await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Port::Serving(task) = &self.port {
            task.abort();
        }
    }
}

/// Accepts until aborted; the connections go down with it.
async fn serve(listener: TcpListener, stage: Arc<Stage>) {
    let mut talks = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while talks.try_join_next().is_some() {}
        match stage.enter_unread() {
            Some((step, exchange)) => talks.spawn(break_off(stream, step, exchange)),
            None => talks.spawn(talk(stream, Arc::clone(&stage))),
        };
    }
}

/// One connection: one request, one step. An error only means that the client has gone.
async fn talk(mut stream: TcpStream, stage: Arc<Stage>) {
    let _ = stream.set_nodelay(true);
    let Ok(request) = wire::read(&mut stream).await else { return };
    let (step, mut exchange) = stage.enter(request);
    let over = step.is_none();
    if over {
        exchange.end(Ending::Over);
    }
    let step = step.unwrap_or_else(after_the_last);
    if step.connect != Connect::Ok {
        return break_off(stream, step, exchange).await;
    }
    let ending = {
        let (mut reader, mut writer) = stream.split();
        tokio::select! {
            biased;
            played = play(&mut writer, &step) => played.unwrap_or(Ending::Left),
            () = gone(&mut reader) => Ending::Left,
        }
    };
    exchange.end(ending);
    if ending == Ending::Broken {
        let _ = stream.set_zero_linger();
    } else if stream.shutdown().await.is_ok() {
        // Closing with bytes unread would reset the link and could cost the client the end of its reply.
        gone(&mut stream).await;
    }
}

/// Waits, then resets a connection that gets no answer.
async fn break_off(stream: TcpStream, step: Step, mut exchange: Exchange) {
    pause(step.delay).await;
    let _ = stream.set_zero_linger();
    drop(stream);
    exchange.end(if step.connect == Connect::Refuse { Ending::Refused } else { Ending::Broken });
}

/// Writes a step to its end.
async fn play(to: &mut (impl AsyncWrite + Unpin), step: &Step) -> io::Result<Ending> {
    let mut framing = Framing::new(step);
    pause(step.delay).await;
    send(to, &framing.head(step)).await?;
    for (nth, chunk) in step.chunks.iter().enumerate() {
        pause(chunk.after).await;
        let mut writes = framing.writes(chunk)?;
        // The proper end goes with the last bytes, so a client that has all it wants finds it there already.
        if step.end == BodyEnd::Close && nth + 1 == step.chunks.len() {
            let tail = framing.tail()?;
            match writes.last_mut() {
                Some(last) => last.extend(tail),
                None => writes.push(tail),
            }
        }
        for bytes in writes {
            send(to, &bytes).await?;
        }
    }
    match step.end {
        BodyEnd::Close if step.chunks.is_empty() => send(to, &framing.tail()?).await.map(|()| Ending::Served),
        BodyEnd::Close => Ok(Ending::Served),
        BodyEnd::Reset => {
            pause(LAST_BYTES).await;
            Ok(Ending::Broken)
        }
        BodyEnd::Hang => std::future::pending().await,
    }
}

/// Waits; no time at all is no wait, where a timer would round it up.
async fn pause(time: Duration) {
    if !time.is_zero() {
        sleep(time).await;
    }
}

async fn send(to: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes).await?;
    to.flush().await
}

/// Waits until the client has closed its side.
async fn gone(from: &mut (impl AsyncRead + Unpin)) {
    let mut unasked = [0; 256];
    while from.read(&mut unasked).await.is_ok_and(|bytes| bytes > 0) {}
}

fn after_the_last() -> Step {
    let told = serde_json::json!({ "error": { "message": "the script is over", "type": "script_over" } });
    Step::json(OVER, &told).header("x-should-retry", "false")
}

#[cfg(test)]
mod tests;
