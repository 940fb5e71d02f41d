//! A complete image, unpacked into one folder.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::building::Building;
use crate::document::Plan;
use crate::layer::{self, Allowance, Used};
use crate::{Error, Footprint, Limits, Shortage, Source};

/// Contents of an image that a node does not unpack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Device nodes: a cell gets only the devices that it claimed.
    pub devices: u64,
    /// Named pipes.
    pub fifos: u64,
    /// Extended attributes other than `user.*`, or too large for the node's file system.
    pub attributes: u64,
}

/// Applies all layers in a folder, which must not exist yet.
pub(crate) fn unpack(
    source: &Source,
    plan: &Plan,
    root: &Path,
    limits: &Limits,
    allowance: Option<Allowance<'_>>,
) -> Result<(LeftOut, Footprint), Error> {
    fs::create_dir(root).map_err(Error::at("make", root))?;
    fs::set_permissions(root, fs::Permissions::from_mode(0o755)).map_err(Error::at("unpack", root))?;
    let mut building = Building::open(root, limits).map_err(Error::at("open", root))?;
    let mut used = Used { allowance, ..Used::default() };
    for (index, layer) in plan.layers.iter().enumerate() {
        layer::apply(source, layer, index + 1, Some(&mut building), &mut used, limits)?;
    }
    let left_out = building.finish().map_err(Error::at("finish", root))?;
    if left_out != LeftOut::default() {
        tracing::info!(manifest = %plan.manifest, ?left_out, "parts of an image were left out");
    }
    Ok((left_out, used.footprint))
}

/// Returns the disk usage of the image, or a part of it above `most`. Nothing is written.
pub(crate) fn measure(
    source: &Source,
    plan: &Plan,
    most: Footprint,
    limits: &Limits,
) -> Result<Footprint, Error> {
    let mut used = Used { most: Some(most), ..Used::default() };
    for (index, layer) in plan.layers.iter().enumerate() {
        match layer::apply(source, layer, index + 1, None, &mut used, limits) {
            Err(Error::Node { error, .. }) if Shortage::of(&error).is_some() => break,
            counted => counted?,
        }
    }
    Ok(used.footprint)
}
