//! Use cases of the registry: the requests of `/v2/`, after authentication and independent of HTTP.
//!
//! A repository is named by its project and its own name: `acme.ml/train`. A caller without access to the project gets the
//! same error as for a missing repository. Uploads and blobs are parts of a push and are written without audit; the push of
//! the manifest goes through the command pipeline like any command.

mod blob;
mod collect;
pub(crate) mod damage;
mod guard;
mod listing;
mod manifest;
mod manifests;
mod names;
mod scrub;
mod token;
mod upload;

use std::io::ErrorKind;
use std::sync::Arc;

use muster_api::Code as Problems;
use muster_authz::Permission;
use muster_db::PullRight;
use muster_ids::{ProjectId, RepositoryId, TenantId};
use muster_model::Scope;
use muster_registry::error::{Code, Refusal};
use muster_registry::path::Name;

use crate::{Authenticated, Cx, Error, Result};

pub use blob::{Content, ContentPart, blob_delete, blob_look, blob_read};
pub use guard::{TransferGuard, authenticate_again};
pub use listing::{catalog, referrers, tags};
pub use manifest::{delete as manifest_delete, get as manifest_get, push as manifest_push};
pub(crate) use manifest::{published, row as manifest_row};
pub(crate) use manifests::Manifests;
pub(crate) use names::Names;
pub use scrub::Scrubbed;
pub use token::{Granted, TokenAnswer};
pub use upload::{Chunk, Started, append, cancel, finish, length, start};
pub(crate) use upload::{keep, settle};

/// Result of a registry use case.
pub type Answered<T> = Result<T, Refusal>;

/// Caller of the registry.
#[derive(Clone)]
pub enum Guest {
    /// An actor, with all of its permissions or those of a registry token.
    Actor {
        /// The actor.
        actor: Arc<Authenticated>,
        /// Scope of the token; unrestricted if absent.
        granted: Option<Granted>,
    },
    /// The node of a cell, with pull permission for one repository.
    Pull(PullRight),
}

/// Requested access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// Read access.
    Pull,
    /// Push access.
    Push,
    /// Delete access.
    Delete,
}

impl Right {
    fn permission(self) -> Permission {
        match self {
            Self::Pull => Permission::RepositoryPull,
            Self::Push => Permission::RepositoryPush,
            Self::Delete => Permission::RepositoryDelete,
        }
    }

    /// Returns the action in a token's scope.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pull => "pull",
            Self::Push => "push",
            Self::Delete => "delete",
        }
    }
}

/// A repository, with the requested access granted. It may not exist yet.
#[derive(Debug, Clone)]
pub struct Visit {
    pub(crate) tenant: TenantId,
    pub(crate) project: ProjectId,
    /// Name within the project.
    pub(crate) name: String,
    /// Full name, as in the request.
    pub(crate) path: String,
    pub(crate) id: Option<RepositoryId>,
}

impl Visit {
    pub(crate) fn scope(&self) -> Scope {
        Scope::Project(self.tenant, self.project)
    }

    /// Returns the repository's id, or an error if it does not exist.
    pub(crate) fn repository(&self) -> Answered<RepositoryId> {
        self.id.ok_or_else(|| unknown(&self.path))
    }
}

/// Returns the one error for missing and invisible repositories.
pub(crate) fn unknown(path: &str) -> Refusal {
    Refusal::new(
        Code::NameUnknown,
        format!("repository {path} not found, or no access; name one as project/name, such as acme.ml/train"),
    )
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let code = match error.code {
            Problems::Unauthenticated => Code::Unauthorized,
            Problems::PermissionDenied | Problems::OriginNotAllowed | Problems::CsrfRequired => Code::Denied,
            Problems::NotFound => Code::NameUnknown,
            Problems::RateLimited => Code::TooManyRequests,
            Problems::InvalidState | Problems::NotEmpty | Problems::VersionMismatch => Code::Denied,
            Problems::InvalidRequest | Problems::MalformedRequest => Code::ManifestInvalid,
            _ => Code::Unsupported,
        };
        Self::new(code, error.detail).with_status(error.code.status())
    }
}

pub(crate) fn stored(error: muster_db::StoreError) -> Refusal {
    Refusal::from(Error::from(error))
}

/// Maps a storage error. The operator finds it in the log; the client is asked to retry.
pub(crate) fn storage(error: &muster_registry::StorageError) -> Refusal {
    tracing::error!(%error, "the blobs' storage failed");
    if let muster_registry::StorageError::Storage { error, .. } = error
        && matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
    {
        let says = "the registry's disk is full: ask an operator to free space, then repeat";
        return Refusal::new(Code::Unsupported, says).with_status(507);
    }
    Refusal::new(Code::Unsupported, "the registry's storage cannot be used now; repeat in a moment")
        .with_status(503)
}

/// Authorizes access to a repository.
pub async fn visit(cx: &Cx, guest: &Guest, name: &Name, right: Right) -> Answered<Visit> {
    let path = name.as_str();
    let (project, rest) = path.split_once('/').ok_or_else(|| unknown(path))?;
    let place = cx.platform.names.project(&cx.platform.store, project).await.map_err(stored)?;
    let (project, tenant) = place.ok_or_else(|| unknown(path))?;
    let scope = Scope::Project(tenant, project);
    if cx.principal().is_ok_and(|principal| !principal.sees(scope)) {
        // A missing project always costs a query, so an invisible one must as well: timing would distinguish them.
        cx.platform.store.project_lookup(project).await.map_err(stored)?;
        return Err(unknown(path));
    }
    if let Guest::Actor { granted, .. } = guest {
        match cx.authorize(right.permission(), scope, "repository") {
            Ok(()) => {}
            Err(error) if error.code == Problems::NotFound => return Err(unknown(path)),
            Err(error) => return Err(Refusal::from(error)),
        }
        if granted.as_ref().is_some_and(|granted| !granted.allows(path, right)) {
            let why = format!("the token was not issued to {} {path}: request one that is", right.word());
            return Err(Refusal::new(Code::Denied, why));
        }
    }
    let id = cx.platform.names.repository(&cx.platform.store, project, rest).await.map_err(stored)?;
    if let Guest::Pull(pull) = guest
        && (right != Right::Pull || id != Some(pull.repository_id))
    {
        return Err(unknown(path));
    }
    Ok(Visit { tenant, project, name: rest.to_owned(), path: path.to_owned(), id })
}
