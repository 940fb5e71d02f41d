//! The testbed: a wire, nodes and an outsider on it, and cells. Dropping it removes everything.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use muster_ids::{CellId, Env, NetworkId, TypedId};
use muster_network::{Attach, Fabric, NetworkError, Settings};
use muster_wire::cell::{Attachment, Ingress, Neighbour, NetworkState};
use rustix::mount::{UnmountFlags, unmount};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tempfile::TempDir;

/// Time to wait for packets that should not arrive.
pub(crate) const SILENCE: Duration = Duration::from_millis(300);

/// A wire with nodes on it, and an outsider that is no node.
pub(crate) struct Ground {
    pub(crate) nodes: Vec<Node>,
    /// A namespace on the wire that is no node, at [`OUTSIDER`].
    pub(crate) outside: PathBuf,
    pub(crate) wire: PathBuf,
    env: Env,
    folder: TempDir,
}

/// Address of the outsider.
pub(crate) const OUTSIDER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 100);

/// A namespace that acts as a machine.
pub(crate) struct Node {
    pub(crate) settings: Settings,
    pub(crate) fabric: Fabric,
}

/// A process in a network namespace of its own.
pub(crate) struct Cell {
    pub(crate) id: CellId,
    pub(crate) name: String,
    pub(crate) address: Ipv4Addr,
    pub(crate) child: Child,
}

/// A test network.
#[derive(Clone)]
pub(crate) struct Net {
    pub(crate) id: NetworkId,
    pub(crate) vni: u32,
    pub(crate) third: u8,
}

impl Ground {
    /// Returns a wire with `nodes` nodes.
    pub(crate) fn new(nodes: u8) -> Self {
        assert!(
            rustix::process::geteuid().is_root(),
            "these tests make network namespaces: run them as root"
        );
        let folder = tempfile::tempdir().unwrap();
        let wire = namespace(folder.path(), "wire");
        run(&wire, "ip link add wire type bridge");
        run(&wire, "ip link set wire up");
        let outside = namespace(folder.path(), "outside");
        plug(&wire, &outside, "p100", OUTSIDER);
        let mut ground = Self { nodes: Vec::new(), outside, wire, env: Env::for_tests(7), folder };
        for number in 1..=nodes {
            let path = namespace(ground.folder.path(), &format!("node{number}"));
            let address = Ipv4Addr::new(192, 0, 2, number);
            plug(&ground.wire, &path, &format!("p{number}"), address);
            // All nodes share one folder for volatile state, like agents on one machine.
            let kept = ground.folder.path().join(format!("kept{number}"));
            let mut settings =
                Settings::new(ground.folder.path().join("run"), kept, &format!("k{number}"), address);
            settings.namespace = path;
            let fabric = Fabric::open(settings.clone()).unwrap();
            ground.nodes.push(Node { settings, fabric });
        }
        ground
    }

    pub(crate) fn id<T: TypedId>(&self) -> T {
        self.env.id()
    }

    /// Returns a network with addresses 10.64.`third`.0/24.
    pub(crate) fn net(&self, third: u8) -> Net {
        Net { id: self.id(), vni: 0x1000 + u32::from(third), third }
    }

    /// Starts a cell that is not attached yet. `options` are extra arguments of `unshare`.
    pub(crate) fn cell_as(&self, net: &Net, last: u8, options: &[&str]) -> Cell {
        let child = Command::new("unshare")
            .args(options)
            .args(["--net", "sleep", "300"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let address = Ipv4Addr::new(10, 64, net.third, last);
        let cell = Cell { id: self.id(), name: format!("c{last}"), address, child };
        eventually("the cell's process is there", || {
            fs::read_to_string(format!("/proc/{}/comm", cell.pid())).unwrap().trim() == "sleep"
        });
        cell
    }

    pub(crate) fn cell(&self, net: &Net, last: u8) -> Cell {
        self.cell_as(net, last, &[])
    }

    /// Applies the members of the networks on every node: each cell with the number of its node, from 0.
    pub(crate) fn tell(&self, networks: &[(&Net, &[(&Cell, usize)])]) {
        let states: Vec<NetworkState> = networks.iter().map(|(net, cells)| self.state(net, cells)).collect();
        for node in &self.nodes {
            node.fabric.apply(&states).unwrap();
        }
    }

    pub(crate) fn state(&self, net: &Net, cells: &[(&Cell, usize)]) -> NetworkState {
        let neighbour = |(cell, node): &(&Cell, usize)| Neighbour {
            cell_id: cell.id,
            name: cell.name.clone(),
            address: cell.address.to_string(),
            node_address: self.nodes[*node].settings.address.to_string(),
        };
        NetworkState {
            network_id: net.id,
            name: format!("net{}", net.third),
            vni: net.vni,
            subnet: net.subnet(),
            neighbours: cells.iter().map(neighbour).collect(),
        }
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        for node in &self.nodes {
            if let Err(error) = node.fabric.remove_all() {
                eprintln!("the networks of {} stay: {error}", node.settings.key);
            }
        }
        // Whatever failed, no mount is left.
        let own = self.folder.path().to_str().unwrap();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        for point in mounts.lines().filter_map(|line| line.split(' ').nth(4)).filter(|at| at.starts_with(own))
        {
            let _ = unmount(point, UnmountFlags::DETACH);
        }
    }
}

impl Node {
    /// Returns the namespace that acts as the machine.
    pub(crate) fn path(&self) -> &Path {
        &self.settings.namespace
    }

    /// Restarts the agent on the existing state.
    pub(crate) fn restart(&mut self) {
        self.fabric = Fabric::open(self.settings.clone()).unwrap();
    }

    /// Attaches a cell without egress and ingress.
    pub(crate) fn attach(&self, cell: &Cell, net: &Net) {
        self.attach_with(cell, net, false, &[]).unwrap();
    }

    pub(crate) fn attach_with(
        &self,
        cell: &Cell,
        net: &Net,
        egress: bool,
        ingress: &[Ingress],
    ) -> Result<(), NetworkError> {
        let attachment = net.attachment(cell.address);
        let attach = Attach { cell_id: cell.id, pid: cell.pid(), attachment: &attachment, egress, ingress };
        self.fabric.attach(&attach)
    }

    /// Returns the router namespace of a network.
    pub(crate) fn router(&self, net: &Net) -> PathBuf {
        self.settings.run.join("networks").join(format!("{}-{}", self.settings.key, net.vni))
    }

    /// Returns everything in the node's namespace and folders that could change: links, addresses, routes, rules, settings,
    /// namespaces and records.
    pub(crate) fn snapshot(&self) -> String {
        let mut text = String::new();
        for command in ["ip -br link", "ip -4 addr", "ip -4 route show table all", "nft list ruleset"] {
            text += &format!("# {command}\n{}", run(self.path(), command));
        }
        text += &inside(self.path(), || {
            let conf = fs::read_dir("/proc/sys/net/ipv4/conf").unwrap();
            let mut keys: Vec<PathBuf> = conf.map(|entry| entry.unwrap().path().join("forwarding")).collect();
            keys.push("/proc/sys/net/ipv4/conf/all/accept_redirects".into());
            keys.sort();
            let value = |key: &PathBuf| format!("{}={}", key.display(), fs::read_to_string(key).unwrap());
            keys.iter().map(value).collect::<String>()
        });
        let (run, key) = (self.settings.run.to_str().unwrap(), format!("/{}-", self.settings.key));
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        for line in mounts.lines().filter(|line| line.contains(run) && line.contains(&key)) {
            text += &format!("{line}\n");
        }
        for part in ["networks", "cells"] {
            for entry in fs::read_dir(self.settings.folder.join(part)).unwrap() {
                text += &format!("{}\n", entry.unwrap().path().display());
            }
        }
        text
    }
}

impl Net {
    pub(crate) fn subnet(&self) -> String {
        format!("10.64.{}.0/24", self.third)
    }

    pub(crate) fn gateway(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 64, self.third, 1)
    }

    pub(crate) fn attachment(&self, address: Ipv4Addr) -> Attachment {
        Attachment { network_id: self.id, vni: self.vni, subnet: self.subnet(), address: address.to_string() }
    }
}

impl Cell {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/ns/net", self.pid()))
    }

    /// Reports whether an address answers a ping from this cell within a second.
    pub(crate) fn pings(&self, address: Ipv4Addr) -> bool {
        pings(&self.path(), address)
    }

    /// Reports whether an address does not answer a ping from this cell.
    pub(crate) fn misses(&self, address: Ipv4Addr) -> bool {
        try_run(&self.path(), &format!("ping -c 2 -i 0.1 -W 0.3 {address}")).is_err()
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs `work` in a network namespace; sockets created there stay there.
pub(crate) fn inside<T: Send>(path: &Path, work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let joined = scope.spawn(|| {
            let file = File::open(path).unwrap();
            move_into_link_name_space(std::os::fd::AsFd::as_fd(&file), Some(LinkNameSpaceType::Network))
                .unwrap();
            work()
        });
        joined.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// Runs a command in a namespace; the error is its output.
pub(crate) fn try_run(path: &Path, command: &str) -> Result<String, String> {
    let mut words = command.split_whitespace();
    let mut command = Command::new(words.next().unwrap());
    command.args(words).stdin(Stdio::null());
    let output = inside(path, || command.output().unwrap());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

pub(crate) fn run(path: &Path, command: &str) -> String {
    try_run(path, command).unwrap_or_else(|said| panic!("{command}: {said}"))
}

/// Changes a setting under `/proc/sys/net/ipv4`, in a namespace.
pub(crate) fn set(path: &Path, key: &str, value: &str) {
    inside(path, || fs::write(Path::new("/proc/sys/net/ipv4").join(key), value).unwrap());
}

/// Returns a setting under `/proc/sys/net/ipv4`, in a namespace.
pub(crate) fn setting(path: &Path, key: &str) -> String {
    let text = inside(path, || fs::read_to_string(Path::new("/proc/sys/net/ipv4").join(key)).unwrap());
    text.trim().to_owned()
}

/// Loads rules in a namespace.
pub(crate) fn nft(path: &Path, rules: &str) {
    let output = inside(path, || Command::new("nft").arg(rules).output().unwrap());
    assert!(output.status.success(), "{rules}: {}", String::from_utf8_lossy(&output.stderr));
}

pub(crate) fn pings(path: &Path, address: Ipv4Addr) -> bool {
    try_run(path, &format!("ping -c 1 -W 1 {address}")).is_ok()
}

/// Listens for connections. The kernel completes them without an accept.
pub(crate) fn listen(path: &Path, port: u16) -> TcpListener {
    inside(path, || TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).unwrap())
}

/// Reports whether a connection succeeds.
pub(crate) fn connects(path: &Path, address: Ipv4Addr, port: u16) -> bool {
    let address = SocketAddr::from((address, port));
    inside(path, || TcpStream::connect_timeout(&address, Duration::from_millis(700)).is_ok())
}

/// Listens for datagrams.
pub(crate) fn receiver(path: &Path, port: u16) -> UdpSocket {
    let socket = inside(path, || UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).unwrap());
    socket.set_read_timeout(Some(SILENCE)).unwrap();
    socket
}

/// Sends a datagram, and reports whether it arrived.
pub(crate) fn arrives(from: &Path, address: Ipv4Addr, port: u16, at: &UdpSocket, datagram: &[u8]) -> bool {
    let sent = inside(from, || {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        socket.send_to(datagram, (address, port))
    });
    sent.is_ok() && at.recv(&mut [0; 2048]).is_ok()
}

pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(10), "it did not come to pass that {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn namespace(folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(name);
    File::create(&path).unwrap();
    let made = Command::new("unshare").arg(format!("--net={}", path.display())).arg("true").status().unwrap();
    assert!(made.success(), "a network namespace could not be made");
    run(&path, "ip link set lo up");
    path
}

/// Connects a namespace to the wire.
fn plug(wire: &Path, to: &Path, port: &str, address: Ipv4Addr) {
    run(wire, &format!("ip link add {port} type veth peer name wire0 netns {}", to.display()));
    run(wire, &format!("ip link set {port} master wire up"));
    run(to, &format!("ip addr add {address}/24 dev wire0"));
    run(to, "ip link set wire0 up");
}
