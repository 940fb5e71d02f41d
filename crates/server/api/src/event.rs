//! Events.

use jiff::Timestamp;
use muster_ids::{EventId, InstanceId, MemberId, ProjectId, TenantId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::shape::Object;
use crate::{Answer, Endpoint, shape};

/// An event, as a CloudEvent.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// CloudEvents version.
    #[schema(example = "1.0")]
    pub specversion: String,
    /// Its id.
    pub id: EventId,
    /// Event type.
    #[serde(rename = "type")]
    pub event_type: String,
    /// Event source.
    pub source: String,
    /// Path of the resource.
    pub subject: String,
    /// Time of occurrence.
    pub time: Timestamp,
    /// Sequence number in the requested stream, from 1, without gaps; on an instance's timeline, the one in its project's stream.
    pub sequence: i64,
    /// Correlation id, shared with the request, audit and logs.
    pub correlationid: String,
    /// Actor of the command that caused it.
    pub actorid: String,
    /// Tenant, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenantid: Option<TenantId>,
    /// Project, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub projectid: Option<ProjectId>,
    /// The app instance whose timeline shows it, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instanceid: Option<InstanceId>,
    /// The member whose timeline shows it, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memberid: Option<MemberId>,
    /// Details.
    #[schema(value_type = Object)]
    pub data: Object,
}

/// Selects a stream and a position in it.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EventListQuery {
    /// A tenant's stream, by slug or id: all events of the tenant.
    #[schema(max_length = 128)]
    pub tenant: Option<String>,
    /// A project's stream, by name or id. With neither, the platform's.
    #[schema(max_length = 128)]
    pub project: Option<String>,
    /// Only events after this sequence number.
    #[schema(minimum = 0, maximum = 9007199254740991_i64)]
    pub after: Option<i64>,
    /// Only events of this type; a trailing `*` is a wildcard.
    #[schema(max_length = 200)]
    pub event_type: Option<String>,
    /// Maximum number of items; default: 50.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
}

/// Selects a stream to follow.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EventStreamQuery {
    /// A tenant's stream, by slug or id: all events of the tenant.
    #[schema(max_length = 128)]
    pub tenant: Option<String>,
    /// A project's stream, by name or id. With neither, the platform's.
    #[schema(max_length = 128)]
    pub project: Option<String>,
    /// Start after this sequence number; default: only new events. `Last-Event-ID` does the same.
    #[schema(minimum = 0, maximum = 9007199254740991_i64)]
    pub after: Option<i64>,
}

/// Selects events of an instance's timeline.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InstanceEventListQuery {
    /// Only events after this sequence number.
    #[schema(minimum = 0, maximum = 9007199254740991_i64)]
    pub after: Option<i64>,
    /// Only events of this type; a trailing `*` is a wildcard.
    #[schema(max_length = 200)]
    pub event_type: Option<String>,
    /// Maximum number of items; default: 50.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
}

/// Selects a position in an instance's timeline.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InstanceEventStreamQuery {
    /// Start after this sequence number; default: only new events. `Last-Event-ID` does the same.
    #[schema(minimum = 0, maximum = 9007199254740991_i64)]
    pub after: Option<i64>,
}

/// A page of events.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct EventPage {
    /// Events in order, without gaps unless filtered.
    pub items: Vec<Event>,
    /// Pass as `after` to continue.
    pub next_after: i64,
    /// Last sealed sequence number of the stream; later events are not numbered yet.
    pub sealed_up_to: i64,
}

/// The endpoints.
pub const ENDPOINTS: &[Endpoint] = &[
    Endpoint::read("event_list", "/v1/events", shape::<EventPage>())
        .needs("event.list")
        .query(shape::<EventListQuery>())
        .summary("List events of a stream"),
    Endpoint::stream("event_stream", "/v1/events/stream", Answer::EventStream(shape::<Event>()))
        .needs("event.stream")
        .query(shape::<EventStreamQuery>())
        .summary("Follow a stream live, without gaps")
        .description(
            "Server-sent events; `id` is the number in the stream. Reconnect with `Last-Event-ID`. `event: \
             reset` means that the requested position is no longer stored; `event: end` gives the reason for \
             the end of the stream.",
        ),
    Endpoint::read(
        "instance_event_list",
        "/v1/projects/{project}/app-instances/{instance}/events",
        shape::<EventPage>(),
    )
    .needs("event.list")
    .query(shape::<InstanceEventListQuery>())
    .summary("List the timeline of an instance")
    .description(
        "Events of the instance, its members, the operations on them, and of what these do: adapter steps, allocations, cells. They are \
         numbered as in the project's stream, so the numbers have gaps.",
    ),
    Endpoint::stream(
        "instance_event_stream",
        "/v1/projects/{project}/app-instances/{instance}/events/stream",
        Answer::EventStream(shape::<Event>()),
    )
    .needs("event.stream")
    .query(shape::<InstanceEventStreamQuery>())
    .summary("Follow the timeline of an instance live")
    .description(
        "Server-sent events, as of the project's stream: `id` is the number there. Reconnect with `Last-Event-ID`. A new instance \
         of the same name has another timeline.",
    ),
];
