//! Probes a service for readiness, from inside its cell.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use muster_wire::cell::{Probe, ProbeBy, Service};
use rustix::thread::LinkNameSpaceType;

use crate::bundle::Started;
use crate::exec::{Runner, Streams};
use crate::process::{self, Process};
use crate::record::Record;

/// One probe of one service.
pub(crate) struct Question {
    pub(crate) probe: Probe,
    pub(crate) init: Process,
    pub(crate) runner: Runner,
    pub(crate) record: Record,
    pub(crate) service: Service,
}

impl Question {
    /// Runs the probe, and returns the reason of a failure. Needs a thread of its own, which moves into the cell's network.
    pub(crate) fn ask(&self) -> Result<(), String> {
        let patience = Duration::from_secs(u64::from(self.probe.timeout_seconds.max(1)));
        match &self.probe.by {
            ProbeBy::Command(arguments) => self.run(arguments, patience),
            ProbeBy::Tcp(port) => self.connect(*port, patience).map(drop),
            ProbeBy::Http { port, path } => {
                let stream = self.connect(*port, patience)?;
                get(stream, path, patience)
            }
        }
    }

    fn run(&self, arguments: &[String], patience: Duration) -> Result<(), String> {
        let started = Started {
            arguments,
            uid: self.service.uid,
            gid: self.service.gid,
            environment: Some(&self.service.environment),
            working_directory: self.service.working_directory.as_deref(),
            terminal: false,
        };
        let mut attached = self
            .runner
            .attach(&self.record, &started, Streams::Nowhere)
            .map_err(|error| error.to_string())?;
        let since = Instant::now();
        loop {
            match attached.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(format!("its probe ended with {status}")),
                Ok(None) if since.elapsed() < patience => std::thread::sleep(Duration::from_millis(10)),
                Ok(None) => {
                    attached.kill();
                    return Err(format!("its probe timed out after {} seconds", patience.as_secs()));
                }
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    fn connect(&self, port: u16, patience: Duration) -> Result<TcpStream, String> {
        self.enter_network()
            .map_err(|error| format!("the network of the cell cannot be entered: {error}"))?;
        let mut last = String::new();
        // Loopback first: it reaches most services, and needs no network.
        for address in addresses() {
            match TcpStream::connect_timeout(&SocketAddr::new(address, port), patience) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = format!("port {port} at {address}: {error}"),
            }
        }
        Err(last)
    }

    fn enter_network(&self) -> std::io::Result<()> {
        let namespace = File::open(format!("/proc/{}/ns/net", self.init.pid))?;
        // Verified after opening: it is the cell's if the number is the recorded one.
        let ours = self.record.namespaces.get("net").copied();
        if ours.is_none() || process::namespace(self.init.pid, "net") != ours {
            return Err(std::io::Error::other("the cell is gone"));
        }
        rustix::thread::move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
        Ok(())
    }
}

/// Returns the addresses of this thread's network, loopback first.
fn addresses() -> Vec<IpAddr> {
    let trie = fs::read_to_string("/proc/thread-self/net/fib_trie").unwrap_or_default();
    let mut all = vec![IpAddr::V4(Ipv4Addr::LOCALHOST)];
    all.extend(local_addresses(&trie));
    all
}

/// Returns the local addresses in the kernel's routing table, without loopback.
fn local_addresses(trie: &str) -> Vec<IpAddr> {
    let mut found: Vec<IpAddr> = Vec::new();
    let mut last = None;
    for line in trie.lines() {
        let line = line.trim();
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse::<Ipv4Addr>().ok();
        } else if line.starts_with("/32 host LOCAL")
            && let Some(address) = last.filter(|address| !address.is_loopback()).map(IpAddr::V4)
            && !found.contains(&address)
        {
            found.push(address);
        }
    }
    found
}

/// Sends a GET request. The path was validated to have neither blanks nor line ends.
fn get(mut stream: TcpStream, path: &str, patience: Duration) -> Result<(), String> {
    let ask = || -> std::io::Result<String> {
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut head = Vec::new();
        while head.len() < 64 && !head.contains(&b'\n') {
            let mut part = [0; 64];
            match stream.read(&mut part)? {
                0 => break,
                read => head.extend_from_slice(&part[..read]),
            }
        }
        Ok(String::from_utf8_lossy(&head).into_owned())
    };
    let mut ask = ask;
    let head = ask().map_err(|error| format!("GET {path}: {error}"))?;
    match head.split(' ').nth(1).and_then(|code| code.get(..3)?.parse::<u16>().ok()) {
        Some(200..=399) if head.starts_with("HTTP/") => Ok(()),
        Some(code) => Err(format!("GET {path} returned {code}")),
        None => Err(format!("GET {path} returned no HTTP response")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_of_a_host_are_read_from_its_routes() {
        let trie = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 10.1.0.0\n        /16 link UNICAST\n     |-- 10.1.0.7\n        /32 host LOCAL\n\
                    Local:\n     |-- 127.0.0.1\n        /32 host LOCAL\n     |-- 10.1.0.7\n        /32 host LOCAL\n";
        assert_eq!(local_addresses(trie), vec!["10.1.0.7".parse::<IpAddr>().unwrap()]);
    }
}
