//! What an agent can ask for, as a table.

use std::borrow::Cow;

use utoipa::ToSchema;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;

use crate::stream::Control;
use crate::wire::{
    Changed, Heard, Hello, Join, Joined, Noted, Observations, Observed, Poll, Renew, Renewed, Reports,
    SecretAsk, SecretTold, Welcome, Work,
};

/// Named schemas, as they are collected for the document.
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

/// One operation. All of them are POST, answer 200 with JSON, and are safe to repeat, except that a token joins once.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    /// Its name; the last part of its path.
    pub id: &'static str,
    /// The path.
    pub path: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Whether a client certificate must be shown.
    pub certificate: bool,
    /// The body.
    pub body: Shape,
    /// The answer.
    pub answer: Shape,
}

/// Every operation, in the order in which an agent first needs them.
pub const OPERATIONS: &[Operation] = &[
    Operation {
        id: "join",
        path: "/node/v1/join",
        summary: "Join with a one-time token, and get a certificate",
        certificate: false,
        body: shape::<Join>(),
        answer: shape::<Joined>(),
    },
    Operation {
        id: "renew",
        path: "/node/v1/renew",
        summary: "Get another certificate before the present one ends",
        certificate: true,
        body: shape::<Renew>(),
        answer: shape::<Renewed>(),
    },
    Operation {
        id: "hello",
        path: "/node/v1/hello",
        summary: "Take up the node's identity, and learn what must not be there",
        certificate: true,
        body: shape::<Hello>(),
        answer: shape::<Welcome>(),
    },
    Operation {
        id: "poll",
        path: "/node/v1/poll",
        summary: "Be heard, and wait for work",
        certificate: true,
        body: shape::<Poll>(),
        answer: shape::<Work>(),
    },
    Operation {
        id: "report",
        path: "/node/v1/report",
        summary: "Say what became of tasks",
        certificate: true,
        body: shape::<Reports>(),
        answer: shape::<Heard>(),
    },
    Operation {
        id: "inventory",
        path: "/node/v1/inventory",
        summary: "Say what the machine has now",
        certificate: true,
        body: shape::<Changed>(),
        answer: shape::<Noted>(),
    },
    Operation {
        id: "observe",
        path: "/node/v1/observe",
        summary: "Report the status of cells that changed",
        certificate: true,
        body: shape::<Observations>(),
        answer: shape::<Observed>(),
    },
    Operation {
        id: "secret",
        path: "/node/v1/secret",
        summary: "Be told a secret of a cell that is being made here",
        certificate: true,
        body: shape::<SecretAsk>(),
        answer: shape::<SecretTold>(),
    },
];

/// What an agent asks for by an upgrade to WebSocket: to be joined with whoever waits for a stream. The last part of the path is
/// the stream's id, as the task said it. What travels on it is in [`stream`](crate::stream).
#[derive(Debug, Clone, Copy)]
pub struct Upgrade {
    /// Its name.
    pub id: &'static str,
    /// The path, with the stream's id in its place.
    pub path: &'static str,
    /// One line.
    pub summary: &'static str,
    /// What is said on it beside bytes.
    pub control: Shape,
}

/// The one upgrade there is. It is a GET, needs the certificate of the cell's own node, and is taken once.
pub const STREAM: Upgrade = Upgrade {
    id: "stream",
    path: "/node/v1/streams/{stream}",
    summary: "Join a stream that this server waits for",
    control: shape::<Control>(),
};
