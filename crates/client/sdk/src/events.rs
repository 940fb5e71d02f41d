//! A stream of events that goes on: over lost connections and servers that stop, without a gap.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::Value;

use crate::call::{Arguments, Body, Chunks};
use crate::describe::Description;
use crate::sse::{Frame, Parser};
use crate::{Connection, Error};

/// Which stream, and from where. With neither tenant nor project it is the platform's.
#[derive(Debug, Clone, Default)]
pub struct Follow {
    /// A tenant's stream, by slug or id.
    pub tenant: Option<String>,
    /// A project's stream, by name or id.
    pub project: Option<String>,
    /// After this number; from now on if not given.
    pub after: Option<i64>,
}

/// What a stream says.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// An event, as a CloudEvent.
    Event(Value),
    /// The asked place is no longer kept; the stream goes on after this number, where the server told it.
    Reset(Option<i64>),
    /// The server ends the stream, and why. The next call connects again, and fails if there is no right to.
    End(String),
    /// The connection broke. The next call connects again.
    Lost(String),
}

/// A stream that is followed.
#[derive(Debug)]
pub struct EventStream {
    connection: Connection,
    query: Vec<(String, String)>,
    /// The last number that was seen, to go on after it.
    last: Option<String>,
    chunks: Option<Chunks>,
    parser: Parser,
    ready: VecDeque<Frame>,
    failures: u32,
}

const LONGEST_PAUSE: Duration = Duration::from_secs(10);

impl EventStream {
    /// Opens a stream; fails at once if the first connection does.
    ///
    /// "From now on" is turned into a number first: a connection that is lost before the first event could otherwise not
    /// say where it was, and events would be missed.
    pub async fn open(connection: &Connection, follow: &Follow) -> Result<Self, Error> {
        let scope = [("tenant", &follow.tenant), ("project", &follow.project)];
        let query: Vec<(String, String)> =
            scope.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?))).collect();
        let last = match follow.after {
            Some(after) => Some(after.to_string()),
            None => newest(connection, &query).await?,
        };
        let mut stream = Self {
            connection: connection.clone(),
            query,
            last,
            chunks: None,
            parser: Parser::default(),
            ready: VecDeque::new(),
            failures: 0,
        };
        stream.connect().await?;
        Ok(stream)
    }

    /// What comes next. It waits as long as it takes; an error is an answer of the platform's that will not change by itself.
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
            // Whatever else is named, what carries an event's JSON is an event.
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
            .operation("event_stream")
            .ok_or_else(|| Error::Setup("the API has no event stream".to_owned()))?;
        let headers = self.last.iter().map(|last| ("Last-Event-ID".to_owned(), last.clone())).collect();
        let arguments = Arguments { query: self.query.clone(), headers, ..Arguments::default() };
        self.parser = Parser::default();
        match self.connection.call(operation, &arguments).await?.body {
            Body::Stream(chunks) => self.chunks = Some(chunks),
            Body::Json(_) => return Err(Error::Answer { status: 200, why: "it is no stream".to_owned() }),
        }
        Ok(())
    }

    /// Connects with growing pauses; only what would fail for ever is given back.
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

/// The newest number of a stream. Who may follow a stream but not list it gets none.
async fn newest(connection: &Connection, scope: &[(String, String)]) -> Result<Option<String>, Error> {
    let Some(list) = Description::embedded().operation("event_list") else { return Ok(None) };
    let mut query = scope.to_vec();
    query.push(("page_size".to_owned(), "1".to_owned()));
    match connection.call(list, &Arguments { query, ..Arguments::default() }).await {
        Ok(response) => Ok(response.json()["sealed_up_to"].as_i64().map(|number| number.to_string())),
        Err(Error::Problem(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The reason in an `end`.
fn words(data: &str) -> String {
    let told: Option<Value> = serde_json::from_str(data).ok();
    told.and_then(|told| Some(told["detail"].as_str()?.to_owned())).unwrap_or_else(|| data.to_owned())
}
