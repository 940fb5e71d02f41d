//! Check where an app fits, without reserving anything.

use std::collections::BTreeMap;

use muster_api::Code;
use muster_api::app::{AppCompatibility, CompatibilityQuery, Fit};
use muster_authz::Permission;
use muster_manifest::{Ask, Manifest, MemberGroup, PlannedAllocation, Site, compatible};
use muster_model::allocation::AllocationShape;
use muster_model::artifact::ArtifactState;

use super::found;
use crate::app_version::{found as found_version, manifest_of};
use crate::instance::fit::shape_of;
use crate::{Answer, Cx, Error, Result};

/// Maximum number of members per query.
const MOST_MEMBERS: usize = 10_000;

/// Handles `app_compatibility`.
pub async fn compatibility(
    cx: &Cx,
    project: &str,
    reference: &str,
    query: CompatibilityQuery,
) -> Result<Answer> {
    let (project, scope) = cx.project_scope(project).await?;
    cx.authorize(Permission::AppCompatibility, scope, "app")?;
    let app = found(cx, scope, reference).await?.app;
    let store = &cx.platform.store;
    let version = match &query.version {
        Some(named) => found_version(cx, project, &app, named).await?,
        None => {
            let active = store.app_version_in_state(project, app.id, ArtifactState::Active).await;
            let newest = async || store.app_version_newest(project, app.id).await.map_err(Error::from);
            match active? {
                Some(active) => Some(active),
                None => newest().await?,
            }
            .ok_or_else(|| {
                Error::new(Code::InvalidState, "the app has no release yet: its publisher must publish one")
            })?
        }
    };
    let version = version.version;
    let manifest = manifest_of(&version)?;
    let places = places(&manifest, &query)?;
    let shapes = match query.shape {
        Some(shape) => vec![shape],
        None => vec![AllocationShape::Baremetal, AllocationShape::GpuSlice],
    };
    let answers = shapes.into_iter().map(|shape| fit(cx, &manifest, shape, places.clone())).collect();
    Ok(Answer::new(&AppCompatibility { version: version.name, answers }))
}

fn fit(cx: &Cx, manifest: &Manifest, shape: AllocationShape, places: Vec<PlannedAllocation>) -> Fit {
    let allocations = places.len();
    let members: i64 = places.iter().flat_map(|place| &place.seats).map(|seat| seat.count).sum();
    let answer = compatible(manifest, &Ask { shape: shape_of(shape), places, site: site(cx) });
    let mut reasons = answer.reasons;
    if answer.fits {
        reasons.push(format!("{members} members fit in {allocations} allocations of this shape"));
    }
    Fit { shape, fits: answer.fits, reasons, change: answer.change.map(|change| change.message) }
}

/// Returns the capabilities of the site's network.
pub(crate) fn site(cx: &Cx) -> Site {
    Site { slice_network_crosses_allocations: cx.platform.options.slice_network_crosses_allocations }
}

/// Distributes the requested members over the requested allocations round-robin, so that each gets an equal share.
fn places(manifest: &Manifest, query: &CompatibilityQuery) -> Result<Vec<PlannedAllocation>> {
    let wanted = counts(manifest, query.components.as_deref().unwrap_or_default())?;
    let members: Vec<MemberGroup> = manifest
        .components
        .iter()
        .flat_map(|component| {
            let count = wanted.get(component.key.as_str()).copied();
            let count = count.or(component.count.default).unwrap_or(component.count.min);
            let seat = MemberGroup { component: component.key.clone(), count: 1, each: component.capacity };
            std::iter::repeat_n(seat, usize::try_from(count).unwrap_or_default())
        })
        .collect();
    if members.len() > MOST_MEMBERS {
        let why = format!("that is more than {MOST_MEMBERS} members in total: ask for fewer");
        return Err(Error::field("query/components", why));
    }
    let most = members.len().max(1);
    let asked = query.allocations.and_then(|asked| usize::try_from(asked).ok()).unwrap_or(most);
    let mut seats: Vec<Vec<MemberGroup>> = vec![Vec::new(); asked.clamp(1, most)];
    let allocations = seats.len();
    for (at, member) in members.into_iter().enumerate() {
        let place = &mut seats[at % allocations];
        match place.iter_mut().find(|seat| seat.component == member.component) {
            Some(seat) => seat.count += 1,
            None => place.push(member),
        }
    }
    Ok(seats.into_iter().map(PlannedAllocation::for_seats).collect())
}

/// Parses `worker=4,controller=1`.
fn counts<'q>(manifest: &Manifest, text: &'q str) -> Result<BTreeMap<&'q str, i64>> {
    let wrong = |why: String| Error::field("query/components", why);
    let mut counts = BTreeMap::new();
    for term in text.split(',').filter(|term| !term.is_empty()) {
        let (key, count) = term.split_once('=').ok_or_else(|| {
            wrong(format!("`{term}` is not COMPONENT=NUMBER, as in `worker=4,controller=1`"))
        })?;
        if manifest.component(key).is_none() {
            let known: Vec<&str> =
                manifest.components.iter().map(|component| component.key.as_str()).collect();
            return Err(wrong(format!("the release has no component `{key}`; it has {}", known.join(", "))));
        }
        let count: i64 = count
            .parse()
            .ok()
            .filter(|count| (0..=10_000).contains(count))
            .ok_or_else(|| wrong(format!("`{count}` is not a number from 0 to 10000")))?;
        if counts.insert(key, count).is_some() {
            return Err(wrong(format!("`{key}` is given twice")));
        }
    }
    Ok(counts)
}
