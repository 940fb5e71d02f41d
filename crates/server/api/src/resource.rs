//! The endpoints that every resource with the common verbs has, made of its declaration.

use std::borrow::Cow;
use std::sync::LazyLock;

use muster_model::{Resource, ResourceVisitor, visit_resources};
use serde::Serialize;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, Schema, Type};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

use crate::shape::PageQuery;
use crate::tenant::Removed;
use crate::{Endpoint, shape};

/// A page of a list. Nouns with endpoints of their own have the same form as a type of their own.
#[derive(Debug, Clone, Serialize)]
pub struct ResourcePage<R> {
    /// Items of this page, oldest first.
    pub items: Vec<R>,
    /// Pass as `page_token` to get the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}

impl<R: Resource> PartialSchema for ResourcePage<R> {
    fn schema() -> RefOr<Schema> {
        let items = ArrayBuilder::new()
            .items(Ref::from_schema_name(<R as ToSchema>::name()))
            .description(Some("Items of this page, oldest first."));
        let token = ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some("Pass as `page_token` to get the next page; absent on the last."));
        ObjectBuilder::new()
            .property("items", items)
            .required("items")
            .property("next_page_token", token)
            .description(Some(format!("A page of {}s.", R::TITLE)))
            .into()
    }
}

impl<R: Resource> ToSchema for ResourcePage<R> {
    fn name() -> Cow<'static, str> {
        format!("{}Page", <R as ToSchema>::name()).into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((<R as ToSchema>::name().into_owned(), R::schema()));
        R::schemas(schemas);
    }
}

/// Returns the endpoints of all resources. Their texts are kept for the life of the process, as constants would be.
pub fn endpoints() -> Vec<Endpoint> {
    static ENDPOINTS: LazyLock<Vec<Endpoint>> = LazyLock::new(|| {
        let mut all = Collect(Vec::new());
        visit_resources(&mut all);
        all.0
    });
    ENDPOINTS.clone()
}

struct Collect(Vec<Endpoint>);

impl ResourceVisitor for Collect {
    fn visit<R: Resource>(&mut self) {
        let text = |text: String| -> &'static str { String::leak(text) };
        let id = |verb: &str| text(format!("{}_{verb}", R::NOUN));
        let permission = |verb: &str| text(format!("{}.{verb}", R::NOUN));
        let summary = |verb: &str| text(format!("{verb} a {}", R::TITLE));
        let all = text(format!("/v1/{}", R::COLLECTION));
        let one = text(format!("/v1/{}/{{{}}}", R::COLLECTION, R::NOUN));
        let view = shape::<R>();
        self.0.extend([
            Endpoint::create(id("create"), all, shape::<R::Create>(), view)
                .needs(permission("create"))
                .summary(summary("Create")),
            Endpoint::read(id("list"), all, shape::<ResourcePage<R>>())
                .query(shape::<PageQuery>())
                .summary(text(format!("List {}s", R::TITLE))),
            Endpoint::read(id("get"), one, view).summary(summary("Show")),
            Endpoint::update(id("update"), one, shape::<R::Update>(), view)
                .needs(permission("update"))
                .summary(summary("Change")),
            Endpoint::delete(id("delete"), one, shape::<Removed>())
                .needs(permission("delete"))
                .summary(summary("Remove")),
        ]);
    }
}
