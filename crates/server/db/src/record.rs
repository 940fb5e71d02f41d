//! The statements that every record has, made of its declaration: one text each for get, list, insert, update and delete.
//!
//! The texts are built once, at first use, because a generic constant cannot be concatenated. They are the only form of these
//! statements, so that a set-based form can be generated from them, as `fuse` does for the command record.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use muster_ids::TypedId as _;
use muster_model::record::{FieldValue, Parent as _};
use muster_model::{Record, RecordVisitor, visit_records};

use crate::sql::{Sql, Value, args};
use crate::{Page, Result, Store, StoreError, Tx};

/// The statements of one record.
struct RecordSql {
    get: Sql,
    by_name: Option<Sql>,
    list: Sql,
    insert: Sql,
    update: Sql,
    delete: Sql,
}

impl RecordSql {
    fn build<R: Record>() -> Self {
        let (table, columns) = (R::TABLE, R::COLUMNS.join(", "));
        let statement = |verb: &str, text: String| {
            let (name, text) = (format!("{}_{verb}", R::NOUN.to_uppercase()), String::leak(text));
            Sql { name: String::leak(name), pg: text, sqlite: text }
        };
        let within =
            |number: usize| R::PARENT.map(|column| format!(" AND {column} = ${number}")).unwrap_or_default();
        let places: Vec<String> = (1..=R::COLUMNS.len()).map(|number| format!("${number}")).collect();
        let changes: String =
            R::CHANGES.iter().zip(3..).map(|(column, number)| format!("{column} = ${number}, ")).collect();
        let by_name = format!("SELECT {columns} FROM {table} WHERE name = $1{}", within(2));
        Self {
            get: statement("GET", format!("SELECT {columns} FROM {table} WHERE id = $1")),
            by_name: R::IS_NAME_UNIQUE.then(|| statement("BY_NAME", by_name)),
            list: statement(
                "LIST",
                format!("SELECT {columns} FROM {table} WHERE id > $1{} ORDER BY id LIMIT $2", within(3)),
            ),
            insert: statement(
                "INSERT",
                format!("INSERT INTO {table} ({columns}) VALUES ({})", places.join(", ")),
            ),
            update: statement(
                "UPDATE",
                format!("UPDATE {table} SET {changes}version = version + 1 WHERE id = $1 AND version = $2"),
            ),
            delete: statement("DELETE", format!("DELETE FROM {table} WHERE id = $1 AND version = $2")),
        }
    }
}

static STATEMENTS: LazyLock<BTreeMap<&'static str, RecordSql>> = LazyLock::new(|| {
    struct Collect(BTreeMap<&'static str, RecordSql>);
    impl RecordVisitor for Collect {
        fn visit<R: Record>(&mut self) {
            self.0.insert(R::NOUN, RecordSql::build::<R>());
        }
    }
    let mut all = Collect(BTreeMap::new());
    visit_records(&mut all);
    all.0
});

/// Returns the statements of a record.
fn sql_of<R: Record>() -> &'static RecordSql {
    STATEMENTS.get(R::NOUN).expect("visit_records lists every record")
}

/// Returns the statements of all records.
pub fn statements() -> Vec<Sql> {
    let of = |sql: &RecordSql| {
        [Some(sql.get), sql.by_name, Some(sql.list), Some(sql.insert), Some(sql.update), Some(sql.delete)]
    };
    STATEMENTS.values().flat_map(of).flatten().collect()
}

/// Returns the arguments of a statement, with the parent's id last.
fn within<R: Record>(mut args: Vec<Value>, parent: R::Parent) -> Vec<Value> {
    args.extend(parent.value().map(Value::from));
    args
}

impl Store {
    /// Returns the record with this id.
    pub async fn find<R: Record>(&self, id: R::Id) -> Result<Option<R>> {
        let row = self.fetch_optional(&sql_of::<R>().get, args![id.uuid()]).await?;
        row.as_ref().map(R::from_row).transpose()
    }

    /// Returns the record with this name inside its parent; `None` too if names are not unique there.
    pub async fn find_by_name<R: Record>(&self, parent: R::Parent, name: &str) -> Result<Option<R>> {
        let Some(sql) = &sql_of::<R>().by_name else { return Ok(None) };
        let row = self.fetch_optional(sql, within::<R>(args![name], parent)).await?;
        row.as_ref().map(R::from_row).transpose()
    }

    /// Returns the records inside a parent in creation order.
    pub async fn list<R: Record>(&self, page: Page, parent: R::Parent) -> Result<Vec<R>> {
        let args = within::<R>(args![page.after, page.size], parent);
        self.fetch_all(&sql_of::<R>().list, args).await?.iter().map(R::from_row).collect()
    }
}

impl Tx {
    /// Adds a record.
    pub async fn insert_record<R: Record>(&mut self, record: &R) -> Result<()> {
        let values = record.values().into_iter().map(Value::from).collect();
        self.insert(&sql_of::<R>().insert, values).await
    }

    /// Updates a record that still has the version before `record.version()`.
    pub async fn update_record<R: Record>(&mut self, record: &R) -> Result<()> {
        let mut args = args![record.id().uuid(), record.version() - 1];
        let values: BTreeMap<&str, FieldValue> = R::COLUMNS.iter().copied().zip(record.values()).collect();
        args.extend(R::CHANGES.iter().map(|column| Value::from(values[column].clone())));
        self.execute_one(&sql_of::<R>().update, args, StoreError::Stale).await
    }

    /// Removes a record that still has this version.
    pub async fn delete_record<R: Record>(&mut self, record: &R) -> Result<()> {
        let args = args![record.id().uuid(), record.version()];
        self.execute_one(&sql_of::<R>().delete, args, StoreError::Stale).await
    }
}
