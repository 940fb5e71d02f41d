//! Resources with the common verbs: create, list, get, update and delete need no code of their own.
//!
//! An operator's catalog is such a noun: all actors read it, and operators write it. A noun with rules of its own is a
//! `Record` and keeps its use-cases.

use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use utoipa::ToSchema;

use crate::event::EventType;
use crate::record::{Record, RecordVisitor};

/// Events of a resource.
#[derive(Debug, Clone, Copy)]
pub struct ResourceEvents {
    /// It was created.
    pub created: EventType,
    /// It was changed.
    pub updated: EventType,
    /// It was deleted.
    pub deleted: EventType,
}

/// A platform-level resource with the common verbs. The struct is also the API's view of it.
pub trait Resource: Record<Parent = ()> + Serialize + ToSchema {
    /// Body of its creation.
    type Create: Serialize + DeserializeOwned + ToSchema + Send + 'static;
    /// Body of a change.
    type Update: Serialize + DeserializeOwned + ToSchema + Send + 'static;
    /// Its events.
    const EVENTS: ResourceEvents;

    /// Creates one, at version 1.
    fn create(id: Self::Id, input: Self::Create, now: Timestamp) -> Self;
    /// Changes it, and increments its version.
    fn update(&mut self, input: Self::Update, now: Timestamp);
    /// Returns a valid body with this name: the tests of all resources create them with it.
    fn example(name: &str) -> Self::Create;
    /// Returns a valid change that differs from the example.
    fn example_update() -> Self::Update;
}

/// A function that is generic over resources, as a value: the registry calls it once for each.
pub trait ResourceVisitor {
    /// Visits a resource type.
    fn visit<R: Resource>(&mut self);
}

/// Visits the resources as records.
pub(crate) struct AsRecords<'v, V>(pub(crate) &'v mut V);

impl<V: RecordVisitor> ResourceVisitor for AsRecords<'_, V> {
    fn visit<R: Resource>(&mut self) {
        self.0.visit::<R>();
    }
}
