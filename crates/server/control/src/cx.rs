//! The context of one request: who asks, when, and on which thread.

use std::sync::Arc;

use jiff::Timestamp;
use muster_api::{Code, Problem};
use muster_authz::{Decision, Permission, Principal, PrincipalKind, decide};
use muster_ids::{ServiceAccountId, UserId};
use muster_model::{Role, Scope};

use crate::authn::Authenticated;
use crate::limits::Share;
use crate::refuse::Result;
use crate::{Limits, Platform};

/// What `If-Match` said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// This version.
    Version(i64),
    /// Whatever it is now.
    Any,
}

fn version_required() -> Problem {
    Problem::new(
        Code::VersionRequired,
        "say which version you saw, as in `If-Match: \"3\"` (it is in `ETag` and `version`), or `*`",
    )
}

/// One request.
#[derive(Clone)]
pub struct Cx {
    /// The shared parts.
    pub platform: Arc<Platform>,
    /// Who asks; nobody on the way to a credential.
    pub actor: Option<Arc<Authenticated>>,
    /// The thread through rows, events, audit and logs.
    pub correlation_id: String,
    /// When it was asked: one instant for everything it writes.
    pub now: Timestamp,
    /// The version that the caller saw.
    pub if_match: Option<Expected>,
    /// Where the request comes from; unknown for what the platform does by itself.
    pub address: Option<std::net::IpAddr>,
}

impl Cx {
    /// Who asks; 401 if nobody.
    pub fn authenticated(&self) -> Result<&Authenticated> {
        self.actor
            .as_deref()
            .ok_or_else(|| Problem::new(Code::Unauthenticated, "send a token as `Authorization: Bearer …`"))
    }

    /// Who asks, for decisions.
    pub fn principal(&self) -> Result<&Principal> {
        Ok(&self.authenticated()?.principal)
    }

    pub(crate) fn actor_id(&self) -> String {
        self.actor.as_ref().map_or_else(|| "anonymous".to_owned(), |actor| actor.principal.id())
    }

    /// The person who asks, if it is one.
    pub(crate) fn user_id(&self) -> Option<UserId> {
        match &self.actor.as_ref()?.principal.kind {
            PrincipalKind::User { id, .. } => Some(*id),
            PrincipalKind::ServiceAccount { .. } => None,
        }
    }

    /// The account of an app's adapter that asks, if it is one.
    pub(crate) fn operates(&self) -> Option<ServiceAccountId> {
        let actor = self.actor.as_ref().filter(|actor| actor.operates)?;
        match actor.principal.kind {
            PrincipalKind::ServiceAccount { id, .. } => Some(id),
            PrincipalKind::User { .. } => None,
        }
    }

    /// Whether what this account operates is anything to the actor: for an app's adapter only what it operates itself is there.
    pub(crate) fn reaches(&self, operator: ServiceAccountId) -> bool {
        self.operates().is_none_or(|account| account == operator)
    }

    /// Goes on only if the actor may. What it may not even see is answered as absent, as a `noun`.
    pub fn authorize(&self, permission: Permission, scope: Scope, noun: &str) -> Result<()> {
        match decide(self.principal()?, permission, scope) {
            Decision::Allowed(_) => Ok(()),
            Decision::Denied(reason) => Err(Problem::new(Code::PermissionDenied, reason)),
            Decision::Invisible => Err(Problem::not_found(noun)),
        }
    }

    /// The same request after a wait: with a credential that is still good, at the time that it is now.
    pub(crate) async fn again(&self) -> Result<Self> {
        let now = self.platform.world.now();
        let actor = self.platform.authenticate_again(self.authenticated()?, now).await?;
        Ok(Self { actor: Some(actor), now, ..self.clone() })
    }

    /// Whether the actor holds one of these roles over `scope`.
    pub(crate) fn holds(&self, roles: &[Role], scope: Scope) -> bool {
        match self.actor.as_ref().map(|actor| &actor.principal.kind) {
            Some(PrincipalKind::User { grants, .. }) => {
                grants.iter().any(|grant| roles.contains(&grant.role) && grant.scope.contains(scope))
            }
            Some(PrincipalKind::ServiceAccount { .. }) | None => false,
        }
    }

    /// Whether the actor runs the platform.
    pub(crate) fn is_operator(&self) -> bool {
        self.holds(&[Role::PlatformOperator], Scope::Platform)
    }

    /// Compares `If-Match` with the version that was read.
    pub(crate) fn expect_version(&self, version: i64) -> Result<()> {
        match self.if_match {
            Some(Expected::Any) => Ok(()),
            Some(Expected::Version(expected)) if expected == version => Ok(()),
            Some(Expected::Version(expected)) => Err(Problem::new(
                Code::VersionMismatch,
                format!("you saw version {expected}, it is now {version}: read it again and repeat"),
            )),
            None => Err(version_required()),
        }
    }

    /// Refuses a request that does not say which version it saw.
    pub fn needs_version(&self) -> Result<()> {
        if self.if_match.is_some() { Ok(()) } else { Err(version_required()) }
    }

    /// Whether the actor may see what the platform as a whole does.
    pub fn may_read_metrics(&self) -> bool {
        self.is_operator()
    }

    /// Whose share of what is under way this request counts in.
    pub fn share(&self) -> Share {
        match &self.actor {
            Some(actor) => Share::of_actor(actor),
            None => Share::of_address(self.address),
        }
    }

    /// Counts an answer that goes on after its headers; 429 when the actor or its tenant has too many open.
    pub fn open(&self, kind: crate::limits::Open) -> Result<crate::limits::Opened> {
        self.limits().open(&self.actor_id(), &self.share(), kind).ok_or_else(|| {
            self.platform.metrics.rate_limited.inc();
            let detail = match kind {
                crate::limits::Open::Events => "too many event streams of yours or of your tenant are open",
                crate::limits::Open::Download => "too many downloads of your tenant are open",
            };
            Problem::new(Code::RateLimited, format!("{detail}; close one, or wait and repeat"))
        })
    }

    /// Says that the request only waits from now on, until what this gives is dropped.
    pub(crate) fn rest(&self) -> Option<crate::limits::Resting<'_>> {
        self.platform.limits.rest(&self.share())
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.platform.limits
    }
}
