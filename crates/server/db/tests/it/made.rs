//! Test data: each builder fills in the values that a test does not care about.

pub(crate) mod catalog;
pub(crate) mod fleet;

use std::fmt::Debug;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use jiff::{SignedDuration, Timestamp};
use muster_db::{CommandRecord, Delivery, Page, Result, SealingKey, Store, StoreError, Tx};
use muster_ids::TypedId;
use muster_model::audit::{Actor, Entry, Outcome, Sealed, chain_hash};
use muster_model::event::Draft;
use muster_model::token::{Subject, Token, TokenKind};
use muster_model::webhook::{Webhook, WebhookState};
use muster_model::{
    LabelSelector, Labels, Login, Project, Role, RoleBinding, Scope, ServiceAccount, Tenant, User,
};
use serde_json::json;
use uuid::Uuid;

/// Returns a new UUID; later ones are greater, so that lists are in creation order.
pub(crate) fn uuid() -> Uuid {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    Uuid::from_u128(
        0x0190_0000_0000_7000_8000_0000_0000_0000 + u128::from(NEXT.fetch_add(1, Ordering::SeqCst)),
    )
}

/// Returns a new id.
pub(crate) fn id<I: TypedId>() -> I {
    I::from_uuid(uuid())
}

/// Returns a time this many seconds after a fixed day, with microseconds that a float would lose.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_microsecond(1_790_000_000_123_457).unwrap() + SignedDuration::from_secs(seconds)
}

pub(crate) fn labels<const N: usize>(pairs: [(&str, &str); N]) -> Labels {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

pub(crate) fn selector(text: &str) -> LabelSelector {
    LabelSelector::parse(text).unwrap()
}

/// The first page.
pub(crate) const FIRST: Page = Page { after: Uuid::nil(), size: 100 };

pub(crate) fn page(after: impl TypedId, size: i64) -> Page {
    Page { after: after.uuid(), size }
}

/// Runs `work` in one transaction: committed on success, rolled back on error.
pub(crate) async fn put<T>(store: &Store, work: impl AsyncFnOnce(&mut Tx) -> Result<T>) -> Result<T> {
    let mut tx = store.begin().await?;
    match work(&mut tx).await {
        Ok(value) => tx.commit().await.map(|()| value),
        Err(error) => {
            tx.rollback().await;
            Err(error)
        }
    }
}

/// Compares debug output, because the models do not implement equality.
#[track_caller]
pub(crate) fn same<A: Debug + ?Sized, B: Debug + ?Sized>(left: &A, right: &B) {
    assert_eq!(format!("{left:?}"), format!("{right:?}"));
}

#[track_caller]
pub(crate) fn is_conflict<T: Debug>(result: Result<T>) {
    assert!(matches!(result, Err(StoreError::Conflict(_))), "{result:?} is not a conflict");
}

#[track_caller]
pub(crate) fn is_gone<T: Debug>(result: Result<T>) {
    assert!(matches!(result, Err(StoreError::Gone(_))), "{result:?} is not a missing reference");
}

#[track_caller]
pub(crate) fn is_stale<T: Debug>(result: Result<T>) {
    assert!(matches!(result, Err(StoreError::Stale)), "{result:?} is not stale");
}

#[track_caller]
pub(crate) fn is_fenced<T: Debug>(result: Result<T>) {
    assert!(matches!(result, Err(StoreError::Fenced)), "{result:?} is not fenced");
}

#[track_caller]
pub(crate) fn is_unavailable<T: Debug>(result: Result<T>) {
    assert!(matches!(result, Err(StoreError::Unavailable(_))), "{result:?} is not unavailable");
}

pub(crate) fn tenant(slug: &str) -> Tenant {
    Tenant {
        id: id(),
        slug: slug.to_owned(),
        display_name: format!("Tenant {slug}"),
        labels: Labels::new(),
        created_at: at(0),
        updated_at: at(1),
        version: 1,
    }
}

pub(crate) fn project(tenant: &Tenant, name: &str) -> Project {
    Project {
        id: id(),
        tenant_id: tenant.id,
        tenant_slug: tenant.slug.clone(),
        name: name.to_owned(),
        display_name: format!("Project {name}"),
        labels: Labels::new(),
        created_at: at(0),
        updated_at: at(1),
        version: 1,
    }
}

pub(crate) fn user(tenant: Option<&Tenant>, email: &str) -> User {
    User {
        id: id(),
        tenant_id: tenant.map(|tenant| tenant.id),
        email: email.to_owned(),
        login: tenant.map(|_| login(email)),
        display_name: email.to_uppercase(),
        password_hash: None,
        disabled: false,
        labels: Labels::new(),
        created_at: at(0),
        updated_at: at(1),
        version: 1,
    }
}

fn login(email: &str) -> Login {
    static NEXT: AtomicU32 = AtomicU32::new(40_000);
    Login { name: email.to_owned(), uid: NEXT.fetch_add(1, Ordering::Relaxed) }
}

pub(crate) fn binding(user: &User, role: Role, scope: Scope) -> RoleBinding {
    RoleBinding { id: id(), user_id: user.id, user_email: user.email.clone(), role, scope, created_at: at(2) }
}

pub(crate) fn service_account(project: &Project, name: &str) -> ServiceAccount {
    ServiceAccount {
        id: id(),
        tenant_id: project.tenant_id,
        project_id: project.id,
        name: name.to_owned(),
        description: String::new(),
        permissions: vec!["project.get".to_owned(), "event.list".to_owned()],
        disabled: false,
        labels: Labels::new(),
        created_at: at(0),
        updated_at: at(1),
        version: 1,
    }
}

pub(crate) fn token(subject: Subject) -> Token {
    let kind = match subject {
        Subject::User(_) => TokenKind::Personal,
        Subject::ServiceAccount(_) => TokenKind::ServiceAccount,
    };
    Token {
        id: id(),
        kind,
        subject,
        name: "laptop".to_owned(),
        hint: "mst_pat_abcd…".to_owned(),
        created_at: at(0),
        expires_at: at(3600),
        revoked_at: None,
        last_used_at: None,
        version: 1,
        parent_id: None,
    }
}

/// Returns 32 bytes that differ for each token.
pub(crate) fn hash(token: &Token) -> [u8; 32] {
    let mut hash = [7; 32];
    hash[..16].copy_from_slice(token.id.uuid().as_bytes());
    hash
}

pub(crate) fn webhook(name: &str, scope: Scope) -> Webhook {
    Webhook {
        id: id(),
        name: name.to_owned(),
        scope,
        url: "https://hooks.example/in".to_owned(),
        event_types: vec!["dev.muster.project.*".to_owned()],
        state: WebhookState::Enabled,
        secret_sealed: vec![0, 1, 255],
        cursor: 0,
        attempts: 0,
        next_attempt_at: at(0),
        failing_since: None,
        last_result: None,
        labels: Labels::new(),
        created_at: at(0),
        updated_at: at(1),
        version: 1,
    }
}

pub(crate) fn delivery(sequence: i64, attempt: i64) -> Delivery {
    Delivery {
        id: id(),
        event_id: id(),
        sequence,
        attempt,
        at: at(sequence),
        delivered: attempt > 1,
        result: "503 Service Unavailable".to_owned(),
    }
}

pub(crate) fn command_record(actor: &str, key: Option<&str>, scope: Scope) -> CommandRecord {
    CommandRecord {
        actor_id: actor.to_owned(),
        route: "POST /v1/tenants".to_owned(),
        key: key.map(str::to_owned),
        request_hash: [9; 32],
        status: 201,
        body: r#"{"id":"x"}"#.to_owned(),
        scope,
        at: at(0),
        outbox_id: uuid(),
        entry: r#"{"action":"tenant.create"}"#.to_owned(),
        events: "[]".to_owned(),
    }
}

pub(crate) fn sealing_key(owner: &str, key_version: i64, root_key_id: &str) -> SealingKey {
    let wrapped = vec![0, u8::try_from(key_version).unwrap(), 255];
    SealingKey { owner: owner.to_owned(), key_version, root_key_id: root_key_id.to_owned(), wrapped }
}

pub(crate) fn entry(actor: &str, action: &str, scope: Scope) -> Entry {
    Entry {
        id: id(),
        at: at(0),
        actor: Actor { kind: "user".to_owned(), id: actor.to_owned(), name: "Ada".to_owned() },
        action: action.to_owned(),
        outcome: Outcome::Denied,
        code: Some("forbidden".to_owned()),
        target: None,
        tenant_id: scope.tenant(),
        project_id: scope.project(),
        correlation_id: "c-1".to_owned(),
        count: 1,
        detail: json!({}),
    }
}

pub(crate) fn draft(event_type: &str, scope: Scope, seconds: i64) -> Draft {
    Draft {
        id: id(),
        event_type: event_type.to_owned(),
        subject: "/v1/things/1".to_owned(),
        at: at(seconds),
        tenant_id: scope.tenant(),
        project_id: scope.project(),
        timeline: muster_model::event::Timeline::default(),
        correlation_id: "c-1".to_owned(),
        actor_id: "usr_1".to_owned(),
        data: json!({"a": 1}),
    }
}

/// Returns the next link of a chain.
pub(crate) fn sealed(chain: &str, sequence: i64, previous_hash: &str, text: &str) -> Sealed {
    Sealed {
        chain: chain.to_owned(),
        sequence,
        previous_hash: previous_hash.to_owned(),
        hash: chain_hash(previous_hash, sequence, text),
        entry_text: text.to_owned(),
    }
}
