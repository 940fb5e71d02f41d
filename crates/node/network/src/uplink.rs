//! Egress and ingress of a network through the node: they exist only while a cell declares them.

use crate::address::{UPLINK, UPLINKS, uplink_addresses, uplink_end};
use crate::namespace::Namespace;
use crate::record::{Forwarding, Network, Place};
use crate::settings::point;
use crate::{Fabric, NetworkError, forwarding, rules};

/// Returns the uplink of a network beside the others of the node: its current one, a free one, or none.
pub(crate) fn plan_uplink(
    network: &Network,
    others: &[Network],
    places: &[Place],
) -> Result<Option<u16>, NetworkError> {
    let needed = places.iter().any(|place| place.network_id == network.network_id && place.needs_uplink());
    if !needed || network.uplink.is_some() {
        return Ok(network.uplink.filter(|_| needed));
    }
    let taken = |index: &u16| {
        others.iter().any(|other| other.network_id != network.network_id && other.uplink == Some(*index))
    };
    (0..UPLINKS)
        .find(|index| !taken(index))
        .map(Some)
        .ok_or_else(|| NetworkError::Refused(format!("this node already has {UPLINKS} uplinks, the maximum")))
}

impl Fabric {
    /// Creates or removes the uplink of a network, to match its record.
    pub(crate) fn settle_uplink(&self, network: &Network, router: &Namespace) -> Result<(), NetworkError> {
        let end = uplink_end(&self.settings.key, network.vni);
        let Some(index) = network.uplink else {
            return router.enter(|inside| {
                inside.set("ipv4/ip_forward", "0")?;
                inside.remove_link(UPLINK)
            });
        };
        let (node_address, router_address) = uplink_addresses(index);
        let node_path = self.node.path();
        // Both ends at once: a pair exists or not. The node's end is configured first, and the route last.
        router.enter(|inside| {
            if inside.has(UPLINK)? {
                return Ok(());
            }
            inside.ip(&format!("link add name {UPLINK} type veth peer name {end} netns {node_path}\n"))
        })?;
        self.reach(point::UPLINK_MADE);
        self.node.enter(|inside| {
            inside.set(&format!("ipv6/conf/{end}/disable_ipv6"), "1")?;
            inside.ip(&format!("addr replace {node_address}/30 dev {end}\nlink set dev {end} up\n"))?;
            inside.set(&format!("ipv4/conf/{end}/forwarding"), "1")
        })?;
        router.enter(|inside| {
            inside.set("ipv4/ip_forward", "1")?;
            inside.ip(&format!(
                "addr replace {router_address}/30 dev {UPLINK}\nlink set dev {UPLINK} up\n\
                 route replace default via {node_address} dev {UPLINK}\n"
            ))
        })
    }

    /// Reconciles the node's own namespace with the records: our table, and forwarding.
    pub(crate) fn settle_node(&self) -> Result<(), NetworkError> {
        let (networks, places) = (self.book.networks()?, self.book.places()?);
        let needed = networks.iter().any(|network| network.uplink.is_some());
        let identity = self.node.identity()?;
        let text = |kept: Option<&Forwarding>| {
            rules::node(&self.settings.key, self.settings.address, &networks, &places, kept)
        };
        self.node.enter(|inside| {
            if needed {
                // The rules come before forwarding, so that other traffic is never forwarded because of us.
                let kept = forwarding::remember(&self.book, inside, identity)?;
                inside.nft(&text(kept.as_ref()))?;
                return forwarding::turn_on(inside);
            }
            forwarding::restore(&self.book, inside, identity)?;
            inside.nft(&text(None))?;
            self.book.forget_forwarding()
        })
    }
}
