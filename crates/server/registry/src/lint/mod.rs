//! Problems of an image or an artifact, found before it is published and not on a node.
//!
//! Each rule is a row: its name, its severity, the fix, and a function that returns its findings. Rules only read. An error
//! means that a node could not use the artifact, or that it contains something that must not be published; a warning means
//! that it works, but not as expected. A general image linter was rejected: it knows neither the formats that our nodes
//! unpack nor artifacts that are not images.

mod artifact;
mod facts;
mod image;

use crate::manifest::Manifest;
use facts::Facts;

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// It works, but not as expected.
    Warning,
    /// It must not be published.
    Error,
}

/// A problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Its severity.
    pub severity: Severity,
    /// The rule that found it.
    pub rule: &'static str,
    /// The description. It never contains a value that may be a secret.
    pub message: String,
    /// The fix.
    pub fix: &'static str,
}

/// A rule, which returns a sentence per finding.
struct Rule {
    name: &'static str,
    severity: Severity,
    fix: &'static str,
    find: fn(&Facts<'_>) -> Vec<String>,
}

const RULES: &[Rule] = &[
    Rule {
        name: "config_unreadable",
        severity: Severity::Error,
        fix: "build the image again with a current tool",
        find: image::config_unreadable,
    },
    Rule {
        name: "platform_missing",
        severity: Severity::Error,
        fix: "build the image for a platform, such as linux/amd64",
        find: image::platform_missing,
    },
    Rule {
        name: "layer_format",
        severity: Severity::Error,
        fix: "build the layers as tar, tar+gzip or tar+zstd",
        find: image::layer_format,
    },
    Rule {
        name: "layer_foreign",
        severity: Severity::Error,
        fix: "build on a base with distributable layers",
        find: image::layer_foreign,
    },
    Rule {
        name: "too_many_layers",
        severity: Severity::Error,
        fix: "squash the image or join steps of its recipe",
        find: image::too_many_layers,
    },
    Rule {
        name: "layers_differ",
        severity: Severity::Error,
        fix: "push the manifest together with its own configuration",
        find: image::layers_differ,
    },
    Rule {
        name: "secret_in_environment",
        severity: Severity::Error,
        fix: "remove it from the recipe, rotate the secret since it is in the image's history, and pass it when the image runs",
        find: image::secret_in_environment,
    },
    Rule {
        name: "nothing_to_run",
        severity: Severity::Warning,
        fix: "set ENTRYPOINT or CMD in the recipe",
        find: image::nothing_to_run,
    },
    Rule {
        name: "runs_as_root",
        severity: Severity::Warning,
        fix: "set USER in the recipe, by number",
        find: image::runs_as_root,
    },
    Rule {
        name: "created_missing",
        severity: Severity::Warning,
        fix: "let the build tool write the creation time",
        find: image::created_missing,
    },
    Rule {
        name: "title_missing",
        severity: Severity::Error,
        fix: "give every blob the annotation org.opencontainers.image.title",
        find: artifact::title_missing,
    },
    Rule {
        name: "title_twice",
        severity: Severity::Error,
        fix: "give every blob a title of its own",
        find: artifact::title_twice,
    },
    Rule {
        name: "title_unsafe",
        severity: Severity::Error,
        fix: "use a relative path without .. as the title",
        find: artifact::title_unsafe,
    },
    Rule {
        name: "artifact_type_missing",
        severity: Severity::Error,
        fix: "set artifactType, or use a configuration with a media type of its own",
        find: artifact::type_missing,
    },
    Rule {
        name: "index_empty",
        severity: Severity::Error,
        fix: "push an index that lists at least one manifest",
        find: artifact::index_empty,
    },
    Rule {
        name: "index_platform_missing",
        severity: Severity::Warning,
        fix: "name the platform of every manifest in the index",
        find: artifact::index_platform_missing,
    },
];

/// Lints a manifest and, for an image, its configuration. Returns the most severe findings first.
pub fn lint(manifest: &Manifest, config: Option<&[u8]>) -> Vec<Finding> {
    let facts = Facts::of(manifest, config);
    let of_rule = |rule: &'static Rule| {
        (rule.find)(&facts).into_iter().map(|message| Finding {
            severity: rule.severity,
            rule: rule.name,
            message,
            fix: rule.fix,
        })
    };
    let mut findings: Vec<Finding> = RULES.iter().flat_map(of_rule).collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

/// Returns the names of all rules.
pub fn rules() -> impl Iterator<Item = &'static str> {
    RULES.iter().map(|rule| rule.name)
}
