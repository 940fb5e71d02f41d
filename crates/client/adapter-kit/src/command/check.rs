//! Checks that the platform accepts this adapter: its identity, its permissions, and the contract version.

use std::io::Write;

use muster_sdk::describe::Description;
use muster_sdk::{Arguments, Error};

use super::Trouble;
use super::places::accounts;
use crate::identity::{Account, Identity};
use crate::run::{LEASE, MINT};
use crate::{CONTRACT, Options};

/// Permissions that an operating account needs for the loop.
const TO_OPERATE: [&str; 7] = [
    LEASE,
    "adapter_step.heartbeat",
    "adapter_step.progress",
    "adapter_step.complete",
    "adapter_step.fail",
    "adapter_task.create",
    "adapter_task.get",
];
/// Permissions for the developer's commands.
const TO_LOOK: [&str; 2] = ["adapter_step.list", "adapter_step.get"];
/// Permissions that a publisher's account needs.
const TO_PUBLISH: [&str; 2] = [MINT, "entitlement.list"];

/// Checks and prints; fails if something is missing.
pub(super) async fn check(options: &Options, out: &mut (impl Write + Send)) -> Result<(), Trouble> {
    let mut missing = Vec::new();
    for (account, _) in accounts(options).await? {
        let identity = &account.identity;
        writeln!(
            out,
            "account     {} ({}) in the project {}",
            identity.name, identity.id, identity.project_id
        )?;
        missing.extend(contract(&account, options, out).await?);
        missing.extend(permissions(identity, out)?);
    }
    if missing.is_empty() {
        writeln!(out, "ready")?;
        return Ok(());
    }
    Err(Trouble::Said(format!("not ready: {} missing", missing.join(", "))))
}

/// Compares the kit's contract version with the platform's.
async fn contract(
    account: &Account,
    options: &Options,
    out: &mut (impl Write + Send),
) -> Result<Vec<String>, Trouble> {
    let known = Description::embedded();
    let mut document = known
        .endpoint("whoami")
        .ok_or_else(|| Error::Setup("the API no longer has whoami".to_owned()))?
        .clone();
    document.path = "/openapi.json".to_owned();
    let text = account.connection.call(&document, &Arguments::default()).await?.json().to_string();
    let served = Description::parse(&text)?;
    let needed = known.endpoints.iter().map(|endpoint| endpoint.id.as_str()).filter(|id| {
        id.starts_with("adapter_step_") || id.starts_with("adapter_task_") || *id == "operator_token_mint"
    });
    let missing: Vec<String> =
        needed.filter(|id| served.endpoint(id).is_none()).map(|id| format!("the endpoint {id}")).collect();
    let verdict = if missing.is_empty() { "has all of its endpoints" } else { "lacks some of its endpoints" };
    writeln!(
        out,
        "contract    {CONTRACT}; the API of {} is version {} and {verdict}",
        options.server, served.version
    )?;
    Ok(missing)
}

fn permissions(identity: &Identity, out: &mut impl Write) -> Result<Vec<String>, Trouble> {
    let mut missing = Vec::new();
    let mut part = |title: &str, needed: &[&str], must: bool, out: &mut dyn Write| -> std::io::Result<()> {
        let lacking: Vec<&str> = needed.iter().copied().filter(|one| !identity.may(one)).collect();
        let verdict = if lacking.is_empty() {
            "yes".to_owned()
        } else {
            format!("no: it lacks {}", lacking.join(", "))
        };
        writeln!(out, "{title:<11} {verdict}")?;
        if must {
            missing.extend(lacking.iter().map(|one| format!("the permission {one}")));
        }
        Ok(())
    };
    // An account is either a publisher or an operator, and only needs the permissions of its role.
    let publisher = identity.may(MINT);
    part("operates", &TO_OPERATE, !publisher, out)?;
    part("inspects", &TO_LOOK, false, out)?;
    part("publishes", &TO_PUBLISH, publisher, out)?;
    Ok(missing)
}
