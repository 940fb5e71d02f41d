//! The migrations: written once for PostgreSQL, translated for SQLite when the program starts.
//!
//! A second folder for SQLite was rejected: all but two lines of it followed from the first, and a test had to find what did
//! not. A dialect of our own was rejected too: the files are SQL that `psql` can run.

use std::sync::LazyLock;

use sqlx::SqlSafeStr as _;
use sqlx::migrate::{Migration, MigrationType, Migrator};

/// A migration: number, name and PostgreSQL text. A released migration never changes.
type Source = (i64, &'static str, &'static str);

const MIGRATIONS: &[Source] = &[
    (1, "foundation", include_str!("../migrations/0001_foundation.sql")),
    (2, "fleet", include_str!("../migrations/0002_fleet.sql")),
    (3, "cells", include_str!("../migrations/0003_cells.sql")),
    (4, "artifacts", include_str!("../migrations/0004_artifacts.sql")),
    (5, "apps", include_str!("../migrations/0005_apps.sql")),
];

/// The texts for SQLite, in the order of [`MIGRATIONS`].
static SQLITE: LazyLock<Vec<String>> =
    LazyLock::new(|| MIGRATIONS.iter().map(|(_, _, text)| to_sqlite(text)).collect());

/// Marks the line that replaces the line above it on SQLite; an empty one removes it.
const REPLACEMENT: &str = "-- sqlite:";

/// The words that differ in every migration. Times are microseconds, JSON and ids are text.
const WORDS: &[(&str, &str)] = &[
    ("UUID", "TEXT"),
    ("TIMESTAMPTZ", "INTEGER"),
    ("JSONB", "TEXT"),
    ("BIGINT", "INTEGER"),
    ("BOOLEAN", "INTEGER"),
    ("BYTEA", "BLOB"),
    ("FALSE", "0"),
    ("TRUE", "1"),
];

/// Returns the newest migration that this binary knows.
pub fn newest_migration() -> i64 {
    MIGRATIONS.iter().map(|migration| migration.0).max().unwrap_or(0)
}

/// Returns a digest of all migrations, which changes with any text. Tests name their template database after it.
#[cfg(feature = "test-api")]
pub fn migrations_digest() -> String {
    use sha2::{Digest as _, Sha256};

    let mut digest = Sha256::new();
    for (number, name, text) in MIGRATIONS {
        digest.update(format!("{number} {name} {}\n{text}", text.len()));
    }
    digest.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn postgres_migrator() -> Migrator {
    Migrator::with_migrations(MIGRATIONS.iter().map(from_source).collect())
}

/// The checksums are those of the PostgreSQL texts: these are what a release freezes.
pub(crate) fn sqlite_migrator() -> Migrator {
    let translated = MIGRATIONS
        .iter()
        .zip(SQLITE.iter())
        .map(|(source, text)| Migration { sql: text.as_str().into_sql_str(), ..from_source(source) });
    Migrator::with_migrations(translated.collect())
}

fn from_source(&(number, name, text): &Source) -> Migration {
    Migration::new(number, name.into(), MigrationType::Simple, text.into_sql_str(), false)
}

/// Translates a migration: the types, STRICT on every table, and the lines that are replaced.
fn to_sqlite(postgres: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut is_in_table = false;
    for line in postgres.lines() {
        let code = line.trim_start();
        if let Some(replacement) = code.strip_prefix(REPLACEMENT) {
            lines.pop();
            if !replacement.trim().is_empty() {
                let indent = &line[..line.len() - code.len()];
                lines.push(format!("{indent}{}", replacement.trim()));
            }
            continue;
        }
        is_in_table |= line.starts_with("CREATE TABLE");
        let mut translated = translate_words(line);
        if is_in_table && let Some(head) = translated.strip_suffix(");") {
            translated = format!("{head}) STRICT;");
            is_in_table = false;
        }
        lines.push(translated);
    }
    lines.join("\n") + "\n"
}

/// Translates the words of a line that stand outside its comment and its quotes.
fn translate_words(line: &str) -> String {
    let is_outside_quotes = |at: usize| line[..at].matches('\'').count().is_multiple_of(2);
    let comment = line.match_indices("--").map(|(at, _)| at).find(|at| is_outside_quotes(*at));
    let (code, comment) = line.split_at(comment.unwrap_or(line.len()));
    let parts = code.split('\'').enumerate().map(|(number, part)| {
        let is_quoted = !number.is_multiple_of(2);
        if is_quoted {
            part.to_owned()
        } else {
            part.split_inclusive(is_delimiter).map(translate_word).collect()
        }
    });
    parts.collect::<Vec<String>>().join("'") + comment
}

/// Translates a word with the delimiter that follows it.
fn translate_word(word: &str) -> String {
    let bare = word.trim_end_matches(is_delimiter);
    match WORDS.iter().find(|(postgres, _)| *postgres == bare) {
        Some((_, sqlite)) => format!("{sqlite}{}", &word[bare.len()..]),
        None => word.to_owned(),
    }
}

fn is_delimiter(letter: char) -> bool {
    !(letter.is_alphanumeric() || letter == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns all migrations as one text, for PostgreSQL and for SQLite.
    fn texts() -> (String, String) {
        (MIGRATIONS.iter().map(|(_, _, text)| *text).collect(), SQLITE.concat())
    }

    /// Returns the text from each `word` up to its closing parenthesis, on one line.
    fn clauses(text: &str, word: &str) -> Vec<String> {
        let mut found = Vec::new();
        for (start, _) in text.match_indices(word) {
            let mut depth = 0;
            let end = text[start..].find(|letter| {
                depth += i32::from(letter == '(') - i32::from(letter == ')');
                letter == ')' && depth == 0
            });
            let clause = &text[start..=start + end.expect("every parenthesis is closed")];
            found.push(clause.split_whitespace().collect::<Vec<_>>().join(" "));
        }
        found
    }

    #[test]
    fn a_table_gets_the_types_of_sqlite_and_is_strict() {
        let postgres = "CREATE TABLE nodes (\n    id UUID NOT NULL PRIMARY KEY,\n    facts JSONB,\n    name TEXT,\n    \
             seen_at TIMESTAMPTZ,\n    key BYTEA,\n    drained BOOLEAN NOT NULL DEFAULT FALSE,\n    kept BOOLEAN DEFAULT TRUE,\n    \
             version BIGINT NOT NULL CHECK (version > 0),\n    CHECK (id IS NOT NULL OR (version = 1))\n);\n";
        let sqlite = "CREATE TABLE nodes (\n    id TEXT NOT NULL PRIMARY KEY,\n    facts TEXT,\n    name TEXT,\n    \
             seen_at INTEGER,\n    key BLOB,\n    drained INTEGER NOT NULL DEFAULT 0,\n    kept INTEGER DEFAULT 1,\n    \
             version INTEGER NOT NULL CHECK (version > 0),\n    CHECK (id IS NOT NULL OR (version = 1))\n) STRICT;\n";
        assert_eq!(to_sqlite(postgres), sqlite);
    }

    #[test]
    fn only_tables_are_strict() {
        assert_eq!(to_sqlite("CREATE TABLE a (b BIGINT);\n"), "CREATE TABLE a (b INTEGER) STRICT;\n");
        let index = "CREATE UNIQUE INDEX one ON a (\n    b\n);\nCREATE INDEX two ON a (b);\n";
        assert_eq!(to_sqlite(&format!("CREATE TABLE a (b TEXT);\n{index}")), {
            format!("CREATE TABLE a (b TEXT) STRICT;\n{index}")
        });
        let column = "ALTER TABLE a ADD COLUMN c UUID REFERENCES d (id);\n";
        assert_eq!(to_sqlite(column), "ALTER TABLE a ADD COLUMN c TEXT REFERENCES d (id);\n");
    }

    #[test]
    fn names_comments_and_quoted_text_stay() {
        for line in [
            "    -- A UUID, TRUE or FALSE.",
            "    uuid TEXT, -- it's a UUID",
            "    kind TEXT CHECK (kind IN ('UUID', '-- BIGINT')),",
            "    name TEXT DEFAULT 'it''s a UUID',",
            "    UUID_OF TEXT,",
        ] {
            assert_eq!(translate_words(line), line);
        }
        assert_eq!(
            translate_words("a UUID DEFAULT '--', b UUID -- UUID"),
            "a TEXT DEFAULT '--', b TEXT -- UUID"
        );
    }

    #[test]
    fn a_marked_line_replaces_the_line_above_it() {
        let postgres = "A;\nCREATE INDEX a ON b USING brin (c);\n-- sqlite: CREATE INDEX a ON b (c);\nB;\n";
        assert_eq!(to_sqlite(postgres), "A;\nCREATE INDEX a ON b (c);\nB;\n");
        let column = "CREATE TABLE a (\n    b BIGINT,\n    -- sqlite: b ANY,\n    c UUID\n);\n";
        assert_eq!(to_sqlite(column), "CREATE TABLE a (\n    b ANY,\n    c TEXT\n) STRICT;\n");
        assert_eq!(to_sqlite("A;\nB;\n-- sqlite:\nC;\n"), "A;\nC;\n");
    }

    #[test]
    fn every_table_is_strict_and_every_column_has_a_portable_type() {
        let (postgres, sqlite) = texts();
        let tables = postgres.matches("CREATE TABLE ").count();
        assert!(tables > 10, "the texts were not understood");
        assert_eq!(sqlite.matches("\n) STRICT;\n").count(), tables);
        let columns = postgres.lines().filter_map(|line| {
            let column =
                line.strip_prefix("    ").or(line.split_once(" ADD COLUMN ").map(|(_, column)| column))?;
            column.starts_with(|first: char| first.is_ascii_lowercase()).then_some(column)
        });
        let types = ["UUID", "TIMESTAMPTZ", "JSONB", "TEXT", "BIGINT", "BOOLEAN", "BYTEA"];
        let other: Vec<&str> = columns
            .filter(|column| {
                let of = column.split_whitespace().nth(1).unwrap_or_default();
                !types.contains(&of.trim_end_matches([',', ';']))
            })
            .collect();
        assert!(other.is_empty(), "columns without a portable type: {other:#?}");
    }

    /// The schema description does not include these, so the texts are compared: a replaced line must keep them.
    #[test]
    fn checks_foreign_keys_and_partial_indexes_are_the_same_in_both_texts() {
        let (postgres, sqlite) = texts();
        let references = |text: &str| {
            let owners = text.lines().filter(|line| line.contains("REFERENCES"));
            owners.map(|line| line.trim().replace("UUID", "TEXT")).collect::<Vec<_>>()
        };
        let partial = |text: &str| {
            text.lines()
                .filter(|line| line.contains("INDEX") && line.contains("WHERE"))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert!(
            references(&postgres).len() > 10 && partial(&postgres).len() > 3,
            "the texts were not understood"
        );
        assert_eq!(references(&postgres), references(&sqlite));
        assert_eq!(partial(&postgres), partial(&sqlite));
        assert!(clauses(&postgres, "CHECK (").len() > 10, "the texts were not understood");
        assert_eq!(clauses(&postgres, "CHECK ("), clauses(&sqlite, "CHECK ("));
    }
}
