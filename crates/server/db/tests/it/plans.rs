//! PostgreSQL's plans of the hot statements of engine, agents and placement, with a few thousand rows: none may scan a whole
//! table.
//!
//! Each statement is planned twice, with a custom and with a generic plan: a connection uses the former for the first
//! executions and may use the latter ever after.

use muster_db::{Location, Store, statements};
use muster_testkit::Database;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

/// Statement name, types of its values, and values.
const HOT: &[(&str, &str, &str)] = &[
    (
        "CANDIDATE",
        "bigint[], bigint, bigint, bigint, timestamptz",
        "ARRAY[8, 4303489025], 2, 4, 8, now() - interval '25 seconds'",
    ),
    ("FITS", "", ""),
    (
        "NODE_WITH_ROOM",
        "bigint, bigint, bigint, bigint, bigint, bigint, timestamptz",
        "0, 4294967296, 4294967296, 2, 4, 8, now() - interval '25 seconds'",
    ),
    ("NODE_STANDING", "uuid, timestamptz", "(SELECT id FROM nodes ORDER BY id DESC LIMIT 1), now()"),
    ("SLOT_LIST", "uuid", "(SELECT id FROM nodes ORDER BY id DESC LIMIT 1)"),
    ("OPERATION_ANY_DUE", "timestamptz", "now()"),
    ("OPERATION_LEASE", "text, bigint, timestamptz, bigint", "'a', 10000, now(), 32"),
    ("OPERATION_OF_SUBJECT", "uuid", "(SELECT subject_id FROM operations LIMIT 1)"),
    ("OPERATION_WAKE_WAITING_FOR", "uuid, timestamptz", "(SELECT id FROM operations LIMIT 1), now()"),
    ("LOCK_EARLIER", "uuid", "(SELECT id FROM operations LIMIT 1)"),
    ("LOCK_ROWS", "uuid", "(SELECT id FROM operations LIMIT 1)"),
    ("TASK_NODES_WAITING", "timestamptz", "now()"),
    (
        "TASK_DELIVER",
        "uuid, timestamptz, bigint, bigint",
        "(SELECT id FROM nodes ORDER BY id DESC LIMIT 1), now(), 16, 1",
    ),
    ("TASK_OF", "uuid", "(SELECT operation_id FROM node_tasks LIMIT 1)"),
    ("TASK_REQUEUE", "uuid", "(SELECT id FROM nodes ORDER BY id DESC LIMIT 1)"),
    (
        "QUEUE_YIELD",
        "uuid, bigint, bigint, bigint, bigint, text",
        "gen_random_uuid(), 1, 1, 1, 1, 'gpu_slice'",
    ),
    ("QUEUE_POSITION", "uuid", "gen_random_uuid()"),
    ("CLAIMS_OF_ALLOCATION", "uuid", "(SELECT id FROM allocations LIMIT 1)"),
];

const TABLES: [&str; 8] = [
    "nodes",
    "node_heartbeats",
    "slots",
    "claims",
    "operations",
    "operation_locks",
    "node_tasks",
    "allocations",
];

/// A fleet of three thousand nodes in twenty fits, each with two slots of which one is held; its history; three thousand
/// operations of which thirty are due; and twenty thousand tasks of which twenty are queued.
const FILL: &[&str] = &[
    "INSERT INTO tenants (id, slug, display_name, labels, created_at, updated_at, version)
     VALUES ('00000000-0000-7000-8000-000000000001', 'acme', '', '{}', now(), now(), 1)",
    "INSERT INTO projects (id, tenant_id, name, display_name, labels, created_at, updated_at, version)
     VALUES ('00000000-0000-7000-8000-000000000002', '00000000-0000-7000-8000-000000000001', 'train', '', '{}', now(), now(), 1)",
    "INSERT INTO nodes (id, name, labels, inventory, inventory_digest, approved_at, cordoned, draining, session, session_clean,
        agent_version, certificate_until, gpus_total, gpus_free, cpus_total, cpus_free, memory_mb_total, memory_mb_free,
        disk_mb_total, disk_mb_free, holders, exclusive, fit, created_at, updated_at, version)
     SELECT gen_random_uuid(), 'gpu-' || n, '{}', '{}', 'x', now(), false, false, 1, true, '0.1.0', now(), 2, 1, 64, n % 64,
        1000, n % 1000, 2000, n % 2000, 1, n % 9 = 0, CASE WHEN n % 100 = 0 THEN 4303489025 ELSE n % 20 END, now(), now(), 1
     FROM generate_series(1, 3000) n",
    "INSERT INTO node_heartbeats (node_id, seen_at) SELECT id, now() - interval '1 second' * (random() * 40) FROM nodes",
    "INSERT INTO slots (id, node_id, kind, device, ordinal, model, memory_mb, numa, island, state, created_at, updated_at, version)
     SELECT gen_random_uuid(), id, 'gpu', 'GPU-' || o, o, 'H200', 1, 0, 0, 'approved', now(), now(), 1
     FROM nodes, generate_series(0, 1) o",
    "INSERT INTO allocations (id, tenant_id, project_id, name, labels, shape, gpus, cpus, memory_mb, disk_mb, strategy, state,
        incarnation, held_gpus, held_cpus, held_memory_mb, held_disk_mb, protected, created_at, updated_at, version)
     SELECT gen_random_uuid(), '00000000-0000-7000-8000-000000000001', '00000000-0000-7000-8000-000000000002', 'a' || n, '{}',
        'gpu_slice', 1, 1, 1, 1, 'pack', CASE WHEN n <= 3000 THEN 'provisioning' WHEN n <= 3020 THEN 'placing' ELSE 'failed' END,
        1, 0, 0, 0, 0, false, now(), now(), 1
     FROM generate_series(1, 9000) n",
    "INSERT INTO claims (id, slot_id, allocation_id, claimed_at, released_at)
     SELECT gen_random_uuid(), s.id, a.id, now(), CASE WHEN a.state = 'provisioning' THEN NULL ELSE now() END
     FROM (SELECT id, row_number() OVER () AS n FROM slots WHERE ordinal = 0) s
     JOIN (SELECT id, state, row_number() OVER (PARTITION BY state = 'provisioning') AS n FROM allocations) a ON a.n = s.n",
    "INSERT INTO operations (id, kind, subject_kind, subject_id, subject_name, asked_by, correlation_id, state, input, exclusive_locks,
        shared_locks, steps, items, cancel_requested, due_at, deadline_at, holder, generation, leased_until, wakes, created_at, updated_at,
        version)
     SELECT gen_random_uuid(), 'allocation.create', 'allocation', gen_random_uuid(), 'a', '{}', 'c', 'running', '{}', '[]', '[]',
        '[]', '[]', false, now() + CASE WHEN n <= 30 THEN interval '-1 minute' ELSE interval '1 hour' END, now(), '', 1,
        now() - interval '1 hour', 0, now(), now(), 1
     FROM generate_series(1, 3000) n",
    "INSERT INTO operation_locks (operation_id, thing, held, shared) SELECT id, subject_id, true, false FROM operations",
    "INSERT INTO node_tasks (id, node_id, operation_id, key, kind, incarnation, generation, payload, state, correlation_id,
        queued_at, finished_at, expires_at)
     SELECT gen_random_uuid(), (SELECT id FROM nodes WHERE name = 'gpu-' || 1 + n % 3000), gen_random_uuid(), 'prepare', 'prepare',
        1, 1, '{}', CASE WHEN n <= 20 THEN 'queued' ELSE 'done' END, 'c', now(), CASE WHEN n <= 20 THEN NULL ELSE now() END,
        now() + interval '5 minutes'
     FROM generate_series(1, 20000) n",
    "ANALYZE",
];

async fn run(connection: &mut PgConnection, statement: String) {
    let ran = sqlx::raw_sql(AssertSqlSafe(statement.clone())).execute(connection).await;
    ran.unwrap_or_else(|error| panic!("{statement}: {error}"));
}

async fn plan(
    connection: &mut PgConnection,
    mode: &str,
    (name, types, values): (&str, &str, &str),
) -> String {
    let text = statements().into_iter().find(|sql| sql.name == name).unwrap_or_else(|| panic!("{name}")).pg;
    run(connection, format!("SET plan_cache_mode = force_{mode}_plan")).await;
    let types = if types.is_empty() { String::new() } else { format!("({types})") };
    run(connection, format!("PREPARE {name}_{mode} {types} AS {text}")).await;
    // EXECUTE accepts no subqueries, so the values are read first.
    let mut read = Vec::new();
    if !values.is_empty() {
        let columns = format!("SELECT unnest(ARRAY[{}])", split(values).join(", "));
        read = sqlx::query_scalar::<_, Option<String>>(AssertSqlSafe(columns))
            .fetch_all(&mut *connection)
            .await
            .unwrap();
    }
    let literals: Vec<String> =
        read.into_iter().map(|value| value.map_or("NULL".to_owned(), |text| format!("'{text}'"))).collect();
    let arguments = if literals.is_empty() { String::new() } else { format!("({})", literals.join(", ")) };
    let explain = format!("EXPLAIN EXECUTE {name}_{mode} {arguments}");
    let lines: Vec<String> = sqlx::query_scalar(AssertSqlSafe(explain)).fetch_all(connection).await.unwrap();
    lines.join("\n")
}

/// Splits a list of values.
fn split(values: &str) -> Vec<String> {
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for letter in values.chars() {
        depth += i32::from(matches!(letter, '(' | '[')) - i32::from(matches!(letter, ')' | ']'));
        match letter {
            ',' if depth == 0 => parts.push(String::new()),
            letter => parts.last_mut().unwrap().push(letter),
        }
    }
    parts.into_iter().map(|part| format!("({part})::text")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_hot_statement_reads_a_table_from_end_to_end() {
    let database = Database::postgres();
    let store = database.open().await;
    for statement in FILL {
        store.sabotage(statement).await.unwrap();
    }
    let mut connection = connect(&store).await;
    let mut wrong = Vec::new();
    for hot in HOT {
        for mode in ["custom", "generic"] {
            let plan = plan(&mut connection, mode, *hot).await;
            for table in TABLES {
                let scan = format!("Seq Scan on {table}");
                if plan.lines().any(|line| line.trim_end().contains(&format!("{scan} "))) {
                    wrong.push(format!("{} ({mode}): {scan}\n{plan}", hot.0));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    // Verifies that the test detects a full scan.
    let whole = plan(&mut connection, "custom", ("NODE_COUNT", "", "")).await;
    assert!(whole.contains("Seq Scan on nodes "), "{whole}");
}

async fn connect(store: &Store) -> PgConnection {
    let Location::Postgres(url) = store.location() else { panic!("this is about PostgreSQL") };
    PgConnection::connect(url).await.unwrap()
}
