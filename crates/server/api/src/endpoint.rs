//! One endpoint of the API as a value.

use crate::Shape;

/// The HTTP method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// Reads.
    Get,
    /// Creates or acts.
    Post,
    /// Changes.
    Patch,
    /// Removes.
    Delete,
}

impl Method {
    /// Returns the method as in a request line.
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Patch => "PATCH",
            Method::Delete => "DELETE",
        }
    }
}

/// Kind of request, which decides its way through the command pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Changes something: idempotent, audited, emits an event.
    Command,
    /// Machine traffic (leases, heartbeats, reports): fenced, audited only when granted and when ended.
    Machine,
    /// Changes nothing.
    Read,
}

impl Kind {
    /// Returns the name used in the golden list and in the document's `x-kind`.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Command => "command",
            Kind::Machine => "machine",
            Kind::Read => "read",
        }
    }
}

/// Credential that a caller must present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credential {
    /// A token or a session.
    Required,
    /// Nothing: this endpoint issues a credential.
    None,
}

/// Response on success.
#[derive(Debug, Clone, Copy)]
pub enum Answer {
    /// JSON of this shape.
    Json(Shape),
    /// Server-sent events with data of this shape.
    EventStream(Shape),
    /// Newline-delimited JSON, one line of this shape each.
    JsonLines(Shape),
    /// A WebSocket that carries messages of this shape beside binary data.
    Socket(Shape),
}

/// One endpoint.
#[derive(Debug, Clone, Copy)]
pub struct Endpoint {
    /// `noun_verb`: the same name in every layer.
    pub id: &'static str,
    /// Command, machine or read.
    pub kind: Kind,
    /// The method.
    pub method: Method,
    /// The path, with `{parameters}`.
    pub path: &'static str,
    /// Summary of one line.
    pub summary: &'static str,
    /// Longer description, if needed.
    pub description: &'static str,
    /// Permission required at the resource's scope, as `noun.verb`; empty if any authenticated caller may use it.
    pub permission: &'static str,
    /// Credential that a caller must present.
    pub credential: Credential,
    /// The query parameters.
    pub query: Option<Shape>,
    /// The body.
    pub body: Option<Shape>,
    /// HTTP status on success.
    pub status: u16,
    /// Response on success.
    pub answer: Answer,
    /// Whether `If-Match` is required: a change or removal must name the version it is based on.
    pub if_match: bool,
}

impl Endpoint {
    const fn new(
        method: Method,
        kind: Kind,
        id: &'static str,
        path: &'static str,
        status: u16,
        answer: Answer,
    ) -> Self {
        Self {
            id,
            kind,
            method,
            path,
            summary: "",
            description: "",
            permission: "",
            credential: Credential::Required,
            query: None,
            body: None,
            status,
            answer,
            if_match: false,
        }
    }

    /// A read of one resource or a list.
    pub const fn read(id: &'static str, path: &'static str, answer: Shape) -> Self {
        Self::new(Method::Get, Kind::Read, id, path, 200, Answer::Json(answer))
    }

    /// A read that streams.
    pub const fn stream(id: &'static str, path: &'static str, answer: Answer) -> Self {
        let status = if matches!(answer, Answer::Socket(_)) { 101 } else { 200 };
        Self::new(Method::Get, Kind::Read, id, path, status, answer)
    }

    /// A command that creates something.
    pub const fn create(id: &'static str, path: &'static str, body: Shape, answer: Shape) -> Self {
        let mut endpoint = Self::new(Method::Post, Kind::Command, id, path, 201, Answer::Json(answer));
        endpoint.body = Some(body);
        endpoint
    }

    /// A command on something that exists.
    pub const fn act(id: &'static str, path: &'static str, body: Shape, answer: Shape) -> Self {
        let mut endpoint = Self::new(Method::Post, Kind::Command, id, path, 200, Answer::Json(answer));
        endpoint.body = Some(body);
        endpoint
    }

    /// A command that starts an operation: it is accepted now and executed later.
    pub const fn start(id: &'static str, path: &'static str, body: Shape, answer: Shape) -> Self {
        let mut endpoint = Self::new(Method::Post, Kind::Command, id, path, 202, Answer::Json(answer));
        endpoint.body = Some(body);
        endpoint
    }

    /// Machine-to-machine request: fenced by a token in its body, and therefore safe to repeat without a key.
    pub const fn machine(id: &'static str, path: &'static str, body: Shape, answer: Shape) -> Self {
        let mut endpoint = Self::new(Method::Post, Kind::Machine, id, path, 200, Answer::Json(answer));
        endpoint.body = Some(body);
        endpoint
    }

    /// A change of some fields.
    pub const fn update(id: &'static str, path: &'static str, body: Shape, answer: Shape) -> Self {
        let mut endpoint = Self::new(Method::Patch, Kind::Command, id, path, 200, Answer::Json(answer));
        endpoint.body = Some(body);
        endpoint.if_match = true;
        endpoint
    }

    /// A removal; the response lists what was removed.
    pub const fn delete(id: &'static str, path: &'static str, answer: Shape) -> Self {
        let mut endpoint = Self::new(Method::Delete, Kind::Command, id, path, 200, Answer::Json(answer));
        endpoint.if_match = true;
        endpoint
    }

    /// Sets the summary.
    pub const fn summary(mut self, summary: &'static str) -> Self {
        self.summary = summary;
        self
    }

    /// Sets the description.
    pub const fn description(mut self, description: &'static str) -> Self {
        self.description = description;
        self
    }

    /// Sets the required permission.
    pub const fn needs(mut self, permission: &'static str) -> Self {
        self.permission = permission;
        self
    }

    /// Sets the query parameters.
    pub const fn query(mut self, query: Shape) -> Self {
        self.query = Some(query);
        self
    }

    /// Allows callers without a credential.
    pub const fn anonymous(mut self) -> Self {
        self.credential = Credential::None;
        self
    }

    /// Requires `If-Match`.
    pub const fn versioned(mut self) -> Self {
        self.if_match = true;
        self
    }

    /// Reports whether `Idempotency-Key` is required: on every POST command; the other methods are safe to repeat by
    /// `If-Match`.
    pub fn needs_idempotency_key(&self) -> bool {
        self.kind == Kind::Command && self.method == Method::Post
    }

    /// Returns the action's name in the audit log: the permission, or the id as `noun.verb` if none is required.
    pub fn action(&self) -> String {
        if self.permission.is_empty() { self.id.replacen('_', ".", 1) } else { self.permission.to_owned() }
    }

    /// Returns the names of the path parameters, in order.
    pub fn path_parameters(&self) -> Vec<&'static str> {
        self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect()
    }
}
