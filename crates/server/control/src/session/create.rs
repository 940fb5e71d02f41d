//! Log in with a browser. Single sign-on would be a second `LoginMethod` here: everything after the identification stays the
//! same.

use std::time::Instant;

use muster_api::Code;
use muster_api::session::{LoginMethod, Session, SessionCreate};
use muster_ids::{TenantId, TokenId};
use muster_model::audit::{Actor, Outcome};
use muster_model::event::EventType;
use muster_model::origin::{Audited, Origin};
use muster_model::token::{Secret, Subject, Token, TokenKind};
use muster_model::{Scope, User};
use serde_json::json;

use super::COOKIE;
use muster_keys::password;

use crate::commit::target;
use crate::{Answer, Cx, Error, PreparedCommand, RateDecision, Result, Share};

/// Login attempts per second for one account from one address: slow enough against guessing. Limited by address, so that an
/// attacker cannot lock the user out.
const ATTEMPTS: f64 = 0.2;
/// Share of an address's rate limit that failed logins may use: one per second by default.
const FAILURES: f64 = 0.02;
/// Attempts from one address that may be verified at once.
const ATTEMPTS_AT_ONCE: f64 = 8.0;

/// Prepares `session_create`.
pub async fn create(cx: &Cx, body: SessionCreate) -> Result<PreparedCommand> {
    let user = match body.method {
        LoginMethod::Password => {
            let email = body.email.to_lowercase();
            by_password(cx, body.tenant.as_deref(), &email, body.password).await?
        }
    };
    let secret = Secret::make(TokenKind::Session, &cx.platform.env);
    let length = cx.platform.options.session_length;
    let token = Token {
        id: cx.platform.env.id::<TokenId>(),
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
    let commit = PreparedCommand::new(user.scope(), target("session", token.id, &user.email), move |tx| {
        Box::pin(async move {
            tx.token_insert(&token, secret.hash()).await?;
            Ok(Answer::new(&session).with_secret("csrf_token", &secret.csrf()).with_cookie(cookie))
        })
    });
    Ok(commit.acting_as(actor).event(cx, EventType::SessionCreated, subject, json!({"method": "password"})))
}

/// Authenticates by password. A wrong tenant, address or password yields the same error in the same time.
async fn by_password(cx: &Cx, tenant: Option<&str>, email: &str, given: String) -> Result<User> {
    let place = Share::of_address(cx.address);
    let named = named_tenant(cx, tenant).await?;
    // By the tenant's id: a tenant that is spelled by name and by id is one account, with one pace.
    let attempts = format!("login {named:?} {email} at {place:?}");
    if let RateDecision::Wait(_) = cx.limits().take_from(attempts, ATTEMPTS, Instant::now()) {
        return Err(Error::new(
            Code::RateLimited,
            "too many attempts to log in with this address; wait a few seconds",
        ));
    }
    // Counted as a failure before the password is verified: guesses sent at once must not each get a hash computed.
    let failures = format!("failed logins at {place:?}");
    let rate = cx.limits().address_rate() * FAILURES;
    let burst = rate.max(ATTEMPTS_AT_ONCE);
    if let RateDecision::Wait(_) = cx.limits().take_with_burst(failures.clone(), rate, burst, Instant::now())
    {
        let detail = "too many failed logins from your network address; wait a few seconds";
        return Err(Error::new(Code::RateLimited, detail));
    }
    let user = match named {
        NamedTenant::Unknown(_) => None,
        NamedTenant::Platform => cx.platform.store.user_by_email(None, email).await?,
        NamedTenant::Tenant(id) => cx.platform.store.user_by_email(Some(id), email).await?,
    };
    let hash = user.as_ref().and_then(|user| user.password_hash.clone());
    let fits = password::verify(given, hash).await?;
    match user {
        Some(user) if fits && !user.disabled => {
            cx.limits().give_back(&failures);
            Ok(user)
        }
        user => {
            if let Some(user) = user {
                note_failure(cx, user);
            }
            let detail = "the tenant, the address or the password is wrong";
            Err(Error::new(Code::Unauthenticated, detail))
        }
    }
}

/// Tenant that a login names.
#[derive(Debug)]
enum NamedTenant {
    /// None: a user of the platform.
    Platform,
    Tenant(TenantId),
    /// One that does not exist.
    #[expect(dead_code, reason = "part of the key of the pace")]
    Unknown(String),
}

async fn named_tenant(cx: &Cx, reference: Option<&str>) -> Result<NamedTenant> {
    let Some(reference) = reference else { return Ok(NamedTenant::Platform) };
    let store = &cx.platform.store;
    let found = match reference.parse::<TenantId>() {
        Ok(id) => store.tenant_lookup(id).await,
        Err(_) => store.tenant_by_slug(reference).await,
    };
    let found = found?;
    Ok(found
        .map_or_else(|| NamedTenant::Unknown(reference.to_owned()), |tenant| NamedTenant::Tenant(tenant.id)))
}

/// Audits a failed login in the user's tenant, with one entry per user and minute. It runs in the background: a known
/// address must not answer later than an unknown one.
fn note_failure(cx: &Cx, user: User) {
    let cx = cx.clone();
    tokio::spawn(async move {
        let error = Error::new(
            Code::Unauthenticated,
            "a login failed: the password is wrong, or the person is disabled",
        );
        let audited = Audited {
            action: "session.create".to_owned(),
            target: target("user", user.id, &user.email),
            outcome: Outcome::Refused,
            code: Some(error.code.as_str().to_owned()),
            detail: json!({"detail": error.detail, "address": cx.address.map(|address| address.to_string())}),
        };
        // The user's id, so that failures are counted per user.
        let actor = Actor { kind: "anonymous".to_owned(), id: user.id.to_string(), name: String::new() };
        let origin = Origin { actor, ..cx.origin(Scope::from_columns(user.tenant_id, None)) };
        let entry = origin.entry(&cx.platform.env, audited);
        cx.count_refusal(&entry).await;
    });
}
