//! The check that the compiler would do if the SQL were Rust: every statement is valid on both databases.

use std::collections::BTreeSet;
use std::path::Path;

use muster_db::{Store, record_statements, statements};
use muster_testkit::golden;

on_both![every_statement_can_be_prepared];

async fn every_statement_can_be_prepared(store: Store) {
    let mut refused = Vec::new();
    for sql in statements() {
        if let Err(error) = store.prepare(&sql).await {
            refused.push(format!("{}: {error}", sql.name));
        }
    }
    assert!(refused.is_empty(), "{} refuses:\n{}", store.kind(), refused.join("\n"));
}

#[test]
fn names_are_unique_because_faults_and_the_golden_list_go_by_them() {
    let mut seen = BTreeSet::new();
    let twice: Vec<&str> =
        statements().into_iter().map(|sql| sql.name).filter(|name| !seen.insert(*name)).collect();
    assert!(twice.is_empty(), "declared twice: {twice:?}");
}

#[test]
fn no_file_of_statements_is_left_out_of_the_list() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files =
        std::fs::read_dir(source).unwrap().map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
    let declared: usize =
        files.map(|text| text.matches(" = both(").count() + text.matches(" = pair(").count()).sum();
    // Fused statements are not declared on their own, and those of records are made of the record's declaration.
    let listed = statements().iter().filter(|sql| !sql.name.starts_with("RECORD_COMMAND_WITH_")).count();
    assert_eq!(listed, declared + record_statements().len());
}

#[test]
fn golden_the_statements_that_are_pairs_are_listed() {
    let mut names: Vec<&str> = statements().iter().filter(|sql| sql.is_pair()).map(|sql| sql.name).collect();
    names.sort_unstable();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/output/pairs.txt");
    golden(&path, &format!("{}\n", names.join("\n")));
}
