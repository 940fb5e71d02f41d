//! Authentication: resolves a credential to an actor.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use moka::sync::Cache;
use muster_api::Code;
use muster_authz::{Grant, Permission, Principal, PrincipalKind};
use muster_db::Store;
use muster_ids::{TenantId, TokenId};
use muster_model::token::{Secret, Subject, TokenKind};
use muster_model::{Role, Scope};
use parking_lot::Mutex;

use crate::{Error, Platform, Result};

/// An authenticated actor and its credential.
#[derive(Debug, Clone)]
pub struct Authenticated {
    /// The actor.
    pub principal: Principal,
    /// Token used.
    pub token_id: TokenId,
    /// Kind of the token.
    pub token_kind: TokenKind,
    /// Expiry of the token.
    pub expires_at: Timestamp,
    /// Whether it is the account that an entitlement created for an app's adapter: the project's other resources are hidden
    /// from it.
    pub operates: bool,
    /// Tenant that publishes the app of such an account.
    pub publisher: Option<TenantId>,
    /// Parent token, if another token issued this one.
    pub parent: Option<TokenId>,
    hash: TokenHash,
}

impl Authenticated {
    /// Reports whether the actor is a platform operator.
    pub fn is_operator(&self) -> bool {
        match &self.principal.kind {
            PrincipalKind::User { grants, .. } => grants
                .iter()
                .any(|grant| grant.role == Role::PlatformOperator && grant.scope.contains(Scope::Platform)),
            PrincipalKind::ServiceAccount { .. } => false,
        }
    }
}

type TokenHash = [u8; 32];

/// Cache of validated credentials. It holds hashes, never secrets, and only for two seconds.
pub(crate) struct Authn {
    checked: Cache<TokenHash, Arc<Authenticated>>,
    used: Mutex<HashMap<TokenId, Timestamp>>,
}

/// Maximum number of cached credentials.
const MOST: u64 = 20_000;

impl Authn {
    pub(crate) fn new(lifetime: Duration) -> Self {
        let checked = Cache::builder().max_capacity(MOST).time_to_live(lifetime).build();
        Self { checked, used: Mutex::default() }
    }

    pub(crate) fn forget(&self) {
        self.checked.invalidate_all();
    }

    pub(crate) async fn note_used(&self, store: &Store) -> muster_db::Result<()> {
        let used = std::mem::take(&mut *self.used.lock());
        if used.is_empty() {
            return Ok(());
        }
        let mut tx = store.begin().await?;
        // In one order, as every transaction that locks several tokens.
        let used: std::collections::BTreeMap<_, _> = used.into_iter().collect();
        for (token, at) in used {
            tx.token_used(token, at).await?;
        }
        tx.commit().await
    }
}

fn refused(why: &str) -> Error {
    Error::new(Code::Unauthenticated, why)
}

impl Platform {
    /// Validates a secret. The error describes the problem with the credential, never its owner.
    pub async fn authenticate(&self, text: &str, now: Timestamp) -> Result<Arc<Authenticated>> {
        let secret = Secret::parse(text)
            .ok_or_else(|| refused("this is not a token: it must be a whole mst_pat_… or mst_sat_…"))?;
        if secret.is(TokenKind::Join) {
            return Err(refused(
                "this token only allows one machine to join: pass it to `muster agent join`",
            ));
        }
        if secret.is(TokenKind::Pull) {
            return Err(refused("this token only reads one repository of the registry"));
        }
        self.authenticate_hash(secret.hash(), now).await
    }

    /// Validates the credential of a request again after a wait.
    pub(crate) async fn authenticate_again(
        &self,
        actor: &Authenticated,
        now: Timestamp,
    ) -> Result<Arc<Authenticated>> {
        self.authenticate_hash(actor.hash, now).await
    }

    /// Validates a credential by its hash: a registry token carries the hash of the credential that it was issued for.
    pub(crate) async fn authenticate_hash(
        &self,
        hash: TokenHash,
        now: Timestamp,
    ) -> Result<Arc<Authenticated>> {
        let actor = match self.authn.checked.get(&hash) {
            Some(actor) => actor,
            None => {
                let actor = Arc::new(self.look_up(hash).await?);
                self.authn.checked.insert(hash, actor.clone());
                actor
            }
        };
        if actor.expires_at <= now {
            return Err(refused("the credential has expired: rotate it, or log in again"));
        }
        self.authn.used.lock().insert(actor.token_id, now);
        Ok(actor)
    }

    async fn look_up(&self, hash: [u8; 32]) -> Result<Authenticated> {
        let found = self.store.token_by_hash(hash).await?;
        let credential = found.ok_or_else(|| refused("unknown credential"))?;
        if credential.token.revoked_at.is_some() {
            return Err(refused("the credential was revoked"));
        }
        if credential.disabled {
            return Err(refused("the account is disabled"));
        }
        let principal = self.principal_of(credential.token.subject).await?;
        let entitlement = match credential.token.subject {
            Subject::User(_) => None,
            Subject::ServiceAccount(id) => self.store.entitlement_of_account(id).await?,
        };
        let publisher = match &entitlement {
            Some(found) => {
                let project = found.entitlement.publisher_project_id;
                self.store.project_lookup(project).await?.map(|project| project.tenant_id)
            }
            None => None,
        };
        Ok(Authenticated {
            principal: principal.ok_or_else(|| refused("unknown credential"))?,
            token_id: credential.token.id,
            token_kind: credential.token.kind,
            expires_at: credential.token.expires_at,
            operates: entitlement.is_some(),
            publisher,
            parent: credential.token.parent_id,
            hash,
        })
    }

    async fn principal_of(&self, subject: Subject) -> Result<Option<Principal>> {
        match subject {
            Subject::User(id) => {
                let Some(user) = self.store.user_lookup(id).await? else { return Ok(None) };
                let bindings = self.store.role_bindings_of_user(id).await?;
                let grants = bindings
                    .iter()
                    .map(|binding| Grant { role: binding.role, scope: binding.scope })
                    .collect();
                Ok(Some(Principal {
                    kind: PrincipalKind::User { id, tenant: user.tenant_id, grants },
                    name: user.email,
                }))
            }
            Subject::ServiceAccount(id) => {
                let found = self.store.service_account_lookup(id).await?;
                Ok(found.map(|account| Principal {
                    kind: PrincipalKind::ServiceAccount {
                        id,
                        tenant: account.tenant_id,
                        project: account.project_id,
                        permissions: account
                            .permissions
                            .iter()
                            .filter_map(|word| Permission::parse(word))
                            .collect(),
                    },
                    name: account.name,
                }))
            }
        }
    }
}
