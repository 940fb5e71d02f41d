//! One operation of the API as a value.

use crate::Shape;

/// The HTTP method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// Reads.
    Get,
    /// Makes or acts.
    Post,
    /// Changes.
    Patch,
    /// Removes.
    Delete,
}

impl Method {
    /// As in a request line.
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Patch => "PATCH",
            Method::Delete => "DELETE",
        }
    }
}

/// Through which part of the door it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Changes something for somebody: idempotent, audited, tells an event.
    Command,
    /// Machines' chatter (leases, heartbeats, reports): fenced, audited at grant and end only.
    Machine,
    /// Changes nothing.
    Read,
}

impl Kind {
    /// The word in the golden list and in the document's `x-kind`.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Command => "command",
            Kind::Machine => "machine",
            Kind::Read => "read",
        }
    }
}

/// What a caller must show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Credential {
    /// A token or a session.
    Required,
    /// Nothing: this is how one gets a credential.
    None,
}

/// What comes back when it went well.
#[derive(Debug, Clone, Copy)]
pub enum Answer {
    /// JSON of this shape.
    Json(Shape),
    /// Server-sent events whose data has this shape.
    EventStream(Shape),
    /// Newline-delimited JSON, a line of this shape each.
    JsonLines(Shape),
    /// A WebSocket, on which this shape is said beside bytes.
    Socket(Shape),
}

/// One operation.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    /// `noun_verb`: the name in every layer.
    pub id: &'static str,
    /// Command, machine or read.
    pub kind: Kind,
    /// The method.
    pub method: Method,
    /// The path, with `{parameters}`.
    pub path: &'static str,
    /// One line.
    pub summary: &'static str,
    /// More, where a line is too little.
    pub description: &'static str,
    /// The permission it needs at the resource's scope, as `noun.verb`; empty where being somebody is enough.
    pub permission: &'static str,
    /// Who may knock at all.
    pub credential: Credential,
    /// The query parameters.
    pub query: Option<Shape>,
    /// The body.
    pub body: Option<Shape>,
    /// The status of success.
    pub status: u16,
    /// The answer.
    pub answer: Answer,
    /// Whether `If-Match` is needed: whoever changes or removes a thing must say which version it saw.
    pub if_match: bool,
}

impl Operation {
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

    /// A read of one thing or a list.
    pub const fn read(id: &'static str, path: &'static str, answer: Shape) -> Self {
        Self::new(Method::Get, Kind::Read, id, path, 200, Answer::Json(answer))
    }

    /// A read that streams.
    pub const fn stream(id: &'static str, path: &'static str, answer: Answer) -> Self {
        let status = if matches!(answer, Answer::Socket(_)) { 101 } else { 200 };
        Self::new(Method::Get, Kind::Read, id, path, status, answer)
    }

    /// A command that makes something.
    pub const fn create(id: &'static str, path: &'static str, body: Shape, answer: Shape) -> Self {
        let mut operation = Self::new(Method::Post, Kind::Command, id, path, 201, Answer::Json(answer));
        operation.body = Some(body);
        operation
    }

    /// A command on something that exists.
    pub const fn act(id: &'static str, path: &'static str, body: Shape, answer: Shape) -> Self {
        let mut operation = Self::new(Method::Post, Kind::Command, id, path, 200, Answer::Json(answer));
        operation.body = Some(body);
        operation
    }

    /// A command that starts an operation: it is accepted, and done later.
    pub const fn start(id: &'static str, path: &'static str, body: Shape, answer: Shape) -> Self {
        let mut operation = Self::new(Method::Post, Kind::Command, id, path, 202, Answer::Json(answer));
        operation.body = Some(body);
        operation
    }

    /// What machines say to each other: fenced by what it carries, and so safe to repeat without a key.
    pub const fn machine(id: &'static str, path: &'static str, body: Shape, answer: Shape) -> Self {
        let mut operation = Self::new(Method::Post, Kind::Machine, id, path, 200, Answer::Json(answer));
        operation.body = Some(body);
        operation
    }

    /// A change of some fields.
    pub const fn update(id: &'static str, path: &'static str, body: Shape, answer: Shape) -> Self {
        let mut operation = Self::new(Method::Patch, Kind::Command, id, path, 200, Answer::Json(answer));
        operation.body = Some(body);
        operation.if_match = true;
        operation
    }

    /// A removal; the answer says what went.
    pub const fn delete(id: &'static str, path: &'static str, answer: Shape) -> Self {
        let mut operation = Self::new(Method::Delete, Kind::Command, id, path, 200, Answer::Json(answer));
        operation.if_match = true;
        operation
    }

    /// With a line of help.
    pub const fn summary(mut self, summary: &'static str) -> Self {
        self.summary = summary;
        self
    }

    /// With a paragraph of help.
    pub const fn description(mut self, description: &'static str) -> Self {
        self.description = description;
        self
    }

    /// With the permission it needs.
    pub const fn needs(mut self, permission: &'static str) -> Self {
        self.permission = permission;
        self
    }

    /// With query parameters.
    pub const fn query(mut self, query: Shape) -> Self {
        self.query = Some(query);
        self
    }

    /// For callers without a credential.
    pub const fn anonymous(mut self) -> Self {
        self.credential = Credential::None;
        self
    }

    /// Needs `If-Match`.
    pub const fn versioned(mut self) -> Self {
        self.if_match = true;
        self
    }

    /// Whether `Idempotency-Key` is needed: on every command that is a POST; the other methods repeat safely by `If-Match`.
    pub fn needs_idempotency_key(&self) -> bool {
        self.kind == Kind::Command && self.method == Method::Post
    }

    /// The audit's word for it: the permission, or the id as `noun.verb` where none is needed.
    pub fn action(&self) -> String {
        if self.permission.is_empty() { self.id.replacen('_', ".", 1) } else { self.permission.to_owned() }
    }

    /// The names of the path's parameters, in order.
    pub fn path_parameters(&self) -> Vec<&'static str> {
        self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect()
    }
}
