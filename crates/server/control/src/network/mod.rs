//! Networks. They are created with the first cell in them; the API only reads them.

mod get;
mod list;

pub use get::get;
pub use list::list;

use muster_api::network as api;
use muster_model::cell::Network;

use crate::{Cx, Result};

async fn view(cx: &Cx, network: &Network) -> Result<api::Network> {
    let members = cx.platform.store.network_neighbours(network.id).await?;
    let address = |host| network.address(host).map(|address| address.to_string()).unwrap_or_default();
    Ok(api::Network {
        id: network.id,
        tenant_id: network.tenant_id,
        project_id: network.project_id,
        name: network.name.clone(),
        subnet: network.subnet.clone(),
        members: members
            .into_iter()
            .map(|member| api::NetworkMember {
                cell_id: member.cell_id,
                name: member.name,
                address: address(member.host),
                node_id: member.node_id,
            })
            .collect(),
        created_at: network.created_at,
        updated_at: network.updated_at,
        version: network.version,
    })
}
