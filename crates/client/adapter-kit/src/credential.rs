//! Where a token comes from, and how the next one is had before or after the platform refuses it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use muster_sdk::types::{OperatorTokenMint, Token};
use muster_sdk::{Connection, Error};

use crate::identity::read_token;
use crate::platform::Platform;
use crate::{Options, StartError};

/// As long as the platform lets such a token live.
const LIFE: i32 = 900;

/// Where a token comes from.
#[derive(Debug)]
pub(crate) enum Credential {
    /// A file, which whoever deploys the adapter may replace.
    File(PathBuf),
    /// The publisher's account mints it for a consumer's project.
    Minted {
        /// The publisher's account, in its own project.
        publisher: Arc<Platform>,
        /// The consumer's consent, by id.
        entitlement: String,
    },
}

/// A connection with a fresh token.
pub(crate) struct Fresh {
    pub(crate) connection: Connection,
    /// How long the token lives; nothing if it does not say.
    pub(crate) life: Option<Duration>,
}

impl Credential {
    /// A connection with the token as it is now.
    pub(crate) async fn fresh(&self, options: &Options) -> Result<Fresh, StartError> {
        match self {
            Self::File(path) => Ok(Fresh { connection: options.connection(&read_token(path)?)?, life: None }),
            Self::Minted { publisher, entitlement } => {
                let wish =
                    OperatorTokenMint { entitlement: entitlement.clone(), expires_in_seconds: Some(LIFE) };
                // Boxed, because the publisher's own token is had in the same way.
                let minted: Token = Box::pin(publisher.call("operator_token_mint", &[], &wish))
                    .await
                    .map_err(|error| options.refused(error))?;
                let secret = minted.secret.as_deref().ok_or_else(|| {
                    options.refused(Error::Setup("the platform minted a token without showing it".to_owned()))
                })?;
                // The difference of two of the platform's own times: its clock and ours need not agree.
                let life = Duration::try_from(minted.expires_at.duration_since(minted.created_at)).ok();
                Ok(Fresh { connection: options.connection(secret)?, life })
            }
        }
    }
}
