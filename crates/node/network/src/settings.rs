//! Settings of a node's networks, and crash points for tests.

use std::fmt;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;

use crate::NetworkError;

/// Crash points, in the order of [`POINTS`]; a test can end the work at each.
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

/// Callback for each point. Does nothing outside tests.
pub type Reach = Arc<dyn Fn(&'static str) + Send + Sync>;

/// Settings of a node's networks.
#[derive(Clone)]
pub struct Settings {
    /// Folder that is empty after a boot, for the mounts of the router namespaces.
    pub run: PathBuf,
    /// Folder that survives a reboot, for the records of attachments.
    pub folder: PathBuf,
    /// Short name of the node in links and tables: one to six lower-case letters and digits.
    pub key: String,
    /// Address at which the other nodes reach this one.
    pub address: Ipv4Addr,
    /// The node's own network namespace, as a file: `/proc/self/ns/net`, unless one process acts for several nodes.
    pub namespace: PathBuf,
    /// Callback for each point.
    pub reach: Reach,
}

impl Settings {
    /// Returns the settings of the node that this process runs on.
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

    /// Validates the key, which becomes part of link and table names.
    pub(crate) fn check(&self) -> Result<(), NetworkError> {
        let fits = (1..=6).contains(&self.key.len())
            && self.key.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        if !fits {
            return Err(NetworkError::Refused(format!(
                "the node's key {:?} is not one to six lower-case letters and digits: choose another",
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
