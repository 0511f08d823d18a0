//! The servers as child processes, ended by their handle.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tower::Service;
use watertight::chat::Protocol;
use watertight::failure::Failure;
use watertight::provider::{HttpBody, HttpClient, Profile, Provider};

const KEY: &str = "secret-of-this-test";

/// How long a server may take until it is ready: a model is read from disk.
const READY: Duration = Duration::from_secs(90);

/// The HTTP client of a provider in these cases.
pub(crate) trait Client:
    Service<Request<Bytes>, Response = Response<HttpBody>, Error = Failure, Future: Send> + Clone
{
}

impl Client for HttpClient {}

/// A server under test. Dropped, it is ended.
pub(crate) struct Child {
    pub(crate) name: &'static str,
    process: std::process::Child,
    port: u16,
}

// === impl Child ===

impl Child {
    /// llama.cpp's server with a small model.
    pub(crate) async fn llama() -> Result<Self, String> {
        let site = installed("python")?;
        let script = root().join("tests/real/llama.py");
        let port = free_port()?;
        let mut command = Command::new("python3");
        command.arg(script).arg(site).arg(port.to_string()).arg(KEY);
        Self::start("llama.cpp", command, port).await
    }

    /// The emulator, with the fixtures beside this file.
    pub(crate) async fn emulator() -> Result<Self, String> {
        let program = installed("node")?.join("node_modules/@copilotkit/aimock/dist/cli.js");
        let fixtures = root().join("tests/real/aimock.json");
        let port = free_port()?;
        let mut command = Command::new("node");
        command.arg(program).args(["-p", &port.to_string(), "-f"]).arg(fixtures);
        Self::start("emulator", command, port).await
    }

    /// The profile under which a provider reaches it.
    pub(crate) fn profile(&self, protocol: Protocol) -> Profile {
        let path = if protocol == Protocol::AnthropicMessages { "" } else { "/v1" };
        let url = format!("http://127.0.0.1:{}{path}", self.port);
        Profile::new(self.name, protocol, url).with_key(KEY)
    }

    pub(crate) fn provider(&self, protocol: Protocol) -> Provider<HttpClient> {
        Provider::new(self.profile(protocol)).expect("a provider")
    }

    /// How many generations are under way.
    pub(crate) async fn working(&self) -> Result<usize, String> {
        Ok(self.get("/slots").await?.matches("\"is_processing\":true").count())
    }

    async fn start(name: &'static str, mut command: Command, port: u16) -> Result<Self, String> {
        // The script reads its input to the end, so that it cannot outlive this process.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().map_err(|error| format!("it cannot be started: {error}"))?;
        let child = Self { name, process, port };
        let ready = async {
            while !child.get("/health").await.is_ok_and(|answer| answer.contains(" 200 ")) {
                sleep(Duration::from_millis(200)).await;
            }
        };
        timeout(READY, ready).await.map_err(|_| "it did not become ready".to_owned())?;
        Ok(child)
    }

    /// A plain GET, head and body.
    async fn get(&self, path: &str) -> Result<String, String> {
        let answer = async {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
            let request = format!(
                "GET {path} HTTP/1.1\r\nhost: local\r\nauthorization: Bearer {KEY}\r\nconnection: close\r\n\r\n"
            );
            stream.write_all(request.as_bytes()).await?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await?;
            Ok::<_, std::io::Error>(String::from_utf8_lossy(&answer).into_owned())
        };
        match timeout(Duration::from_secs(10), answer).await {
            Ok(answer) => answer.map_err(|error| error.to_string()),
            Err(_) => Err(format!("{path} did not answer")),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn installed(part: &str) -> Result<PathBuf, String> {
    let folder: &Path = &root().join(".real").join(part);
    if folder.join(".done").exists() {
        Ok(folder.to_owned())
    } else {
        Err("it is not installed: see .ci/real".into())
    }
}

fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    listener.local_addr().map(|address| address.port()).map_err(|error| error.to_string())
}
