//! Clients that speak TLS to a plain listener, or plain HTTP to a TLS listener, get an answer that says so.

use std::time::Duration;

use muster_api::{Code, Problem};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// First byte of a TLS handshake record.
const HANDSHAKE: u8 = 22;
/// Bytes of the request that are read before the answer: a connection that is closed on unread data is reset.
const READ: usize = 16 << 10;
const ANSWERING: Duration = Duration::from_secs(1);

/// First byte of a connection.
pub(super) enum FirstByte {
    /// It fits the listener's protocol.
    Fits,
    /// It did not arrive in time, or the client left.
    Missing,
    /// It belongs to the other protocol; the message tells how to connect.
    Mismatch(&'static str),
}

/// Looks at the first byte, without taking it.
pub(super) async fn first_byte(stream: &TcpStream, is_tls: bool, timeout: Duration) -> FirstByte {
    let mut first = [0];
    match tokio::time::timeout(timeout, stream.peek(&mut first)).await {
        Ok(Ok(1)) => {}
        _ => return FirstByte::Missing,
    }
    match (is_tls, first[0]) {
        (false, HANDSHAKE) => FirstByte::Mismatch(
            "this port speaks plain HTTP, and the request came with TLS: use http://, or set tls.cert_file and \
             tls.key_file on the server",
        ),
        (true, letter) if letter.is_ascii_alphabetic() => {
            FirstByte::Mismatch("this port speaks TLS, and the request came without: use https://")
        }
        _ => FirstByte::Fits,
    }
}

/// Answers in plain HTTP, which a client with TLS shows at best as raw bytes.
pub(super) async fn answer(mut stream: TcpStream, why: &'static str) {
    let problem = serde_json::to_string(&Problem::new(Code::MalformedRequest, why)).unwrap_or_default();
    let text = format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: application/problem+json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{problem}",
        problem.len()
    );
    let exchange = async {
        let mut unread = vec![0; READ];
        let _ = stream.read(&mut unread).await;
        let _ = stream.write_all(text.as_bytes()).await;
        let _ = stream.shutdown().await;
    };
    let _ = tokio::time::timeout(ANSWERING, exchange).await;
}
