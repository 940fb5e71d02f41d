//! The origin of a change, from which its events and its audit entry are made.

use jiff::Timestamp;
use muster_ids::Env;
use serde_json::Value;

use crate::Scope;
use crate::audit::{Actor, Entry, Outcome, Target};
use crate::event::{Draft, NewEvent, Timeline};
use crate::operation::Operation;

/// An audit entry without its origin: the action, its target and its outcome.
#[derive(Debug, Clone)]
pub struct Audited {
    /// Action as `noun.verb`.
    pub action: String,
    /// Target of the action.
    pub target: Target,
    /// Its outcome.
    pub outcome: Outcome,
    /// Code of a refusal or failure.
    pub code: Option<String>,
    /// Further detail.
    pub detail: Value,
}

impl Audited {
    /// Returns a success.
    pub fn success(action: impl Into<String>, target: Target, detail: Value) -> Self {
        Self { action: action.into(), target, outcome: Outcome::Succeeded, code: None, detail }
    }
}

/// The origin of a change: its events and its audit entry share it.
#[derive(Debug, Clone)]
pub struct Origin {
    /// Time of the change.
    pub at: Timestamp,
    /// Tenant and project.
    pub scope: Scope,
    /// Correlation id.
    pub correlation_id: String,
    /// The actor.
    pub actor: Actor,
    /// Timeline of events whose subject names none.
    pub timeline: Timeline,
}

impl Origin {
    /// Returns the origin of a change that a job of the platform makes by itself.
    pub fn platform(env: &Env, scope: Scope, job: &str) -> Self {
        let correlation_id = crate::hex::encode(&env.bytes::<16>());
        Self {
            at: env.now(),
            scope,
            correlation_id,
            actor: Actor::platform(job),
            timeline: Timeline::default(),
        }
    }

    /// Returns the origin of a change that an operation makes.
    pub fn operation(operation: &Operation, now: Timestamp) -> Self {
        Self {
            at: now,
            scope: operation.scope(),
            correlation_id: operation.correlation_id.clone(),
            actor: operation.asked_by.clone(),
            timeline: operation.timeline,
        }
    }

    /// Returns the event as the outbox stores it.
    pub fn draft(&self, env: &Env, (event_type, subject, data): NewEvent) -> Draft {
        debug_assert_eq!(event_type.check(&data), Ok(()), "{data}");
        Draft {
            id: env.id(),
            event_type: event_type.as_str().to_owned(),
            timeline: Timeline::of_path(&subject).or(self.timeline),
            subject,
            at: self.at,
            tenant_id: self.scope.tenant(),
            project_id: self.scope.project(),
            correlation_id: self.correlation_id.clone(),
            actor_id: self.actor.id.clone(),
            data,
        }
    }

    /// Returns the audit entry.
    pub fn entry(&self, env: &Env, audited: Audited) -> Entry {
        Entry {
            id: env.id(),
            at: self.at,
            actor: self.actor.clone(),
            action: audited.action,
            outcome: audited.outcome,
            code: audited.code,
            target: Some(audited.target),
            tenant_id: self.scope.tenant(),
            project_id: self.scope.project(),
            correlation_id: self.correlation_id.clone(),
            count: 1,
            detail: audited.detail,
        }
    }
}
