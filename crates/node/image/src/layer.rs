//! One layer: verified against its digests, unpacked, and applied to the root.

use std::fmt;
use std::io::{self, BufReader, Read};

use flate2::bufread::MultiGzDecoder;

use crate::building::Building;
use crate::digest::Metered;
use crate::document::{Format, Layer};
use crate::error::refused;
use crate::limits::Footprint;
use crate::member::{Kind, Members};
use crate::name::{Asked, Name, shown};
use crate::room::ENTRY;
use crate::source::verify;
use crate::zstd::Frames;
use crate::{Digest, Error, Limits, Shortage, Source};

/// Usage of an image against its limits so far.
#[derive(Default)]
pub(crate) struct Used<'a> {
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
    /// Upper estimate of its disk usage: replaced and hidden files count too.
    pub(crate) footprint: Footprint,
    /// Footprint at which measuring stops; none while unpacking, where the disk itself decides.
    pub(crate) most: Option<Footprint>,
    /// Asked before each member is unpacked.
    pub(crate) allowance: Option<Allowance<'a>>,
}

/// Decides whether an image may use this much.
pub(crate) type Allowance<'a> = &'a dyn Fn(Footprint) -> Result<(), Shortage>;

impl Used<'_> {
    /// Counts a member.
    fn count(&mut self, kind: &Kind) -> io::Result<()> {
        let content = if let Kind::File { size } = kind { size.next_multiple_of(ENTRY) } else { 0 };
        self.entries += 1;
        self.footprint.files += 1;
        self.footprint.bytes = self.footprint.bytes.saturating_add(ENTRY).saturating_add(content);
        match self.most {
            Some(most) if self.footprint.bytes > most.bytes || self.footprint.files > most.files => {
                let (free, needed) = (most.bytes, self.footprint.bytes);
                Err(io::Error::new(io::ErrorKind::StorageFull, Shortage::Space { free, reserve: 0, needed }))
            }
            _ => match self.allowance.map(|ask| ask(self.footprint)) {
                Some(Err(short)) => Err(io::Error::new(io::ErrorKind::StorageFull, short)),
                _ => Ok(()),
            },
        }
    }
}

/// Position of an error in a layer.
enum At {
    Beginning,
    Member(Vec<u8>),
    After(Vec<u8>),
    End,
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Beginning => f.write_str("at its beginning"),
            Self::Member(name) => write!(f, "member {}", shown(name)),
            Self::After(name) => write!(f, "after member {}", shown(name)),
            Self::End => f.write_str("at its end"),
        }
    }
}

/// Applies the layer to the root, or only counts its content. `number` is its place in the manifest, from 1.
pub(crate) fn apply(
    source: &Source,
    layer: &Layer,
    number: usize,
    building: Option<&mut Building>,
    used: &mut Used<'_>,
    limits: &Limits,
) -> Result<(), Error> {
    let longer = format!("it is longer than the {} bytes of its descriptor", layer.size);
    let mut packed = Metered::new(source.open(&layer.blob)?, layer.size, longer);
    let unpacked = unpack(&mut packed, layer.format, building, used, limits);
    // Whatever the members were: a mismatched blob is the error to report.
    match io::copy(&mut packed, &mut io::sink()) {
        Ok(_) => {
            let (length, found) = packed.finish();
            verify(&layer.blob, Some(layer.size), length, &found)?;
        }
        Err(error) if error.raw_os_error().is_none() => {
            return Err(Error::Damaged { blob: layer.blob, why: error.to_string() });
        }
        Err(error) => return Err(Error::node(format!("read {}", layer.blob))(error)),
    }
    let refusal = |at: At, why: String| Error::Refused {
        layer: number,
        digest: layer.blob,
        member: at.to_string(),
        why,
    };
    match unpacked {
        Ok(diff_id) if diff_id == layer.diff_id => Ok(()),
        Ok(diff_id) => {
            let why = format!("unpacked it is {diff_id}, but {} in the configuration", layer.diff_id);
            Err(refusal(At::End, why))
        }
        Err((at, error)) if error.raw_os_error().is_none() && Shortage::of(&error).is_none() => {
            Err(refusal(at, error.to_string()))
        }
        Err((at, error)) => Err(Error::node(format!("unpack layer {number} ({}), {at}", layer.blob))(error)),
    }
}

/// Unpacks the layer to its end and returns the digest of its content.
fn unpack(
    packed: &mut impl Read,
    format: Format,
    mut building: Option<&mut Building>,
    used: &mut Used<'_>,
    limits: &Limits,
) -> Result<Digest, (At, io::Error)> {
    let packed = BufReader::with_capacity(128 << 10, packed);
    let plain: Box<dyn Read + '_> = match format {
        Format::Tar => Box::new(packed),
        Format::Gzip => Box::new(MultiGzDecoder::new(packed)),
        Format::Zstd => Box::new(Frames::new(packed)),
    };
    let left = limits.bytes.saturating_sub(used.bytes);
    let beyond = format!("the image is larger than {} bytes, the limit", limits.bytes);
    let mut plain = Metered::new(plain, left, beyond);
    if let Some(building) = &mut building {
        building.begin_layer();
    }
    let mut at = At::Beginning;
    lay(&mut BufReader::with_capacity(128 << 10, &mut plain), left, building, used, limits, &mut at)
        .map_err(|error| (at, error))?;
    io::copy(&mut plain, &mut io::sink()).map_err(|error| (At::End, error))?;
    let (bytes, diff_id) = plain.finish();
    used.bytes += bytes;
    Ok(diff_id)
}

fn lay(
    plain: &mut impl Read,
    left: u64,
    mut building: Option<&mut Building>,
    used: &mut Used<'_>,
    limits: &Limits,
    at: &mut At,
) -> io::Result<()> {
    let mut members = Members::new(plain);
    while let Some(member) = members.next()? {
        *at = At::Member(member.name.clone());
        if used.entries >= limits.entries {
            return Err(refused(format!("the image has more than {} members", limits.entries)));
        }
        if let Kind::File { size } = member.kind
            && size > left
        {
            let most = limits.bytes;
            return Err(refused(format!("it has {size} bytes, and an image can have {most} in total")));
        }
        used.count(&member.kind)?;
        let name = Name::parse(&member.name, limits.depth)?;
        let Some(building) = &mut building else { continue };
        match name.asked()? {
            Asked::Make(name) => building.make(&name, member.kind, &member.facts, &mut members)?,
            Asked::Hide(name) => building.hide(&name)?,
            Asked::HideAllIn(name) => building.hide_all_in(&name)?,
            Asked::Nothing => {}
        }
        *at = At::After(member.name);
    }
    Ok(())
}
