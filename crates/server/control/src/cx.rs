//! Context of one request: actor, time and correlation id.

use std::sync::Arc;

use jiff::Timestamp;
use muster_api::Code;
use muster_authz::{Decision, Permission, Principal, PrincipalKind, decide};
use muster_ids::{ServiceAccountId, UserId};
use muster_model::{Role, Scope};

use crate::authn::Authenticated;
use crate::limits::{AnswerSlot, Share};
use crate::{Error, Limits, Platform, Result};

/// Value of `If-Match`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// This version.
    Version(i64),
    /// Any version.
    Any,
}

fn version_required() -> Error {
    Error::new(
        Code::VersionRequired,
        "send the version you read, as in `If-Match: \"3\"` (it is in `ETag` and `version`), or `*`",
    )
}

/// Context of a request.
#[derive(Clone)]
pub struct Cx {
    /// Shared services.
    pub platform: Arc<Platform>,
    /// Authenticated actor; none before authentication.
    pub actor: Option<Arc<Authenticated>>,
    /// Correlation id in rows, events, audit and logs.
    pub correlation_id: String,
    /// Time of the request: one instant for everything it writes.
    pub now: Timestamp,
    /// Expected version.
    pub if_match: Option<Expected>,
    /// Client address; none for the platform's own requests.
    pub address: Option<std::net::IpAddr>,
    /// Slot of a large answer, if the request makes one.
    pub answer_slot: AnswerSlot,
}

impl Cx {
    /// Returns the actor, or 401 without one.
    pub fn authenticated(&self) -> Result<&Authenticated> {
        self.actor
            .as_deref()
            .ok_or_else(|| Error::new(Code::Unauthenticated, "send a token as `Authorization: Bearer …`"))
    }

    /// Returns the principal, for authorization.
    pub fn principal(&self) -> Result<&Principal> {
        Ok(&self.authenticated()?.principal)
    }

    pub(crate) fn actor_id(&self) -> String {
        self.actor.as_ref().map_or_else(|| "anonymous".to_owned(), |actor| actor.principal.id())
    }

    /// Returns the user's id, if the actor is a user.
    pub(crate) fn user_id(&self) -> Option<UserId> {
        match &self.actor.as_ref()?.principal.kind {
            PrincipalKind::User { id, .. } => Some(*id),
            PrincipalKind::ServiceAccount { .. } => None,
        }
    }

    /// Returns the account of the app's adapter, if the actor is one.
    pub(crate) fn operates(&self) -> Option<ServiceAccountId> {
        let actor = self.actor.as_ref().filter(|actor| actor.operates)?;
        match actor.principal.kind {
            PrincipalKind::ServiceAccount { id, .. } => Some(id),
            PrincipalKind::User { .. } => None,
        }
    }

    /// Reports whether resources operated by this account are visible to the actor: an app's adapter can access only those
    /// it operates itself.
    pub(crate) fn reaches(&self, operator: ServiceAccountId) -> bool {
        self.operates().is_none_or(|account| account == operator)
    }

    /// Authorizes the actor. A resource that is invisible to it is reported as not found, as a `noun`.
    pub fn authorize(&self, permission: Permission, scope: Scope, noun: &str) -> Result<()> {
        match decide(self.principal()?, permission, scope) {
            Decision::Allowed(_) => Ok(()),
            Decision::Denied(reason) => Err(Error::new(Code::PermissionDenied, reason)),
            Decision::Invisible => Err(Error::not_found(noun)),
        }
    }

    /// Returns the context after a wait: with the revalidated credential and the current time.
    pub async fn again(&self) -> Result<Self> {
        let now = self.platform.env.now();
        let actor = self.platform.authenticate_again(self.authenticated()?, now).await?;
        Ok(Self { actor: Some(actor), now, ..self.clone() })
    }

    /// Reports whether the actor holds one of these roles over `scope`.
    pub(crate) fn holds(&self, roles: &[Role], scope: Scope) -> bool {
        match self.actor.as_ref().map(|actor| &actor.principal.kind) {
            Some(PrincipalKind::User { grants, .. }) => {
                grants.iter().any(|grant| roles.contains(&grant.role) && grant.scope.contains(scope))
            }
            Some(PrincipalKind::ServiceAccount { .. }) | None => false,
        }
    }

    /// Reports whether the actor is a platform operator.
    pub(crate) fn is_operator(&self) -> bool {
        self.holds(&[Role::PlatformOperator], Scope::Platform)
    }

    /// Compares `If-Match` with the current version.
    pub(crate) fn expect_version(&self, version: i64) -> Result<()> {
        match self.if_match {
            Some(Expected::Any) => Ok(()),
            Some(Expected::Version(expected)) if expected == version => Ok(()),
            Some(Expected::Version(expected)) => Err(Error::new(
                Code::VersionMismatch,
                format!("you read version {expected}, it is now {version}: read it again and repeat"),
            )),
            None => Err(version_required()),
        }
    }

    /// Rejects a request without `If-Match`.
    pub fn needs_version(&self) -> Result<()> {
        if self.if_match.is_some() { Ok(()) } else { Err(version_required()) }
    }

    /// Reports whether the actor may read the platform's metrics.
    pub fn may_read_metrics(&self) -> bool {
        self.is_operator()
    }

    /// Returns the share of in-flight requests that this request counts in.
    pub fn share(&self) -> Share {
        match &self.actor {
            Some(actor) => Share::of_actor(actor),
            None => Share::of_address(self.address),
        }
    }

    /// Counts a streaming response; returns 429 when the actor or its tenant has too many open.
    pub fn open(&self, kind: crate::limits::StreamKind) -> Result<crate::limits::StreamSlot> {
        self.limits().open(&self.actor_id(), &self.share(), kind).ok_or_else(|| {
            self.platform.metrics.rate_limited.inc();
            let detail = match kind {
                crate::limits::StreamKind::Events => "you or your tenant have too many open event streams",
                crate::limits::StreamKind::Download => "your tenant has too many open downloads",
                crate::limits::StreamKind::Upload => "you or your tenant have too many open uploads",
                crate::limits::StreamKind::LargeBody => "too many of your large requests are arriving",
            };
            Error::new(Code::RateLimited, format!("{detail}; close one, or wait and repeat"))
        })
    }

    /// Waits until a large answer may be made. The slot is held for as long as the request's context is.
    pub async fn large_answer(&self) {
        self.answer_slot.acquire(self.limits(), &self.share()).await;
    }

    /// Marks the request as only waiting, until the returned guard is dropped.
    pub(crate) fn rest(&self) -> Option<crate::limits::Resting<'_>> {
        self.platform.limits.rest(&self.share())
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.platform.limits
    }
}
