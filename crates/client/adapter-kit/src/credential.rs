//! Token sources, and token renewal before or after the platform refuses one.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use muster_sdk::types::{OperatorTokenMint, Token};
use muster_sdk::{Connection, Error};

use crate::identity::read_token;
use crate::platform::Platform;
use crate::{Options, StartError};

/// Maximum lifetime of such a token.
const LIFE: i32 = 900;

/// Token source.
#[derive(Debug)]
pub(crate) enum Credential {
    /// A file, which the deployment may replace.
    File(PathBuf),
    /// Minted by the publisher's account for a consumer's project.
    Minted {
        /// The publisher's account, in its own project.
        publisher: Arc<Platform>,
        /// The consumer's entitlement, by id.
        entitlement: String,
    },
}

/// A connection with a fresh token.
pub(crate) struct Fresh {
    pub(crate) connection: Connection,
    /// Lifetime of the token, if known.
    pub(crate) life: Option<Duration>,
}

impl Credential {
    /// Returns a connection with the current token.
    pub(crate) async fn fresh(&self, options: &Options) -> Result<Fresh, StartError> {
        match self {
            Self::File(path) => Ok(Fresh { connection: options.connection(&read_token(path)?)?, life: None }),
            Self::Minted { publisher, entitlement } => {
                let wish =
                    OperatorTokenMint { entitlement: entitlement.clone(), expires_in_seconds: Some(LIFE) };
                // Boxed because the publisher's own token comes from the same function.
                let minted: Token = Box::pin(publisher.call("operator_token_mint", &[], &wish))
                    .await
                    .map_err(|error| options.refused(error))?;
                let secret = minted.secret.as_deref().ok_or_else(|| {
                    options
                        .refused(Error::Setup("the platform minted a token without returning it".to_owned()))
                })?;
                // The difference of two platform timestamps: the local clock may differ.
                let life = Duration::try_from(minted.expires_at.duration_since(minted.created_at)).ok();
                Ok(Fresh { connection: options.connection(secret)?, life })
            }
        }
    }
}
