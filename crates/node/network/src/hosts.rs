//! Host names: the content of a cell's `/etc/hosts`.

use std::fmt::Write as _;

use muster_ids::NetworkId;

use crate::record::Network;
use crate::{Fabric, NetworkError};

impl Fabric {
    /// Returns the text of `/etc/hosts` for the cells of a network; `None` while its members are unknown here.
    pub fn hosts(&self, network_id: NetworkId) -> Result<Option<String>, NetworkError> {
        Ok(self.book.network(network_id)?.as_ref().and_then(plan_hosts))
    }
}

fn plan_hosts(network: &Network) -> Option<String> {
    let name = network.name.as_ref()?;
    let mut text = "127.0.0.1 localhost\n".to_owned();
    for peer in &network.neighbours {
        let _ = writeln!(text, "{} {} {}.{name}.muster.internal", peer.address, peer.name, peer.name);
    }
    Some(text)
}
