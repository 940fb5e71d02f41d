use std::sync::Arc;

use muster_agent::{Folder, Invitation, Machine, Trust};
use muster_agent_sim::{Fleet, Journal, KillPoints, Member, Odds, Word, simulated_inventory};
use muster_ids::Env;

use crate::server::Server;

#[tokio::test]
async fn a_fleet_lives_in_one_process_and_obeys_words() {
    let server = Server::start().await;
    let parent = tempfile::tempdir().unwrap();
    let journal = Arc::new(Journal::open(&parent.path().join("journal")).unwrap());
    let env = Env::system();
    let mut fleet =
        Fleet::new(env.clone(), Some(journal), Arc::new(KillPoints::default()), Odds::default(), 1);
    for number in 1..=4 {
        let name = format!("sim-{number:04}");
        let folder = Folder::unflushed(parent.path().join(&name));
        let machine = Machine::Fixed(Arc::new(simulated_inventory(&name, 1, 1, 1024, 1024)));
        let invitation = Invitation {
            server: server.url.parse().unwrap(),
            token: "t".into(),
            trust: Trust::FirstUse,
            name: name.clone(),
        };
        muster_agent::join(&folder, &invitation, machine.look().await, false, &env).await.unwrap();
        fleet.add(Member { name, folder, machine }).unwrap();
    }
    fleet.ready().await;
    assert_eq!(fleet.polling(), 4);
    let obey = async |fleet: &mut Fleet, word: &str| word.parse::<Word>().unwrap().obey(fleet).await;
    assert_eq!(obey(&mut fleet, "die sim-0002").await, "ok die sim-0002");
    assert_eq!(obey(&mut fleet, "die 0").await, "ok die sim-0001");
    assert_eq!(obey(&mut fleet, "partition *").await, "ok partition sim-0001 sim-0002 sim-0003 sim-0004");
    assert_eq!(obey(&mut fleet, "fail 50% 0.5").await.split(' ').count(), 4);
    assert!(obey(&mut fleet, "die sim-0009").await.starts_with("error"));
    obey(&mut fleet, "heal *").await;
    assert_eq!(obey(&mut fleet, "revive sim-0001").await, "ok revive sim-0001");
    fleet.ready().await;
    assert_eq!(fleet.polling(), 3);
    assert_eq!(obey(&mut fleet, "stop").await, "ok stop");
    assert_eq!(fleet.polling(), 0);
}
