//! The published apps and the manifests of the fixtures have no errors, and each fits as the table of the fixtures states.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use muster_manifest::{Ask, Context, Manifest, Reach, Shape, Site, Spread, compatible, lint, read};
use serde_json::Value;

/// Permissions that adapters request; whether they exist and may be granted is checked when an app is published.
const PERMISSIONS: &[&str] = &[
    "instance.get",
    "member.get",
    "member.list",
    "runtime_secret.cluster_bootstrap",
    "runtime_secret.issue",
    "runtime_secret.list",
    "runtime_secret.revoke",
];
const PLAIN: Site = Site { slice_network_crosses_allocations: false };
const CROSSING: Site = Site { slice_network_crosses_allocations: true };

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn apps() -> BTreeMap<String, Value> {
    let folders = ["apps", "tests/fixtures/manifests"]
        .into_iter()
        .flat_map(|parent| std::fs::read_dir(repository().join(parent)).unwrap())
        .map(|entry| entry.unwrap().path());
    let read = |folder: PathBuf| {
        let text = std::fs::read_to_string(folder.join("manifest.json")).unwrap();
        // The publisher replaces a name with the digest of the pushed artifact.
        let filled = text.split("${").enumerate().map(|(index, part)| match (index, part.split_once('}')) {
            (1.., Some((_, rest))) => format!("sha256:{}{rest}", "ab".repeat(32)),
            _ => part.to_owned(),
        });
        let document = serde_json::from_str(&filled.collect::<String>())
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        (folder.file_name().unwrap().to_string_lossy().into_owned(), document)
    };
    folders.filter(|path| path.is_dir()).map(read).collect()
}

fn manifests() -> Vec<(String, Manifest)> {
    apps().into_iter().map(|(folder, document)| (folder, read(&document).unwrap())).collect()
}

/// Returns the intended distribution of an app: in one allocation, unless it declares how its members reach each other.
fn meant(manifest: &Manifest) -> Spread {
    match manifest.components.iter().any(|component| component.reach != Reach::None) {
        true => Spread::Apart,
        false => Spread::Together,
    }
}

#[test]
fn no_app_has_a_fault() {
    let apps = apps();
    assert!(apps.len() >= 7, "{:?}", apps.keys());
    let context = Context { known_permissions: PERMISSIONS, grantable: PERMISSIONS };
    for (folder, document) in apps {
        assert_eq!(lint(&document, &context), [], "{folder}");
        let manifest = read(&document).unwrap();
        assert_eq!(manifest.app, folder, "an app is called as its folder is");
        let config = muster_manifest::check_config(&manifest, &serde_json::json!({}));
        assert_eq!(config, [], "{folder} starts without being configured");
    }
}

/// The table in the README of the fixtures is written by hand and checked here.
#[test]
fn every_app_fits_where_the_table_of_the_apps_says() {
    let readme = std::fs::read_to_string(repository().join("tests/fixtures/manifests/README.md")).unwrap();
    let rows: BTreeMap<String, (&str, &str)> = readme
        .lines()
        .filter_map(|line| {
            let cells: Vec<&str> = line.strip_prefix('|')?.split('|').map(str::trim).collect();
            let folder = cells.first()?.strip_prefix('`')?.strip_suffix('`')?;
            Some((folder.to_owned(), (*cells.get(2)?, *cells.get(3)?)))
        })
        .collect();
    let answers: BTreeMap<String, (&str, &str)> = manifests()
        .into_iter()
        .map(|(folder, manifest)| {
            let fits =
                |shape| compatible(&manifest, &Ask::of(&manifest, shape, meant(&manifest), PLAIN)).fits;
            let word = |shape| if fits(shape) { "yes" } else { "no" };
            (folder, (word(Shape::GpuSlice), word(Shape::Baremetal)))
        })
        .collect();
    assert_eq!(answers, rows);
}

#[test]
fn golden_compatibility() {
    let mut table = String::from(
        "How each app and each manifest of tests/fixtures fits, with the members that it has by default. A * marks how it is meant to be spread;\n\
         \"crossing\" is a site whose network of slices crosses allocations.\n\n",
    );
    let mut notes = String::new();
    let line = |cells: [&str; 5]| {
        let [app, spread, slice, crossing, metal] = cells;
        format!("{app:<20} {spread:<10} {slice:<10} {crossing:<20} {metal}").trim_end().to_owned() + "\n"
    };
    table += &line(["app", "spread", "gpu_slice", "gpu_slice, crossing", "baremetal"]);
    for (folder, manifest) in manifests() {
        for (spread, name) in [(Spread::Together, "together"), (Spread::Apart, "apart")] {
            let mut word = |shape: Shape, site: Site| {
                let crossing = if site == CROSSING { ", crossing" } else { "" };
                let answer = compatible(&manifest, &Ask::of(&manifest, shape, spread, site));
                if !answer.fits {
                    let _ = writeln!(notes, "\n{folder}, {name}, {}{crossing}:", shape.as_str());
                    for reason in &answer.reasons {
                        let _ = writeln!(notes, "  because {reason}");
                    }
                    if let Some(change) = &answer.change {
                        let _ = writeln!(notes, "  instead {}", change.message);
                    }
                }
                if answer.fits { "yes" } else { "no" }
            };
            let words = [
                word(Shape::GpuSlice, PLAIN),
                word(Shape::GpuSlice, CROSSING),
                word(Shape::Baremetal, PLAIN),
            ];
            let mark = if meant(&manifest) == spread { "*" } else { "" };
            table += &line([&folder, &format!("{name}{mark}"), words[0], words[1], words[2]]);
        }
    }
    golden(&repository().join("tests/output/compatibility.txt"), &(table + &notes));
}

/// Compares with the committed file; `make bless` writes it instead. It is outside `crates/`, because apps have names.
fn golden(path: &Path, actual: &str) {
    if std::env::var_os("MUSTER_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, actual).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        expected == actual,
        "{} has changed; if that is meant, run `make bless`:\n{actual}",
        path.display()
    );
}
