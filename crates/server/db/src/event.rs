//! Sealed events.

use muster_ids::InstanceId;
use muster_model::Scope;
use muster_model::event::{Draft, Event, Timeline, stream_name};

use crate::sql::{Row, args, both, statements};
use crate::{Result, Store};

macro_rules! columns {
    () => {
        "SELECT platform_sequence, id, type, subject, at, tenant_id, tenant_sequence, project_id, project_sequence,
                correlation_id, actor_id, data, instance_id, member_id
         FROM events "
    };
}

statements! {
    // Prefixes are compared character by character: `>=` and `<` depend on the database's collation, in which U+10FFFF need
    // not sort last and a dot may be ignored.
    EVENT_LIST_PLATFORM = both(concat!(columns!(), "WHERE platform_sequence > $1 AND ($2 OR type = $3 OR
        ($4 AND substr(type, 1, length($5)) = $5)) ORDER BY platform_sequence LIMIT $6"));
    EVENT_LIST_TENANT = both(concat!(columns!(), "WHERE tenant_id = $7 AND tenant_sequence > $1 AND ($2 OR type = $3 OR
        ($4 AND substr(type, 1, length($5)) = $5)) ORDER BY tenant_sequence LIMIT $6"));
    EVENT_LIST_PROJECT = both(concat!(columns!(), "WHERE project_id = $7 AND project_sequence > $1 AND ($2 OR type = $3 OR
        ($4 AND substr(type, 1, length($5)) = $5)) ORDER BY project_sequence LIMIT $6"));
    EVENT_LIST_INSTANCE = both(concat!(columns!(), "WHERE instance_id = $7 AND project_sequence > $1 AND ($2 OR type = $3 OR
        ($4 AND substr(type, 1, length($5)) = $5)) ORDER BY project_sequence LIMIT $6"));
    EVENT_STREAM_HEAD = both("SELECT sequence, pruned_sequence FROM streams WHERE name = $1");
}

/// Filter for events of a stream.
#[derive(Debug, Clone, Default)]
pub struct EventFilter {
    /// Only events after this number.
    pub after: i64,
    /// Only those on the timeline of this instance, which belongs to the project.
    pub instance: Option<InstanceId>,
    /// Only this type; a trailing `*` matches any suffix.
    pub event_type: Option<String>,
    /// Maximum number of events.
    pub limit: i64,
}

fn event(row: &Row) -> Result<Event> {
    Ok(Event {
        platform_sequence: row.get(0)?,
        tenant_sequence: row.get(6)?,
        project_sequence: row.get(8)?,
        draft: Draft {
            id: row.get(1)?,
            event_type: row.get(2)?,
            subject: row.get(3)?,
            at: row.get(4)?,
            tenant_id: row.get(5)?,
            project_id: row.get(7)?,
            correlation_id: row.get(9)?,
            actor_id: row.get(10)?,
            data: row.get(11)?,
            timeline: Timeline { instance_id: row.get(12)?, member_id: row.get(13)? },
        },
    })
}

impl Store {
    /// Returns events of a stream, in order.
    pub async fn event_list(&self, scope: Scope, filter: &EventFilter) -> Result<Vec<Event>> {
        let pattern = filter.event_type.as_deref().unwrap_or_default();
        let prefix = pattern.strip_suffix('*');
        let mut args = args![
            filter.after,
            filter.event_type.is_none(),
            pattern,
            prefix.is_some(),
            prefix.unwrap_or_default(),
            filter.limit
        ];
        let sql = match scope {
            _ if let Some(instance) = filter.instance => {
                args.extend(args![instance]);
                &EVENT_LIST_INSTANCE
            }
            Scope::Platform => &EVENT_LIST_PLATFORM,
            Scope::Tenant(tenant) => {
                args.extend(args![tenant]);
                &EVENT_LIST_TENANT
            }
            Scope::Project(_, project) => {
                args.extend(args![project]);
                &EVENT_LIST_PROJECT
            }
        };
        self.fetch_all(sql, args).await?.iter().map(event).collect()
    }

    /// Returns the last number of a stream, and the last one that retention removed.
    pub async fn event_stream_head(&self, scope: Scope) -> Result<(i64, i64)> {
        let name = format!("event:{}", stream_name(scope));
        match self.fetch_optional(&EVENT_STREAM_HEAD, args![name]).await? {
            Some(row) => Ok((row.get(0)?, row.get(1)?)),
            None => Ok((0, 0)),
        }
    }
}
