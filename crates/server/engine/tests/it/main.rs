//! The engine on both databases with a simulated node: every step of every operation failed, repeated and killed.

/// Runs each story on both databases and checks the invariants at its end.
macro_rules! stories {
    ($($name:ident)*) => {$(
        mod $name {
            #[tokio::test(flavor = "multi_thread")]
            async fn sqlite() {
                let mut rig = super::Rig::new(super::Database::sqlite()).await;
                super::$name(&mut rig).await;
                super::laws::hold(&rig).await;
            }
            #[tokio::test(flavor = "multi_thread")]
            async fn postgres() {
                let mut rig = super::Rig::new(super::Database::postgres()).await;
                super::$name(&mut rig).await;
                super::laws::hold(&rig).await;
            }
        }
    )*};
}

mod adapter;
mod apps;
mod at_once;
mod bulk;
mod evidence;
mod exits;
mod harness;
mod laws;
mod lost_cells;
mod lost_nodes;
mod member_faults;
mod member_orders;
mod member_stories;
mod node;
mod node_drains;
mod occupied;
mod queue;
mod quorums;
mod replacements;
mod rig;
mod shares;
mod silence;
mod stories;
mod turns;
