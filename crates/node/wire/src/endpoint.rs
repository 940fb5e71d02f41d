//! Table of the agent endpoints.

use std::borrow::Cow;

use utoipa::ToSchema;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;

use crate::stream::Control;
use crate::wire::{
    Changed, Hello, Join, Joined, Noted, Observations, Observed, Poll, Renew, Renewed, Reports,
    ReportsAccepted, SecretAsk, SecretValue, Welcome, Work,
};

/// Named schemas collected for the document.
pub(crate) type Schemas = Vec<(String, RefOr<Schema>)>;

/// A handle on the schema of a type.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    name: fn() -> Cow<'static, str>,
    collect: fn(&mut Schemas),
}

impl Shape {
    /// The component's name.
    pub fn name(&self) -> String {
        (self.name)().into_owned()
    }

    pub(crate) fn collect(&self, schemas: &mut Schemas) {
        (self.collect)(schemas);
    }
}

pub(crate) const fn shape<T: ToSchema>() -> Shape {
    Shape { name: T::name, collect: collect::<T> }
}

fn collect<T: ToSchema>(schemas: &mut Schemas) {
    schemas.push((T::name().into_owned(), T::schema()));
    T::schemas(schemas);
}

/// One endpoint. All are POST, answer 200 with JSON and are idempotent, except that a token joins once.
#[derive(Debug, Clone, Copy)]
pub struct Endpoint {
    /// Name; the last segment of its path.
    pub id: &'static str,
    /// The path.
    pub path: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Whether a client certificate is required.
    pub certificate: bool,
    /// Request body.
    pub body: Shape,
    /// Response body.
    pub answer: Shape,
}

/// Every endpoint, in the order in which an agent first needs them.
pub const ENDPOINTS: &[Endpoint] = &[
    Endpoint {
        id: "join",
        path: "/node/v1/join",
        summary: "Join with a one-time token and get a certificate",
        certificate: false,
        body: shape::<Join>(),
        answer: shape::<Joined>(),
    },
    Endpoint {
        id: "renew",
        path: "/node/v1/renew",
        summary: "Renew the certificate before it expires",
        certificate: true,
        body: shape::<Renew>(),
        answer: shape::<Renewed>(),
    },
    Endpoint {
        id: "hello",
        path: "/node/v1/hello",
        summary: "Open a session and get the list of stale copies",
        certificate: true,
        body: shape::<Hello>(),
        answer: shape::<Welcome>(),
    },
    Endpoint {
        id: "poll",
        path: "/node/v1/poll",
        summary: "Send a heartbeat and wait for work",
        certificate: true,
        body: shape::<Poll>(),
        answer: shape::<Work>(),
    },
    Endpoint {
        id: "report",
        path: "/node/v1/report",
        summary: "Report the results of tasks",
        certificate: true,
        body: shape::<Reports>(),
        answer: shape::<ReportsAccepted>(),
    },
    Endpoint {
        id: "inventory",
        path: "/node/v1/inventory",
        summary: "Report the machine's current hardware",
        certificate: true,
        body: shape::<Changed>(),
        answer: shape::<Noted>(),
    },
    Endpoint {
        id: "observe",
        path: "/node/v1/observe",
        summary: "Report the status of cells that changed",
        certificate: true,
        body: shape::<Observations>(),
        answer: shape::<Observed>(),
    },
    Endpoint {
        id: "secret",
        path: "/node/v1/secret",
        summary: "Get a secret for a cell that is being created here",
        certificate: true,
        body: shape::<SecretAsk>(),
        answer: shape::<SecretValue>(),
    },
];

/// The WebSocket upgrade by which an agent connects to a waiting stream. The last segment of the path is the stream's id
/// from the task. [`stream`](crate::stream) defines the messages.
#[derive(Debug, Clone, Copy)]
pub struct Upgrade {
    /// Its name.
    pub id: &'static str,
    /// Path with a placeholder for the stream's id.
    pub path: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Control messages.
    pub control: Shape,
}

/// The only upgrade: a GET with the certificate of the cell's node, accepted once.
pub const STREAM: Upgrade = Upgrade {
    id: "stream",
    path: "/node/v1/streams/{stream}",
    summary: "Join a stream that this server waits for",
    control: shape::<Control>(),
};
