//! The single SQLite writer: transactions share commits, and nothing else.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use muster_db::{Location, Result, Store};
use muster_model::Tenant;
use muster_testkit::Database;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::made::{self, FIRST, put};

/// Fails work that hangs.
async fn in_time<T>(work: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(20), work).await.expect("nothing may hang")
}

async fn insert(store: &Store, tenant: &Tenant) -> Result<()> {
    put(store, async |tx| tx.tenant_insert(tenant).await).await
}

async fn is_there(store: &Store, tenant: &Tenant) -> bool {
    store.tenant_lookup(tenant.id).await.unwrap().is_some()
}

/// Waits long enough for spawned tasks to queue.
async fn until_they_wait() {
    sleep(Duration::from_millis(100)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sixty_four_at_once_are_all_durable() {
    let database = Database::sqlite();
    let store = database.open().await;
    let mut tasks = JoinSet::new();
    for n in 0..64 {
        let store = store.clone();
        tasks.spawn(async move { insert(&store, &made::tenant(&format!("t{n}"))).await });
    }
    for done in in_time(tasks.join_all()).await {
        done.unwrap();
    }
    store.close().await;
    drop(store);
    let store = database.open().await;
    let page = muster_db::Page { size: 1000, ..FIRST };
    assert_eq!(store.tenant_list(page, None, &made::selector("")).await.unwrap().len(), 64);
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Ending {
    Commits,
    RollsBack,
    IsDropped,
    Fails,
}

const ENDINGS: [Ending; 4] = [Ending::Commits, Ending::RollsBack, Ending::IsDropped, Ending::Fails];

async fn end_as(store: &Store, tenant: &Tenant, ending: Ending) -> Result<()> {
    let mut tx = store.begin().await?;
    tx.tenant_insert(tenant).await?;
    match ending {
        Ending::Commits => return tx.commit().await,
        Ending::RollsBack => tx.rollback().await,
        Ending::IsDropped => drop(tx),
        Ending::Fails => {
            let taken = Tenant { id: made::id(), ..tenant.clone() };
            made::is_conflict(tx.tenant_insert(&taken).await);
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_a_group_that_ends_otherwise_takes_nothing_of_the_others_with_it() {
    let database = Database::sqlite();
    let store = database.open().await;
    // The first member of the group ends each way, too: it is the one without a savepoint.
    for first in ENDINGS {
        let leader = made::tenant(&format!("{first:?}"));
        let mut tx = store.begin().await.unwrap();
        tx.tenant_insert(&leader).await.unwrap();
        let mut tasks = JoinSet::new();
        for n in 0..40 {
            let store = store.clone();
            let tenant = made::tenant(&format!("{first:?}-{n}"));
            let ending = ENDINGS[n % 4];
            tasks.spawn(async move {
                end_as(&store, &tenant, ending).await.unwrap();
                (tenant, ending)
            });
        }
        until_they_wait().await;
        match first {
            Ending::Commits => in_time(tx.commit()).await.unwrap(),
            Ending::RollsBack => in_time(tx.rollback()).await,
            Ending::IsDropped => drop(tx),
            Ending::Fails => {
                made::is_conflict(tx.tenant_insert(&Tenant { id: made::id(), ..leader.clone() }).await);
                drop(tx);
            }
        }
        for (tenant, ending) in in_time(tasks.join_all()).await {
            assert_eq!(
                is_there(&store, &tenant).await,
                ending == Ending::Commits,
                "{} {ending:?}",
                tenant.slug
            );
        }
        assert_eq!(is_there(&store, &leader).await, first == Ending::Commits, "the first, which {first:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_is_answered_only_after_the_commit() {
    let database = Database::sqlite();
    let (store, other) = (database.open().await, database.open().await);
    let mut tasks = JoinSet::new();
    for n in 0..32 {
        let (store, other) = (store.clone(), other.clone());
        tasks.spawn(async move {
            for round in 0..4 {
                let tenant = made::tenant(&format!("t{n}-{round}"));
                insert(&store, &tenant).await.unwrap();
                // Another connection reads only committed data.
                assert!(is_there(&other, &tenant).await, "{} was acknowledged too early", tenant.slug);
            }
        });
    }
    in_time(tasks.join_all()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_waiting_writer_does_not_hang_the_others() {
    let database = Database::sqlite();
    let store = database.open().await;
    for round in 0..5 {
        let (first, second) = (made::tenant(&format!("a{round}")), made::tenant(&format!("b{round}")));
        let mut tx = store.begin().await.unwrap();
        tx.tenant_insert(&first).await.unwrap();
        let waiting = tokio::spawn({
            let (store, second) = (store.clone(), second.clone());
            async move { insert(&store, &second).await }
        });
        until_they_wait().await;
        // The first hands its transaction to the waiting caller, which is then cancelled, before or after its turn.
        let (committed, ()) = in_time(async {
            tokio::join!(tx.commit(), async {
                if round % 2 == 0 {
                    waiting.abort();
                } else {
                    tokio::task::yield_now().await;
                    waiting.abort();
                }
            })
        })
        .await;
        committed.unwrap();
        assert!(is_there(&store, &first).await);
        let _ = in_time(waiting).await;
        in_time(insert(&store, &made::tenant(&format!("c{round}")))).await.unwrap();
    }
}

/// Polls this often and then drops the future, as the server does when a client disconnects.
async fn cut_off_after(polls: usize, work: impl Future) -> bool {
    let mut work = pin!(work);
    for _ in 0..polls {
        let done = std::future::poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx).is_ready())).await;
        if done {
            return true;
        }
        // The database's thread needs a moment before another poll makes progress.
        sleep(Duration::from_millis(2)).await;
    }
    false
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_cut_off_anywhere_leaves_the_writer_whole() {
    cut_off_anywhere(Database::sqlite()).await;
}

/// A cancelled BEGIN must not leave its connection in an open transaction for the next user to write into.
#[tokio::test(flavor = "multi_thread")]
async fn a_caller_cut_off_anywhere_leaves_the_pool_whole() {
    cut_off_anywhere(Database::postgres()).await;
}

async fn cut_off_anywhere(database: Database) {
    let (store, other) = (database.open().await, database.open().await);
    let mut finished = 0;
    for polls in 1..24 {
        let cut = made::tenant(&format!("cut{polls}"));
        finished += u32::from(in_time(cut_off_after(polls, insert(&store, &cut))).await);
        for n in 0..2 {
            let next = made::tenant(&format!("next{polls}-{n}"));
            let told = in_time(insert(&store, &next)).await;
            assert!(told.is_ok(), "after {polls} polls, write {n}: {told:?}");
            assert!(
                is_there(&other, &next).await,
                "after {polls} polls, write {n} was acknowledged and is not there"
            );
        }
    }
    assert!(finished > 0, "no number of polls reached the end: nothing was cut off in the commit");
}

/// The same with other members in the group: they get the true outcome.
#[tokio::test(flavor = "multi_thread")]
async fn a_caller_cut_off_in_a_group_leaves_the_others_the_truth() {
    let database = Database::sqlite();
    let (store, other) = (database.open().await, database.open().await);
    for polls in 1..16 {
        let mut tasks = JoinSet::new();
        for n in 0..12 {
            let (store, other) = (store.clone(), other.clone());
            let tenant = made::tenant(&format!("p{polls}-{n}"));
            tasks.spawn(async move {
                if n % 3 == 0 {
                    cut_off_after(polls, insert(&store, &tenant)).await;
                } else {
                    insert(&store, &tenant).await.unwrap();
                    assert!(
                        is_there(&other, &tenant).await,
                        "{} was acknowledged and is not there",
                        tenant.slug
                    );
                }
            });
        }
        in_time(tasks.join_all()).await;
    }
}

/// A full disk makes SQLite roll back the whole transaction on its own, and with it the group.
#[tokio::test(flavor = "multi_thread")]
async fn full_disk_error_reaches_every_affected_writer() {
    let database = Database::sqlite();
    assert!(matches!(database.location, Location::Sqlite(_)));
    let (store, other) = (database.open().await, database.open().await);
    insert(&store, &made::tenant("before")).await.unwrap();
    // SQLite never sets it below the current size, so the database cannot grow any more.
    store.sabotage("PRAGMA max_page_count = 1").await.unwrap();
    let mut lost = 0;
    for round in 0..3 {
        let mut tx = store.begin().await.unwrap();
        let leader = made::tenant(&format!("leader{round}"));
        tx.tenant_insert(&leader).await.unwrap();
        let mut tasks = JoinSet::new();
        for n in 0..12 {
            let store = store.clone();
            let mut tenant = made::tenant(&format!("t{round}-{n}"));
            if n % 6 == 5 {
                tenant.display_name = "x".repeat(100_000);
            }
            tasks.spawn(async move { (insert(&store, &tenant).await.is_ok(), tenant) });
        }
        until_they_wait().await;
        let told = in_time(tx.commit()).await.is_ok();
        assert_eq!(told, is_there(&other, &leader).await, "the leader was told {told}");
        for (told, tenant) in in_time(tasks.join_all()).await {
            assert_eq!(told, is_there(&other, &tenant).await, "{} was told {told}", tenant.slug);
            lost += u32::from(!told);
        }
    }
    assert!(lost >= 6, "the disk was not full: only {lost} failed");
    store.sabotage("PRAGMA max_page_count = 1000000").await.unwrap();
    let mut large = made::tenant("after");
    large.display_name = "x".repeat(100_000);
    in_time(insert(&store, &large)).await.unwrap();
    assert!(is_there(&other, &large).await);
}

/// They retry immediately, as after a lost race, and may themselves wait for the commit of the others.
#[tokio::test(flavor = "multi_thread")]
async fn those_that_fail_and_try_again_do_not_keep_the_others_from_their_commit() {
    let database = Database::sqlite();
    let store = database.open().await;
    let first = made::tenant("first");
    let (over, attempts) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let open = store.begin().await.unwrap();
    let winner = tokio::spawn({
        let (store, first) = (store.clone(), first.clone());
        async move { insert(&store, &first).await }
    });
    until_they_wait().await;
    let mut losers = JoinSet::new();
    for _ in 0..8 {
        let (store, taken) = (store.clone(), Tenant { id: made::id(), ..first.clone() });
        let (over, attempts) = (over.clone(), attempts.clone());
        losers.spawn(async move {
            while !over.load(Ordering::SeqCst) {
                made::is_conflict(insert(&store, &taken).await);
                attempts.fetch_add(1, Ordering::SeqCst);
            }
        });
    }
    until_they_wait().await;
    open.rollback().await;
    in_time(winner).await.unwrap().unwrap();
    let until_then = attempts.load(Ordering::SeqCst);
    over.store(true, Ordering::SeqCst);
    in_time(losers.join_all()).await;
    assert!(until_then < 200, "{until_then} others were let go first");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_owner_can_read_the_files_of_a_database() {
    use std::os::unix::fs::PermissionsExt as _;

    let database = Database::sqlite_empty();
    let folder = database.folder();
    let path = folder.join("new.db");
    for existing in [false, true] {
        if existing {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        }
        let store = Store::open(&Location::Sqlite(path.clone()), 2).await.unwrap();
        for file in [path.clone(), path.with_extension("db-wal")] {
            let mode = std::fs::metadata(&file).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{}: {mode:o}", file.display());
        }
        store.close().await;
    }
}
