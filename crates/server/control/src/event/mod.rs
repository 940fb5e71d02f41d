//! Events: a page of a stream, or live streaming.

mod list;
mod stream;

pub use list::{instance_list, list};
pub use stream::{Item, instance_stream, stream};

use muster_api::event as api;
use muster_model::Scope;
use muster_model::event::Event;

/// Returns the event as part of the stream of `scope`; `None` if it does not belong to that stream.
pub fn view(event: &Event, scope: Scope) -> Option<api::Event> {
    let draft = &event.draft;
    Some(api::Event {
        specversion: "1.0".to_owned(),
        id: draft.id,
        event_type: draft.event_type.clone(),
        source: "/muster".to_owned(),
        subject: draft.subject.clone(),
        time: draft.at,
        sequence: event.sequence_in(scope)?,
        correlationid: draft.correlation_id.clone(),
        actorid: draft.actor_id.clone(),
        tenantid: draft.tenant_id,
        projectid: draft.project_id,
        instanceid: draft.timeline.instance_id,
        memberid: draft.timeline.member_id,
        data: draft.data.as_object().cloned().unwrap_or_default(),
    })
}
