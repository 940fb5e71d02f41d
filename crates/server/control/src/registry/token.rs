//! Registry tokens: issued by `/v2/token` for a credential, and sent with the following requests.
//!
//! They are signed, short-lived and scoped, and carry the hash of their credential, which every request looks up: a revoked
//! credential invalidates its tokens within seconds.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use muster_api::Code;
use muster_model::token::{Secret, TokenKind};
use serde::{Deserialize, Serialize};

use super::{Guest, Right};
use crate::{Cx, Error, Platform, Result};

/// Prefix of all registry tokens.
const PREFIX: &str = "mst_reg_";
const LIFETIME: SignedDuration = SignedDuration::from_mins(10);
/// Maximum number of repositories in a token.
const MOST_SCOPES: usize = 50;

/// Scope of a token: repositories and actions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granted(Vec<(String, Vec<String>)>);

impl Granted {
    /// Creates a scope from a request.
    pub fn new(scopes: impl IntoIterator<Item = (String, Vec<String>)>) -> Self {
        Self(scopes.into_iter().take(MOST_SCOPES).collect())
    }

    pub(crate) fn allows(&self, repository: &str, right: Right) -> bool {
        self.0.iter().any(|(name, rights)| {
            name == repository && rights.iter().any(|word| word == right.word() || word == "*")
        })
    }
}

/// Response of `/v2/token`.
#[derive(Clone, Serialize)]
pub struct TokenAnswer {
    /// The token.
    pub token: String,
    /// The same token, under its OAuth 2.0 name.
    pub access_token: String,
    /// Lifetime in seconds.
    pub expires_in: i64,
    /// Time of issue.
    pub issued_at: Timestamp,
}

#[derive(Serialize, Deserialize)]
struct Claims {
    hash: String,
    until: i64,
    granted: Granted,
}

fn refused(why: &str) -> Error {
    Error::new(Code::Unauthenticated, why)
}

impl Platform {
    /// Issues a token for the requested scope. Permissions are checked when it is used.
    pub async fn registry_token(&self, cx: &Cx, secret: &str, granted: Granted) -> Result<TokenAnswer> {
        let secret = Secret::parse(secret).ok_or_else(|| refused("this is not a token"))?;
        let hash = muster_model::hex::encode(&secret.hash());
        let claims = Claims { hash, until: (cx.now + LIFETIME).as_second(), granted };
        let claims = serde_json::to_vec(&claims).expect("claims are JSON");
        let tag = aws_lc_rs::hmac::sign(&self.registry_key().await?, &claims);
        let token =
            format!("{PREFIX}{}.{}", URL_SAFE_NO_PAD.encode(&claims), URL_SAFE_NO_PAD.encode(tag.as_ref()));
        let expires_in = LIFETIME.as_secs();
        Ok(TokenAnswer { access_token: token.clone(), token, expires_in, issued_at: cx.now })
    }

    async fn registry_key(&self) -> Result<aws_lc_rs::hmac::Key> {
        let key = self.envelope.derive(&self.store, "registry tokens").await?;
        Ok(aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, &key))
    }

    /// Resolves a secret for the registry: a registry token, an ordinary token, or a node's pull credential.
    pub async fn registry_guest(&self, secret: &str, now: Timestamp) -> Result<Guest> {
        self.registry_guest_since(secret, now, now).await
    }

    /// Resolves the secret of a request that began earlier. Registry tokens and pull credentials are short-lived, and have to be
    /// valid when a download begins; what they were issued for has to be valid until it ends.
    pub(super) async fn registry_guest_since(
        &self,
        secret: &str,
        began: Timestamp,
        now: Timestamp,
    ) -> Result<Guest> {
        if let Some(signed) = secret.strip_prefix(PREFIX) {
            return self.of_token(signed, began, now).await;
        }
        if let Some(pull) = Secret::parse(secret).filter(|secret| secret.is(TokenKind::Pull)) {
            let found = self.store.pull_right(pull.hash(), began).await?;
            return found.map(Guest::Pull).ok_or_else(|| {
                refused("the pull token has expired: it ends after an hour, and with its cell")
            });
        }
        let actor = self.authenticate(secret, now).await?;
        if actor.token_kind == TokenKind::Session {
            return Err(refused("a browser session is a cookie, not a credential for the registry"));
        }
        Ok(Guest::Actor { actor, granted: None })
    }

    async fn of_token(&self, signed: &str, began: Timestamp, now: Timestamp) -> Result<Guest> {
        let wrong = || refused("the registry's token is not valid here: fetch another");
        let (claims, tag) = signed.split_once('.').ok_or_else(wrong)?;
        let claims = URL_SAFE_NO_PAD.decode(claims).map_err(|_| wrong())?;
        let tag = URL_SAFE_NO_PAD.decode(tag).map_err(|_| wrong())?;
        aws_lc_rs::hmac::verify(&self.registry_key().await?, &claims, &tag).map_err(|_| wrong())?;
        let claims: Claims = serde_json::from_slice(&claims).map_err(|_| wrong())?;
        if claims.until <= began.as_second() {
            return Err(refused("the registry's token has expired: fetch another"));
        }
        let hash = muster_model::hex::decode::<32>(&claims.hash).ok_or_else(wrong)?;
        let actor = self.authenticate_hash(hash, now).await?;
        Ok(Guest::Actor { actor, granted: Some(claims.granted) })
    }
}
