//! Testbed for several nodes on one machine: a virtual network with a network namespace for each node, and a link of the
//! machine, by which the agents reach the server.
//!
//! Links and files carry a key, and each testbed has its own block of addresses, so that several can coexist. Steps are
//! planned from the current state, so an interrupted setup is resumed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::up::address_pool::{Blocks, Claim};
use crate::up::program::{inside, run};
use crate::up::record::names;

/// Maximum number of nodes in a block, with some addresses to spare.
pub(crate) const MOST_NODES: u8 = 8;
/// Each testbed has sixteen of the 256 addresses, which are reserved for benchmarks (RFC 2544).
const BLOCKS: u8 = 16;
const PREFIX: u8 = 28;
/// First user id of cells, and the number per node: enough for 255 cells.
const FIRST_ID: u32 = 0x7000_0000;
const IDS_PER_NODE: u32 = 0x0100_0000;
const MTU: &str = "1500";
/// Namespace of the bridge.
const WIRE: &str = "wire";
/// The bridge between the nodes.
const BRIDGE: &str = "br0";
/// The bridge's port to the machine; the ports to nodes have the nodes' names.
const MACHINE: &str = "machine";
/// A node's own link.
const ETHERNET: &str = "eth0";
/// Magic number of the namespace file system: "nsfs" in ASCII.
const NSFS: i128 = 0x6e73_6673;

/// A testbed: its location and names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Testbed {
    /// Key in the names of its links and files.
    pub(crate) key: String,
    /// Its block of addresses.
    pub(crate) block: u8,
    /// Folder for everything that does not survive a reboot.
    pub(crate) run: PathBuf,
    /// Whether any of it may exist.
    pub(crate) raised: bool,
}

/// Current state of a testbed: the machine's links, and each namespace with its links.
#[derive(Debug, Default)]
struct Sight {
    machine: BTreeSet<String>,
    inside: BTreeMap<String, BTreeSet<String>>,
}

/// A step of the plan.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Create the namespace of this name.
    Make(String),
    /// Run `ip` with these arguments, in the namespace of this name or on the machine.
    Ip(Option<String>, Vec<String>),
}

impl Sight {
    fn has(&self, namespace: &str, link: &str) -> bool {
        self.inside.get(namespace).is_some_and(|links| links.contains(link))
    }
}

impl Testbed {
    /// Returns the address of node `number`; the machine is number 0.
    pub(crate) fn address(&self, number: u8) -> Ipv4Addr {
        Ipv4Addr::new(198, 18, 0, self.block * 16 + 1 + number)
    }

    /// Returns the first user id of cells of node `number`: no two nodes share one, in any testbed.
    pub(crate) fn id_base(&self, number: u8) -> u32 {
        let place = u32::from(self.block) * u32::from(MOST_NODES) + u32::from(number) - 1;
        FIRST_ID + place * IDS_PER_NODE
    }

    /// Returns the folder of this testbed.
    fn folder(&self) -> PathBuf {
        self.run.join(&self.key)
    }

    /// Returns the folder for a node agent's state that does not survive a reboot.
    pub(crate) fn node_run(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// Returns the file of a namespace.
    pub(crate) fn namespace(&self, name: &str) -> PathBuf {
        self.folder().join("net").join(name)
    }

    fn machine_link(&self) -> String {
        format!("mup{}", self.key)
    }

    /// Creates whatever is missing.
    pub(crate) fn raise(&self, nodes: u8) -> anyhow::Result<()> {
        self.make_folder()?;
        let sight = self.look()?;
        if !sight.machine.contains(&self.machine_link()) && used_blocks()?.contains(&self.block) {
            bail!(
                "the address {} of the nodes' server is already in use on this machine: remove it there (`ip \
                 address` shows where it is)",
                self.address(0)
            );
        }
        for step in self.plan(nodes, &sight) {
            self.take(&step)?;
        }
        Ok(())
    }

    /// Creates a node's namespace if it is gone, without a link to any other: for cleaning up in it.
    pub(crate) fn shelter(&self, name: &str) -> anyhow::Result<PathBuf> {
        self.make_folder()?;
        let path = self.namespace(name);
        if !is_namespace(&path)? {
            self.take(&Step::Make(name.to_owned()))?;
        }
        self.take(&ip(Some(name), "link set dev lo up"))?;
        Ok(path)
    }

    /// Removes a node's link and namespace.
    pub(crate) fn remove_node(&self, name: &str) -> anyhow::Result<()> {
        // The link first: a process still in the namespace would keep it alive.
        if self.links(Some(WIRE))?.contains(name) {
            self.take(&ip(Some(WIRE), &format!("link del dev {name}")))?;
        }
        remove_namespace(&self.namespace(name))?;
        remove_hollow(&self.node_run(name))
    }

    /// Removes the bridge, the machine's link, and the folder.
    pub(crate) fn remove_wire(&self) -> anyhow::Result<()> {
        let link = self.machine_link();
        if self.links(None)?.contains(&link) {
            self.take(&ip(None, &format!("link del dev {link}")))?;
        }
        remove_namespace(&self.namespace(WIRE))?;
        remove_hollow(&self.folder())?;
        // The folder stays if others still use it.
        let _ = fs::remove_dir(&self.run);
        Ok(())
    }

    fn make_folder(&self) -> anyhow::Result<()> {
        let folder = self.folder().join("net");
        // Cells traverse it to their mounts, and must not be able to list it.
        let make = || {
            DirBuilder::new().recursive(true).mode(0o711).create(&folder)?;
            // Set explicitly, because the umask of the caller may be stricter.
            let passable = || fs::Permissions::from_mode(0o711);
            fs::set_permissions(self.folder(), passable())?;
            fs::set_permissions(&folder, passable())
        };
        make().with_context(|| format!("the folder {} cannot be created", folder.display()))
    }

    fn look(&self) -> anyhow::Result<Sight> {
        let mut sight = Sight { machine: self.links(None)?, ..Sight::default() };
        for name in names(MOST_NODES).chain([WIRE.to_owned()]) {
            if is_namespace(&self.namespace(&name))? {
                sight.inside.insert(name.clone(), self.links(Some(&name))?);
            }
        }
        Ok(sight)
    }

    /// Returns the names of the links in a namespace; none if it does not exist.
    fn links(&self, namespace: Option<&str>) -> anyhow::Result<BTreeSet<String>> {
        if let Some(name) = namespace
            && !is_namespace(&self.namespace(name))?
        {
            return Ok(BTreeSet::new());
        }
        let links: Value = serde_json::from_str(&self.ip(namespace, &["-j", "link", "show"])?)?;
        let name = |link: &Value| link["ifname"].as_str().map(str::to_owned);
        Ok(links.as_array().into_iter().flatten().filter_map(name).collect())
    }

    /// Plans the steps from the current state to a complete testbed. Creation steps come first and run once; the others
    /// are idempotent.
    fn plan(&self, nodes: u8, sight: &Sight) -> Vec<Step> {
        let mut steps = Vec::new();
        if !sight.inside.contains_key(WIRE) {
            steps.push(Step::Make(WIRE.to_owned()));
        }
        if !sight.has(WIRE, BRIDGE) {
            let bridge = format!("link add name {BRIDGE} type bridge stp_state 0 mcast_snooping 0");
            steps.push(ip(Some(WIRE), &bridge));
        }
        steps.push(ip(Some(WIRE), &format!("link set dev {BRIDGE} up")));
        let link = self.machine_link();
        let ends = (sight.has(WIRE, MACHINE), sight.machine.contains(&link));
        self.plug(&mut steps, MACHINE, (None, &link), ends, 0);
        for (number, name) in (1..=nodes).zip(names(nodes)) {
            if !sight.inside.contains_key(&name) {
                steps.push(Step::Make(name.clone()));
            }
            let ends = (sight.has(WIRE, &name), sight.has(&name, ETHERNET));
            steps.push(ip(Some(&name), "link set dev lo up"));
            self.plug(&mut steps, &name, (Some(&name), ETHERNET), ends, number);
        }
        steps
    }

    /// Connects a port of the bridge with a link elsewhere, which gets an address. `ends` tells which of the two exist: a
    /// single one belongs to a lost namespace, and is removed.
    fn plug(
        &self,
        steps: &mut Vec<Step>,
        port: &str,
        (place, link): (Option<&str>, &str),
        ends: (bool, bool),
        number: u8,
    ) {
        match ends {
            (true, true) | (false, false) => {}
            (true, false) => steps.push(ip(Some(WIRE), &format!("link del dev {port}"))),
            (false, true) => steps.push(ip(place, &format!("link del dev {link}"))),
        }
        if ends != (true, true) {
            // Both ends are created in place, so that no name is ever in the machine's namespace.
            let words = match place {
                Some(name) => veth(port, link, &self.namespace(name)),
                None => veth(link, port, &self.namespace(WIRE)),
            };
            steps.push(Step::Ip(place.map(|_| WIRE.to_owned()), words));
        }
        steps.push(ip(Some(WIRE), &format!("link set dev {port} master {BRIDGE} up")));
        steps.push(ip(place, &format!("address replace {}/{PREFIX} dev {link}", self.address(number))));
        steps.push(ip(place, &format!("link set dev {link} up")));
    }

    fn take(&self, step: &Step) -> anyhow::Result<()> {
        match step {
            Step::Make(name) => make_namespace(&self.namespace(name)),
            Step::Ip(namespace, words) => {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                self.ip(namespace.as_deref(), &words).map(drop)
            }
        }
    }

    fn ip(&self, namespace: Option<&str>, words: &[&str]) -> anyhow::Result<String> {
        let mut line: Vec<OsString> = Vec::new();
        if let Some(name) = namespace {
            line.extend(inside(&self.namespace(name)));
        }
        line.push("ip".into());
        line.extend(words.iter().map(OsString::from));
        run(&line)
    }
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

/// Creates a link here, with its other end in a namespace.
fn veth(here: &str, there: &str, namespace: &Path) -> Vec<String> {
    let mut words =
        words(&format!("link add name {here} mtu {MTU} type veth peer name {there} mtu {MTU} netns"));
    words.push(namespace.display().to_string());
    words
}

/// Only for lines without a path: paths may contain spaces.
fn ip(namespace: Option<&str>, line: &str) -> Step {
    Step::Ip(namespace.map(str::to_owned), words(line))
}

/// Claims a block of addresses and user ids that is free on this machine for this data folder. The `used` ones have
/// addresses in this network namespace.
pub(crate) fn free_block(blocks: &Blocks, data: &Path, used: &BTreeSet<u8>) -> anyhow::Result<(u8, Claim)> {
    for block in (0..BLOCKS).filter(|block| !used.contains(block)) {
        if let Some(claim) = blocks.claim(block, data)? {
            return Ok((block, claim));
        }
    }
    bail!(
        "all {BLOCKS} blocks of 198.18.0.0/24 are in use on this machine: `muster down` of another platform frees one"
    )
}

/// Returns the blocks with addresses in this network namespace.
pub(crate) fn used_blocks() -> anyhow::Result<BTreeSet<u8>> {
    let links: Value = serde_json::from_str(&run(&["ip", "-j", "-4", "address", "show"])?)?;
    let addresses = links.as_array().into_iter().flatten().flat_map(|link| link["addr_info"].as_array());
    let addresses = addresses.flatten().filter_map(|info| info["local"].as_str()?.parse::<Ipv4Addr>().ok());
    let ours = addresses.filter(|address| address.octets()[..3] == [198, 18, 0]);
    Ok(ours.map(|address| address.octets()[3] / 16).collect())
}

fn is_namespace(path: &Path) -> anyhow::Result<bool> {
    match rustix::fs::statfs(path) {
        Ok(found) => Ok(i128::from(found.f_type) == NSFS),
        Err(rustix::io::Errno::NOENT) => Ok(false),
        Err(error) => Err(error).with_context(|| format!("looking at {}", path.display())),
    }
}

/// Creates a persistent namespace, held by a mount over a file.
fn make_namespace(path: &Path) -> anyhow::Result<()> {
    File::create(path).with_context(|| format!("{} cannot be created", path.display()))?;
    let mut net = OsString::from("--net=");
    net.push(path);
    run(&["unshare".into(), net, "true".into()]).map(drop)
}

fn remove_namespace(path: &Path) -> anyhow::Result<()> {
    while is_namespace(path)? {
        run(&["umount".as_ref(), "--lazy".as_ref(), path.as_os_str()])?;
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Removes a folder that contains only folders. A remaining file may belong to a process, and is named.
fn remove_hollow(folder: &Path) -> anyhow::Result<()> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("looking into {}", folder.display())),
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_hollow(&entry.path())?;
        } else {
            bail!("{} still exists", entry.path().display());
        }
    }
    fs::remove_dir(folder).with_context(|| format!("removing {}", folder.display()))
}

#[cfg(test)]
#[path = "testbed_tests.rs"]
mod tests;
