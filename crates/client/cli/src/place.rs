//! Which stream or chain is meant: a project's, a tenant's or the platform's.

use clap::ArgMatches;

use crate::context::Context;

/// The place that was said, or else the profile's. Neither tenant nor project means the platform.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) tenant: Option<String>,
    pub(crate) project: Option<String>,
}

impl Place {
    /// What was typed wins over the environment and the profile; among those the narrower place wins over the wider.
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

    /// As parameters of a query.
    pub(crate) fn query(&self) -> Vec<(String, String)> {
        let pairs = [("tenant", &self.tenant), ("project", &self.project)];
        pairs.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?))).collect()
    }

    /// As a person says it.
    pub(crate) fn words(&self) -> String {
        match (&self.tenant, &self.project) {
            (_, Some(project)) => format!("the project {project}"),
            (Some(tenant), None) => format!("the tenant {tenant}"),
            (None, None) => "the platform".to_owned(),
        }
    }
}
