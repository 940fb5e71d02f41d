//! Key material of a server: the root key file, the tenants' keys wrapped by it, the certificate authority of the nodes, and
//! password hashes. It knows the database and no transport: callers map `KeyError` to their own errors.

mod authority;
mod envelope;
mod error;
pub mod password;
mod root_key;

pub use authority::{Authority, CertificateRequest, Custody, Identity, Issued, ServerCertificate, identity};
pub use envelope::{Envelope, PLATFORM, key_version};
pub use error::KeyError;
pub use root_key::{RootKeyError, RootKeys};
