//! The server of `muster up`: a child process that ends when its standard input closes, so that it never outlives us.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use muster_http::Settings;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdin};

/// A started server.
pub(crate) struct Server {
    child: Child,
    /// Taken out of the child, because waiting for a child closes its input first.
    leash: Option<ChildStdin>,
    address: SocketAddr,
    tls: bool,
}

impl Server {
    /// Starts a server with these settings.
    pub(crate) async fn start(settings: &Settings, config: Option<&Path>) -> anyhow::Result<Self> {
        let address: SocketAddr = settings.parsed("http.listen")?;
        if TcpStream::connect(address).await.is_ok() {
            bail!("something already listens on {address}: stop it, or choose another with --http-listen");
        }
        let mut child = tokio::process::Command::new(std::env::current_exe()?);
        // Its own process group, so that Ctrl-C only reaches us and we stop everything in order.
        child
            .arg("server")
            .arg("--stop-with-stdin")
            .stdin(Stdio::piped())
            .kill_on_drop(true)
            .process_group(0);
        for (key, value, from) in settings.effective() {
            // The child inherits the environment and the file; only our flags must be passed on. A database password is
            // never put on a command line.
            if from == "a flag" && key != "database.url" {
                child.arg(format!("--{}", key.replace(['.', '_'], "-"))).arg(value);
            }
        }
        if let Some(file) = config {
            child.arg("--config").arg(file);
        }
        child.env("MUSTER_DATABASE_URL", settings.text("database.url"));
        let mut child = child.spawn().context("starting the server")?;
        let leash = child.stdin.take();
        let tls = !settings.text("tls.cert_file").is_empty();
        Ok(Self { child, leash, address, tls })
    }

    /// Returns the address of its API.
    pub(crate) fn url(&self) -> String {
        format!("{}://{}", if self.tls { "https" } else { "http" }, self.address)
    }

    /// Waits until it responds.
    pub(crate) async fn ready(&mut self) -> anyhow::Result<()> {
        for _ in 0..600 {
            if let Some(ended) = self.child.try_wait()? {
                bail!("the server did not start ({ended}); the reason is above");
            }
            if self.answers().await {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        bail!("the server did not become ready in thirty seconds");
    }

    /// Waits until it ends, which it should not do by itself.
    pub(crate) async fn ended(&mut self) -> anyhow::Error {
        match self.child.wait().await {
            Ok(status) => anyhow::anyhow!("the server ended by itself: {status}"),
            Err(error) => error.into(),
        }
    }

    /// Stops it; it finishes running requests first.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        drop(self.leash.take());
        match tokio::time::timeout(Duration::from_secs(30), self.child.wait()).await {
            Ok(ended) => ended.map(drop).map_err(Into::into),
            Err(_) => {
                self.child.kill().await?;
                bail!("the server did not stop in thirty seconds and was killed");
            }
        }
    }

    /// Reports whether it responds. With TLS an open port must suffice: the certificate's name is unknown here.
    async fn answers(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(self.address).await else { return false };
        if self.tls {
            return true;
        }
        let request = format!("GET /readyz HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address);
        if stream.write_all(request.as_bytes()).await.is_err() {
            return false;
        }
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer).await;
        answer.starts_with("HTTP/1.1 200")
    }
}
