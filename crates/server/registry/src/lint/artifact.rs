//! Rules for artifacts, which consist of files, and for indexes.

use std::collections::BTreeMap;

use super::facts::{Facts, shown};

/// The media type of the empty configuration.
const EMPTY: &str = "application/vnd.oci.empty.v1+json";

/// The longest file name that every file system accepts.
const LONGEST_PART: usize = 255;
const LONGEST_TITLE: usize = 1024;

pub(super) fn title_missing(facts: &Facts<'_>) -> Vec<String> {
    if !facts.is_artifact() {
        return Vec::new();
    }
    let layers = &facts.manifest.layers;
    let nameless = layers.iter().enumerate().filter(|(_, blob)| blob.title().is_none_or(str::is_empty));
    // The placeholder for "no blob" is not a file.
    let nameless = nameless.filter(|(_, blob)| blob.media_type != EMPTY);
    nameless.map(|(at, _)| format!("blob {} has no title, so its file name is unknown", at + 1)).collect()
}

pub(super) fn title_twice(facts: &Facts<'_>) -> Vec<String> {
    let mut count = BTreeMap::new();
    for title in titles(facts) {
        *count.entry(title).or_insert(0) += 1;
    }
    let twice = count.into_iter().filter(|(_, count)| *count > 1);
    twice.map(|(title, count)| format!("{count} blobs have the title {:?}", shown(title))).collect()
}

pub(super) fn title_unsafe(facts: &Facts<'_>) -> Vec<String> {
    let unsafe_titles = titles(facts).filter(|title| !is_safe(title));
    unsafe_titles.map(|title| format!("the title {:?} is not a safe file name", shown(title))).collect()
}

/// Reports whether a title, joined to a folder, stays inside it and is displayed as is.
fn is_safe(title: &str) -> bool {
    let part = |part: &str| !matches!(part, "" | "." | "..") && part.len() <= LONGEST_PART;
    let plain = |c: char| !c.is_control() && c != '\\';
    title.len() <= LONGEST_TITLE && title.chars().all(plain) && title.split('/').all(part)
}

/// Returns the titles of an artifact's blobs, where present.
fn titles<'a>(facts: &'a Facts<'_>) -> impl Iterator<Item = &'a str> {
    let titles =
        facts.manifest.layers.iter().filter_map(|blob| blob.title()).filter(|title| !title.is_empty());
    titles.filter(|_| facts.is_artifact())
}

pub(super) fn type_missing(facts: &Facts<'_>) -> Vec<String> {
    let empty = facts.manifest.config.as_ref().is_some_and(|config| config.media_type == EMPTY);
    if empty && !facts.manifest.names_its_type {
        vec!["the artifact does not declare its type".to_owned()]
    } else {
        Vec::new()
    }
}

pub(super) fn index_empty(facts: &Facts<'_>) -> Vec<String> {
    if facts.is_index() && facts.manifest.children.is_empty() {
        vec!["the index lists nothing".to_owned()]
    } else {
        Vec::new()
    }
}

pub(super) fn index_platform_missing(facts: &Facts<'_>) -> Vec<String> {
    let children = facts.manifest.children.iter().enumerate();
    let nowhere = children.filter(|(_, child)| child.platform.is_none());
    nowhere.map(|(at, _)| format!("manifest {} of the index has no platform", at + 1)).collect()
}
