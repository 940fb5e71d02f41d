//! Log in with a browser. Single sign-on joins here, as a second `LoginMethod`: everything after "who is it" stays.

use std::time::Instant;

use muster_api::session::{LoginMethod, Session, SessionCreate};
use muster_api::{Code, Problem};
use muster_ids::TokenId;
use muster_model::User;
use muster_model::audit::Actor;
use muster_model::event::EventType;
use muster_model::token::{Secret, Subject, Token, TokenKind};
use serde_json::json;

use super::COOKIE;
use crate::commit::target;
use crate::refuse::refuse;
use crate::{Answer, Commit, Cx, Result, Verdict, password};

/// Attempts to log in as one person, per second: a guesser's pace, not a person's.
const ATTEMPTS: f64 = 0.2;

/// Prepares `session_create`.
pub async fn create(cx: &Cx, body: SessionCreate) -> Result<Commit> {
    let user = match body.method {
        LoginMethod::Password => by_password(cx, &body.email.to_lowercase(), body.password).await?,
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

/// One sentence and one pace for a wrong address and a wrong password.
async fn by_password(cx: &Cx, email: &str, given: String) -> Result<User> {
    if let Verdict::Wait(_) = cx.limits().take_from(format!("login {email}"), ATTEMPTS, Instant::now()) {
        return Err(Problem::new(
            Code::RateLimited,
            "too many attempts to log in with this address; wait a few seconds",
        ));
    }
    let user = cx.platform.store.user_by_email(email).await.map_err(refuse)?;
    let hash = user.as_ref().and_then(|user| user.password_hash.clone());
    let fits = password::verify(given, hash).await?;
    match user {
        Some(user) if fits && !user.disabled => Ok(user),
        _ => Err(Problem::new(Code::Unauthenticated, "the address or the password is wrong")),
    }
}
