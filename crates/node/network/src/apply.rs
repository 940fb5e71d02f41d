//! Reconciles all networks of a node: missing ones are created, unwanted ones removed.

use muster_wire::cell::NetworkState;

use crate::record::{Network, Place};
use crate::router::Depth;
use crate::settings::point;
use crate::uplink::plan_uplink;
use crate::{Fabric, NetworkError, order};

impl Fabric {
    /// Reconciles the node with these networks. Others are removed, unless a cell is attached to them here.
    ///
    /// An error in one network does not block the others; the first error is returned.
    pub fn apply(&self, wanted: &[NetworkState]) -> Result<(), NetworkError> {
        let _turn = self.turn();
        let mut first = Ok(());
        let mut note = |result: Result<(), NetworkError>| {
            if let Err(error) = result {
                tracing::warn!(%error, "a network differs from its desired state");
                if first.is_ok() {
                    first = Err(error);
                }
            }
        };
        let places = self.book.places()?;
        for state in wanted {
            note(self.record(state, &places));
        }
        self.reach(point::RECORDED);
        let networks = self.book.networks()?;
        let goes = |network: &Network| {
            !wanted.iter().any(|state| state.network_id == network.network_id)
                && !places.iter().any(|place| place.network_id == network.network_id)
        };
        // The node's rules include a network before its first packet arrives, and drop it after its last.
        note(self.settle_node());
        for network in &networks {
            note(if goes(network) {
                self.remove_network(network)
            } else {
                self.settle(network, &places, Depth::Whole).map(drop)
            });
        }
        if networks.iter().any(goes) {
            note(self.settle_node());
        }
        note(self.remove_strays(&networks));
        first
    }

    fn record(&self, state: &NetworkState, places: &[Place]) -> Result<(), NetworkError> {
        let mut network = order::network(state)?;
        let others = self.book.networks()?;
        order::fits(&network, &others)?;
        network.uplink =
            others.iter().find(|other| other.network_id == network.network_id).and_then(|other| other.uplink);
        network.uplink = plan_uplink(&network, &others, places)?;
        self.book.keep_network(&network)
    }

    pub(crate) fn remove_network(&self, network: &Network) -> Result<(), NetworkError> {
        self.remove_router(network.vni)?;
        self.book.forget_network(network.network_id)
    }

    /// Removes namespaces without a record. One with a cell in it stays until its cell is detached.
    fn remove_strays(&self, networks: &[Network]) -> Result<(), NetworkError> {
        for vni in self.router_numbers()? {
            if networks.iter().any(|network| network.vni == vni) || !self.ports(vni)?.is_empty() {
                continue;
            }
            self.remove_router(vni)?;
        }
        Ok(())
    }

    /// Removes everything of this node's networks, attached or not, for a node that retires.
    pub fn remove_all(&self) -> Result<(), NetworkError> {
        let _turn = self.turn();
        for place in self.book.places()? {
            self.detach_now(place.cell_id)?;
        }
        for network in self.book.networks()? {
            self.remove_network(&network)?;
        }
        for vni in self.router_numbers()? {
            self.remove_router(vni)?;
        }
        self.settle_node()?;
        match std::fs::remove_dir(self.routers_folder()) {
            // Another node on this machine may have namespaces there.
            Ok(()) => Ok(()),
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::NotFound | std::io::ErrorKind::DirectoryNotEmpty
                ) =>
            {
                Ok(())
            }
            Err(error) => Err(NetworkError::file(&self.routers_folder(), error)),
        }
    }
}
