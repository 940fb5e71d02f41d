//! Identity of the node: its key, its certificate, the authority that signed it, and its name.

use jiff::Timestamp;
use muster_ids::NodeId;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde::{Deserialize, Serialize};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::AgentError;
use crate::folder::Folder;

const KEY: &str = "key.pem";
const CERTIFICATE: &str = "certificate.pem";
const AUTHORITY: &str = "authority.pem";
const NODE: &str = "node.json";

/// The node, from the response to its join.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its id.
    pub node_id: NodeId,
    /// Name on the platform.
    pub name: String,
    /// The server's listener for nodes.
    pub server: String,
}

/// Credentials of a node.
#[derive(Clone)]
pub struct Identity {
    /// The node.
    pub node: Node,
    pub(crate) key: String,
    pub(crate) certificate: String,
    pub(crate) authority: String,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Identity").field(&self.node).finish()
    }
}

impl Identity {
    /// Returns the identity in a folder; `None` if the machine has not joined.
    pub fn lookup(folder: &Folder) -> Result<Option<Self>, AgentError> {
        let Some(node) = folder.read_document(NODE)? else { return Ok(None) };
        let needed = |text: Option<String>, name: &str| {
            text.ok_or_else(|| {
                AgentError::file(&folder.path().join(name), "it is missing, although the node has joined")
            })
        };
        Ok(Some(Self {
            node,
            key: needed(folder.read_secret(KEY)?, KEY)?,
            certificate: needed(folder.read(CERTIFICATE)?, CERTIFICATE)?,
            authority: needed(folder.read(AUTHORITY)?, AUTHORITY)?,
        }))
    }

    /// Saves the identity. The node document is written last: a folder with it is complete.
    pub(crate) fn save(&self, folder: &Folder) -> Result<(), AgentError> {
        folder.write(KEY, &self.key)?;
        self.save_certificate(folder)?;
        folder.write_document(NODE, &self.node)
    }

    /// Saves the certificate, after the authority: a certificate of a new authority is useless without it, and the new text
    /// contains the old authority for as long as it is needed.
    pub(crate) fn save_certificate(&self, folder: &Folder) -> Result<(), AgentError> {
        folder.write(AUTHORITY, &self.authority)?;
        folder.write(CERTIFICATE, &self.certificate)
    }

    /// Returns the validity period of the certificate.
    pub(crate) fn validity(&self) -> Result<(Timestamp, Timestamp), AgentError> {
        let unreadable =
            |why: String| AgentError::Refused(format!("the node's certificate cannot be read: {why}"));
        let chain = certificates(&self.certificate)?;
        let (_, certificate) =
            X509Certificate::from_der(&chain[0]).map_err(|error| unreadable(error.to_string()))?;
        let validity = certificate.validity();
        let instant =
            |seconds| Timestamp::from_second(seconds).map_err(|error| unreadable(error.to_string()));
        Ok((instant(validity.not_before.timestamp())?, instant(validity.not_after.timestamp())?))
    }

    /// Returns a certificate signing request for the same key.
    pub(crate) fn request(&self) -> Result<String, AgentError> {
        request(&self.key)
    }

    pub(crate) fn private_key(&self) -> Result<PrivateKeyDer<'static>, AgentError> {
        PrivateKeyDer::from_pem_slice(self.key.as_bytes())
            .map_err(|error| AgentError::Refused(format!("the node's key cannot be read: {error}")))
    }
}

/// Removes the identity. Sandboxes and incarnations stay: they belong to the machine, not to the name.
pub(crate) fn forget(folder: &Folder) -> Result<(), AgentError> {
    for name in [NODE, CERTIFICATE, AUTHORITY, KEY] {
        folder.remove(name)?;
    }
    Ok(())
}

/// Returns the key of a machine that has not joined yet. It is generated once, so that a retried join presents the same key.
/// It never leaves the folder.
pub(crate) fn ensure_key(folder: &Folder) -> Result<String, AgentError> {
    if let Some(key) = folder.read_secret(KEY)? {
        return Ok(key);
    }
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)
        .map_err(|error| AgentError::Refused(format!("no key could be created: {error}")))?;
    let key = key.serialize_pem();
    folder.write(KEY, &key)?;
    Ok(key)
}

/// Returns a certificate signing request as PEM. It has no subject: the server assigns the identity.
pub(crate) fn request(key: &str) -> Result<String, AgentError> {
    let make = || {
        let key = rcgen::KeyPair::from_pem(key)?;
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.serialize_request(&key)?.pem()
    };
    make().map_err(|error: rcgen::Error| {
        AgentError::Refused(format!("no certificate can be requested: {error}"))
    })
}

/// Parses the certificates of a PEM text; at least one.
pub(crate) fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, AgentError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match read {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(AgentError::Refused("a certificate was expected, but there is none".to_owned())),
        Err(error) => Err(AgentError::Refused(format!("a certificate is invalid: {error}"))),
    }
}
