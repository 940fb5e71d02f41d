//! Persistent records: the node's networks, their attached cells, and the changed setting of the host. Small documents, each
//! replaced atomically; they are read again each time, so that there is no second source of truth.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::net::Ipv4Addr;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use muster_ids::{CellId, NetworkId};
use muster_wire::cell::Protocol;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::NetworkError;
use crate::address::Subnet;

/// A network on this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Network {
    pub(crate) network_id: NetworkId,
    pub(crate) vni: u32,
    pub(crate) subnet: Subnet,
    /// Unknown if a cell was attached before the network was applied.
    pub(crate) name: Option<String>,
    pub(crate) neighbours: Vec<Peer>,
    /// Index of its uplink, while a cell here needs one.
    pub(crate) uplink: Option<u16>,
}

impl Network {
    /// Returns the members on other nodes. A cell attached here is local, whatever the last state listed: that lags behind
    /// while a cell moves.
    pub(crate) fn remote<'a>(&'a self, here: &'a [&Place], node: Ipv4Addr) -> impl Iterator<Item = &'a Peer> {
        let elsewhere = move |peer: &&Peer| {
            peer.node != node
                && !here.iter().any(|place| place.cell_id == peer.cell_id || place.address == peer.address)
        };
        self.neighbours.iter().filter(elsewhere)
    }
}

/// One member of a network, on any node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Peer {
    pub(crate) cell_id: CellId,
    pub(crate) name: String,
    pub(crate) address: Ipv4Addr,
    pub(crate) node: Ipv4Addr,
}

/// A cell attached here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) cell_id: CellId,
    pub(crate) network_id: NetworkId,
    pub(crate) address: Ipv4Addr,
    pub(crate) egress: bool,
    pub(crate) forwarded_ports: Vec<ForwardedPort>,
}

impl Place {
    /// Reports whether it requires an uplink.
    pub(crate) fn needs_uplink(&self) -> bool {
        self.egress || !self.forwarded_ports.is_empty()
    }
}

/// A port of a cell that is reachable at the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ForwardedPort {
    pub(crate) protocol: Protocol,
    pub(crate) port: u16,
    pub(crate) node_port: u16,
}

/// The host's own forwarding settings before it was enabled for us.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Forwarding {
    /// Boot and namespace of the record.
    pub(crate) boot: String,
    pub(crate) namespace: (u64, u64),
    /// Settings that enabling it changes, by key.
    pub(crate) before: BTreeMap<String, String>,
}

/// Folder of the documents.
#[derive(Debug)]
pub(crate) struct Book {
    folder: PathBuf,
}

const NETWORKS: &str = "networks";
const CELLS: &str = "cells";
const FORWARDING: &str = "forwarding.json";

impl Book {
    pub(crate) fn open(folder: &Path) -> Result<Self, NetworkError> {
        for part in [NETWORKS, CELLS] {
            let path = folder.join(part);
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&path);
            made.map_err(|error| NetworkError::file(&path, error))?;
        }
        Ok(Self { folder: folder.to_owned() })
    }

    pub(crate) fn networks(&self) -> Result<Vec<Network>, NetworkError> {
        read_all(&self.folder.join(NETWORKS))
    }

    pub(crate) fn network(&self, id: NetworkId) -> Result<Option<Network>, NetworkError> {
        read(&self.network_path(id))
    }

    pub(crate) fn keep_network(&self, network: &Network) -> Result<(), NetworkError> {
        keep(&self.network_path(network.network_id), network)
    }

    pub(crate) fn forget_network(&self, id: NetworkId) -> Result<(), NetworkError> {
        forget(&self.network_path(id))
    }

    pub(crate) fn places(&self) -> Result<Vec<Place>, NetworkError> {
        read_all(&self.folder.join(CELLS))
    }

    pub(crate) fn keep_place(&self, place: &Place) -> Result<(), NetworkError> {
        keep(&self.place_path(place.cell_id), place)
    }

    pub(crate) fn forget_place(&self, id: CellId) -> Result<(), NetworkError> {
        forget(&self.place_path(id))
    }

    pub(crate) fn forwarding(&self) -> Result<Option<Forwarding>, NetworkError> {
        read(&self.folder.join(FORWARDING))
    }

    pub(crate) fn keep_forwarding(&self, forwarding: &Forwarding) -> Result<(), NetworkError> {
        keep(&self.folder.join(FORWARDING), forwarding)
    }

    pub(crate) fn forget_forwarding(&self) -> Result<(), NetworkError> {
        forget(&self.folder.join(FORWARDING))
    }

    // File names are printed ids, with only letters, digits and an underscore.
    fn network_path(&self, id: NetworkId) -> PathBuf {
        self.folder.join(NETWORKS).join(format!("{id}.json"))
    }

    fn place_path(&self, id: CellId) -> PathBuf {
        self.folder.join(CELLS).join(format!("{id}.json"))
    }
}

fn read_all<T: DeserializeOwned>(folder: &Path) -> Result<Vec<T>, NetworkError> {
    let unable = |error| NetworkError::file(folder, error);
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(unable)? {
        let path = entry.map_err(unable)?.path();
        // Remains of an interrupted write have another extension.
        if path.extension().is_some_and(|extension| extension == "json") {
            paths.push(path);
        }
    }
    paths.sort();
    let documents = paths.iter().map(|path| read(path));
    documents.filter_map(Result::transpose).collect()
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, NetworkError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(NetworkError::file(path, error)),
    };
    let document = serde_json::from_str(&text);
    document.map(Some).map_err(|error| {
        NetworkError::file(path, format!("it is invalid ({error}): move it away once you know what it was"))
    })
}

/// Writes a document unless it is unchanged.
fn keep<T: Serialize>(path: &Path, document: &T) -> Result<(), NetworkError> {
    let unable = |error: std::io::Error| NetworkError::file(path, error);
    let text = serde_json::to_vec(document).map_err(|error| unable(error.into()))?;
    if fs::read(path).is_ok_and(|now| now == text) {
        return Ok(());
    }
    let fresh = path.with_extension("new");
    let write = || {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&fresh, path)
    };
    write().and_then(|()| flush_folder(path)).map_err(unable)
}

fn forget(path: &Path) -> Result<(), NetworkError> {
    match fs::remove_file(path) {
        Ok(()) => flush_folder(path).map_err(|error| NetworkError::file(path, error)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(NetworkError::file(path, error)),
    }
}

/// Flushes the folder, which persists a rename or a removal.
fn flush_folder(path: &Path) -> std::io::Result<()> {
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}
