//! Signed heads of the audit chains, stored at a place of the operator's choice: a chain rewritten in the database
//! contradicts the heads signed before. The key is in a file, never in the database.

use std::collections::HashMap;
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use muster_db::Lease;
use muster_model::audit::{Head, head_statement};
use muster_trust::PrivateKey;
use serde::Serialize;
use zeroize::Zeroizing;

use crate::{Error, Platform, Result, outbound};

/// Lease duration: the time after which another server may take over signing.
const LEASE: SignedDuration = SignedDuration::from_secs(30);
/// Interval at which a server acquires or extends the lease.
const EXTEND: Duration = Duration::from_secs(10);

/// Errors of signing and storing heads.
#[derive(Debug, thiserror::Error)]
pub enum AuditHeadsError {
    /// The key file cannot be read or written.
    #[error("the audit's signing key {path}: {error}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        error: std::io::Error,
    },
    /// The key file is accessible to others.
    #[error("the audit's signing key {path} can be read by others (mode {mode:o}): run `chmod 600 {path}`")]
    Exposed {
        /// Path of the file.
        path: PathBuf,
        /// Mode of the file.
        mode: u32,
    },
    /// The file holds no valid key.
    #[error("the audit's signing key {path}: {why}")]
    NoKey {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        why: String,
    },
    /// The setting is neither a file nor an allowed URL.
    #[error("audit.heads_to: {0}")]
    Destination(String),
}

/// The key that signs heads.
pub struct AuditKey {
    key: PrivateKey,
    key_id: String,
}

impl AuditKey {
    /// Loads the key; generates one if the file does not exist, with its public key beside it (`.pub`) for verifiers.
    pub fn open(path: &Path) -> Result<Self, AuditHeadsError> {
        let failed = |error| AuditHeadsError::File { path: path.to_owned(), error };
        if !path.exists() {
            let fresh = PrivateKey::generate_ed25519();
            match write_new(path, fresh.to_pem().as_bytes(), 0o600) {
                Ok(()) => {
                    write_new(&path.with_added_extension("pub"), fresh.public().to_pem().as_bytes(), 0o644)
                        .or_else(|error| if is_there(&error) { Ok(()) } else { Err(failed(error)) })?
                }
                // Another server with the same directory was first.
                Err(error) if is_there(&error) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        let mode = std::fs::metadata(path).map_err(failed)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(AuditHeadsError::Exposed { path: path.to_owned(), mode });
        }
        let text = Zeroizing::new(std::fs::read_to_string(path).map_err(failed)?);
        let key = PrivateKey::from_pem(&text)
            .map_err(|error| AuditHeadsError::NoKey { path: path.to_owned(), why: error.to_string() })?;
        Ok(Self { key_id: key.public().fingerprint(), key })
    }

    /// Signs a head.
    pub fn sign(&self, head: &Head, at: Timestamp) -> SignedHead {
        let signature = self.key.sign(head_statement(&head.chain, head.sequence, &head.hash, at).as_bytes());
        SignedHead {
            chain: head.chain.clone(),
            sequence: head.sequence,
            hash: head.hash.clone(),
            signed_at: at,
            key_id: self.key_id.clone(),
            signature: STANDARD.encode(signature),
        }
    }
}

fn is_there(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::AlreadyExists
}

/// Creates a file atomically: another server that opens it at the same moment must not read half a key.
fn write_new(path: &Path, text: &[u8], mode: u32) -> std::io::Result<()> {
    let part = path.with_added_extension(format!("{}.new", std::process::id()));
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&part)?;
    let linked =
        file.write_all(text).and_then(|()| file.sync_all()).and_then(|()| std::fs::hard_link(&part, path));
    std::fs::remove_file(&part)?;
    linked
}

/// A stored head: one line of JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SignedHead {
    /// The chain.
    pub chain: String,
    /// Sequence number of the last entry.
    pub sequence: i64,
    /// Hash of the last entry.
    pub hash: String,
    /// Signing time.
    pub signed_at: Timestamp,
    /// Fingerprint of the public key.
    pub key_id: String,
    /// Signature in base64.
    pub signature: String,
}

/// Destination for signed heads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeadsDestination {
    /// File to append to.
    File(PathBuf),
    /// URL to post lines to.
    Url(String),
}

impl HeadsDestination {
    /// Parses the setting; returns none if it is empty. A URL follows the rules of webhooks.
    pub fn parse(text: &str, private: bool) -> Result<Option<Self>, AuditHeadsError> {
        if text.is_empty() {
            return Ok(None);
        }
        if text.contains("://") {
            let refused = |error: Error| AuditHeadsError::Destination(error.detail);
            outbound::check_url(text, private).map_err(refused)?;
            return Ok(Some(Self::Url(text.to_owned())));
        }
        if !Path::new(text).is_absolute() {
            return Err(AuditHeadsError::Destination("give an absolute path or an https URL".to_owned()));
        }
        Ok(Some(Self::File(PathBuf::from(text))))
    }

    async fn keep(&self, client: &reqwest::Client, heads: &[SignedHead]) -> Result<(), String> {
        let mut lines = String::new();
        for head in heads {
            lines.push_str(&serde_json::to_string(head).expect("a head is JSON"));
            lines.push('\n');
        }
        match self {
            Self::File(path) => {
                let path = path.clone();
                let written = tokio::task::spawn_blocking(move || append(&path, lines.as_bytes())).await;
                written.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
            }
            Self::Url(url) => {
                let call = client.post(url).header("content-type", "application/x-ndjson").body(lines);
                let answer = call.send().await.map_err(|error| error.without_url().to_string())?;
                match answer.status() {
                    status if status.is_success() => Ok(()),
                    status => Err(format!("the receiver answered {status}")),
                }
            }
        }
    }
}

/// Appends only, so that the file may be on append-only storage.
fn append(path: &Path, lines: &[u8]) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    file.write_all(lines)?;
    file.sync_all()
}

impl Platform {
    /// Signs and stores changed heads until stopped. One server per database does so at a time.
    pub async fn run_audit_heads(self: Arc<Self>, mut stop: tokio::sync::watch::Receiver<bool>) {
        let Some(destination) = self.options.audit_heads_to.clone() else { return };
        let client = match outbound::client(self.options.webhooks_to_private) {
            Ok(client) => client,
            Err(error) => {
                return tracing::error!(%error, "audit heads are not sent: the client could not be created");
            }
        };
        let mut lease: Option<Lease> = None;
        let mut kept: HashMap<String, i64> = HashMap::new();
        let mut due = tokio::time::Instant::now();
        while !*stop.borrow() {
            lease = self.audit_heads_lease(lease).await;
            if lease.is_some() && due <= tokio::time::Instant::now() {
                due = tokio::time::Instant::now() + self.options.audit_heads_every;
                if let Err(error) = self.keep_audit_heads(&destination, &client, &mut kept).await {
                    tracing::warn!(error, "audit heads could not be sent; retrying");
                }
            }
            let pause = due.saturating_duration_since(tokio::time::Instant::now()).min(EXTEND);
            tokio::select! {
                () = tokio::time::sleep(pause.max(Duration::from_millis(100))) => {}
                _ = stop.changed() => {}
            }
        }
        if let Some(lease) = &lease {
            let _ = self.store.lease_end(lease).await;
        }
    }

    async fn audit_heads_lease(&self, held: Option<Lease>) -> Option<Lease> {
        let now = self.env.now();
        let Some(lease) = held else {
            let holder = self.replica.to_string();
            return self.store.lease_acquire("audit_heads", &holder, LEASE, now).await.unwrap_or(None);
        };
        let extend = async {
            let mut tx = self.store.begin().await?;
            tx.lease_extend(&lease, now).await?;
            tx.commit().await
        };
        extend.await.is_ok().then_some(lease)
    }

    async fn keep_audit_heads(
        &self,
        destination: &HeadsDestination,
        client: &reqwest::Client,
        kept: &mut HashMap<String, i64>,
    ) -> Result<(), String> {
        let heads = self.store.audit_heads().await.map_err(|error| error.to_string())?;
        let now = self.env.now();
        let moved = heads.iter().filter(|head| kept.get(&head.chain) != Some(&head.sequence));
        let signed: Vec<SignedHead> = moved.map(|head| self.audit_key.sign(head, now)).collect();
        if signed.is_empty() {
            return Ok(());
        }
        destination.keep(client, &signed).await?;
        kept.extend(signed.into_iter().map(|head| (head.chain, head.sequence)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_with_its_public_half_and_read_by_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.key");
        let first = AuditKey::open(&path).unwrap();
        assert_eq!(AuditKey::open(&path).unwrap().key_id, first.key_id);
        let public = std::fs::read_to_string(folder.path().join("audit.key.pub")).unwrap();
        let public = muster_trust::PublicKey::from_pem(&public).unwrap();
        assert_eq!((public.fingerprint(), public.algorithm().word()), (first.key_id.clone(), "ed25519"));
        let head = Head {
            chain: "platform".to_owned(),
            sequence: 3,
            hash: "ab".to_owned(),
            pruned_sequence: 0,
            pruned_hash: String::new(),
        };
        let at: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let signed = first.sign(&head, at);
        let signature = STANDARD.decode(&signed.signature).unwrap();
        let statement = "muster-audit-head v1\nplatform\n3\nab\n2026-01-02T03:04:05Z\n";
        assert!(public.verify(statement.as_bytes(), &signature));
        assert!(!public.verify(statement.replace("\n3\n", "\n4\n").as_bytes(), &signature));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(AuditKey::open(&path), Err(AuditHeadsError::Exposed { .. })));
    }

    #[test]
    fn heads_go_to_an_absolute_path_or_to_an_allowed_url() {
        let parse = |text| HeadsDestination::parse(text, false);
        assert_eq!(parse("").unwrap(), None);
        assert_eq!(parse("/mnt/worm/heads").unwrap(), Some(HeadsDestination::File("/mnt/worm/heads".into())));
        assert!(parse("https://heads.example/x").unwrap().is_some());
        for bad in ["heads", "http://heads.example/x", "https://127.0.0.1/x", "file:///etc/passwd"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
