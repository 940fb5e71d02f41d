//! As much of HTTP/1.1 as a client needs that keeps one connection.

use std::io::{Error, ErrorKind, Result};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Read size for a body that is not kept.
const PART: usize = 256 * 1024;

/// An answer's outline; the head and a kept body stay in the connection's buffer until the next request.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) length: usize,
}

/// Handling of a response's body.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    /// It is wanted.
    Kept,
    /// None, whatever the head declares: the request was a HEAD.
    Absent,
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

/// The value of a header in the head of an answer.
fn field<'a>(head: &'a str, wanted: &str) -> Option<&'a str> {
    head.lines().skip(1).find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case(wanted).then(|| value.trim())
    })
}

/// Status and extent of the body, from the head of an answer.
fn outline(head: &str) -> Result<(u16, Ends)> {
    let status =
        head.get(9..12).and_then(|text| text.parse().ok()).ok_or_else(|| broken("no status line"))?;
    if let Some(length) = field(head, "content-length") {
        let length = length.parse().map_err(|_| broken("a bad Content-Length"))?;
        return Ok((status, Ends::After(length)));
    }
    match field(head, "transfer-encoding") {
        Some(_) => Ok((status, Ends::AtLastChunk)),
        None if status == 204 => Ok((status, Ends::After(0))),
        None => Err(broken("an answer without a length")),
    }
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

    /// Sends a request and reads the complete response.
    pub(crate) async fn ask(&mut self, request: &str) -> Result<Answer> {
        self.exchange(request.as_bytes(), Body::Kept).await
    }

    /// Sends a request, its body included, and reads the answer.
    pub(crate) async fn exchange(&mut self, request: &[u8], body: Body) -> Result<Answer> {
        self.send(request).await?;
        self.answer(body).await
    }

    /// Sends a part of a request.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Reads the head of a response; returns its end in the buffer.
    async fn head(&mut self) -> Result<(u16, Ends, usize)> {
        self.buffer.clear();
        let start = loop {
            self.more().await?;
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                break end + 4;
            }
        };
        let head =
            std::str::from_utf8(&self.buffer[..start]).map_err(|_| broken("a head that is no text"))?;
        let (status, ends) = outline(head)?;
        Ok((status, ends, start))
    }

    /// Reads a whole answer.
    pub(crate) async fn answer(&mut self, body: Body) -> Result<Answer> {
        let (status, ends, start) = self.head().await?;
        match ends {
            _ if body == Body::Absent => {}
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

    /// Reads a response and passes its body on in parts without keeping it. The body of an error is kept for its message.
    pub(crate) async fn pour(&mut self, mut part: impl FnMut(&[u8])) -> Result<Answer> {
        let (status, ends, start) = self.head().await?;
        let Ends::After(length) = ends else { return Err(broken("a long answer without a length")) };
        if !(200..300).contains(&status) {
            while self.buffer.len() < start + length {
                self.more().await?;
            }
            self.body = start..self.buffer.len();
            return Ok(Answer { status, length });
        }
        part(&self.buffer[start..]);
        let mut left = length.saturating_sub(self.buffer.len() - start);
        let mut buffer = vec![0; PART];
        while left > 0 {
            let most = left.min(PART);
            match self.stream.read(&mut buffer[..most]).await? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                read => {
                    part(&buffer[..read]);
                    left -= read;
                }
            }
        }
        self.body = start..start;
        Ok(Answer { status, length })
    }

    /// A header of the last answer.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        field(std::str::from_utf8(&self.buffer[..self.body.start]).ok()?, name)
    }

    /// The body of the last answer.
    pub(crate) fn body(&self) -> &str {
        std::str::from_utf8(self.bytes()).unwrap_or("(no text)")
    }

    /// The same as bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.body.clone()]
    }
}
