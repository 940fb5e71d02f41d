//! Dials the server that waits for a stream, and upgrades to a WebSocket.

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::{Either, select};
use http::header::{
    CONNECTION, HOST, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use muster_ids::StreamId;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use crate::address::Address;
use crate::dial::Dial;
use crate::link::CallError;
use crate::paths;

/// Maximum message size, in either direction.
const LARGEST: usize = 1 << 20;
/// Retry interval: behind a load balancer, retries find the replica that waits.
const AGAIN: Duration = Duration::from_millis(200);
const GIVE_UP: Duration = Duration::from_secs(10);
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

pub(super) type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Connects the stream at the server at `address`. "Not found" there may mean that another replica waits for it.
pub(super) async fn open(dial: &Dial, address: &Address, stream: StreamId) -> Result<Socket, CallError> {
    let began = tokio::time::Instant::now();
    loop {
        let attempt = tokio::time::timeout(ANSWER_WITHIN, upgrade(dial, address, stream)).await;
        let lost = || CallError::Lost(format!("{address} did not answer"));
        match attempt.unwrap_or_else(|_| Err(lost())) {
            Err(CallError::Refused { status: 404, .. }) if began.elapsed() < GIVE_UP => {
                tokio::time::sleep(AGAIN).await;
            }
            ended => return ended,
        }
    }
}

async fn upgrade(dial: &Dial, address: &Address, stream: StreamId) -> Result<Socket, CallError> {
    let unreachable = |error: &dyn std::fmt::Display| CallError::Unreachable(error.to_string());
    let lost = |error: hyper::Error| CallError::Lost(error.to_string());
    let (io, _) = dial.connect_to(address).await?;
    let key = generate_key();
    let request = Request::get(format!("{}{stream}", paths::STREAMS))
        .header(HOST, address.authority())
        .header(CONNECTION, "upgrade")
        .header(UPGRADE, "websocket")
        .header(SEC_WEBSOCKET_VERSION, "13")
        .header(SEC_WEBSOCKET_KEY, &key)
        .body(Empty::<Bytes>::new())
        .map_err(|error| unreachable(&error))?;
    let (mut sender, connection) =
        http1::handshake(io).await.map_err(|error| CallError::Unreachable(error.to_string()))?;
    // The future ends with the upgrade, and must not be polled again then.
    let mut connection = pin!(connection.with_upgrades().fuse());
    let mut response = match select(pin!(sender.send_request(request)), connection.as_mut()).await {
        Either::Left((response, _)) => response.map_err(lost)?,
        Either::Right((_, response)) => response.await.map_err(lost)?,
    };
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        let status = response.status().as_u16();
        let body = pin!(Limited::new(response.into_body(), LARGEST).collect());
        let body = match select(body, connection).await {
            Either::Left((body, _)) => body,
            Either::Right((_, body)) => body.await,
        };
        let problem = body.map(|body| body.to_bytes()).unwrap_or_default();
        return Err(CallError::refused(status, &problem));
    }
    let accept = response.headers().get(SEC_WEBSOCKET_ACCEPT);
    if accept.is_none_or(|accept| accept.as_bytes() != derive_accept_key(key.as_bytes()).as_bytes()) {
        return Err(CallError::Strange("its upgrade does not match the request".to_owned()));
    }
    let upgraded = match select(connection, hyper::upgrade::on(&mut response)).await {
        Either::Left((_, upgraded)) => upgraded.await,
        Either::Right((upgraded, _)) => upgraded,
    };
    let io = TokioIo::new(upgraded.map_err(lost)?);
    Ok(WebSocketStream::from_raw_socket(io, Role::Client, Some(limits())).await)
}

/// Messages are sent at once, and backpressure reaches the producer.
fn limits() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(64 << 10)
        .write_buffer_size(0)
        .max_write_buffer_size(4 * LARGEST)
        .max_message_size(Some(LARGEST))
        .max_frame_size(Some(LARGEST))
}
