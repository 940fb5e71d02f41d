//! The schema: equal on both databases, in step with the enums, and never opened by a program that is too old.

use std::collections::BTreeSet;
use std::path::Path;

use muster_db::{Location, Store, StoreError, newest_migration};
use muster_model::Role;
use muster_model::adapter::{AdapterStepState, AdapterVerb};
use muster_model::allocation::{AllocationShape, AllocationState};
use muster_model::app::Audience;
use muster_model::artifact::{ArtifactKind, ArtifactState};
use muster_model::cell::CellState;
use muster_model::instance::{Health, InstanceState, RepairMode};
use muster_model::member::MemberState;
use muster_model::node::SlotState;
use muster_model::operation::OperationState;
use muster_model::placement::Strategy;
use muster_model::secret::Purpose;
use muster_model::task::{TaskKind, TaskState};
use muster_model::token::TokenKind;
use muster_model::webhook::WebhookState;
use muster_model::witness::{Transition, WitnessKind};
use muster_testkit::{Database, golden};

use crate::made;

on_both![databases:
    an_empty_database_is_migrated,
    opening_twice_is_harmless,
    a_newer_database_is_refused,
    a_changed_migration_is_refused,
    a_half_done_migration_is_refused,
];

/// Returns file names and texts, in order.
fn migrations() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut texts: Vec<(String, String)> = files
        .map(|path| {
            (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read_to_string(path).unwrap())
        })
        .collect();
    texts.sort();
    texts
}

/// Returns the text from each `word` up to its closing parenthesis, on one line.
fn clauses(text: &str, word: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (start, _) in text.match_indices(word) {
        let mut depth = 0;
        let clause: String = text[start..]
            .chars()
            .scan(false, |over, letter| {
                if *over {
                    return None;
                }
                depth += i32::from(letter == '(') - i32::from(letter == ')');
                *over = letter == ')' && depth == 0;
                Some(letter)
            })
            .collect();
        found.push(clause.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn golden_both_databases_have_the_committed_schema() {
    let mut described = Vec::new();
    for database in Database::both() {
        described.push(database.open().await.describe_schema().await.unwrap());
    }
    let (sqlite, postgres) = (&described[0], &described[1]);
    let only = |mine: &[String], theirs: &[String]| {
        mine.iter().filter(|line| !theirs.contains(line)).cloned().collect::<Vec<_>>()
    };
    assert_eq!(
        sqlite,
        postgres,
        "only sqlite: {:?}; only postgres: {:?}",
        only(sqlite, postgres),
        only(postgres, sqlite)
    );
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/output/schema.txt");
    golden(&path, &format!("{}\n", postgres.join("\n")));
}

#[test]
fn the_program_contains_every_migration() {
    let files = migrations();
    let numbers: Vec<i64> =
        files.iter().map(|(name, _)| name.split_once('_').unwrap().0.parse().unwrap()).collect();
    assert_eq!(numbers, (1..=newest_migration()).collect::<Vec<_>>());
}

#[test]
fn the_checks_name_exactly_the_states_of_the_enums() {
    let list = |column: &str, words: Vec<&str>| {
        let words: Vec<String> = words.into_iter().map(|word| format!("'{word}'")).collect();
        format!("CHECK ({column} IN ({}))", words.join(", "))
    };
    let wanted: BTreeSet<String> = [
        list("role", Role::ALL.map(Role::as_str).to_vec()),
        list("kind", TokenKind::ALL.map(TokenKind::as_str).to_vec()),
        list("state", WebhookState::ALL.map(WebhookState::as_str).to_vec()),
        list("transition", Transition::ALL.iter().map(|word| word.as_str()).collect()),
        list("kind", WitnessKind::ALL.iter().map(|word| word.as_str()).collect()),
        list("kind", vec!["gpu", "mig", "vgpu", "mps"]),
        list("state", SlotState::ALL.iter().map(|word| word.as_str()).collect()),
        list("shape", AllocationShape::ALL.iter().map(|word| word.as_str()).collect()),
        list("strategy", Strategy::ALL.map(Strategy::as_str).to_vec()),
        list("state", AllocationState::ALL.iter().map(|word| word.as_str()).collect()),
        list("state", OperationState::ALL.iter().map(|word| word.as_str()).collect()),
        list(
            "state",
            OperationState::ALL.iter().filter(|state| state.is_final()).map(|word| word.as_str()).collect(),
        ),
        list("kind", TaskKind::ALL.iter().map(|word| word.as_str()).collect()),
        list("state", TaskState::ALL.iter().map(|word| word.as_str()).collect()),
        list("state", CellState::ALL.iter().map(|word| word.as_str()).collect()),
        list("protocol", vec!["tcp", "udp"]),
        list("state", ArtifactState::ALL.iter().map(|word| word.as_str()).collect()),
        list("kind", [ArtifactKind::Oci, ArtifactKind::Blob].map(ArtifactKind::as_str).to_vec()),
        list("audience", Audience::ALL.iter().map(|word| word.as_str()).collect()),
        list("state", InstanceState::ALL.iter().map(|word| word.as_str()).collect()),
        list("health", Health::ALL.iter().map(|word| word.as_str()).collect()),
        list("repair", RepairMode::ALL.iter().map(|word| word.as_str()).collect()),
        list("state", MemberState::ALL.iter().map(|word| word.as_str()).collect()),
        list("verb", AdapterVerb::ALL.iter().map(|word| word.as_str()).collect()),
        list("state", AdapterStepState::ALL.iter().map(|word| word.as_str()).collect()),
        list("purpose", Purpose::ALL.map(Purpose::as_str).to_vec()),
        list(
            "unsigned_up_to",
            ArtifactState::ALL.iter().filter(|state| state.may_start()).map(|word| word.as_str()).collect(),
        ),
    ]
    .into();
    let text: String = migrations().into_iter().map(|(_, text)| text).collect();
    let checks = clauses(&text, "CHECK (");
    // Only the closed lists: `CHECK (column IN (…))` and nothing else.
    let lists = checks
        .into_iter()
        .filter(|check| check.contains(" IN ('") && !check.contains(" AND ") && !check.contains(" NOT IN "));
    assert_eq!(lists.collect::<BTreeSet<_>>(), wanted);
}

async fn an_empty_database_is_migrated(database: &Database) {
    let store = database.open().await;
    assert_eq!(store.schema_version().await.unwrap(), newest_migration());
    assert!(newest_migration() >= 1);
    let tenant = made::tenant("acme");
    made::put(&store, async |tx| tx.tenant_insert(&tenant).await).await.unwrap();
    made::same(&store.tenant_lookup(tenant.id).await.unwrap(), &Some(tenant));
}

async fn opening_twice_is_harmless(database: &Database) {
    let first = database.open().await;
    let tenant = made::tenant("acme");
    made::put(&first, async |tx| tx.tenant_insert(&tenant).await).await.unwrap();
    let second = database.open().await;
    assert!(second.tenant_lookup(tenant.id).await.unwrap().is_some());
    assert_eq!(first.describe_schema().await.unwrap(), second.describe_schema().await.unwrap());
    assert_eq!(second.schema_version().await.unwrap(), newest_migration());
}

async fn a_newer_database_is_refused(database: &Database) {
    let store = database.open().await;
    let later = match &database.location {
        Location::Sqlite(_) => {
            "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
             VALUES (999, 'later', TRUE, x'00', 0)"
        }
        Location::Postgres(_) => {
            r"INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
              VALUES (999, 'later', TRUE, '\x00', 0)"
        }
    };
    store.sabotage(later).await.unwrap();
    assert_eq!(store.schema_version().await.unwrap(), 999);
    store.close().await;
    let refused = Store::open(&database.location, 2).await.map(drop);
    match &refused {
        Err(StoreError::TooNew { found: 999, known }) => assert_eq!(*known, newest_migration()),
        other => panic!("{other:?}"),
    }
    let told = refused.unwrap_err().to_string();
    assert!(told.contains("999") && told.contains("restore a backup"), "{told}");
}

async fn a_changed_migration_is_refused(database: &Database) {
    let store = database.open().await;
    let other = match &database.location {
        Location::Sqlite(_) => "UPDATE _sqlx_migrations SET checksum = x'00' WHERE version = 1",
        Location::Postgres(_) => r"UPDATE _sqlx_migrations SET checksum = '\x00' WHERE version = 1",
    };
    store.sabotage(other).await.unwrap();
    made::is_unavailable(Store::open(&database.location, 2).await.map(drop));
}

async fn a_half_done_migration_is_refused(database: &Database) {
    let store = database.open().await;
    store.sabotage("UPDATE _sqlx_migrations SET success = FALSE WHERE version = 1").await.unwrap();
    made::is_unavailable(Store::open(&database.location, 2).await.map(drop));
}

/// Replicas start together after an upgrade; only one of them may migrate.
#[tokio::test(flavor = "multi_thread")]
async fn replicas_that_open_an_empty_database_at_once_all_succeed() {
    let database = Database::postgres_empty();
    let opened = futures::future::join_all((0..8).map(|_| Store::open(&database.location, 1))).await;
    for store in opened {
        assert_eq!(store.unwrap().schema_version().await.unwrap(), newest_migration());
    }
}
