//! An event stream that reconnects after lost connections and server restarts, without gaps.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::Value;

use crate::call::{Arguments, Body, Chunks};
use crate::describe::Description;
use crate::sse::{Frame, Parser};
use crate::{Connection, Error};

/// Selects a stream and a position in it. With neither tenant nor project, the platform's stream.
#[derive(Debug, Clone, Default)]
pub struct Follow {
    /// A tenant's stream, by slug or id.
    pub tenant: Option<String>,
    /// A project's stream, by name or id.
    pub project: Option<String>,
    /// Only the timeline of this instance of the project.
    pub instance: Option<String>,
    /// Start after this sequence number; default: only new events.
    pub after: Option<i64>,
}

impl Follow {
    /// Returns the parameters that select the stream, for its list too.
    pub fn place(&self) -> Arguments {
        let named = |pairs: [(&str, &Option<String>); 2]| {
            pairs
                .into_iter()
                .filter_map(|(name, value)| Some((name.to_owned(), value.clone()?)))
                .collect::<Vec<_>>()
        };
        match &self.instance {
            Some(_) => Arguments {
                path: named([("project", &self.project), ("instance", &self.instance)]).into_iter().collect(),
                ..Arguments::default()
            },
            None => Arguments {
                query: named([("tenant", &self.tenant), ("project", &self.project)]),
                ..Arguments::default()
            },
        }
    }
}

/// Item of a stream.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// An event, as a CloudEvent.
    Event(Value),
    /// The requested position is no longer retained; the stream continues after this number, if the server sent one.
    Reset(Option<i64>),
    /// The server ended the stream, with its reason. The next call reconnects, and fails without permission.
    End(String),
    /// The connection broke. The next call reconnects.
    Lost(String),
}

/// A followed stream.
#[derive(Debug)]
pub struct EventStream {
    connection: Connection,
    endpoint: &'static str,
    /// Path and query of the stream.
    place: Arguments,
    /// Last sequence number received, to resume after it.
    last: Option<String>,
    chunks: Option<Chunks>,
    parser: Parser,
    ready: VecDeque<Frame>,
    failures: u32,
}

const LONGEST_PAUSE: Duration = Duration::from_secs(10);

impl EventStream {
    /// Opens a stream; fails immediately if the first connection does.
    ///
    /// A start at "now" is first turned into a sequence number: a connection lost before the first event would otherwise
    /// have no position to resume from, and miss events.
    pub async fn open(connection: &Connection, follow: &Follow) -> Result<Self, Error> {
        let place = follow.place();
        let last = match follow.after {
            Some(after) => Some(after.to_string()),
            None => newest(connection, follow, place.clone()).await?,
        };
        let mut stream = Self {
            connection: connection.clone(),
            endpoint: if follow.instance.is_some() { "instance_event_stream" } else { "event_stream" },
            place,
            last,
            chunks: None,
            parser: Parser::default(),
            ready: VecDeque::new(),
            failures: 0,
        };
        stream.connect().await?;
        Ok(stream)
    }

    /// Returns the next item. Waits as long as it takes; an error is a permanent refusal by the platform.
    pub async fn next(&mut self) -> Result<Item, Error> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                if let Some(item) = self.take(frame) {
                    return Ok(item);
                }
                continue;
            }
            let Some(chunks) = &mut self.chunks else {
                self.connect_again().await?;
                continue;
            };
            match chunks.next().await {
                Ok(Some(piece)) => self.ready.extend(self.parser.push(&piece)),
                Ok(None) => {
                    self.chunks = None;
                    return Ok(Item::Lost("the server closed the connection".to_owned()));
                }
                Err(error) => {
                    self.chunks = None;
                    return Ok(Item::Lost(error.to_string()));
                }
            }
        }
    }

    fn take(&mut self, frame: Frame) -> Option<Item> {
        match frame.event.as_str() {
            "end" => {
                self.chunks = None;
                self.ready.clear();
                Some(Item::End(words(&frame.data)))
            }
            "reset" => {
                let after = frame.id.as_ref().and_then(|text| text.parse().ok());
                self.last = frame.id;
                Some(Item::Reset(after))
            }
            // Any other frame with an event's JSON is an event.
            _ => {
                let event: Value = serde_json::from_str(&frame.data).ok()?;
                self.failures = 0;
                if frame.id.is_some() {
                    self.last = frame.id;
                }
                Some(Item::Event(event))
            }
        }
    }

    async fn connect(&mut self) -> Result<(), Error> {
        let operation = Description::embedded()
            .endpoint(self.endpoint)
            .ok_or_else(|| Error::Setup("the API has no event stream".to_owned()))?;
        let headers = self.last.iter().map(|last| ("Last-Event-ID".to_owned(), last.clone())).collect();
        let arguments = Arguments { headers, ..self.place.clone() };
        self.parser = Parser::default();
        match self.connection.call(operation, &arguments).await?.body {
            Body::Stream(chunks) => self.chunks = Some(chunks),
            Body::Json(_) => return Err(Error::Answer { status: 200, why: "it is not a stream".to_owned() }),
        }
        Ok(())
    }

    /// Reconnects with backoff; only returns permanent errors.
    async fn connect_again(&mut self) -> Result<(), Error> {
        loop {
            let pause = (self.connection.pause * 2_u32.pow(self.failures.min(6))).min(LONGEST_PAUSE);
            tokio::time::sleep(pause).await;
            self.failures += 1;
            match self.connect().await {
                Ok(()) => return Ok(()),
                Err(Error::Unreachable { .. } | Error::Lost { .. }) => {}
                Err(Error::Problem(problem)) if problem.retryable => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Returns the newest sequence number of a stream; `None` if the caller may follow but not list it.
async fn newest(
    connection: &Connection,
    follow: &Follow,
    mut place: Arguments,
) -> Result<Option<String>, Error> {
    let list = if follow.instance.is_some() { "instance_event_list" } else { "event_list" };
    let Some(list) = Description::embedded().endpoint(list) else { return Ok(None) };
    place.query.push(("page_size".to_owned(), "1".to_owned()));
    match connection.call(list, &place).await {
        Ok(response) => Ok(response.json()["sealed_up_to"].as_i64().map(|number| number.to_string())),
        Err(Error::Problem(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the reason in an `end`.
fn words(data: &str) -> String {
    let told: Option<Value> = serde_json::from_str(data).ok();
    told.and_then(|told| Some(told["detail"].as_str()?.to_owned())).unwrap_or_else(|| data.to_owned())
}
