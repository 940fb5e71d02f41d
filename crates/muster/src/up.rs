//! `muster up`: everything that one machine needs, in one process group, stopped together.

use std::process::{ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{ArgMatches, Command};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdin};
use tokio::signal::unix::{SignalKind, signal};

use crate::server::{settings, with_settings};

pub(crate) fn command() -> Command {
    with_settings(Command::new("up")).about("Start everything this machine needs, and stop it all on Ctrl-C")
}

pub(crate) async fn run(matches: &ArgMatches) -> anyhow::Result<ExitCode> {
    let mut settings = settings(matches)?;
    // On a terminal people read along: text, and only what matters, unless somebody said otherwise.
    for (key, value) in [("log.format", "text"), ("log.level", "warn")] {
        if settings.is_default(key) {
            settings.set(key, value.to_owned(), "a flag")?;
        }
    }
    let address: std::net::SocketAddr = settings.parsed("http.listen")?;
    if TcpStream::connect(address).await.is_ok() {
        bail!("something already listens on {address}: stop it, or choose another with --http-listen");
    }
    let tls = !settings.text("tls.cert_file").is_empty();
    let scheme = if tls { "https" } else { "http" };
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let mut child = tokio::process::Command::new(std::env::current_exe()?);
    child.arg("server").arg("--stop-with-stdin").stdin(Stdio::piped()).kill_on_drop(true);
    for (key, value, from) in settings.effective() {
        // The environment and the file reach the child by themselves; only what was said to us must be handed on. A
        // database's password is never put on a command line.
        if from == "a flag" && key != "database.url" {
            child.arg(format!("--{}", key.replace(['.', '_'], "-"))).arg(value);
        }
    }
    if let Some(file) = matches.get_one::<std::path::PathBuf>("config") {
        child.arg("--config").arg(file);
    }
    child.env("MUSTER_DATABASE_URL", settings.text("database.url"));
    let mut child = child.spawn().context("starting the server")?;
    // Taken out of the child, because waiting for a child closes its input first.
    let leash = child.stdin.take();
    tokio::select! {
        ready = wait_until_ready(&mut child, address, tls) => ready?,
        _ = interrupt.recv() => return stop(child, leash).await,
        _ = terminate.recv() => return stop(child, leash).await,
    }
    let token = settings.file("operator.token_file", "operator.token");
    println!("muster is up at {scheme}://{address}  (Ctrl-C stops it)");
    println!("  data       {}", settings.data_dir().display());
    println!("  operator   {}", token.display());
    println!("try:");
    println!("  muster login --server {scheme}://{address} --token-file {}", token.display());
    println!("  muster status");
    println!("  muster tenant create --slug acme");
    tokio::select! {
        _ = interrupt.recv() => stop(child, leash).await,
        _ = terminate.recv() => stop(child, leash).await,
        ended = child.wait() => bail!("the server ended by itself: {}", ended?),
    }
}

/// Closing the child's standard input asks it to stop; it then finishes what is under way.
async fn stop(mut child: Child, leash: Option<ChildStdin>) -> anyhow::Result<ExitCode> {
    drop(leash);
    match tokio::time::timeout(Duration::from_secs(30), child.wait()).await {
        Ok(ended) => {
            ended?;
            println!("muster is down; nothing runs any more");
            Ok(ExitCode::SUCCESS)
        }
        Err(_) => {
            child.kill().await?;
            bail!("the server did not stop in thirty seconds and was killed");
        }
    }
}

async fn wait_until_ready(child: &mut Child, address: std::net::SocketAddr, tls: bool) -> anyhow::Result<()> {
    for _ in 0..600 {
        if let Some(ended) = child.try_wait()? {
            bail!("the server did not start ({ended}); the reason stands above");
        }
        if ready(address, tls).await {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bail!("the server did not become ready in thirty seconds");
}

/// With TLS an open port has to do: the certificate's name is not ours to know.
async fn ready(address: std::net::SocketAddr, tls: bool) -> bool {
    let Ok(mut stream) = TcpStream::connect(address).await else { return false };
    if tls {
        return true;
    }
    let request = format!("GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    if stream.write_all(request.as_bytes()).await.is_err() {
        return false;
    }
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer).await;
    answer.starts_with("HTTP/1.1 200")
}
