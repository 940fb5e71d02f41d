//! The part of PostgreSQL's protocol that receiving a notification needs: trust authentication, and simple queries.

use std::io::{Error, Result};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A durable row with a notification, in one commit; as a server would do it.
const COMMIT: &str = "BEGIN; INSERT INTO bench_rows (name, body) VALUES ('n', 'x'); NOTIFY bench; COMMIT";

struct Session(TcpStream);

impl Session {
    async fn open(address: &str) -> Result<Self> {
        let mut stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let said = b"user\0postgres\0database\0bench\0\0";
        let mut hello = u32::try_from(said.len() + 8).unwrap_or_default().to_be_bytes().to_vec();
        hello.extend(196_608_u32.to_be_bytes());
        hello.extend(said);
        stream.write_all(&hello).await?;
        let mut session = Self(stream);
        session.until(b'Z').await?;
        Ok(session)
    }

    async fn send(&mut self, statement: &str) -> Result<()> {
        let mut message = vec![b'Q'];
        message.extend(u32::try_from(statement.len() + 5).unwrap_or_default().to_be_bytes());
        message.extend(statement.as_bytes());
        message.push(0);
        self.0.write_all(&message).await
    }

    /// Reads messages up to the first of this kind.
    async fn until(&mut self, wanted: u8) -> Result<()> {
        loop {
            let mut head = [0; 5];
            self.0.read_exact(&mut head).await?;
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
            let mut body = vec![0; length.saturating_sub(4)];
            self.0.read_exact(&mut body).await?;
            match head[0] {
                b'E' => return Err(Error::other(String::from_utf8_lossy(&body).into_owned())),
                kind if kind == wanted => return Ok(()),
                _ => {}
            }
        }
    }
}

/// One session that commits, and one that listens.
pub(crate) struct Notifier {
    speaker: Session,
    listener: Session,
}

impl Notifier {
    pub(crate) async fn open(address: &str) -> Result<Self> {
        let mut listener = Session::open(address).await?;
        listener.send("LISTEN bench").await?;
        listener.until(b'Z').await?;
        Ok(Self { speaker: Session::open(address).await?, listener })
    }

    /// Returns the time from sending the commit to receiving the notification.
    pub(crate) async fn once(&mut self) -> Result<Duration> {
        let sent = Instant::now();
        self.speaker.send(COMMIT).await?;
        self.listener.until(b'A').await?;
        let taken = sent.elapsed();
        self.speaker.until(b'Z').await?;
        Ok(taken)
    }
}
