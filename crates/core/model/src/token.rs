//! Tokens: `mst_<kind>_<30 of base 62>_<check>`, opaque, stored only as SHA-256.
//!
//! The check digits let a client or a secret scanner distinguish a mistyped token from a real one offline; they prove
//! nothing. Signed tokens were rejected: revoking one would need a revocation list on every replica.

use jiff::Timestamp;
use muster_ids::{Env, ServiceAccountId, TokenId, UserId};
use sha2::{Digest, Sha256};

const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const RANDOM: usize = 30;
const CHECK: usize = 4;

/// Kind of a token, readable from its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TokenKind {
    /// A user's personal token.
    Personal,
    /// A service account's.
    ServiceAccount,
    /// A browser session: only ever a cookie.
    Session,
    /// One incarnation's right to read one repository for an hour. It authenticates no account; its hash is stored with the
    /// runtime secrets.
    Pull,
    /// A machine's one-time right to join. It authenticates no account and grants no access to the public API; its hash is
    /// stored with the enrolments, apart from all others.
    Join,
}

impl TokenKind {
    /// Kinds that the store keeps as credentials of an account.
    pub const ALL: [TokenKind; 3] = [TokenKind::Personal, TokenKind::ServiceAccount, TokenKind::Session];

    /// Returns its prefix in the token and its name in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            TokenKind::Personal => "pat",
            TokenKind::ServiceAccount => "sat",
            TokenKind::Session => "ses",
            TokenKind::Pull => "pull",
            TokenKind::Join => "join",
        }
    }

    /// Parses a kind from its name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// A token in clear text. It exists between its creation and its one display; `Debug` does not print it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Secret {
    /// Generates a token.
    pub fn make(kind: TokenKind, env: &Env) -> Self {
        let mut random = String::with_capacity(RANDOM);
        while random.len() < RANDOM {
            // Rejection sampling keeps the letters uniform: 248 is the largest multiple of 62 in a byte.
            for byte in env.bytes::<32>().into_iter().filter(|byte| *byte < 248) {
                if random.len() < RANDOM {
                    random.push(BASE62[usize::from(byte % 62)] as char);
                }
            }
        }
        let body = format!("mst_{}_{random}", kind.as_str());
        let check = check(&body);
        Self(format!("{body}_{check}"))
    }

    /// Parses a text in the format of a token with correct check digits.
    pub fn parse(text: &str) -> Option<Self> {
        let (body, given) = text.rsplit_once('_')?;
        let random = body.strip_prefix("mst_")?.split_once('_').map(|(_, random)| random)?;
        let well_formed = random.len() == RANDOM
            && random.bytes().all(|byte| byte.is_ascii_alphanumeric())
            && given == check(body);
        well_formed.then(|| Self(text.to_owned()))
    }

    /// Reports whether its prefix is of this kind; a forged prefix proves nothing.
    pub fn is(&self, kind: TokenKind) -> bool {
        self.0
            .strip_prefix("mst_")
            .and_then(|rest| rest.split_once('_'))
            .is_some_and(|(word, _)| word == kind.as_str())
    }

    /// Returns the hash under which the store keeps it.
    pub fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.0.as_bytes()).into()
    }

    /// Returns enough to recognise it in a list, too little to use it.
    pub fn hint(&self) -> String {
        self.0.chars().take("mst_pat_".len() + 4).collect::<String>() + "…"
    }

    /// Returns the CSRF token that a page must send besides the session cookie; another site cannot know it.
    pub fn csrf(&self) -> String {
        let mut hasher = Sha256::new();
        hasher.update(b"muster csrf\n");
        hasher.update(self.0.as_bytes());
        crate::hex::encode(&hasher.finalize()[..16])
    }

    /// Returns the clear text, for the one response that shows it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

fn check(body: &str) -> String {
    let digest = Sha256::digest(body.as_bytes());
    digest.iter().take(CHECK).map(|byte| BASE62[usize::from(byte % 62)] as char).collect()
}

/// Account that a token authenticates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Subject {
    /// A user.
    User(UserId),
    /// A service account.
    ServiceAccount(ServiceAccountId),
}

/// A stored token.
#[derive(Debug, Clone)]
pub struct Token {
    /// Its id.
    pub id: TokenId,
    /// Its kind.
    pub kind: TokenKind,
    /// Account that it authenticates.
    pub subject: Subject,
    /// Its purpose.
    pub name: String,
    /// Its first characters.
    pub hint: String,
    /// When it was issued.
    pub created_at: Timestamp,
    /// Time at which it expires.
    pub expires_at: Timestamp,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
    /// Time of the last use, to the minute.
    pub last_used_at: Option<Timestamp>,
    /// Version for `If-Match`.
    pub version: i64,
    /// Token that issued it, if any: it is revoked with that one.
    pub parent_id: Option<TokenId>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_recognised_and_a_changed_one_is_not() {
        let env = Env::for_tests(1);
        let secret = Secret::make(TokenKind::ServiceAccount, &env);
        assert_eq!(Secret::parse(secret.reveal()), Some(secret.clone()));
        assert!(secret.hint().len() < 20);
        let mut changed = secret.reveal().to_owned().into_bytes();
        changed[12] = if changed[12] == b'x' { b'y' } else { b'x' };
        assert_eq!(Secret::parse(&String::from_utf8(changed).unwrap()), None);
        for bad in ["", "mst_", "mst_pat__", "Bearer", "mst_pat_\u{e9}_aaaa"] {
            assert_eq!(Secret::parse(bad), None, "{bad}");
        }
        assert_eq!(format!("{secret:?}"), "Secret(…)");
        let join = Secret::make(TokenKind::Join, &env);
        assert!(Secret::parse(join.reveal()).is_some_and(|join| join.is(TokenKind::Join)));
        assert!(!secret.is(TokenKind::Join) && TokenKind::parse("join").is_none());
    }
}
