//! The adapter contract: lease permissions, fencing, and task keys.

use std::time::Duration;

use jiff::Timestamp;
use muster_adapter_kit::types::{
    AdapterStep, AdapterStepComplete, AdapterStepFail, AdapterStepHeartbeat, AdapterStepLease,
    AdapterStepProgress, AdapterStepState, AdapterTask, AdapterTaskCreate, AdapterTaskReason,
    AdapterTaskState, OperatorTokenMint, RuntimeSecretIssue, TaskId,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Task, Who, World, cells};

/// A response: a document, or a refusal with its status and code.
pub(super) type Answer = Result<Value, (u16, &'static str, String)>;

#[expect(clippy::disallowed_methods, reason = "this platform has the machine's clock, as the real one has")]
pub(super) fn now() -> Timestamp {
    Timestamp::now()
}

/// Parses a body; an unknown or missing field is refused, as by the real platform.
fn read<T: DeserializeOwned>(body: &Value) -> Result<T, (u16, &'static str, String)> {
    serde_json::from_value(body.clone()).map_err(|error| (400, "invalid_request", error.to_string()))
}

fn missing() -> (u16, &'static str, String) {
    (404, "not_found", "there is no such step".to_owned())
}

impl World {
    /// Reports whether the lease on a step has ended.
    fn is_free(&self, step: &AdapterStep) -> bool {
        let due = self.due.get(&*step.id).is_none_or(|at| *at <= tokio::time::Instant::now());
        match step.state {
            AdapterStepState::Queued => due,
            AdapterStepState::Leased => step.leased_until.is_none_or(|until| until <= now()),
            _ => false,
        }
    }

    pub(super) fn lease(&mut self, who: &Who, body: &Value) -> Answer {
        let wish: AdapterStepLease = read(body)?;
        if wish.adapter.contract != 1 {
            return Err((409, "invalid_state", "this platform supports contract 1".to_owned()));
        }
        let most = usize::try_from(wish.most.unwrap_or(16)).unwrap();
        let life = Duration::from_secs(wish.lease_seconds.unwrap_or(30).unsigned_abs());
        let free: Vec<usize> = (0..self.steps.len())
            .filter(|at| *self.steps[*at].project_id == who.project && self.is_free(&self.steps[*at]))
            .take(most)
            .collect();
        let mut leased = Vec::new();
        for at in free {
            let step = &mut self.steps[at];
            step.state = AdapterStepState::Leased;
            step.generation += 1;
            step.attempts += 1;
            step.holder = Some(wish.adapter.name.clone());
            step.leased_until = Some(now() + life);
            let step = self.steps[at].clone();
            leased.push(self.with_snapshot(&step));
        }
        Ok(json!({"steps": leased}))
    }

    /// Issues a shared secret; a repeat with the same key returns the same one, without its value.
    pub(super) fn issue(&mut self, who: &Who, key: &str, body: &Value) -> Answer {
        if let Some(issued) = self.issued.get(key) {
            return Ok(issued.clone());
        }
        let wish: RuntimeSecretIssue = read(body)?;
        self.made += 1;
        let secret = json!({
            "id": format!("rts_{}", self.made), "tenant_id": "ten_1", "project_id": who.project, "purpose": wish.purpose,
            "name": wish.name, "instance_id": wish.instance, "created_at": now(), "version": 1,
        });
        self.secrets.push(secret.clone());
        self.issued.insert(key.to_owned(), secret.clone());
        let mut answer = secret;
        answer["value"] = json!("bWF0ZXJpYWw=");
        Ok(answer)
    }

    /// Revokes a secret; a repeat with the same key, which is its id, returns the same result.
    pub(super) fn revoke(&mut self, id: &str) -> Answer {
        let found = self.secrets.iter_mut().find(|secret| secret["id"] == id);
        let Some(secret) = found else {
            return Err((404, "not_found", "there is no such secret".to_owned()));
        };
        if secret["revoked_at"].is_null() {
            secret["revoked_at"] = json!(now());
        }
        Ok(secret.clone())
    }

    pub(super) fn with_snapshot(&self, step: &AdapterStep) -> Value {
        json!({"step": step, "snapshot": {
            "instance_id": "inst_1", "instance": "demo", "app": "fake", "app_version_id": "appv_1",
            "app_version": "1.0.0", "config": {}, "manifest": {}, "members": self.members,
        }})
    }

    /// Returns the step, if this generation holds it.
    fn held(
        &mut self,
        who: &Who,
        id: &str,
        generation: i64,
    ) -> Result<&mut AdapterStep, (u16, &'static str, String)> {
        let step = self.steps.iter_mut().find(|step| *step.id == id && *step.project_id == who.project);
        let step = step.ok_or_else(missing)?;
        let lapsed = step.leased_until.is_none_or(|until| until <= now());
        if step.state != AdapterStepState::Leased || step.generation != generation || lapsed {
            return Err((409, "fenced", format!("generation {generation} does not hold {id}")));
        }
        Ok(step)
    }

    pub(super) fn say(&mut self, who: &Who, what: &str, id: &str, body: &Value) -> Answer {
        let mut after = None;
        let step = match what {
            "heartbeat" => {
                let said: AdapterStepHeartbeat = read(body)?;
                let step = self.held(who, id, said.generation)?;
                let life = Duration::from_secs(said.lease_seconds.unwrap_or(30).unsigned_abs());
                step.leased_until = Some(now() + life);
                step
            }
            "progress" => {
                let said: AdapterStepProgress = read(body)?;
                let step = self.held(who, id, said.generation)?;
                let life = Duration::from_secs(said.lease_seconds.unwrap_or(30).unsigned_abs());
                step.leased_until = step.leased_until.max(Some(now() + life));
                step.percent = said.percent.or(step.percent);
                step.message = said.message.or(step.message.take());
                step
            }
            "complete" => {
                let said: AdapterStepComplete = read(body)?;
                let step = self.held(who, id, said.generation)?;
                step.state = AdapterStepState::Done;
                step.message = said.message;
                step
            }
            _ => {
                let said: AdapterStepFail = read(body)?;
                let step = self.held(who, id, said.generation)?;
                after = said.retry_after_seconds;
                step.state =
                    if after.is_some() { AdapterStepState::Queued } else { AdapterStepState::Failed };
                step.reason = Some(said.reason);
                step.message = Some(said.message);
                step
            }
        };
        let answer = json!(step);
        if let Some(seconds) = after {
            let at = tokio::time::Instant::now() + Duration::from_secs(seconds.unsigned_abs());
            self.due.insert(id.to_owned(), at);
        }
        Ok(answer)
    }

    pub(super) fn task(&mut self, who: &Who, id: &str, body: &Value) -> Answer {
        let wish: AdapterTaskCreate = read(body)?;
        self.held(who, id, wish.generation)?;
        if let Some(known) = self.tasks.iter().find(|known| known.step == id && known.task.key == wish.key) {
            return Ok(json!(known.task));
        }
        let sleeps = self.nodes_sleep;
        let dead = self.dead_cells.contains(&wish.member_id.to_string());
        let (state, message, ran) = if sleeps {
            (AdapterTaskState::Queued, None, None)
        } else if dead {
            (AdapterTaskState::Failed, Some("its first process ended".to_owned()), None)
        } else {
            match cells::act(self, &wish.member_id, &wish.act) {
                Ok(ran) => (AdapterTaskState::Done, None, ran),
                Err(why) => (AdapterTaskState::Failed, Some(why), None),
            }
        };
        let number = self.tasks.len() + 1;
        let task = AdapterTask {
            finished_at: (!sleeps).then(now),
            id: TaskId(format!("task_{number}")),
            key: wish.key,
            message,
            queued_at: now(),
            ran,
            reason: (state == AdapterTaskState::Failed).then_some(if dead {
                AdapterTaskReason::CellDead
            } else {
                AdapterTaskReason::Refused
            }),
            state,
        };
        self.tasks.push(Task { step: id.to_owned(), task: task.clone() });
        Ok(json!(task))
    }

    pub(super) fn entitlements(&self) -> Value {
        let items: Vec<Value> = self
            .entitled
            .iter()
            .map(|held| {
                json!({
                    "id": held.id, "tenant_id": "ten_1", "project_id": held.project, "app_id": "app_1",
                    "app": held.app, "operator_account_id": "sa_op", "permissions": [],
                    "created_at": now(), "updated_at": now(), "version": 1,
                })
            })
            .collect();
        json!({"items": items})
    }

    pub(super) fn mint(&mut self, body: &Value) -> Answer {
        let wish: OperatorTokenMint = read(body)?;
        let held = self.entitled.iter().find(|held| held.id == wish.entitlement);
        let project = held.map(|held| held.project.clone()).ok_or_else(missing)?;
        self.made += 1;
        let secret = format!("mst_opt_minted{}", self.made);
        let life = self
            .token_life
            .min(Duration::from_secs(wish.expires_in_seconds.unwrap_or(900).unsigned_abs().into()));
        let who = Who {
            name: "operator".to_owned(),
            kind: "service_account".to_owned(),
            project,
            permissions: super::OPERATES.map(str::to_owned).to_vec(),
            until: Some(tokio::time::Instant::now() + life),
        };
        self.tokens.insert(secret.clone(), who);
        Ok(json!({
            "id": format!("tok_{}", self.made), "kind": "service_account", "name": "operator", "hint": "mst_opt",
            "created_at": now(), "expires_at": now() + life, "secret": secret, "version": 1,
        }))
    }
}
