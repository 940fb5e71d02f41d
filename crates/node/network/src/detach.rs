//! Detaches a cell from a network.

use muster_ids::CellId;

use crate::address::{PORT_PREFIX, port};
use crate::inside::Link;
use crate::router::Depth;
use crate::settings::point;
use crate::uplink::plan_uplink;
use crate::{Fabric, NetworkError};

impl Fabric {
    /// Detaches a cell. Idempotent. The network stays until it is no longer desired.
    pub fn detach(&self, cell_id: CellId) -> Result<(), NetworkError> {
        let _turn = self.turn();
        self.detach_now(cell_id)
    }

    pub(crate) fn detach_now(&self, cell_id: CellId) -> Result<(), NetworkError> {
        let mut places = self.book.places()?;
        let Some(at) = places.iter().position(|place| place.cell_id == cell_id) else {
            // Without a record, the kernel's part is removed anyway.
            return self.unlink_everywhere(cell_id);
        };
        let place = places.remove(at);
        let networks = self.book.networks()?;
        if let Some(network) = networks.iter().find(|network| network.network_id == place.network_id) {
            let mut network = network.clone();
            let name = port(place.address);
            let router = self.router(network.vni)?;
            if let Some(router) = &router {
                router.enter(|inside| inside.remove_link(&name))?;
            }
            self.reach(point::LINK_GONE);
            network.uplink = plan_uplink(&network, &networks, &places)?;
            self.book.keep_network(&network)?;
            // A missing namespace is not created again only to update its rules.
            if router.is_some() {
                self.settle(&network, &places, Depth::Rules)?;
            }
        }
        self.reach(point::RULES_GONE);
        self.book.forget_place(cell_id)?;
        self.reach(point::FORGOTTEN);
        if place.needs_uplink() { self.settle_node() } else { Ok(()) }
    }

    fn unlink_everywhere(&self, cell_id: CellId) -> Result<(), NetworkError> {
        let alias = cell_id.to_string();
        for vni in self.router_numbers()? {
            let ports = self.ports(vni)?;
            let gone: Vec<&Link> =
                ports.iter().filter(|link| link.ifalias.as_ref() == Some(&alias)).collect();
            if let Some(router) = self.router(vni)?.filter(|_| !gone.is_empty()) {
                router.enter(|inside| gone.iter().try_for_each(|link| inside.remove_link(&link.ifname)))?;
            }
        }
        // Reached after a crash between forgetting a cell and forgetting its ports at the node.
        self.settle_node()
    }

    /// Returns the cells' ports in the namespace of a network, recorded or not.
    pub(crate) fn ports(&self, vni: u32) -> Result<Vec<Link>, NetworkError> {
        let Some(router) = self.router(vni)? else { return Ok(Vec::new()) };
        let links = router.enter(|inside| inside.links())?;
        Ok(links.into_iter().filter(|link| link.ifname.starts_with(PORT_PREFIX)).collect())
    }
}
