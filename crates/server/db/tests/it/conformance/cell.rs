//! Cells: their names, addresses and evidence; node ports; and archived logs.

use muster_db::{CellFilter, CellReport, Page, Result, Store, Tx};
use muster_ids::{AllocationId, NodeId, TypedId as _};
use muster_model::cell::{Cell, CellFailure, CellLog, CellState, Network, NodePort};
use muster_model::witness::{Transition, Witness, WitnessKind};
use muster_model::{LabelSelector, Labels, Project, Tenant};
use serde_json::json;

use crate::made::{self, FIRST, at, fleet, is_conflict, is_gone, is_stale, put, same};

on_both![
    a_cell_reads_back_as_it_was_asked_for,
    a_cell_needs_everything_that_it_refers_to,
    running_cell_requires_verified_evidence,
    destroyed_cell_requires_evidence_or_an_attestation,
    a_cell_moves_as_it_can_and_on_the_version_that_was_seen,
    living_cells_have_names_and_addresses_of_their_own,
    of_one_name_the_living_one_is_found_and_else_the_last,
    lists_page_and_select,
    only_the_living_are_in_an_allocation_on_a_node_and_at_an_address,
    a_port_of_a_node_leads_to_one_cell_until_that_is_gone,
    the_last_that_was_kept_of_a_log_counts,
    newest_archived_logs_are_listed_up_to_a_bound,
    logs_of_long_ago_are_forgotten,
    history_goes_with_its_project_or_tenant_and_the_living_do_not,
    an_end_is_decided_about_once_and_restarts_are_counted,
    only_bare_cells_that_ended_on_a_node_that_answers_are_restarted,
    dead_cells_and_unconfirmed_nodes_are_counted,
];

/// A project with an allocation on a node, and the network of its cells.
pub(super) struct Place {
    pub(super) tenant: Tenant,
    pub(super) project: Project,
    pub(super) node: NodeId,
    pub(super) allocation: AllocationId,
    pub(super) network: Network,
}

pub(super) async fn place(store: &Store) -> Place {
    let (tenant, project) = fleet::place(store).await;
    let (node, _) = fleet::machine(store, "gpu-1", 0).await;
    in_project(store, tenant, project, node).await
}

/// Does the same for an existing project and node.
pub(super) async fn in_project(store: &Store, tenant: Tenant, project: Project, node: NodeId) -> Place {
    let allocation = fleet::requested(store, &project, "a").await.id;
    let network = ensured(store, &project).await.unwrap();
    Place { tenant, project, node, allocation, network }
}

/// Returns the network of a project's cells.
pub(super) async fn ensured(store: &Store, project: &Project) -> Result<Network> {
    let (tenant, project) = (project.tenant_id, project.id);
    put(store, async |tx| tx.network_ensure(made::id(), tenant, project, "default", at(0)).await).await
}

pub(super) fn cell(place: &Place, name: &str, host: i64) -> Cell {
    Cell {
        id: made::id(),
        tenant_id: place.tenant.id,
        project_id: place.project.id,
        allocation_id: place.allocation,
        node_id: place.node,
        network_id: place.network.id,
        name: name.to_owned(),
        labels: Labels::new(),
        spec: json!({"root": {"host": ["/usr"]}}),
        people: false,
        artifact_id: None,
        member_id: None,
        fenced: false,
        host,
        state: CellState::Requested,
        incarnation: 0,
        reason: None,
        message: None,
        running_witness_id: None,
        destroyed_witness_id: None,
        operation_id: Some(made::id()),
        created_at: at(0),
        updated_at: at(0),
        version: 1,
    }
}

pub(super) async fn request(store: &Store, cell: &Cell) -> Result<()> {
    put(store, async |tx| tx.cell_request(cell).await).await
}

/// Creates a requested cell.
pub(super) async fn asked(store: &Store, place: &Place, name: &str, host: i64) -> Cell {
    let cell = cell(place, name, host);
    request(store, &cell).await.unwrap();
    cell
}

async fn step(store: &Store, before: &Cell, after: &Cell) -> Result<()> {
    put(store, async |tx| tx.cell_move(before, after, at(9)).await).await
}

async fn moved(store: &Store, before: &Cell, after: Cell) -> Cell {
    step(store, before, &after).await.unwrap();
    store.cell_lookup(before.id).await.unwrap().unwrap()
}

async fn provisioning(store: &Store, place: &Place, name: &str, host: i64) -> Cell {
    let before = asked(store, place, name, host).await;
    moved(store, &before, Cell { state: CellState::Provisioning, incarnation: 1, ..before.clone() }).await
}

/// Moves the cell to gone, with evidence.
pub(super) async fn gone(store: &Store, before: &Cell) -> Cell {
    let witness = fleet::witnessed(store, before.id.uuid(), Transition::Destroyed).await;
    let after =
        Cell { state: CellState::Destroyed, destroyed_witness_id: Some(witness.id), ..before.clone() };
    moved(store, before, after).await
}

async fn failed(store: &Store, before: &Cell) -> Cell {
    let reason = Some(CellFailure::MakeFailed);
    let after = Cell { state: CellState::Failed, reason, message: Some("why".to_owned()), ..before.clone() };
    moved(store, before, after).await
}

async fn on_word(store: &Store, cell: &Cell, transition: Transition) -> Witness {
    let witness = Witness {
        kind: WitnessKind::Attested,
        actor_id: Some("usr_1".to_owned()),
        ..fleet::witness(cell.id.uuid(), transition)
    };
    put(store, async |tx| tx.witness_insert(&witness).await).await.unwrap();
    witness
}

async fn a_cell_reads_back_as_it_was_asked_for(store: Store) {
    let place = place(&store).await;
    let mut cell = cell(&place, "shell", 2);
    (cell.labels, cell.people) = (made::labels([("team", "ml")]), true);
    request(&store, &cell).await.unwrap();
    same(&store.cell_lookup(cell.id).await.unwrap().unwrap(), &cell);
    same(&store.cell_by_name(place.project.id, "shell").await.unwrap().unwrap(), &cell);
    assert!(store.cell_lookup(made::id()).await.unwrap().is_none());
    assert!(store.cell_by_name(place.project.id, "other").await.unwrap().is_none());
    assert!(store.cell_by_name(made::id(), "shell").await.unwrap().is_none());

    let failed = failed(&store, &cell).await;
    assert_eq!((failed.reason, failed.message.as_deref()), (Some(CellFailure::MakeFailed), Some("why")));
    assert_eq!((failed.updated_at, failed.version), (at(9), 2));
}

async fn a_cell_needs_everything_that_it_refers_to(store: Store) {
    let place = place(&store).await;
    let good = cell(&place, "shell", 2);
    is_gone(request(&store, &Cell { project_id: made::id(), ..good.clone() }).await);
    is_gone(request(&store, &Cell { allocation_id: made::id(), ..good.clone() }).await);
    is_gone(request(&store, &Cell { node_id: made::id(), ..good.clone() }).await);
    is_gone(request(&store, &Cell { network_id: made::id(), ..good.clone() }).await);
    is_conflict(request(&store, &Cell { host: 0, ..good.clone() }).await);
    is_conflict(request(&store, &Cell { incarnation: -1, ..good.clone() }).await);
    request(&store, &good).await.unwrap();
}

async fn running_cell_requires_verified_evidence(store: Store) {
    let place = place(&store).await;
    let made = provisioning(&store, &place, "shell", 2).await;
    let other = provisioning(&store, &place, "other", 3).await;
    let running = |witness| Cell { state: CellState::Running, running_witness_id: witness, ..made.clone() };
    is_conflict(step(&store, &made, &running(None)).await);
    is_gone(step(&store, &made, &running(Some(made::id()))).await);
    let of_another = fleet::witnessed(&store, other.id.uuid(), Transition::Active).await;
    is_gone(step(&store, &made, &running(Some(of_another.id))).await);
    let of_its_end = fleet::witnessed(&store, made.id.uuid(), Transition::Destroyed).await;
    is_gone(step(&store, &made, &running(Some(of_its_end.id))).await);
    // That a cell runs must be verified; an attestation is not enough.
    let word = on_word(&store, &made, Transition::Active).await;
    is_gone(step(&store, &made, &running(Some(word.id))).await);
    let seen = fleet::witnessed(&store, made.id.uuid(), Transition::Active).await;
    let found = moved(&store, &made, running(Some(seen.id))).await;
    assert_eq!((found.state, found.running_witness_id), (CellState::Running, Some(seen.id)));
}

async fn destroyed_cell_requires_evidence_or_an_attestation(store: Store) {
    let place = place(&store).await;
    let made = provisioning(&store, &place, "shell", 2).await;
    let gone = |witness| Cell { state: CellState::Destroyed, destroyed_witness_id: witness, ..made.clone() };
    is_conflict(step(&store, &made, &gone(None)).await);
    is_gone(step(&store, &made, &gone(Some(made::id()))).await);
    let of_its_life = fleet::witnessed(&store, made.id.uuid(), Transition::Active).await;
    is_gone(step(&store, &made, &gone(Some(of_its_life.id))).await);
    let word = on_word(&store, &made, Transition::Destroyed).await;
    assert_eq!(moved(&store, &made, gone(Some(word.id))).await.state, CellState::Destroyed);
}

async fn a_cell_moves_as_it_can_and_on_the_version_that_was_seen(store: Store) {
    let place = place(&store).await;
    let first = asked(&store, &place, "shell", 2).await;
    is_conflict(step(&store, &first, &Cell { state: CellState::Destroying, ..first.clone() }).await);
    let after = Cell { state: CellState::Provisioning, incarnation: 1, ..first.clone() };
    let second = moved(&store, &first, after.clone()).await;
    assert_eq!((second.state, second.incarnation, second.version), (CellState::Provisioning, 1, 2));
    is_stale(step(&store, &first, &after).await);
    assert_eq!(store.cell_lookup(first.id).await.unwrap().unwrap().incarnation, 1);
    let over = gone(&store, &second).await;
    is_conflict(step(&store, &over, &Cell { state: CellState::Provisioning, ..over.clone() }).await);
}

async fn living_cells_have_names_and_addresses_of_their_own(store: Store) {
    let place = place(&store).await;
    let first = asked(&store, &place, "shell", 2).await;
    is_conflict(request(&store, &cell(&place, "shell", 3)).await);
    is_conflict(request(&store, &cell(&place, "other", 2)).await);
    let serve = made::project(&place.tenant, "serve");
    put(&store, async |tx| tx.project_insert(&serve).await).await.unwrap();
    let elsewhere = in_project(&store, place.tenant.clone(), serve, place.node).await;
    asked(&store, &elsewhere, "shell", 2).await;

    gone(&store, &first).await;
    let again = asked(&store, &place, "shell", 2).await;
    failed(&store, &again).await;
    asked(&store, &place, "shell", 2).await;
}

async fn of_one_name_the_living_one_is_found_and_else_the_last(store: Store) {
    let place = place(&store).await;
    let found = async || store.cell_by_name(place.project.id, "shell").await.unwrap().unwrap().id;
    let first = asked(&store, &place, "shell", 2).await;
    gone(&store, &first).await;
    assert_eq!(found().await, first.id);
    let second = asked(&store, &place, "shell", 2).await;
    assert_eq!(found().await, second.id);
    failed(&store, &second).await;
    assert_eq!(found().await, second.id);
    // The live cell is found, regardless of creation order.
    let mut third = cell(&place, "shell", 2);
    third.id = muster_ids::CellId::from_uuid(uuid::Uuid::from_u128(1));
    request(&store, &third).await.unwrap();
    assert_eq!(found().await, third.id);
}

async fn lists_page_and_select(store: Store) {
    let place = place(&store).await;
    let second = fleet::requested(&store, &place.project, "b").await.id;
    let mut cells = Vec::new();
    for (host, name) in [(2, "a"), (3, "b"), (4, "c")] {
        let mut cell = cell(&place, name, host);
        cell.labels = made::labels([("name", name)]);
        if name == "c" {
            cell.allocation_id = second;
        }
        request(&store, &cell).await.unwrap();
        cells.push(cell);
    }
    let over = gone(&store, &cells[0]).await;
    let names = async |page: Page, labels: &str, filter: CellFilter| {
        let selector = if labels.is_empty() { LabelSelector::default() } else { made::selector(labels) };
        let found = store.cell_list(page, &selector, place.project.id, filter).await.unwrap();
        found.into_iter().map(|cell| cell.name).collect::<Vec<_>>().join(" ")
    };
    let all = CellFilter::default();
    assert_eq!(names(FIRST, "", all).await, "a b c");
    assert_eq!(names(Page { size: 2, ..FIRST }, "", all).await, "a b");
    assert_eq!(names(made::page(over.id, 1), "", all).await, "b");
    assert_eq!(names(FIRST, "name!=b", all).await, "a c");
    assert_eq!(names(FIRST, "name=b", all).await, "b");
    assert_eq!(names(FIRST, "", CellFilter { state: Some(CellState::Destroyed), ..all }).await, "a");
    assert_eq!(names(FIRST, "", CellFilter { allocation: Some(second), ..all }).await, "c");
    let none = CellFilter { state: Some(CellState::Destroyed), allocation: Some(second) };
    assert_eq!(names(FIRST, "", none).await, "");
    let other = store.cell_list(FIRST, &LabelSelector::default(), made::id(), all).await.unwrap();
    assert!(other.is_empty());
}

async fn only_the_living_are_in_an_allocation_on_a_node_and_at_an_address(store: Store) {
    let place = place(&store).await;
    let (a, b) = (asked(&store, &place, "a", 5).await, asked(&store, &place, "b", 3).await);
    let hosts = async || put(&store, async |tx| tx.cell_hosts(place.network.id).await).await.unwrap();
    let ids = |cells: Vec<Cell>| cells.into_iter().map(|cell| cell.id).collect::<Vec<_>>();
    assert_eq!(hosts().await, [3, 5]);
    assert_eq!(ids(store.cell_live_in(place.allocation).await.unwrap()), [a.id, b.id]);
    assert_eq!(ids(store.cell_live_on(place.node).await.unwrap()), [a.id, b.id]);
    gone(&store, &a).await;
    assert_eq!(hosts().await, [3]);
    assert_eq!(ids(store.cell_live_in(place.allocation).await.unwrap()), [b.id]);
    failed(&store, &b).await;
    assert!(hosts().await.is_empty());
    assert!(store.cell_live_in(place.allocation).await.unwrap().is_empty());
    assert!(store.cell_live_on(place.node).await.unwrap().is_empty());
    assert!(store.cell_live_in(made::id()).await.unwrap().is_empty());
}

fn leads(protocol: &str, port: i64, cell_port: i64) -> NodePort {
    NodePort { protocol: protocol.to_owned(), port, cell_port }
}

async fn a_port_of_a_node_leads_to_one_cell_until_that_is_gone(store: Store) {
    let place = place(&store).await;
    let (a, b) = (asked(&store, &place, "a", 2).await, asked(&store, &place, "b", 3).await);
    let (second, _) = fleet::machine(&store, "gpu-2", 0).await;
    let insert = async |node: NodeId, cell: &Cell, port: NodePort| {
        put(&store, async |tx| tx.node_port_insert(node, cell.id, &port).await).await
    };
    let taken = async |node: NodeId, protocol: &str| {
        put(&store, async |tx| tx.node_port_taken(node, protocol).await).await.unwrap()
    };
    insert(place.node, &a, leads("tcp", 30_001, 80)).await.unwrap();
    insert(place.node, &a, leads("tcp", 30_000, 81)).await.unwrap();
    insert(place.node, &a, leads("udp", 30_000, 53)).await.unwrap();
    is_conflict(insert(place.node, &b, leads("tcp", 30_001, 80)).await);
    insert(second, &b, leads("tcp", 30_001, 80)).await.unwrap();
    is_conflict(insert(place.node, &b, leads("sctp", 30_002, 80)).await);
    is_conflict(insert(place.node, &b, leads("tcp", 0, 80)).await);
    is_conflict(insert(place.node, &b, leads("tcp", 65_536, 80)).await);
    is_conflict(insert(place.node, &b, leads("tcp", 30_002, 65_536)).await);
    is_gone(insert(made::id(), &b, leads("tcp", 30_002, 80)).await);
    is_gone(insert(place.node, &cell(&place, "c", 4), leads("tcp", 30_002, 80)).await);

    assert_eq!(taken(place.node, "tcp").await, [30_000, 30_001]);
    assert_eq!(taken(place.node, "udp").await, [30_000]);
    let all = [leads("tcp", 30_000, 81), leads("tcp", 30_001, 80), leads("udp", 30_000, 53)];
    assert_eq!(store.node_port_of(a.id).await.unwrap(), all);
    gone(&store, &a).await;
    assert!(store.node_port_of(a.id).await.unwrap().is_empty());
    assert!(taken(place.node, "tcp").await.is_empty());
    insert(place.node, &b, leads("tcp", 30_001, 80)).await.unwrap();
    failed(&store, &b).await;
    assert!(taken(place.node, "tcp").await.is_empty() && taken(second, "tcp").await.is_empty());
}

fn log(incarnation: i64, service: &str, text: &str, kept: i64) -> CellLog {
    let (service, text) = (service.to_owned(), text.to_owned());
    CellLog { incarnation, service, text, truncated: incarnation > 1, kept_at: at(kept) }
}

async fn keep(store: &Store, cell: &Cell, log: &CellLog) -> Result<()> {
    put(store, async |tx| tx.cell_log_keep(cell.id, log).await).await
}

async fn the_last_that_was_kept_of_a_log_counts(store: Store) {
    let place = place(&store).await;
    let a = asked(&store, &place, "a", 2).await;
    let logs = [log(1, "web", "later", 2), log(2, "db", "b", 3), log(2, "web", "c\n\u{fffd}", 3)];
    keep(&store, &a, &logs[2]).await.unwrap();
    keep(&store, &a, &log(1, "web", "sooner", 1)).await.unwrap();
    keep(&store, &a, &logs[0]).await.unwrap();
    keep(&store, &a, &logs[1]).await.unwrap();
    same(&store.cell_log_list(a.id).await.unwrap(), &logs);
    is_gone(keep(&store, &cell(&place, "b", 3), &logs[0]).await);
    gone(&store, &a).await;
    same(&store.cell_log_list(a.id).await.unwrap(), &logs);
}

async fn newest_archived_logs_are_listed_up_to_a_bound(store: Store) {
    let place = place(&store).await;
    let a = asked(&store, &place, "a", 2).await;
    let text = "x".repeat(1 << 20);
    for incarnation in 1..=8 {
        keep(&store, &a, &log(incarnation, "web", &text, incarnation)).await.unwrap();
    }
    let listed = store.cell_log_list(a.id).await.unwrap();
    assert_eq!(listed.iter().map(|log| log.incarnation).collect::<Vec<_>>(), [5, 6, 7, 8]);
    let b = asked(&store, &place, "b", 3).await;
    for incarnation in 1..=210 {
        keep(&store, &b, &log(incarnation, "web", "", incarnation)).await.unwrap();
    }
    let listed = store.cell_log_list(b.id).await.unwrap();
    assert_eq!((listed.len(), listed[0].incarnation), (200, 11));
}

async fn logs_of_long_ago_are_forgotten(store: Store) {
    let place = place(&store).await;
    let a = asked(&store, &place, "a", 2).await;
    for (service, kept) in [("old", 1), ("edge", 5), ("new", 9)] {
        keep(&store, &a, &log(1, service, "", kept)).await.unwrap();
    }
    assert_eq!(put(&store, async |tx| tx.cell_log_prune(at(5)).await).await.unwrap(), 1);
    let left = store.cell_log_list(a.id).await.unwrap();
    assert_eq!(left.iter().map(|log| log.service.as_str()).collect::<Vec<_>>(), ["edge", "new"]);
}

async fn history_goes_with_its_project_or_tenant_and_the_living_do_not(store: Store) {
    let place = place(&store).await;
    let serve = made::project(&place.tenant, "serve");
    put(&store, async |tx| tx.project_insert(&serve).await).await.unwrap();
    let elsewhere = in_project(&store, place.tenant.clone(), serve, place.node).await;
    let over = provisioning(&store, &place, "over", 2).await;
    observe(&store, &over, true).await;
    let over = gone(&store, &over).await;
    keep(&store, &over, &log(1, "web", "text", 1)).await.unwrap();
    put(&store, async |tx| tx.cell_restart_decide(over.id, 1, true, at(1)).await).await.unwrap();
    let living = asked(&store, &place, "living", 3).await;
    let other = failed(&store, &asked(&store, &elsewhere, "other", 2).await).await;

    let (tenant, project) = (place.tenant.id, place.project.id);
    assert_eq!(put(&store, async |tx| tx.cell_delete_of_project(project).await).await.unwrap(), 1);
    assert!(store.cell_lookup(over.id).await.unwrap().is_none());
    assert!(store.cell_log_list(over.id).await.unwrap().is_empty());
    assert!(store.cell_lookup(living.id).await.unwrap().is_some());
    assert!(store.cell_lookup(other.id).await.unwrap().is_some());
    // A live cell keeps its network, and thereby its project.
    is_gone(put(&store, async |tx| tx.network_delete_of_project(project).await).await);

    assert_eq!(put(&store, async |tx| tx.cell_delete_of_tenant(tenant).await).await.unwrap(), 1);
    assert!(store.cell_lookup(other.id).await.unwrap().is_none());
    gone(&store, &living).await;
    assert_eq!(put(&store, async |tx| tx.cell_delete_of_tenant(tenant).await).await.unwrap(), 1);
    assert_eq!(put(&store, async |tx| tx.network_delete_of_tenant(tenant).await).await.unwrap(), 2);
}

/// Creates a running cell with a restart policy.
async fn runs(store: &Store, place: &Place, name: &str, host: i64, restart: &str) -> Cell {
    let spec = json!({"root": {"host": ["/usr"]}, "restart": restart});
    let before = Cell { spec, ..cell(place, name, host) };
    request(store, &before).await.unwrap();
    let made = Cell { state: CellState::Provisioning, incarnation: 1, ..before.clone() };
    let made = moved(store, &before, made).await;
    let witness = fleet::witnessed(store, made.id.uuid(), Transition::Active).await;
    let after = Cell { state: CellState::Running, running_witness_id: Some(witness.id), ..made.clone() };
    moved(store, &made, after).await
}

async fn observe(store: &Store, of: &Cell, alive: bool) {
    let report = CellReport {
        cell_id: of.id,
        incarnation: of.incarnation,
        alive,
        services: json!([]),
        message: None,
        boot_id: "one".to_owned(),
    };
    assert!(put(store, async |tx| tx.cell_observe(of.node_id, &report, at(20)).await).await.unwrap());
}

async fn an_end_is_decided_about_once_and_restarts_are_counted(store: Store) {
    let place = place(&store).await;
    let cell = runs(&store, &place, "web", 2, "always").await;
    let decide = async |incarnation, opened, second| {
        let decided =
            async |tx: &mut Tx| tx.cell_restart_decide(cell.id, incarnation, opened, at(second)).await;
        put(&store, decided).await.unwrap()
    };
    assert!(decide(1, true, 10).await);
    assert!(!decide(1, true, 11).await, "of one end there is one restart");
    assert!(decide(2, true, 20).await);
    assert!(decide(3, false, 30).await);
    let count = async |second| {
        put(&store, async |tx| tx.cell_restart_count(cell.id, at(second)).await).await.unwrap()
    };
    assert_eq!((count(0).await, count(10).await, count(20).await), (2, 1, 0));
}

async fn only_bare_cells_that_ended_on_a_node_that_answers_are_restarted(store: Store) {
    let place = place(&store).await;
    let kept = runs(&store, &place, "kept", 2, "always").await;
    let left = runs(&store, &place, "left", 3, "never").await;
    let well = runs(&store, &place, "well", 4, "always").await;
    observe(&store, &left, false).await;
    observe(&store, &well, true).await;
    let due = async || {
        let due = store.cell_to_restart(10).await.unwrap();
        due.into_iter().map(|cell| cell.name).collect::<Vec<_>>()
    };
    assert_eq!(due().await, Vec::<String>::new());
    observe(&store, &kept, false).await;
    assert_eq!(due().await, ["kept"]);
    put(&store, async |tx| tx.node_lost(place.node, at(30)).await).await.unwrap();
    assert_eq!(due().await, Vec::<String>::new(), "its node does not answer");
    put(&store, async |tx| tx.node_back(place.node, at(31)).await).await.unwrap();
    assert_eq!(due().await, ["kept"]);
    put(&store, async |tx| tx.cell_restart_decide(kept.id, 1, false, at(32)).await).await.unwrap();
    assert_eq!(due().await, Vec::<String>::new(), "it is decided");
}

async fn dead_cells_and_unconfirmed_nodes_are_counted(store: Store) {
    let place = place(&store).await;
    let cell = runs(&store, &place, "web", 2, "never").await;
    let counted = async || store.stale_count(at(100), at(40), at(70)).await.unwrap();
    let before = counted().await;
    assert_eq!((before.cells_dead, before.nodes_unconfirmed), (0, 1), "it never confirmed anything");
    observe(&store, &cell, false).await;
    put(&store, async |tx| tx.heartbeat_note(&[place.node], at(60)).await).await.unwrap();
    put(&store, async |tx| tx.node_observed(place.node, at(80)).await).await.unwrap();
    assert_eq!(counted().await.nodes_unconfirmed, 0);
    put(&store, async |tx| tx.node_observed(place.node, at(60)).await).await.unwrap();
    assert_eq!(store.node_confirmed_at(place.node).await.unwrap(), Some(at(60)));
    let after = counted().await;
    assert_eq!((after.cells_dead, after.nodes_unconfirmed), (1, 1));
    put(&store, async |tx| tx.node_lost(place.node, at(90)).await).await.unwrap();
    assert_eq!(counted().await.nodes_unconfirmed, 0, "it is unreachable, and counted as such");
}
