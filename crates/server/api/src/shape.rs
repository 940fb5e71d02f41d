//! A type's schema as a constant, for use in the endpoint table.

use std::borrow::Cow;

use utoipa::ToSchema;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;

pub use muster_model::Labels;

/// Named schemas, collected for the document.
pub(crate) type Schemas = Vec<(String, RefOr<Schema>)>;

/// A handle on the schema of a type.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    name: fn() -> Cow<'static, str>,
    collect: fn(&mut Schemas),
}

impl Shape {
    /// Returns the component's name.
    pub fn name(&self) -> String {
        (self.name)().into_owned()
    }

    pub(crate) fn collect(&self, schemas: &mut Schemas) {
        (self.collect)(schemas);
    }
}

/// Returns the shape of `T`.
pub const fn shape<T: ToSchema>() -> Shape {
    Shape { name: T::name, collect: collect::<T> }
}

fn collect<T: ToSchema>(schemas: &mut Schemas) {
    schemas.push((T::name().into_owned(), T::schema()));
    T::schemas(schemas);
}

/// Declares the page type of a list: `items` and the token of the next page.
macro_rules! page {
    ($(#[$doc:meta])* $name:ident of $item:ty) => {
        $(#[$doc])*
        #[derive(Debug, Clone, serde::Serialize, utoipa::ToSchema)]
        pub struct $name {
            /// Items of this page, oldest first.
            pub items: Vec<$item>,
            /// Pass as `page_token` to get the next page; absent on the last.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub next_page_token: Option<String>,
        }
    };
}
pub(crate) use page;

/// A free-form JSON object. Its own type, so that every schema is an "object" and never "anything".
pub type Object = serde_json::Map<String, serde_json::Value>;

/// Paging parameters for lists without labels.
#[derive(Debug, Clone, Default, serde::Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PageQuery {
    /// Maximum number of items; default: 50.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
    /// `next_page_token` of the previous page.
    #[schema(max_length = 1024)]
    pub page_token: Option<String>,
}

/// Paging and label parameters for lists.
#[derive(Debug, Clone, Default, serde::Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ListQuery {
    /// Maximum number of items; default: 50.
    #[schema(minimum = 1, maximum = 200)]
    pub page_size: Option<u16>,
    /// `next_page_token` of the previous page.
    #[schema(max_length = 1024)]
    pub page_token: Option<String>,
    /// Label selector: `team=ml,stage!=test`.
    #[schema(max_length = 1024)]
    pub labels: Option<String>,
}
