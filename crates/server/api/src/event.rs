//! Events.

use jiff::Timestamp;
use muster_ids::{EventId, ProjectId, TenantId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::shape::Object;
use crate::{Answer, Operation, shape};

/// Something that happened, as a CloudEvent.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// CloudEvents' version.
    #[schema(example = "1.0")]
    pub specversion: String,
    /// Its id.
    pub id: EventId,
    /// What kind of event.
    #[serde(rename = "type")]
    pub event_type: String,
    /// Who says it.
    pub source: String,
    /// The resource's path.
    pub subject: String,
    /// When it happened.
    pub time: Timestamp,
    /// Its number in the stream that was asked for: from 1, without gaps.
    pub sequence: i64,
    /// The thread through request, audit and logs.
    pub correlationid: String,
    /// Whose command caused it.
    pub actorid: String,
    /// In which tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenantid: Option<TenantId>,
    /// In which project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub projectid: Option<ProjectId>,
    /// The details.
    #[schema(value_type = Object)]
    pub data: Object,
}

/// Which stream, and from where.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EventListQuery {
    /// A tenant's stream, by slug or id: everything in the tenant.
    #[schema(max_length = 128)]
    pub tenant: Option<String>,
    /// A project's stream, by name or id. With neither, the platform's.
    #[schema(max_length = 128)]
    pub project: Option<String>,
    /// Only events after this number.
    #[schema(minimum = 0, maximum = 9007199254740991_i64)]
    pub after: Option<i64>,
    /// Only events of this type; a trailing `*` matches the rest.
    #[schema(max_length = 200)]
    pub event_type: Option<String>,
    /// How many at most; 50 if not given.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
}

/// Which stream to follow.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EventStreamQuery {
    /// A tenant's stream, by slug or id: everything in the tenant.
    #[schema(max_length = 128)]
    pub tenant: Option<String>,
    /// A project's stream, by name or id. With neither, the platform's.
    #[schema(max_length = 128)]
    pub project: Option<String>,
    /// Start after this number; only what happens from now on if not given. `Last-Event-ID` does the same.
    #[schema(minimum = 0, maximum = 9007199254740991_i64)]
    pub after: Option<i64>,
}

/// Some events.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct EventPage {
    /// In order, without gaps unless filtered.
    pub items: Vec<Event>,
    /// Give it as `after` to go on.
    pub next_after: i64,
    /// The last number of the stream that is sealed; what happened later is not numbered yet.
    pub sealed_up_to: i64,
}

/// The operations.
pub const OPERATIONS: &[Operation] = &[
    Operation::read("event_list", "/v1/events", shape::<EventPage>())
        .needs("event.list")
        .query(shape::<EventListQuery>())
        .summary("List events of a stream"),
    Operation::stream("event_stream", "/v1/events/stream", Answer::EventStream(shape::<Event>()))
        .needs("event.stream")
        .query(shape::<EventStreamQuery>())
        .summary("Follow a stream live, without gaps")
        .description(
            "Server-sent events; `id` is the number in the stream. Reconnect with `Last-Event-ID`. `event: reset` \
             says that the asked place is no longer kept; `event: end` says why the server ends the stream.",
        ),
];
