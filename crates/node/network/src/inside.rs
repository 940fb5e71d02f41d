//! Operations inside a network namespace. Only [`crate::namespace::Namespace::enter`] creates an [`Inside`], so that none of
//! them can run in the wrong one by mistake.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use muster_wire::cell::Protocol;
use serde::Deserialize;

use crate::{NetworkError, command};

/// Proof that the calling thread is in the intended namespace.
pub(crate) struct Inside {
    /// Binds it to its thread.
    thread: PhantomData<*const ()>,
}

/// A link, as reported by the kernel.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Link {
    pub(crate) ifindex: u32,
    /// Index of the peer, for one of a pair.
    pub(crate) link_index: Option<u32>,
    pub(crate) ifname: String,
    pub(crate) flags: Vec<String>,
    pub(crate) mtu: u32,
    pub(crate) address: String,
    pub(crate) master: Option<String>,
    pub(crate) ifalias: Option<String>,
    pub(crate) linkinfo: LinkInfo,
    pub(crate) addr_info: Vec<AddressInfo>,
}

/// Kind of a link.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct LinkInfo {
    pub(crate) info_data: VxlanInfo,
    pub(crate) info_slave_data: PortInfo,
}

/// Bridge port state of a link.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PortInfo {
    state: serde_json::Value,
}

impl Link {
    /// Reports whether its bridge forwards frames through it.
    pub(crate) fn forwards(&self) -> bool {
        self.linkinfo.info_slave_data.state == "forwarding"
    }
}

/// Parameters of a VXLAN device.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct VxlanInfo {
    pub(crate) id: Option<u32>,
    pub(crate) local: Option<String>,
    pub(crate) port: Option<u16>,
}

/// An address of a link.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct AddressInfo {
    pub(crate) local: String,
    pub(crate) prefixlen: u8,
}

/// A forwarding entry: the port or node behind a hardware address.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(default)]
pub(crate) struct Entry {
    pub(crate) mac: String,
    pub(crate) ifname: String,
    pub(crate) dst: Option<String>,
    pub(crate) master: Option<String>,
    pub(crate) state: String,
}

impl Inside {
    pub(super) fn here() -> Self {
        Self { thread: PhantomData }
    }

    /// Runs `ip` commands, one per line.
    pub(crate) fn ip(&self, batch: &str) -> Result<(), NetworkError> {
        command::run("ip", &["-batch", "-"], Some(batch)).map(drop)
    }

    /// Runs `bridge` commands, one per line.
    pub(crate) fn bridge(&self, batch: &str) -> Result<(), NetworkError> {
        command::run("bridge", &["-batch", "-"], Some(batch)).map(drop)
    }

    /// Loads rules atomically.
    pub(crate) fn nft(&self, rules: &str) -> Result<(), NetworkError> {
        command::run("nft", &["-f", "-"], Some(rules)).map(drop)
    }

    /// Returns the existing rule tables: family and name.
    pub(crate) fn tables(&self) -> Result<Vec<(String, String)>, NetworkError> {
        let text = command::run("nft", &["list", "tables"], None)?;
        let table = |line: &str| {
            let (family, name) = line.strip_prefix("table ")?.split_once(' ')?;
            Some((family.to_owned(), name.to_owned()))
        };
        Ok(text.lines().filter_map(table).collect())
    }

    /// Returns the text of a table.
    pub(crate) fn table(&self, family: &str, name: &str) -> Result<String, NetworkError> {
        command::run("nft", &["list", "table", family, name], None)
    }

    /// Returns every link with its details.
    pub(crate) fn links(&self) -> Result<Vec<Link>, NetworkError> {
        self.ask("ip", &["-j", "-d", "link", "show"])
    }

    /// Returns every link with its IPv4 addresses.
    pub(crate) fn addresses(&self) -> Result<Vec<Link>, NetworkError> {
        self.ask("ip", &["-j", "-4", "addr", "show"])
    }

    /// Returns one link with its details and addresses.
    pub(crate) fn link(&self, name: &str) -> Result<Option<Link>, NetworkError> {
        if !self.has(name)? {
            return Ok(None);
        }
        match self.ask::<Link>("ip", &["-j", "-d", "addr", "show", "dev", name]) {
            // The kernel removes the links of a dead cell asynchronously, perhaps just now.
            Err(_) if !self.has(name)? => Ok(None),
            answer => Ok(answer?.into_iter().next()),
        }
    }

    /// Removes a link and its peer. A missing one, or one removed meanwhile, is ignored.
    pub(crate) fn remove_link(&self, name: &str) -> Result<(), NetworkError> {
        if !self.has(name)? {
            return Ok(());
        }
        match command::run("ip", &["link", "del", "dev", name], None) {
            Err(_) if !self.has(name)? => Ok(()),
            answer => answer.map(drop),
        }
    }

    /// Returns the forwarding entries.
    pub(crate) fn entries(&self) -> Result<Vec<Entry>, NetworkError> {
        self.ask("bridge", &["-j", "fdb", "show"])
    }

    fn ask<T: serde::de::DeserializeOwned>(
        &self,
        program: &str,
        args: &[&str],
    ) -> Result<Vec<T>, NetworkError> {
        let text = command::run(program, args, None)?;
        let text = if text.trim().is_empty() { "[]" } else { &text };
        serde_json::from_str(text).map_err(|error| NetworkError::Unexpected {
            program: format!("{program} {}", args.join(" ")),
            said: format!("its output is invalid: {error}"),
        })
    }

    /// Returns the names of the links, without starting a program.
    pub(crate) fn names(&self) -> Result<BTreeSet<String>, NetworkError> {
        let text = self.proc_net("dev")?;
        // Two header lines, then `name: figures`.
        let names = text.lines().skip(2).filter_map(|line| line.split_once(':'));
        Ok(names.map(|(name, _)| name.trim().to_owned()).collect())
    }

    /// Reports whether there is a link of this name.
    pub(crate) fn has(&self, name: &str) -> Result<bool, NetworkError> {
        Ok(self.names()?.contains(name))
    }

    /// Returns the links with routes: all of them, and those with default routes. Starts no program.
    pub(crate) fn routed(&self) -> Result<(BTreeSet<String>, BTreeSet<String>), NetworkError> {
        let text = self.proc_net("route")?;
        let (mut all, mut default) = (BTreeSet::new(), BTreeSet::new());
        for line in text.lines().skip(1) {
            let mut words = line.split_whitespace();
            let (Some(link), Some(destination)) = (words.next(), words.next()) else { continue };
            all.insert(link.to_owned());
            if destination == "00000000" {
                default.insert(link.to_owned());
            }
        }
        Ok((all, default))
    }

    /// Returns the ports with a listener.
    pub(crate) fn listening(&self, protocol: Protocol) -> Result<BTreeSet<u16>, NetworkError> {
        // The kernel's codes for LISTEN of TCP and "not connected" of UDP.
        let (file, newer, listens) = match protocol {
            Protocol::Tcp => ("tcp", "tcp6", "0A"),
            Protocol::Udp => ("udp", "udp6", "07"),
        };
        // A machine without IPv6 has no such file.
        let text = self.proc_net(file)? + &self.proc_net(newer).unwrap_or_default();
        let port = |line: &str| {
            let mut words = line.split_whitespace();
            let (local, state) = (words.nth(1)?, words.nth(1)?);
            let (_, port) = local.rsplit_once(':').filter(|_| state == listens)?;
            u16::from_str_radix(port, 16).ok()
        };
        Ok(text.lines().filter_map(port).collect())
    }

    fn proc_net(&self, file: &str) -> Result<String, NetworkError> {
        let path = Path::new("/proc/thread-self/net").join(file);
        fs::read_to_string(&path).map_err(|error| NetworkError::file(&path, error))
    }

    /// Returns a setting under `/proc/sys/net`; `None` if this kernel lacks it.
    pub(crate) fn setting(&self, key: &str) -> Result<Option<String>, NetworkError> {
        let path = setting_path(key);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text.trim().to_owned())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(NetworkError::file(&path, error)),
        }
    }

    /// Changes a setting under `/proc/sys/net` if needed. One that this kernel lacks is skipped.
    pub(crate) fn set(&self, key: &str, value: &str) -> Result<(), NetworkError> {
        match self.setting(key)? {
            Some(now) if now.split_whitespace().eq(value.split_whitespace()) => Ok(()),
            None => Ok(()),
            Some(_) => {
                let path = setting_path(key);
                fs::write(&path, value).map_err(|error| NetworkError::file(&path, error))
            }
        }
    }
}

fn setting_path(key: &str) -> PathBuf {
    Path::new("/proc/sys/net").join(key)
}
