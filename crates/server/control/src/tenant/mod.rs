//! Tenants.

mod create;
mod delete;
mod get;
mod list;
mod rotate_key;
mod update;

pub use create::create;
pub use delete::delete;
pub(crate) use delete::{
    counted, refuse_if_alive, refuse_if_held, refuse_if_not_empty, refuse_if_running, removed_view,
    still_alive,
};
pub use get::get;
pub use list::list;
pub use rotate_key::rotate_key;
pub use update::update;

use muster_model::{Labels, Tenant};

use crate::Error;

pub(crate) fn path(tenant: &Tenant) -> String {
    format!("/v1/tenants/{}", tenant.id)
}

/// Validates labels.
pub(crate) fn checked_labels(labels: Option<Labels>) -> crate::Result<Labels> {
    let labels = labels.unwrap_or_default();
    match muster_model::labels::fault(&labels) {
        Some(fault) => Err(Error::field("/labels", fault)),
        None => Ok(labels),
    }
}

/// Parses a list's label filter.
pub(crate) fn selector(labels: Option<&str>) -> crate::Result<muster_model::LabelSelector> {
    muster_model::LabelSelector::parse(labels.unwrap_or_default())
        .map_err(|fault| Error::field("query/labels", fault))
}
