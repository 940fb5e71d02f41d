//! Cells: an image or directories of the node, a network, and services.

use std::time::{Duration, Instant};

use muster_cell::{CellError, DestroyOptions, LogLine, Make, RootSource, Secret, Stream};
use muster_ids::{AllocationId, CellId};
use muster_image::{Digest, Error, Source};
use muster_network::Attach;
use muster_wire::act::{CellCreate, CellTarget, ImagePull};
use muster_wire::cell::{CellFindings, CellRef, CellSpec, Root, ServiceState};
use muster_wire::task::{Findings, KeptLog, Refusal, SandboxRef};

use super::sandbox::disk_id;
use super::{Done, Driver, said};
use crate::driver::{ImageOwner, Undone};
use crate::provide::Given;

/// Timeout of an inspection for a cell to become ready; a ready cell is answered at once.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(20);
/// Log bytes of each service kept when its cell is destroyed.
const KEPT: usize = 128 * 1024;
/// Log bytes of all services of an allocation together: the size of a report is limited.
const KEPT_IN_ALL: usize = 1024 * 1024;
/// A log this close to the limit counts as truncated.
const SLACK: usize = 8 * 1024;

impl Driver {
    /// Returns the cells of an allocation.
    pub(super) fn cells_of(&self, allocation: AllocationId) -> Done<Vec<CellRef>> {
        let cells = self.cells.list().map_err(said)?;
        Ok(cells.into_iter().filter(|cell| cell.allocation_id == allocation).collect())
    }

    pub(super) fn cell_create(
        &self,
        place: &SandboxRef,
        act: &CellCreate,
        given: &Result<Given, Undone>,
    ) -> Result<Findings, Undone> {
        let CellTarget { cell_id, incarnation, .. } = act.cell;
        if let Some(there) = self.there(cell_id)?.filter(|there| *there != incarnation) {
            return Err(format!("incarnation {there} still exists").into());
        }
        // A running cell was created completely, with all of its content.
        if self.cells.runs(cell_id).map_err(said)? != Some(incarnation) {
            // The same incarnation may be partially created: every step is idempotent.
            let made = given.as_ref().map_err(Undone::clone).and_then(|given| self.make(place, act, given));
            if let Err(undone) = made {
                // A definite failure must leave nothing behind.
                self.tear_down(cell_id, true)?;
                return Err(undone);
            }
        }
        self.cells.supervise(self.env.now());
        Ok(Findings { cell: Some(self.look(cell_id)?), ..Findings::default() })
    }

    /// Unpacks the image of a cell that is created later. Running cells are not affected.
    pub(super) fn image_pull(
        &self,
        act: &ImagePull,
        given: &Result<Given, Undone>,
    ) -> Result<Findings, Undone> {
        let given = given.as_ref().map_err(Undone::clone)?;
        let _hold = self.hold_root(&act.root);
        self.root(&act.root, given, ImageOwner::of(act.allocation, act.exclusive))?;
        Ok(Findings::default())
    }

    fn make(&self, place: &SandboxRef, act: &CellCreate, given: &Given) -> Result<(), Undone> {
        let (cell_id, spec) = (act.cell.cell_id, &act.spec);
        let _hold = self.hold_root(&spec.root);
        let devices = self.devices_for(place, spec).map_err(unsupported)?;
        let disk = disk_id(place.allocation_id)?;
        self.disks.repair(&disk).map_err(said)?;
        // Without the mount there is only an empty folder, and the cell's writes would fill the node's memory.
        if !self.disks.look(&disk).map_err(said)?.is_some_and(|look| look.mounted) {
            return Err("the disk of its allocation is not mounted: restart the allocation"
                .to_owned()
                .into());
        }
        let storage = self.disks.mount_point(&disk);
        let network = act.attachment.as_ref();
        let hosts =
            network.map(|attachment| self.fabric.hosts(attachment.network_id)).transpose().map_err(said)?;
        let hosts = hosts.flatten().unwrap_or_else(|| hosts_of_one(act));
        let secrets: Vec<Secret<'_>> = given.secrets.iter().map(|told| told.for_cell()).collect();
        let made = self
            .cells
            .make(&Make {
                cell_id,
                allocation_id: place.allocation_id,
                incarnation: act.cell.incarnation,
                name: &act.name,
                spec,
                root: self.root(&spec.root, given, ImageOwner::of(act.allocation, act.exclusive))?,
                storage: &storage,
                share: self.share_for(act)?,
                devices,
                hosts: &hosts,
                secrets: &secrets,
            })
            .map_err(|error| match error {
                CellError::Refused(why) => unsupported(why),
                error => said(error).into(),
            })?;
        if let Some(attachment) = network {
            let attach =
                Attach { cell_id, pid: made.pid, attachment, egress: spec.egress, ingress: &spec.ingress };
            self.fabric.attach(&attach).map_err(said)?;
        }
        let desired = self.desired.lock().clone();
        self.introduce(cell_id, &desired)?;
        Ok(self.cells.start(cell_id).map_err(said)?)
    }

    /// Returns the incarnation of a cell on the node.
    fn there(&self, cell: CellId) -> Done<Option<i64>> {
        let cells = self.cells.list().map_err(said)?;
        Ok(cells.into_iter().find(|place| place.cell_id == cell).map(|place| place.incarnation))
    }

    fn root(&self, root: &Root, given: &Given, owner: ImageOwner) -> Result<RootSource, Undone> {
        match root {
            Root::Image(digest) => {
                let digest: Digest = digest.parse().map_err(said)?;
                let pulled = given.image.as_ref();
                // An unpacked image may be another project's; only the operator's images are available to all projects. An
                // agent without --images has none, and the error is the same: the user can push an image, but not restart
                // the agent.
                let images = self.settings.images.as_deref();
                let of_operator =
                    images.filter(|layout| layout.join("blobs/sha256").join(digest.hex()).is_file());
                let layout = pulled.map(|pulled| pulled.layout()).or(of_operator).ok_or_else(|| {
                    unsupported(format!(
                        "neither the project's registry nor the node's operator has {digest}: push it to a repository of the project"
                    ))
                })?;
                let source = Source::Layout(layout.to_owned());
                let unpacked = self.unpack_image(&source, &digest, owner);
                // Layers of an image that does not fit would only keep the disk full.
                let no_room = |undone: &Undone| undone.refusal == Some(Refusal::ArtifactPull);
                if let Some(pulled) = pulled.filter(|_| unpacked.as_ref().err().is_none_or(no_room)) {
                    pulled.unpacked();
                }
                let image = unpacked?;
                let working_directory =
                    Some(image.config.working_dir).filter(|directory| !directory.is_empty());
                let (folder, environment) = (image.rootfs, image.config.env);
                Ok(RootSource::Image { folder, environment, working_directory })
            }
            Root::Host(wanted) => {
                let allowed = &self.settings.host_directories;
                if let Some(refused) = wanted.iter().find(|directory| !allowed.contains(directory)) {
                    let allowed = if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") };
                    let why =
                        format!("cells may not have {refused} of this node; its operator allows: {allowed}");
                    return Err(unsupported(why));
                }
                Ok(RootSource::Host { directories: wanted.iter().map(Into::into).collect() })
            }
        }
    }

    /// Returns the device nodes of a cell: of all GPUs of its allocation, or of those that it names.
    fn devices_for(&self, place: &SandboxRef, spec: &CellSpec) -> Done<Vec<muster_cell::Device>> {
        let held = self.sandboxes.lock();
        let kept = held
            .get(place.allocation_id)
            .ok_or_else(|| "the sandbox of its allocation does not exist".to_owned())?;
        let all: Vec<String> = kept.devices.iter().cloned().collect();
        drop(held);
        let chosen = match &spec.gpus {
            None => all,
            Some(wanted) => wanted
                .iter()
                .map(|index| {
                    all.get(*index as usize)
                        .cloned()
                        .ok_or_else(|| format!("its allocation has no GPU {index}"))
                })
                .collect::<Done<_>>()?,
        };
        self.settings.device_nodes(&chosen)
    }

    /// Inspects a cell, and briefly waits for services that are not ready.
    pub(super) fn cell_inspect(&self, cell_id: CellId) -> Done<Findings> {
        let began = Instant::now();
        loop {
            let found = self.cells.look(cell_id).map_err(said)?;
            let waits = found.services.iter().any(|service| match service.state {
                ServiceState::Running => !service.ready,
                ServiceState::Ended | ServiceState::Idle => false,
                ServiceState::Waiting | ServiceState::Restarting => true,
            });
            if !found.present || !waits || began.elapsed() > PATIENCE {
                return Ok(Findings { cell: Some(self.look(cell_id)?), ..Findings::default() });
            }
            std::thread::sleep(PAUSE);
            self.cells.supervise(self.env.now());
        }
    }

    pub(super) fn look(&self, cell: CellId) -> Done<CellFindings> {
        let mut found = self.cells.look(cell).map_err(said)?;
        if found.present {
            let seen = self.fabric.look(cell, found.pid).map_err(said)?;
            found.address = seen.and_then(|seen| seen.address).map(|address| address.to_string());
            return Ok(found);
        }
        found.left.extend(self.fabric.leftovers(cell).map_err(said)?);
        found.checked.push("links, forwarding entries, rules and records of networks".to_owned());
        Ok(found)
    }

    pub(super) fn cell_destroy(&self, cell_id: CellId, incarnation: i64, keep_state: bool) -> Done<Findings> {
        if let Some(there) = self.there(cell_id)?.filter(|there| *there > incarnation) {
            return Err(format!("it has incarnation {there}"));
        }
        self.tear_down(cell_id, keep_state)?;
        Ok(Findings { cell: Some(self.look(cell_id)?), ..Findings::default() })
    }

    /// Stops and destroys a cell, with its state directories unless `keep_state` is set.
    pub(super) fn tear_down(&self, cell: CellId, keep_state: bool) -> Done<()> {
        let image = self.image_of(cell);
        let destroy = || self.cells.destroy(cell, DestroyOptions { keep_state });
        match destroy() {
            // A disk error made the file system read-only, so the files could not be removed. No process of the cell uses
            // the disk any more.
            Err(error) if error.is_read_only() => {
                for disk in self.disks.read_only().map_err(said)? {
                    self.disks.repair(&disk).map_err(|why| format!("{error}; {why}"))?;
                }
                destroy().map_err(said)?;
            }
            ended => ended.map_err(said)?,
        }
        if let Some(image) = image {
            self.mark_image_used(&image);
        }
        self.clear_aside();
        self.fabric.detach(cell).map_err(said)
    }

    pub(super) fn keep_logs(&self, allocation: AllocationId, only: Option<CellTarget>) -> Done<Findings> {
        let mut logs = Vec::new();
        for cell in self.cells_of(allocation)? {
            if only.is_some_and(|only| only.cell_id != cell.cell_id) {
                continue;
            }
            for (service, lines) in self.cells.logs_keep(cell.cell_id, KEPT).map_err(said)? {
                let whole: String = lines.iter().map(line).collect();
                // A line with its timestamp is longer than the original, and all lines go into one report.
                let most = KEPT
                    .min(KEPT_IN_ALL.saturating_sub(logs.iter().map(|log: &KeptLog| log.text.len()).sum()));
                let text = last(&whole, most).to_owned();
                let truncated = text.len() < whole.len() || whole.len() + SLACK > KEPT;
                logs.push(KeptLog { cell_id: cell.cell_id, service, text, truncated });
            }
        }
        Ok(Findings { logs, ..Findings::default() })
    }
}

/// Maps an image error to a failure, with a reason code if the protocol has one.
pub(super) fn unusable(error: Error) -> Undone {
    match error {
        Error::Changed { .. } | Error::Damaged { .. } => Undone::because(Refusal::ArtifactDamaged, error),
        Error::NoRoom { .. } | Error::OverBudget { .. } => Undone::because(Refusal::ArtifactPull, error),
        error => said(error).into(),
    }
}

/// Returns a failure that a retry cannot change.
fn unsupported(why: String) -> Undone {
    Undone::because(Refusal::Unsupported, why)
}

/// Returns the last complete lines of a text, at most `most` bytes.
fn last(text: &str, most: usize) -> &str {
    let mut from = text.len().saturating_sub(most);
    if from == 0 {
        return text;
    }
    while !text.is_char_boundary(from) {
        from += 1;
    }
    text[from..].split_once('\n').map_or("", |(_, rest)| rest)
}

/// Formats a log line for display.
pub(super) fn line(line: &LogLine) -> String {
    let stream = match line.stream {
        Stream::Out => "stdout",
        Stream::Err => "stderr",
    };
    format!("{} {stream} {}\n", line.at, line.text)
}

/// Returns the hosts file of a cell before its network is known.
fn hosts_of_one(act: &CellCreate) -> String {
    let address = act.attachment.as_ref().map_or("127.0.1.1", |attachment| attachment.address.as_str());
    format!("127.0.0.1 localhost\n{address} {}\n", act.name)
}
