//! `muster artifact pull`: files by name, or an image as an OCI layout.

use std::path::Path;

use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint};
use serde_json::{Value, json};

use super::download::{ContentRef, Got, Target};
use super::layout::{digest_of, is_index};
use super::progress::Progress;
use super::reference::{Reference, Which};
use super::registry::{Fetched, Registry};
use super::source::is_safe;
use super::{EMPTY, FILES, IMAGE_INDEX, REF_NAME, TITLE, about, project};
use crate::context::{Context, Output, say};
use crate::examples;
use crate::failure::{Exit, Failure, Result};
use crate::join::project_argument;
use crate::operate::show;
use crate::printable::printable;

/// Maximum nesting depth of indexes.
const DEPTH: usize = 4;

pub(crate) fn command() -> Command {
    Command::new("pull")
        .about("Fetch an artifact: its files, or an image as an OCI layout")
        .long_about(
            "Fetch an artifact: its files by their names, or an image as an OCI layout, which `skopeo copy \
             oci:FOLDER:TAG …` and `podman load -i FOLDER` read.\n\n\
             Everything is verified by its digest. Identical files in the folder are not fetched again; \
             interrupted downloads continue.\n\n\
             Needs the permission repository.pull.",
        )
        .arg(
            Arg::new("artifact")
                .value_name("REPOSITORY[:TAG|@DIGEST]")
                .required(true)
                .help("Artifact to fetch, also by its id [default tag: latest]"),
        )
        .arg(
            Arg::new("folder")
                .value_name("FOLDER")
                .required(true)
                .value_hint(ValueHint::DirPath)
                .help("Target folder; created if missing"),
        )
        .arg(
            Arg::new("overwrite")
                .long("overwrite")
                .action(ArgAction::SetTrue)
                .help("Replace existing files that have different content"),
        )
        .arg(project_argument())
        .after_help(examples::of("artifact pull").unwrap_or_default())
}

/// Runs the command.
pub(crate) async fn pull(context: &Context, matches: &ArgMatches) -> Result<()> {
    let word = |name: &str| matches.get_one::<String>(name).map(String::as_str).unwrap_or_default();
    let project = project(context, matches)?;
    let connection = context.connect()?;
    let reference = match word("artifact") {
        id if id.starts_with("art_") => {
            let artifact = about(&connection, "artifact_get", (&project, id), None).await?;
            let text = |key: &str| artifact[key].as_str().unwrap_or_default().to_owned();
            Reference::parse(&format!("{}@{}", text("repository"), text("digest")))?
        }
        named => Reference::parse(named)?,
    };
    let registry = Registry::of(context, &connection, &project, &reference.repository).await?;
    let (wanted, tag) = match &reference.which {
        Which::Unsaid => ("latest".to_owned(), "latest".to_owned()),
        Which::Tag(tag) => (tag.clone(), tag.clone()),
        Which::Digest(digest) => (digest.to_string(), digest.hex()[..12].to_owned()),
    };
    let found = registry.manifest(&wanted).await?.ok_or_else(|| nothing(&reference.repository, &wanted))?;
    let folder = Path::new(word("folder"));
    std::fs::create_dir_all(folder)
        .map_err(|error| Failure::local(&format!("{} cannot be created", folder.display()), error))?;
    let target = Target { folder, overwrite: matches.get_flag("overwrite") };
    let manifest = parse(&found)?;
    let fetching = Fetching { registry: &registry, target: &target, progress: context.progress() };
    let kind = if is_files(&manifest) {
        fetching.files(&manifest).await?;
        "files"
    } else {
        fetching.image(&found, &manifest, &tag).await?;
        "image"
    };
    target.done();
    let digest = found.digest.to_string();
    match context.output {
        Output::Table => say(&format!("{}@{digest} is in {}\n", reference.repository, folder.display())),
        Output::Name => say(&format!("{digest}\n")),
        Output::Json => {
            let answer = json!({"repository": reference.repository, "digest": digest, "folder": word("folder"), "is": kind});
            show(context, &["artifact", "pull"], answer)
        }
    }
}

fn nothing(repository: &str, wanted: &str) -> Failure {
    Failure::new(Exit::NotFound, "not_found", format!("the repository {repository} has no {wanted}"))
        .next(format!("`muster repository tags {repository}` lists its tags"))
}

fn strange(why: &str) -> Failure {
    Failure::new(Exit::Failed, "strange_manifest", format!("the artifact cannot be fetched: {why}"))
}

fn parse(found: &Fetched) -> Result<Value> {
    serde_json::from_slice(&found.bytes)
        .map_err(|error| strange(&format!("its manifest is not JSON: {error}")))
}

/// Reports whether it is an artifact of files: by its type, or because it has no configuration and a name for every
/// layer.
fn is_files(manifest: &Value) -> bool {
    let named = |layers: &Vec<Value>| layers.iter().all(|layer| layer["annotations"][TITLE].is_string());
    let has_names = manifest["layers"].as_array().is_some_and(|layers| !layers.is_empty() && named(layers));
    manifest["artifactType"] == FILES || (manifest["config"]["mediaType"] == EMPTY && has_names)
}

struct Fetching<'a> {
    registry: &'a Registry,
    target: &'a Target<'a>,
    progress: Progress,
}

impl Fetching<'_> {
    async fn files(&self, manifest: &Value) -> Result<()> {
        let layers = manifest["layers"].as_array().map_or(&[][..], Vec::as_slice);
        let mut names = std::collections::BTreeSet::new();
        for layer in layers {
            let name = layer["annotations"][TITLE].as_str().unwrap_or_default();
            if !is_safe(name) || name.split('/').next() == Some(".muster-parts") {
                return Err(strange(&format!("{:?} is not a safe file name", printable(name)))
                    .next("ask its publisher to push it again with `muster artifact push`"));
            }
            if !names.insert(name) {
                return Err(strange(&format!("it has two files named {:?}", printable(name))));
            }
        }
        for layer in layers {
            let name = layer["annotations"][TITLE].as_str().unwrap_or_default();
            self.blob(layer, name, name).await?;
        }
        Ok(())
    }

    async fn blob(&self, descriptor: &Value, path: &str, shown: &str) -> Result<()> {
        let digest = digest_of(descriptor).map_err(|_| strange("its manifest contains an invalid digest"))?;
        let size =
            descriptor["size"].as_u64().ok_or_else(|| strange("its manifest contains an invalid size"))?;
        let bar = self.progress.begin(shown, "fetching", size);
        let wanted = ContentRef { digest, size };
        let got =
            self.target.fetch(self.registry, &wanted, path, &bar).await.inspect_err(|_| bar.vanish())?;
        bar.end(if got == Got::Now { "fetched" } else { "already present:" });
        Ok(())
    }

    /// Writes an image as a layout; an existing layout in the folder is extended.
    async fn image(&self, found: &Fetched, manifest: &Value, tag: &str) -> Result<()> {
        let folder = self.target.folder;
        for part in ["blobs", "blobs/sha256"] {
            std::fs::create_dir_all(folder.join(part)).map_err(|error| {
                Failure::local(&format!("{} cannot be created", folder.join(part).display()), error)
            })?;
        }
        self.parts(found, manifest, DEPTH).await?;
        self.write("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        let index = std::fs::read(folder.join("index.json")).ok();
        let index = index.and_then(|text| serde_json::from_slice::<Value>(&text).ok());
        let digest = found.digest.to_string();
        let others = index.as_ref().and_then(|index| index["manifests"].as_array()).into_iter().flatten();
        let mut listed: Vec<Value> =
            others.filter(|other| other["annotations"][REF_NAME] != tag).cloned().collect();
        listed.push(json!({
            "mediaType": found.media_type,
            "digest": digest,
            "size": found.bytes.len(),
            "annotations": {REF_NAME: tag},
        }));
        let index = json!({"schemaVersion": 2, "mediaType": IMAGE_INDEX, "manifests": listed});
        self.write("index.json", index.to_string().as_bytes())
    }

    async fn parts(&self, found: &Fetched, manifest: &Value, depth: usize) -> Result<()> {
        if depth == 0 {
            return Err(strange("its indexes are nested too deeply"));
        }
        if is_index(manifest, &found.media_type) {
            for child in manifest["manifests"].as_array().into_iter().flatten() {
                let digest = digest_of(child).map_err(|_| strange("its index contains an invalid digest"))?;
                let fetched = self.registry.manifest(&digest.to_string()).await?;
                let fetched =
                    fetched.ok_or_else(|| strange(&format!("the repository lacks its manifest {digest}")))?;
                let inner = parse(&fetched)?;
                Box::pin(self.parts(&fetched, &inner, depth - 1)).await?;
            }
        }
        let layers = manifest["layers"].as_array().into_iter().flatten().map(|layer| ("layer", layer));
        let config = manifest.get("config").map(|config| ("config", config));
        for (what, part) in config.into_iter().chain(layers) {
            let digest = digest_of(part).map_err(|_| strange("its manifest contains an invalid digest"))?;
            let shown = format!("{what} {}", &digest.hex()[..12]);
            self.blob(part, &format!("blobs/sha256/{}", digest.hex()), &shown).await?;
        }
        self.write(&format!("blobs/sha256/{}", found.digest.hex()), &found.bytes)
    }

    /// Writes a temporary file and renames it, so that the file is complete or absent.
    fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.target.folder.join(name);
        let fresh = path.with_extension("fresh");
        std::fs::write(&fresh, bytes)
            .and_then(|()| std::fs::rename(&fresh, &path))
            .map_err(|error| Failure::local(&format!("{} cannot be written", path.display()), error))
    }
}
