//! Operations on many members: some without room, some cancelled.

use muster_engine::members;
use muster_model::member::MemberState;
use muster_model::operation::{ItemState, OperationState, ResolveAction};
use muster_testkit::Database;

use crate::laws;
use crate::member_stories::{cancel, succeeds, why};
use crate::rig::Rig;
use crate::stories::{decide, retry};

/// Adds fifty, three of them without room.
async fn fifty(database: Database, accepts: bool) {
    let mut rig = Rig::with_cpus(database, 48).await;
    rig.unit_gpus = 0;
    let i = rig.instance("i", 0).await;
    let (units, add) = rig.add_many(i, 50).await;
    let blocked = rig.drive(add).await;
    assert!(why(&blocked).starts_with("47 of 50 are done"), "{}", why(&blocked));
    assert_eq!(blocked.items.iter().filter(|item| item.state == ItemState::Failed).count(), 3);
    laws::hold(&rig).await;
    if accepts {
        decide(&rig, add, ResolveAction::AcceptPartial).await;
        assert_eq!(rig.drive(add).await.state, OperationState::Partial);
        assert_eq!(rig.desired(i, "unit").await, 47);
        let failed = rig.units(i).await.len() - 47;
        assert_eq!(failed, 3, "they are there, and say why");
    } else {
        rig.add_far(0, 8).await;
        retry(&rig, add).await;
        succeeds(&mut rig, add).await;
        assert_eq!(rig.desired(i, "unit").await, 50);
        for unit in units {
            assert_eq!(rig.member(unit).await.state, MemberState::Active);
        }
        assert_eq!(rig.far.as_ref().unwrap().cells.len(), 3);
    }
    laws::hold(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_fifty_three_have_no_room_and_that_is_accepted_on_sqlite() {
    fifty(Database::sqlite(), true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_fifty_three_have_no_room_and_that_is_accepted_on_postgres() {
    fifty(Database::postgres(), true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_fifty_three_have_no_room_and_get_it_later_on_sqlite() {
    fifty(Database::sqlite(), false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_fifty_three_have_no_room_and_get_it_later_on_postgres() {
    fifty(Database::postgres(), false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removal_of_many_that_is_cancelled_counts_back_those_that_stay() {
    for database in Database::both() {
        let mut rig = Rig::new(database).await;
        let i = rig.instance("i", 5).await;
        let units = rig.units(i).await;
        let remove = rig.members_op(&members::REMOVE, i, &units).await;
        assert_eq!(rig.desired(i, "unit").await, 0);
        rig.turn().await;
        cancel(&rig, remove).await;
        let ended = rig.drive(remove).await;
        assert_eq!(ended.state, OperationState::Cancelled);
        assert_eq!(rig.units(i).await.len(), 3, "two were on their way out");
        assert_eq!(rig.desired(i, "unit").await, 3);
        laws::hold(&rig).await;
    }
}
