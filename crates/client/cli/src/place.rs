//! Scope of a stream or chain: a project, a tenant or the platform.

use clap::ArgMatches;

use crate::context::Context;

/// An explicit scope, or else the profile's. Neither tenant nor project means the platform.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) tenant: Option<String>,
    pub(crate) project: Option<String>,
}

impl Place {
    /// Returns the scope. Typed values override the environment and the profile; among those the narrower scope wins.
    pub(crate) fn of(matches: &ArgMatches, context: &Context) -> Self {
        if matches.get_flag("platform") {
            return Self::default();
        }
        let typed = |name: &str| matches.try_get_one::<String>(name).ok().flatten().cloned();
        let typed = Self { tenant: typed("tenant"), project: typed("project") };
        if typed != Self::default() {
            return typed;
        }
        let knows_projects = matches.try_contains_id("project").is_ok();
        match context.default_for("project").filter(|_| knows_projects) {
            Some(project) => Self { project: Some(project), tenant: None },
            None => Self { tenant: context.default_for("tenant"), project: None },
        }
    }

    /// Returns it as query parameters.
    pub(crate) fn query(&self) -> Vec<(String, String)> {
        let pairs = [("tenant", &self.tenant), ("project", &self.project)];
        pairs.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?))).collect()
    }

    /// Returns it in human-readable form.
    pub(crate) fn words(&self) -> String {
        match (&self.tenant, &self.project) {
            (_, Some(project)) => format!("the project {project}"),
            (Some(tenant), None) => format!("the tenant {tenant}"),
            (None, None) => "the platform".to_owned(),
        }
    }
}
