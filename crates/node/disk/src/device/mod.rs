//! Memory of a device, between two tenants.
//!
//! All memory that the driver provides is allocated, overwritten, read back and freed. A small rest belongs to the driver
//! and to this process, and is reported as such. A wipe is never assumed: without a driver, with memory held by another
//! process, or if one byte reads back differently, the result is [`Unproven`].

mod driver;

use std::fmt;

use serde::Serialize;

use driver::{Block, Context, Driver};

/// Largest and smallest block requested: the driver's allocation sizes.
const LARGEST: u64 = 1 << 30;
const SMALLEST: u64 = 2 << 20;
/// Read size.
const CHUNK: usize = 64 << 20;
/// Consecutive bytes that distinguish a canary from chance.
const GRAIN: usize = 16;
/// Pattern written before the zeros, so that the zeros are known to be ours.
const MARK: u32 = 0x5aa5_c33c;

/// Reason why a device's memory is not proved clean.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Unproven(pub String);

impl fmt::Display for Unproven {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unproven: {}", self.0)
    }
}

/// Result of a verified wipe of a device's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Wiped {
    /// Bytes overwritten, and all read back as zero.
    pub bytes: u64,
    /// How many the device has.
    pub of_total: u64,
    /// Bytes that could not be reached: the driver's own, and those this process needs to use the device.
    pub left_unreached: u64,
}

/// Result of a search through a device's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Found {
    /// Bytes of the pattern found.
    pub bytes: u64,
    /// Bytes searched.
    pub searched: u64,
    /// How many the device has.
    pub of_total: u64,
}

/// Overwrites a device's memory and reads it back. The device must be unused: memory that another process holds cannot be
/// reached, and then nothing is proved.
pub fn wipe(uuid: &str) -> Result<Wiped, Unproven> {
    let driver = Driver::load()?;
    let context = driver.context(uuid)?;
    let (_, of_total) = context.free_and_total()?;
    let blocks = all_of(&context)?;
    let bytes: u64 = blocks.iter().map(Block::bytes).sum();
    let left_unreached = of_total.saturating_sub(bytes);
    if left_unreached > tolerated(of_total) {
        let why = format!(
            "of {of_total} bytes {left_unreached} could not be reached: another process holds memory of {uuid}"
        );
        return Err(Unproven(why));
    }
    for block in &blocks {
        context.fill(block, MARK)?;
    }
    context.settle()?;
    let mut buffer = vec![0; CHUNK];
    // The ends of each block are enough to verify that writes arrive at all.
    for block in &blocks {
        for offset in [0, block.bytes() - GRAIN as u64] {
            context.read(block, offset, &mut buffer[..GRAIN])?;
            if buffer[..GRAIN] != MARK.to_ne_bytes().repeat(GRAIN / 4) {
                let why = format!("data written to {uuid} does not read back");
                return Err(Unproven(why));
            }
        }
    }
    for block in &blocks {
        context.fill(block, 0)?;
    }
    context.settle()?;
    let zeros = vec![0; CHUNK];
    for block in &blocks {
        read_all(&context, block, &mut buffer, |chunk| {
            if *chunk == zeros[..chunk.len()] { Ok(()) } else { Err(dirty(uuid)) }
        })?;
    }
    Ok(Wiped { bytes, of_total, left_unreached })
}

/// Fills a device's memory with a pattern and frees it, like a tenant that shares a process with the next one. For proofs;
/// returns the number of bytes. A driver may clear memory between processes, but need not within one.
pub fn leave(uuid: &str, pattern: u32) -> Result<u64, Unproven> {
    let driver = Driver::load()?;
    let context = driver.context(uuid)?;
    Ok(filled(&context, pattern)?.iter().map(Block::bytes).sum())
}

fn filled<'c>(context: &'c Context<'_>, pattern: u32) -> Result<Vec<Block<'c>>, Unproven> {
    let blocks = all_of(context)?;
    for block in &blocks {
        context.fill(block, pattern)?;
    }
    context.settle()?;
    Ok(blocks)
}

/// Fills a device's memory with a pattern without freeing it, like a killed tenant. For proofs; returns the number of bytes.
/// The process must end afterwards: until then it holds the memory.
pub fn plant(uuid: &str, pattern: u32) -> Result<u64, Unproven> {
    let driver = Driver::load()?;
    let context = driver.context(uuid)?;
    let blocks = filled(&context, pattern)?;
    let bytes = blocks.iter().map(Block::bytes).sum();
    blocks.into_iter().for_each(std::mem::forget);
    std::mem::forget(context);
    std::mem::forget(driver);
    Ok(bytes)
}

/// Searches a device's memory for a pattern, as the next tenant could. For proofs.
pub fn search(uuid: &str, pattern: u32) -> Result<Found, Unproven> {
    let driver = Driver::load()?;
    let context = driver.context(uuid)?;
    let (_, of_total) = context.free_and_total()?;
    let mut buffer = vec![0; CHUNK];
    let zeros = vec![0; CHUNK];
    let grain = pattern.to_ne_bytes().repeat(GRAIN / 4);
    let full = pattern.to_ne_bytes().repeat(CHUNK / 4);
    let (mut bytes, mut searched) = (0, 0);
    for block in &all_of(&context)? {
        searched += block.bytes();
        read_all(&context, block, &mut buffer, |chunk| {
            if *chunk == full[..chunk.len()] {
                bytes += chunk.len() as u64;
            } else if *chunk != zeros[..chunk.len()] {
                let grains = chunk.chunks_exact(GRAIN).filter(|found| *found == grain).count();
                bytes += (grains * GRAIN) as u64;
            }
            Ok(())
        })?;
    }
    Ok(Found { bytes, searched, of_total })
}

/// Allocates all memory: in large blocks, then in smaller and smaller ones.
fn all_of<'a>(context: &'a Context<'_>) -> Result<Vec<Block<'a>>, Unproven> {
    let mut blocks = Vec::new();
    let mut size = LARGEST;
    while size >= SMALLEST {
        match context.allocate(size)? {
            Some(block) => blocks.push(block),
            None => size /= 2,
        }
    }
    Ok(blocks)
}

fn read_all(
    context: &Context<'_>,
    block: &Block<'_>,
    buffer: &mut [u8],
    mut see: impl FnMut(&[u8]) -> Result<(), Unproven>,
) -> Result<(), Unproven> {
    let mut offset = 0;
    while offset < block.bytes() {
        let length = (block.bytes() - offset).min(buffer.len() as u64);
        let chunk = &mut buffer[..usize::try_from(length).unwrap_or(CHUNK)];
        context.read(block, offset, chunk)?;
        see(chunk)?;
        offset += length;
    }
    Ok(())
}

/// Returns the memory that a driver and an idle process hold on a device: half a GiB, and a fiftieth of the total.
fn tolerated(total: u64) -> u64 {
    (512 << 20) + total / 50
}

fn dirty(uuid: &str) -> Unproven {
    Unproven(format!("memory of {uuid} does not read as zero after it was overwritten with zeros"))
}
