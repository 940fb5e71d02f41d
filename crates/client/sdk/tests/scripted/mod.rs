//! A server with scripted responses, one per connection, that records requests. Real sockets and plain text: the tests
//! cover the bytes on the wire, which a mock of the client would not.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use parking_lot::Mutex;

/// Response to one connection.
pub(crate) enum Reply {
    /// A status, headers and a body.
    Answer(u16, Vec<(&'static str, String)>, String),
    /// None: the connection is closed after reading the request.
    HangUp,
    /// The beginning of a stream that is truncated.
    CutOff(&'static str, String),
}

/// Returns a success with a JSON body.
pub(crate) fn ok(body: &str) -> Reply {
    Reply::Answer(200, vec![("content-type", "application/json".to_owned())], body.to_owned())
}

/// Returns a problem with this status and code.
pub(crate) fn problem(status: u16, code: &str) -> Reply {
    let body = format!(
        r#"{{"type":"urn:x","title":"t","status":{status},"detail":"so it is","code":"{code}",
            "correlation_id":"c0ffee","retryable":{},"docs":"d"}}"#,
        status == 503
    );
    Reply::Answer(status, vec![("content-type", "application/problem+json".to_owned())], body)
}

/// A received request.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) line: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(other, _)| other.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}

pub(crate) struct Scripted {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Scripted {
    /// Starts it; it ends after the last response.
    pub(crate) fn start(replies: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests: Arc<Mutex<Vec<Request>>> = Arc::default();
        let kept = requests.clone();
        std::thread::spawn(move || {
            for reply in replies {
                let (mut stream, _) = listener.accept().unwrap();
                let request = read(&mut stream);
                kept.lock().push(request);
                answer(&mut stream, reply);
            }
        });
        Self { url, requests }
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().clone()
    }
}

fn read(stream: &mut TcpStream) -> Request {
    let mut text = Vec::new();
    let mut byte = [0];
    while !text.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        text.push(byte[0]);
    }
    let text = String::from_utf8(text).unwrap();
    let mut lines = text.trim_end().lines();
    let line = lines.next().unwrap().to_owned();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let mut request = Request { line, headers, body: String::new() };
    let length: usize = request.header("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    request.body = String::from_utf8(body).unwrap();
    request
}

fn answer(stream: &mut TcpStream, reply: Reply) {
    let text = match reply {
        Reply::HangUp => return,
        Reply::CutOff(media, body) => {
            format!(
                "HTTP/1.1 200 OK\r\ncontent-type: {media}\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n",
                body.len()
            )
        }
        Reply::Answer(status, headers, body) => {
            let headers: String =
                headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            format!(
                "HTTP/1.1 {status} X\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            )
        }
    };
    stream.write_all(text.as_bytes()).unwrap();
}
