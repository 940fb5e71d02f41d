//! The registry's use-cases: what `/v2/` asks for, after authentication and before HTTP.
//!
//! A repository is named by its project and its own name: `acme.ml/train`. Whoever may not see the project is told the same as
//! if the repository did not exist. Uploads and blobs are the chatter of a push and are written down without audit; the push
//! itself is its manifest, which goes through the door like any command.

mod blob;
mod collect;
pub(crate) mod damage;
mod listing;
mod manifest;
mod manifests;
mod names;
mod scrub;
mod token;
mod upload;

use std::io::ErrorKind;
use std::sync::Arc;

use muster_api::{Code as Problems, Problem};
use muster_authz::Permission;
use muster_db::PullRight;
use muster_ids::{ProjectId, RepositoryId, TenantId};
use muster_model::Scope;
use muster_registry::error::{Code, Refusal};
use muster_registry::path::Name;

use crate::refuse::refuse;
use crate::{Authenticated, Cx};

pub use blob::{Content, ContentPart, blob_delete, blob_look, blob_read};
pub use listing::{catalog, referrers, tags};
pub use manifest::{delete as manifest_delete, get as manifest_get, push as manifest_push};
pub(crate) use manifest::{published, row as manifest_row};
pub(crate) use manifests::Manifests;
pub(crate) use names::Names;
pub use scrub::Scrubbed;
pub use token::{Granted, TokenAnswer};
pub use upload::{Chunk, Started, append, cancel, finish, length, start};
pub(crate) use upload::{keep, settle};

/// The result of a use-case of the registry.
pub type Answered<T> = Result<T, Refusal>;

/// Who comes to the registry.
#[derive(Clone)]
pub enum Guest {
    /// Somebody, with all of their rights or with those that a registry's token names.
    Actor {
        /// Who.
        actor: Arc<Authenticated>,
        /// What the token was issued for; everything if this is absent.
        granted: Option<Granted>,
    },
    /// A cell's node, with the right to read one repository.
    Pull(PullRight),
}

/// What somebody comes for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// To read.
    Pull,
    /// To push.
    Push,
    /// To remove.
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

    /// The word in a token's scope.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pull => "pull",
            Self::Push => "push",
            Self::Delete => "delete",
        }
    }
}

/// A repository that somebody may come to for what they came for. It may not be there yet.
#[derive(Debug, Clone)]
pub struct Visit {
    pub(crate) tenant: TenantId,
    pub(crate) project: ProjectId,
    /// Its name in the project.
    pub(crate) name: String,
    /// Its whole name, as the client wrote it.
    pub(crate) path: String,
    pub(crate) id: Option<RepositoryId>,
}

impl Visit {
    pub(crate) fn scope(&self) -> Scope {
        Scope::Project(self.tenant, self.project)
    }

    /// The repository, where it must be there.
    pub(crate) fn repository(&self) -> Answered<RepositoryId> {
        self.id.ok_or_else(|| unknown(&self.path))
    }
}

/// The one answer for a repository that is not there and one that may not be seen.
pub(crate) fn unknown(path: &str) -> Refusal {
    Refusal::new(
        Code::NameUnknown,
        format!(
            "there is no repository {path}, or you may not see it; name one as project/name, such as acme.ml/train"
        ),
    )
}

/// A problem in the words of registries.
pub fn told(problem: Problem) -> Refusal {
    let code = match problem.code {
        Problems::Unauthenticated => Code::Unauthorized,
        Problems::PermissionDenied | Problems::OriginNotAllowed | Problems::CsrfRequired => Code::Denied,
        Problems::NotFound => Code::NameUnknown,
        Problems::RateLimited => Code::TooManyRequests,
        Problems::InvalidState | Problems::NotEmpty | Problems::VersionMismatch => Code::Denied,
        Problems::InvalidRequest | Problems::MalformedRequest => Code::ManifestInvalid,
        _ => Code::Unsupported,
    };
    Refusal::new(code, problem.detail).with_status(problem.status)
}

pub(crate) fn stored(error: muster_db::StoreError) -> Refusal {
    told(refuse(error))
}

/// Storage that does not answer is the operator's to look at; a client is told to come again.
pub(crate) fn storage(error: &muster_registry::StorageError) -> Refusal {
    tracing::error!(%error, "the blobs' storage failed");
    if let muster_registry::StorageError::Storage { error, .. } = error
        && matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
    {
        let says = "the registry's disk is full: an operator frees space, then repeat";
        return Refusal::new(Code::Unsupported, says).with_status(507);
    }
    Refusal::new(Code::Unsupported, "the registry's storage cannot be used now; repeat in a moment")
        .with_status(503)
}

/// Lets somebody come to a repository for something.
pub async fn visit(cx: &Cx, guest: &Guest, name: &Name, right: Right) -> Answered<Visit> {
    let path = name.as_str();
    let (project, rest) = path.split_once('/').ok_or_else(|| unknown(path))?;
    let place = cx.platform.names.project(&cx.platform.store, project).await.map_err(stored)?;
    let (project, tenant) = place.ok_or_else(|| unknown(path))?;
    let scope = Scope::Project(tenant, project);
    if cx.principal().is_ok_and(|principal| !principal.sees(scope)) {
        // What is not there is asked of the database each time; so is what may not be seen, or the time would tell them apart.
        cx.platform.store.project_lookup(project).await.map_err(stored)?;
        return Err(unknown(path));
    }
    if let Guest::Actor { granted, .. } = guest {
        match cx.authorize(right.permission(), scope, "repository") {
            Ok(()) => {}
            Err(problem) if problem.code == Problems::NotFound => return Err(unknown(path)),
            Err(problem) => return Err(told(problem)),
        }
        if granted.as_ref().is_some_and(|granted| !granted.allows(path, right)) {
            let why = format!("the token was not issued to {} {path}: ask for one that is", right.word());
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
