//! As much of HTTP/1.1 as a client needs that keeps one connection and reads whole answers.

use std::io::{Error, ErrorKind, Result};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// An answer's outline; the body stays in the connection's buffer until the next request.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) length: usize,
}

pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    body: std::ops::Range<usize>,
}

/// Where an answer's body ends.
enum Ends {
    After(usize),
    AtLastChunk,
}

fn broken(why: &str) -> Error {
    Error::new(ErrorKind::InvalidData, why.to_owned())
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

/// Status and extent of the body, from the head of an answer.
fn outline(head: &str) -> Result<(u16, Ends)> {
    let status =
        head.get(9..12).and_then(|text| text.parse().ok()).ok_or_else(|| broken("no status line"))?;
    for line in head.lines().skip(1) {
        let Some((name, value)) = line.split_once(':') else { continue };
        if name.eq_ignore_ascii_case("content-length") {
            let length = value.trim().parse().map_err(|_| broken("a bad Content-Length"))?;
            return Ok((status, Ends::After(length)));
        }
        if name.eq_ignore_ascii_case("transfer-encoding") {
            return Ok((status, Ends::AtLastChunk));
        }
    }
    Err(broken("an answer without a length"))
}

impl Connection {
    pub(crate) async fn open(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(32 * 1024), body: 0..0 })
    }

    async fn more(&mut self) -> Result<()> {
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Sends a request and reads the whole answer.
    pub(crate) async fn ask(&mut self, request: &str) -> Result<Answer> {
        self.buffer.clear();
        self.stream.write_all(request.as_bytes()).await?;
        let start = loop {
            self.more().await?;
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                break end + 4;
            }
        };
        let head =
            std::str::from_utf8(&self.buffer[..start]).map_err(|_| broken("a head that is no text"))?;
        let (status, ends) = outline(head)?;
        match ends {
            Ends::After(length) => {
                while self.buffer.len() < start + length {
                    self.more().await?;
                }
            }
            Ends::AtLastChunk => {
                while !self.buffer.ends_with(b"0\r\n\r\n") {
                    self.more().await?;
                }
            }
        }
        self.body = start..self.buffer.len();
        Ok(Answer { status, length: self.body.len() })
    }

    /// The body of the last answer.
    pub(crate) fn body(&self) -> &str {
        std::str::from_utf8(&self.buffer[self.body.clone()]).unwrap_or("(no text)")
    }
}
