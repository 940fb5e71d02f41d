//! Tokens and sessions.

use jiff::Timestamp;
use muster_ids::{ProjectId, ServiceAccountId, TenantId, TokenId, UserId};
use muster_model::token::{Subject, Token, TokenKind};

use crate::sql::{Row, args, both, pair, statements};
use crate::{Page, Result, Store, StoreError, Tx};

macro_rules! columns {
    () => {
        "SELECT id, kind, user_id, service_account_id, name, hint, created_at, expires_at, revoked_at, last_used_at, version,
                parent_id
         FROM tokens "
    };
}

statements! {
    TOKEN_INSERT = both(
        "INSERT INTO tokens (id, kind, user_id, service_account_id, name, hint, hash, created_at, expires_at, version,
                             parent_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)");
    TOKEN_GET = both(concat!(columns!(), "WHERE id = $1"));
    // A credential as needed for authentication: the token, and whether its subject is disabled.
    TOKEN_BY_HASH = both(
        "SELECT t.id, t.kind, t.user_id, t.service_account_id, t.name, t.hint, t.created_at, t.expires_at, t.revoked_at,
                t.last_used_at, t.version, t.parent_id, COALESCE(u.disabled, s.disabled)
         FROM tokens t LEFT JOIN users u ON u.id = t.user_id LEFT JOIN service_accounts s ON s.id = t.service_account_id
         WHERE t.hash = $1");
    TOKEN_LIST = both(concat!(columns!(),
        "WHERE id > $1 AND ($2 OR user_id = $3) AND ($4 OR service_account_id = $5) ORDER BY id LIMIT $6"));
    TOKEN_SHORTEN = both(
        "UPDATE tokens SET expires_at = $2, version = version + 1 WHERE id = $1 AND version = $3 AND revoked_at IS NULL");
    TOKEN_REVOKE = both(
        "UPDATE tokens SET revoked_at = $2, version = version + 1 WHERE id = $1 AND revoked_at IS NULL");
    // Tokens issued by a revoked token are revoked with it, recursively.
    TOKEN_REVOKE_CHILDREN = both(
        "UPDATE tokens SET revoked_at = $2, version = version + 1
         WHERE revoked_at IS NULL AND id IN (
            WITH RECURSIVE issued (id) AS (
                SELECT id FROM tokens WHERE parent_id = $1
                UNION SELECT t.id FROM tokens t JOIN issued ON t.parent_id = issued.id)
            SELECT id FROM issued)");
    TOKEN_REVOKE_OF_USER = both(
        "UPDATE tokens SET revoked_at = $2, version = version + 1
         WHERE revoked_at IS NULL AND id IN (
            WITH RECURSIVE issued (id) AS (
                SELECT id FROM tokens WHERE user_id = $1
                UNION SELECT t.id FROM tokens t JOIN issued ON t.parent_id = issued.id)
            SELECT id FROM issued)");
    // Locks a token and those above it, the oldest first, so that none of them is revoked before the transaction ends. Without the
    // lock, a revocation could miss a token that is issued at the same time.
    TOKEN_HOLD = pair(
        "SELECT id, revoked_at FROM tokens WHERE id IN (
            WITH RECURSIVE above (id, parent_id) AS (
                SELECT id, parent_id FROM tokens WHERE id = $1
                UNION SELECT t.id, t.parent_id FROM tokens t JOIN above ON t.id = above.parent_id)
            SELECT id FROM above)
         ORDER BY id FOR NO KEY UPDATE",
        "SELECT id, revoked_at FROM tokens WHERE id IN (
            WITH RECURSIVE above (id, parent_id) AS (
                SELECT id, parent_id FROM tokens WHERE id = $1
                UNION SELECT t.id, t.parent_id FROM tokens t JOIN above ON t.id = above.parent_id)
            SELECT id FROM above)
         ORDER BY id");
    // A revocation of these is a second statement, which finds what was issued while this one waited.
    TOKEN_HOLD_OF_USER = pair(
        "SELECT id FROM tokens WHERE user_id = $1 AND revoked_at IS NULL ORDER BY id FOR NO KEY UPDATE",
        "SELECT id FROM tokens WHERE user_id = $1 AND revoked_at IS NULL ORDER BY id");
    TOKEN_USED = both(
        "UPDATE tokens SET last_used_at = $2 WHERE id = $1 AND (last_used_at IS NULL OR last_used_at < $2)");
    TOKEN_DELETE_OF_USER = both("DELETE FROM tokens WHERE user_id = $1");
    TOKEN_DELETE_OF_SERVICE_ACCOUNT = both("DELETE FROM tokens WHERE service_account_id = $1");
    TOKEN_DELETE_OF_PROJECT = both(
        "DELETE FROM tokens WHERE service_account_id IN (SELECT id FROM service_accounts WHERE project_id = $1)");
    TOKEN_DELETE_OF_TENANT = both(
        "DELETE FROM tokens WHERE service_account_id IN (SELECT id FROM service_accounts WHERE tenant_id = $1)
            OR user_id IN (SELECT id FROM users WHERE tenant_id = $1)");
}

fn token(row: &Row) -> Result<Token> {
    let kind: String = row.get(1)?;
    let user: Option<UserId> = row.get(2)?;
    let account: Option<ServiceAccountId> = row.get(3)?;
    let subject = match (user, account) {
        (Some(user), None) => Subject::User(user),
        (None, Some(account)) => Subject::ServiceAccount(account),
        _ => return Err(StoreError::Corrupt("a token's subject")),
    };
    Ok(Token {
        id: row.get(0)?,
        kind: TokenKind::parse(&kind).ok_or(StoreError::Corrupt("a token's kind"))?,
        subject,
        name: row.get(4)?,
        hint: row.get(5)?,
        created_at: row.get(6)?,
        expires_at: row.get(7)?,
        revoked_at: row.get(8)?,
        last_used_at: row.get(9)?,
        version: row.get(10)?,
        parent_id: row.get(11)?,
    })
}

/// A presented token.
#[derive(Debug, Clone)]
pub struct Credential {
    /// The token.
    pub token: Token,
    /// Whether its subject is disabled.
    pub disabled: bool,
}

impl Store {
    /// Returns the credential with this hash.
    pub async fn token_by_hash(&self, hash: [u8; 32]) -> Result<Option<Credential>> {
        let row = self.fetch_optional(&TOKEN_BY_HASH, args![hash.to_vec()]).await?;
        row.as_ref().map(|row| Ok(Credential { token: token(row)?, disabled: row.get(12)? })).transpose()
    }

    /// Returns the token with this id.
    pub async fn token_lookup(&self, id: TokenId) -> Result<Option<Token>> {
        self.fetch_optional(&TOKEN_GET, args![id]).await?.as_ref().map(token).transpose()
    }

    /// Returns a subject's tokens in issue order.
    pub async fn token_list(&self, page: Page, subject: Subject) -> Result<Vec<Token>> {
        let (user, account) = parts(subject);
        let args = args![page.after, user.is_none(), user, account.is_none(), account, page.size];
        self.fetch_all(&TOKEN_LIST, args).await?.iter().map(token).collect()
    }
}

fn parts(subject: Subject) -> (Option<UserId>, Option<ServiceAccountId>) {
    match subject {
        Subject::User(user) => (Some(user), None),
        Subject::ServiceAccount(account) => (None, Some(account)),
    }
}

impl Tx {
    /// Adds a token; only its hash is stored.
    pub async fn token_insert(&mut self, token: &Token, hash: [u8; 32]) -> Result<()> {
        let (user, account) = parts(token.subject);
        let args = args![
            token.id,
            token.kind.as_str(),
            user,
            account,
            &token.name,
            &token.hint,
            hash.to_vec(),
            token.created_at,
            token.expires_at,
            token.version,
            token.parent_id
        ];
        self.insert(&TOKEN_INSERT, args).await
    }

    /// Keeps a token from being revoked until the transaction ends; stale if it is revoked or absent. A credential may be cached for
    /// a while after its revocation, so a token that it issues must be refused here.
    pub async fn token_hold(&mut self, id: TokenId) -> Result<()> {
        let mut is_there = false;
        for row in self.fetch_all(&TOKEN_HOLD, args![id]).await? {
            is_there |= row.get::<TokenId>(0)? == id;
            if row.get::<Option<Timestamp>>(1)?.is_some() {
                return Err(StoreError::Stale);
            }
        }
        is_there.then_some(()).ok_or(StoreError::Stale)
    }

    /// Changes the expiry of a token that still has this version to `expires_at`.
    pub async fn token_shorten(&mut self, id: TokenId, expires_at: Timestamp, version: i64) -> Result<()> {
        self.execute_one(&TOKEN_SHORTEN, args![id, expires_at, version], StoreError::Stale).await
    }

    /// Revokes a token that is not revoked yet and, recursively, all tokens that it issued; returns how many of those there
    /// were.
    pub async fn token_revoke(&mut self, id: TokenId, at: Timestamp) -> Result<i64> {
        self.execute_one(&TOKEN_REVOKE, args![id, at], StoreError::Stale).await?;
        self.execute(&TOKEN_REVOKE_CHILDREN, args![id, at]).await.map(|count| count as i64)
    }

    /// Revokes all tokens of a user, including sessions, and the tokens issued by them.
    pub async fn token_revoke_of_user(&mut self, user: UserId, at: Timestamp) -> Result<i64> {
        self.fetch_all(&TOKEN_HOLD_OF_USER, args![user]).await?;
        self.execute(&TOKEN_REVOKE_OF_USER, args![user, at]).await.map(|count| count as i64)
    }

    /// Records the use of a token.
    pub async fn token_used(&mut self, id: TokenId, at: Timestamp) -> Result<()> {
        self.execute(&TOKEN_USED, args![id, at]).await.map(drop)
    }

    /// Removes a user's tokens.
    pub async fn token_delete_of_user(&mut self, user: UserId) -> Result<i64> {
        self.execute(&TOKEN_DELETE_OF_USER, args![user]).await.map(|count| count as i64)
    }

    /// Removes a service account's tokens.
    pub async fn token_delete_of_service_account(&mut self, account: ServiceAccountId) -> Result<i64> {
        self.execute(&TOKEN_DELETE_OF_SERVICE_ACCOUNT, args![account]).await.map(|count| count as i64)
    }

    /// Removes the tokens of a project's service accounts.
    pub async fn token_delete_of_project(&mut self, project: ProjectId) -> Result<i64> {
        self.execute(&TOKEN_DELETE_OF_PROJECT, args![project]).await.map(|count| count as i64)
    }

    /// Removes the tokens of a tenant's users and service accounts.
    pub async fn token_delete_of_tenant(&mut self, tenant: TenantId) -> Result<i64> {
        self.execute(&TOKEN_DELETE_OF_TENANT, args![tenant]).await.map(|count| count as i64)
    }
}
