//! Log in with a browser. Single sign-on joins here, as a second `LoginMethod`: everything after "who is it" stays.

use std::time::Instant;

use muster_api::session::{LoginMethod, Session, SessionCreate};
use muster_api::{Code, Problem};
use muster_ids::{AuditId, TenantId, TokenId};
use muster_model::User;
use muster_model::audit::{Actor, Entry, Outcome};
use muster_model::event::EventType;
use muster_model::token::{Secret, Subject, Token, TokenKind};
use serde_json::json;

use super::COOKIE;
use crate::commit::target;
use crate::refuse::refuse;
use crate::{Answer, Commit, Cx, Result, Share, Verdict, password};

/// Attempts to log in as one person from one address, per second: a guesser's pace, not a person's. By address, so that a
/// stranger who guesses cannot keep the person out.
const ATTEMPTS: f64 = 0.2;
/// The part of an address's share that may be logins that fail: one a second with the share that is set by default.
const FAILURES: f64 = 0.02;

/// Prepares `session_create`.
pub async fn create(cx: &Cx, body: SessionCreate) -> Result<Commit> {
    let user = match body.method {
        LoginMethod::Password => {
            let email = body.email.to_lowercase();
            by_password(cx, body.tenant.as_deref(), &email, body.password).await?
        }
    };
    let secret = Secret::make(TokenKind::Session, &cx.platform.world);
    let length = cx.platform.options.session_length;
    let token = Token {
        id: cx.platform.world.id::<TokenId>(),
        kind: TokenKind::Session,
        subject: Subject::User(user.id),
        name: "browser session".to_owned(),
        hint: secret.hint(),
        created_at: cx.now,
        expires_at: cx.now + length,
        revoked_at: None,
        last_used_at: None,
        version: 1,
        parent_id: None,
    };
    let session = Session {
        id: token.id,
        user_id: user.id,
        expires_at: token.expires_at,
        csrf_token: None,
        secret_shown_once: None,
    };
    let secure = if cx.platform.options.secure_cookies { "; Secure" } else { "" };
    let cookie = format!(
        "{COOKIE}={}; Path=/; HttpOnly; SameSite=Strict; Max-Age={}{secure}",
        secret.reveal(),
        length.as_secs()
    );
    let actor = Actor { kind: "user".to_owned(), id: user.id.to_string(), name: user.email.clone() };
    let subject = format!("/v1/users/{}", user.id);
    let commit = Commit::new(user.scope(), target("session", token.id, &user.email), move |tx| {
        Box::pin(async move {
            tx.token_insert(&token, secret.hash()).await?;
            Ok(Answer::new(&session).with_secret("csrf_token", &secret.csrf()).with_cookie(cookie))
        })
    });
    Ok(commit.acting_as(actor).event(cx, EventType::SessionCreated, subject, json!({"method": "password"})))
}

/// One sentence and one pace for a wrong tenant, a wrong address and a wrong password.
async fn by_password(cx: &Cx, tenant: Option<&str>, email: &str, given: String) -> Result<User> {
    let place = Share::of_address(cx.address);
    let attempts = format!("login {tenant:?} {email} at {place:?}");
    if let Verdict::Wait(_) = cx.limits().take_from(attempts, ATTEMPTS, Instant::now()) {
        return Err(Problem::new(
            Code::RateLimited,
            "too many attempts to log in with this address; wait a few seconds",
        ));
    }
    let user = person(cx, tenant, email).await?;
    let hash = user.as_ref().and_then(|user| user.password_hash.clone());
    let fits = password::verify(given, hash).await?;
    match user {
        Some(user) if fits && !user.disabled => Ok(user),
        user => {
            if let Some(user) = user {
                note_failure(cx, user);
            }
            let failures = format!("failed logins at {place:?}");
            match cx.limits().take_from(failures, cx.limits().address_rate() * FAILURES, Instant::now()) {
                Verdict::Wait(_) => {
                    let detail = "too many failed logins from your network address; wait a few seconds";
                    Err(Problem::new(Code::RateLimited, detail))
                }
                Verdict::Proceed => {
                    let detail = "the tenant, the address or the password is wrong";
                    Err(Problem::new(Code::Unauthenticated, detail))
                }
            }
        }
    }
}

/// The person who is meant, if there is one: of the tenant that is named, or of those who run the platform.
async fn person(cx: &Cx, tenant: Option<&str>, email: &str) -> Result<Option<User>> {
    let store = &cx.platform.store;
    let tenant = match tenant {
        None => None,
        Some(reference) => {
            let found = match reference.parse::<TenantId>() {
                Ok(id) => store.tenant_lookup(id).await,
                Err(_) => store.tenant_by_slug(reference).await,
            };
            match found.map_err(refuse)? {
                Some(tenant) => Some(tenant.id),
                None => return Ok(None),
            }
        }
    };
    store.user_by_email(tenant, email).await.map_err(refuse)
}

/// Leaves a failed login in the audit of the person's tenant, one line a person and minute. Not waited for: an address that
/// exists must not answer later than one that does not.
fn note_failure(cx: &Cx, user: User) {
    let cx = cx.clone();
    tokio::spawn(async move {
        let problem = Problem::new(
            Code::Unauthenticated,
            "a login failed: the password is wrong, or the person is disabled",
        );
        let entry = Entry {
            id: cx.platform.world.id::<AuditId>(),
            at: cx.now,
            // By the person's id, so that failures are counted for each person.
            actor: Actor { kind: "anonymous".to_owned(), id: user.id.to_string(), name: String::new() },
            action: "session.create".to_owned(),
            outcome: Outcome::Refused,
            code: Some(problem.code.as_str().to_owned()),
            target: Some(target("user", user.id, &user.email)),
            tenant_id: user.tenant_id,
            project_id: None,
            correlation_id: cx.correlation_id.clone(),
            count: 1,
            detail: json!({"detail": problem.detail, "address": cx.address.map(|address| address.to_string())}),
        };
        cx.count_refusal(&entry).await;
    });
}
