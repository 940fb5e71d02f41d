//! How a node's networks are told where they are, and where a test may stop them.

use std::fmt;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;

use crate::NetworkError;

/// The points that are passed on the way, in the order of [`POINTS`]; a test can end the work at each of them.
pub(crate) mod point {
    pub(crate) const RECORDED: &str = "network:recorded";
    pub(crate) const NAMESPACE_MADE: &str = "network:namespace-made";
    pub(crate) const RULES_MADE: &str = "network:rules-made";
    pub(crate) const BRIDGE_MADE: &str = "network:bridge-made";
    pub(crate) const VXLAN_MADE: &str = "network:vxlan-made";
    pub(crate) const UPLINK_MADE: &str = "network:uplink-made";
    pub(crate) const ATTACH_RECORDED: &str = "attach:recorded";
    pub(crate) const VETH_MADE: &str = "attach:veth-made";
    pub(crate) const IN_CELL: &str = "attach:in-cell";
    pub(crate) const LINK_GONE: &str = "detach:link-gone";
    pub(crate) const RULES_GONE: &str = "detach:rules-gone";
    pub(crate) const FORGOTTEN: &str = "detach:forgotten";
    pub(crate) const LINKS_GONE: &str = "remove:links-gone";
    pub(crate) const NAMESPACE_GONE: &str = "remove:namespace-gone";
}

/// Every point at which [`Reach`] is called.
pub const POINTS: &[&str] = &[
    point::RECORDED,
    point::NAMESPACE_MADE,
    point::RULES_MADE,
    point::BRIDGE_MADE,
    point::VXLAN_MADE,
    point::UPLINK_MADE,
    point::ATTACH_RECORDED,
    point::VETH_MADE,
    point::IN_CELL,
    point::LINK_GONE,
    point::RULES_GONE,
    point::FORGOTTEN,
    point::LINKS_GONE,
    point::NAMESPACE_GONE,
];

/// Called with the name of each point that is passed. Outside tests it does nothing.
pub type Reach = Arc<dyn Fn(&'static str) + Send + Sync>;

/// Where a node's networks are.
#[derive(Clone)]
pub struct Settings {
    /// A folder that is empty after the machine starts; the router namespaces are mounted below it.
    pub run: PathBuf,
    /// A folder that stays; what is attached where is written there.
    pub folder: PathBuf,
    /// The node's short name in links and tables: one to six small letters and digits.
    pub key: String,
    /// The address under which the other nodes reach this one.
    pub address: Ipv4Addr,
    /// The node's own network namespace, as a file: `/proc/self/ns/net`, unless one process stands for several nodes.
    pub namespace: PathBuf,
    /// What is told of each point that is passed.
    pub reach: Reach,
}

impl Settings {
    /// Those of the node that this process runs on.
    pub fn new(run: impl Into<PathBuf>, folder: impl Into<PathBuf>, key: &str, address: Ipv4Addr) -> Self {
        Self {
            run: run.into(),
            folder: folder.into(),
            key: key.to_owned(),
            address,
            namespace: PathBuf::from("/proc/self/ns/net"),
            reach: Arc::new(|_| {}),
        }
    }

    /// The key becomes part of link and table names, so it is looked at before anything else.
    pub(crate) fn check(&self) -> Result<(), NetworkError> {
        let fits = (1..=6).contains(&self.key.len())
            && self.key.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        if !fits {
            return Err(NetworkError::Refused(format!(
                "the node's key {:?} is not one to six small letters and digits: choose another",
                self.key
            )));
        }
        Ok(())
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("run", &self.run)
            .field("folder", &self.folder)
            .field("key", &self.key)
            .field("address", &self.address)
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}
