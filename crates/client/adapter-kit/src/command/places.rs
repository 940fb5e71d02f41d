//! Projects that the adapter serves, for one-off commands.

use std::sync::Arc;

use super::Trouble;
use crate::credential::Credential;
use crate::identity::{Account, connect_with, read_token};
use crate::platform::Platform;
use crate::run::{LEASE, MINT};
use crate::{Options, StartError};

/// Returns the accounts of all token files, each with its credential.
pub(super) async fn accounts(options: &Options) -> Result<Vec<(Account, Credential)>, Trouble> {
    if options.token_files.is_empty() {
        return Err(StartError::NotSet("MUSTER_TOKEN_FILE").into());
    }
    let mut accounts = Vec::new();
    for file in &options.token_files {
        let account = connect_with(options, &read_token(file)?).await?;
        accounts.push((account, Credential::File(file.clone())));
    }
    Ok(accounts)
}

/// Returns every project in which steps can be leased: the account's own, or those of the publisher's consumers. A
/// consumer without a token does not hide the others.
pub(super) async fn places(options: &Arc<Options>) -> Result<Vec<Arc<Platform>>, Trouble> {
    let mut places = Vec::new();
    for (account, credential) in accounts(options).await? {
        let identity = account.identity;
        let platform = Platform::new(&identity.project_id, account.connection, credential, options);
        if identity.may(MINT) {
            for held in platform.entitlements().await? {
                if !options.apps.is_empty() && !options.apps.contains(&held.app) {
                    continue;
                }
                let minted =
                    Credential::Minted { publisher: platform.clone(), entitlement: held.id.to_string() };
                let fresh = match minted.fresh(options).await {
                    Ok(fresh) => fresh,
                    Err(error) => {
                        eprintln!("{} is left out: no token can be minted for it: {error}", held.project_id);
                        continue;
                    }
                };
                places.push(Platform::new(&held.project_id, fresh.connection, minted, options));
            }
        }
        if identity.may(LEASE) {
            places.push(platform);
        }
    }
    Ok(places)
}
