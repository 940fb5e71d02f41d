//! The engine on both databases with a simulated node: every step of every operation failed, repeated and killed.

/// Runs each story on both databases and checks the invariants at its end. PostgreSQL runs a third of them, by `MUSTER_SEED`.
macro_rules! stories {
    ($($name:ident)*) => {$(
        mod $name {
            #[tokio::test(flavor = "multi_thread")]
            async fn sqlite() {
                tell(super::Database::sqlite()).await;
            }
            #[tokio::test(flavor = "multi_thread")]
            async fn postgres() {
                if crate::sample::has(module_path!()) {
                    tell(super::Database::postgres()).await;
                }
            }
            async fn tell(database: super::Database) {
                let mut rig = super::Rig::new(database).await;
                rig.store.meter().start();
                super::$name(&mut rig).await;
                super::laws::hold(&rig).await;
                // Statements only: nothing else happens while a transaction is open.
                let held = rig.store.meter().longest_held();
                assert!(held.as_millis() < 50, "a transaction was held for {held:?} outside the database");
            }
        }
    )*};
}

mod adapter;
mod apps;
mod assessments;
mod at_once;
mod bulk;
mod desk;
mod evidence;
mod exits;
mod harness;
mod kinds_table;
mod laws;
mod lost_cells;
mod lost_nodes;
mod member_faults;
mod member_orders;
mod member_stories;
mod node;
mod node_drains;
mod occupied;
mod quarantine;
mod queue;
mod quorums;
mod replacements;
mod rig;
mod sample;
mod secrets;
mod shares;
mod silence;
mod stories;
mod turns;
