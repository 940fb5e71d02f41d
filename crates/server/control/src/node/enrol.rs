//! Enrol one machine, once: as a new node, or as an existing one after the loss of its certificate or disk. A new node needs
//! an approval (`approve`) before use; an existing one keeps its own.

use jiff::SignedDuration;
use muster_api::Code;
use muster_api::node::{NodeEnrol, NodeEnrolment};
use muster_authz::Permission;
use muster_db::Enrolment;
use muster_ids::EnrolmentId;
use muster_model::Scope;
use muster_model::audit::Target;
use muster_model::event::EventType;
use muster_model::node::Node;
use muster_model::token::{Secret, TokenKind};
use serde_json::json;

use super::still_ours;
use crate::commit::{target, told};
use crate::tenant::checked_labels;
use crate::{Answer, Cx, Error, PreparedCommand, Result};

/// Default lifetime of a join token in seconds.
const LIFETIME: u32 = 3600;

/// Prepares `node_enrol`.
pub async fn enrol(cx: &Cx, body: NodeEnrol) -> Result<PreparedCommand> {
    cx.authorize(Permission::NodeEnrol, Scope::Platform, "node")?;
    let node = match &body.node {
        Some(reference) => Some(existing(cx, reference, &body).await?),
        None => None,
    };
    if let Some(name) = &body.name {
        refuse_taken(cx, name).await?;
    }
    let secret = Secret::make(TokenKind::Join, &cx.platform.env);
    let enrolment = Enrolment {
        id: cx.platform.env.id::<EnrolmentId>(),
        node_name: node.as_ref().map(|node| node.name.clone()).or(body.name),
        labels: checked_labels(body.labels)?,
        node_id: node.as_ref().map(|node| node.id),
        used_with: None,
    };
    let lifetime = SignedDuration::from_secs(i64::from(body.expires_in_seconds.unwrap_or(LIFETIME)));
    let (now, expires_at, created_by) = (cx.now, cx.now + lifetime, cx.actor_id());
    let mut shown = NodeEnrolment {
        id: enrolment.id,
        node_id: enrolment.node_id,
        name: enrolment.node_name.clone(),
        labels: node.map_or_else(|| enrolment.labels.clone(), |node| node.labels),
        expires_at,
        ca_sha256: cx.platform.authority.fingerprint(cx.platform.custody()).await?,
        token: None,
        command: String::new(),
        secret_shown_once: None,
    };
    let mut command = command(&cx.platform.options.nodes_url, &shown.ca_sha256);
    if enrolment.node_id.is_some() {
        // Removes leftovers of the machine's old identity.
        command.push_str(" --force");
    }
    // The token is not part of it: other users of the machine can read command lines.
    shown.command = command;
    let told = told(&[
        ("name", enrolment.node_name.as_ref().map(|name| json!(name))),
        ("node_id", enrolment.node_id.map(|node| json!(node))),
        ("labels", Some(json!(shown.labels))),
        ("expires_at", Some(json!(expires_at))),
    ]);
    let commit = PreparedCommand::new(Scope::Platform, named(&enrolment), move |tx| {
        Box::pin(async move {
            tx.enrolment_insert(&enrolment, &secret.hash(), &created_by, now, expires_at).await?;
            Ok(Answer::new(&shown).with_secret("token", secret.reveal()))
        })
    });
    Ok(commit.event(cx, EventType::NodeEnrolmentIssued, "/v1/nodes".to_owned(), told))
}

/// Returns the node that gets a new certificate.
async fn existing(cx: &Cx, reference: &str, body: &NodeEnrol) -> Result<Node> {
    let both = |pointer: &str| Err(Error::field(pointer, "an existing node keeps its own: leave this out"));
    if body.name.is_some() {
        return both("/name");
    }
    if body.labels.is_some() {
        return both("/labels");
    }
    let node = cx.node(reference).await.map_err(|error| match error.code {
        Code::NotFound => Error::field("/node", "there is no such node"),
        _ => error,
    })?;
    still_ours(&node)?;
    Ok(node)
}

/// Rejects a taken name early. The unique index decides only when the machine joins, which is late for the operator.
async fn refuse_taken(cx: &Cx, name: &str) -> Result<()> {
    match cx.platform.store.node_by_name(name).await? {
        None => Ok(()),
        Some(_) => Err(Error::new(
            Code::NameTaken,
            format!("a node {name} already exists: choose another name, or retire that one first"),
        )),
    }
}

fn named(enrolment: &Enrolment) -> Target {
    target("enrolment", enrolment.id, enrolment.node_name.as_deref().unwrap_or_default())
}

fn command(server: &str, ca_sha256: &str) -> String {
    format!("muster agent join --server {server} --ca-sha256 {ca_sha256} --token-file FILE")
}
