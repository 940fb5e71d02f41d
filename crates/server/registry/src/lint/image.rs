//! Rules for images.

use super::facts::{Configuration, Facts, Kind, Settings, shown};

/// The limit of builders and overlay file systems.
const MOST_LAYERS: usize = 127;

/// The layer media types that nodes can unpack.
const UNPACKED: [&str; 6] = [
    "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.oci.image.layer.v1.tar+zstd",
    "application/vnd.docker.image.rootfs.diff.tar",
    "application/vnd.docker.image.rootfs.diff.tar.gzip",
    "application/vnd.docker.image.rootfs.diff.tar.zstd",
];

/// Names of secrets, as a suffix or as a part between underscores.
const SECRETS: [&str; 5] = ["PASSWORD", "PASSWD", "TOKEN", "SECRET", "APIKEY"];
const SECRET_PAIRS: [[&str; 2]; 2] = [["API", "KEY"], ["PRIVATE", "KEY"]];

pub(super) fn config_unreadable(facts: &Facts<'_>) -> Vec<String> {
    match &facts.kind {
        Kind::Image(Err(why)) => vec![format!("the image's configuration is invalid: {why}")],
        _ => Vec::new(),
    }
}

pub(super) fn platform_missing(facts: &Facts<'_>) -> Vec<String> {
    of_configuration(facts, |configuration| {
        let missing = [("os", &configuration.os), ("architecture", &configuration.architecture)];
        let empty = missing.into_iter().filter(|(_, value)| value.is_empty());
        empty.map(|(key, _)| format!("the configuration lacks its {key}")).collect()
    })
}

pub(super) fn layer_format(facts: &Facts<'_>) -> Vec<String> {
    if !facts.is_image() {
        return Vec::new();
    }
    let unknown = |media_type: &str| !UNPACKED.contains(&media_type);
    numbered(facts)
        .filter(|(_, layer)| unknown(&layer.media_type) && !layer.is_foreign())
        .map(|(number, layer)| {
            format!(
                "layer {number} has the media type {:?}, which no node can unpack",
                shown(&layer.media_type)
            )
        })
        .collect()
}

pub(super) fn layer_foreign(facts: &Facts<'_>) -> Vec<String> {
    numbered(facts)
        .filter(|(_, layer)| layer.is_foreign())
        .map(|(number, _)| {
            format!("layer {number} is not distributable, so nodes would have to fetch it elsewhere")
        })
        .collect()
}

pub(super) fn too_many_layers(facts: &Facts<'_>) -> Vec<String> {
    let count = facts.manifest.layers.len();
    if facts.is_image() && count > MOST_LAYERS {
        vec![format!("the image has {count} layers, at most {MOST_LAYERS} are allowed")]
    } else {
        Vec::new()
    }
}

pub(super) fn layers_differ(facts: &Facts<'_>) -> Vec<String> {
    of_configuration(facts, |configuration| {
        let told = configuration.rootfs.as_ref().map_or(0, |rootfs| rootfs.diff_ids.len());
        let layers = facts.manifest.layers.len();
        if told == layers {
            return Vec::new();
        }
        vec![format!("the manifest has {layers} layers, but the configuration has {told}")]
    })
}

pub(super) fn secret_in_environment(facts: &Facts<'_>) -> Vec<String> {
    of_settings(facts, |settings| {
        let entries = settings.env.iter().flatten().filter_map(|entry| entry.split_once('='));
        let secrets = entries.filter(|(name, value)| !value.is_empty() && is_secret(name));
        secrets
            .map(|(name, _)| format!("the environment contains {:?}, which looks like a secret", shown(name)))
            .collect()
    })
}

/// Compares whole parts of the name, because `TOKENIZERS_PARALLELISM` and `MAX_TOKENS` are no secrets; `…_FILE` only names a
/// path.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase().replace('-', "_");
    let parts: Vec<&str> = name.split('_').collect();
    if parts.last() == Some(&"FILE") {
        return false;
    }
    let alone = parts.iter().any(|part| SECRETS.iter().any(|secret| part.ends_with(secret)));
    alone || parts.windows(2).any(|pair| SECRET_PAIRS.iter().any(|secret| pair == secret))
}

pub(super) fn nothing_to_run(facts: &Facts<'_>) -> Vec<String> {
    of_settings(facts, |settings| {
        let empty = |words: &Option<Vec<String>>| words.as_ref().is_none_or(Vec::is_empty);
        if empty(&settings.entrypoint) && empty(&settings.cmd) {
            vec!["the image declares no command".to_owned()]
        } else {
            Vec::new()
        }
    })
}

pub(super) fn runs_as_root(facts: &Facts<'_>) -> Vec<String> {
    of_settings(facts, |settings| {
        let user = settings.user.as_deref().unwrap_or_default();
        let user = user.split(':').next().unwrap_or_default();
        if matches!(user, "" | "root" | "0") { vec!["the image runs as root".to_owned()] } else { Vec::new() }
    })
}

pub(super) fn created_missing(facts: &Facts<'_>) -> Vec<String> {
    of_configuration(facts, |configuration| {
        if configuration.created.as_ref().is_none_or(String::is_empty) {
            vec!["the configuration lacks the image's creation time".to_owned()]
        } else {
            Vec::new()
        }
    })
}

fn of_configuration(facts: &Facts<'_>, find: impl FnOnce(&Configuration) -> Vec<String>) -> Vec<String> {
    facts.configuration().map_or_else(Vec::new, find)
}

/// Treats an image without settings as one with empty settings.
fn of_settings(facts: &Facts<'_>, find: impl FnOnce(&Settings) -> Vec<String>) -> Vec<String> {
    of_configuration(facts, |configuration| match &configuration.config {
        Some(settings) => find(settings),
        None => find(&Settings::default()),
    })
}

/// Returns the layers of an image, numbered from 1.
fn numbered<'a>(facts: &'a Facts<'_>) -> impl Iterator<Item = (usize, &'a crate::manifest::Descriptor)> {
    facts.manifest.layers.iter().enumerate().map(|(at, layer)| (at + 1, layer))
}
