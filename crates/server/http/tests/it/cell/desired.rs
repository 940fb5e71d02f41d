//! Desired state of a node beside its allocations, as its agent receives it.

use std::time::{Duration, Instant};

use muster_db::{KEYS_OF_PROJECT, LOGINS_OF_PROJECT};
use muster_ids::{CellId, Env};
use muster_model::cell::SshKey;
use muster_model::{Login, Role, RoleBinding, Scope};
use muster_testkit::Database;
use muster_wire::cell::DesiredState;
use serde_json::{Value, json};

use super::hand::{ADDRESS, Hand, approved, hello, machine, poll};
use super::{KEY, OTHER_KEY, Scene, until};
use crate::stream::cell_of;

fn last(hand: &Hand) -> DesiredState {
    hand.held.lock().desired.last().cloned().unwrap_or_default()
}

/// Returns the cells with users.
fn cells(desired: &DesiredState) -> Vec<CellId> {
    let allocations = desired.people.iter().flat_map(|project| &project.allocations);
    allocations.flat_map(|allocation| allocation.cells.iter().copied()).collect()
}

fn keys(hand: &Hand) -> Vec<String> {
    let desired = last(hand);
    let people = |cell: CellId| {
        let people = desired.people_of(cell).unwrap();
        people.into_iter().flat_map(|person| person.keys).collect::<Vec<_>>().join("\n")
    };
    cells(&desired).into_iter().map(people).collect()
}

/// Returns the addresses of the members of the node's networks.
fn found_at(hand: &Hand) -> Vec<String> {
    last(hand)
        .networks
        .into_iter()
        .flat_map(|network| network.neighbours)
        .map(|one| one.node_address)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_sent_the_networks_and_keys_of_its_cells_and_of_no_others() {
    for database in Database::both() {
        let scene = Scene::new(database, 1).await;
        let hand = Hand::start(&scene, 0).await;
        scene.allocate("a", 0).await;
        let admin = scene.fixture.client(&scene.kit, "project_admin");
        let ssh_keys = format!("{}/ssh-keys", scene.base);
        let key = admin.post(&ssh_keys, json!({"name": "k", "public_key": KEY})).await.ok();
        // Of another project, and of a person with read access only.
        let other = json!({"name": "k", "public_key": OTHER_KEY});
        let elsewhere = format!("/v1/projects/{}/ssh-keys", scene.fixture.id("serve"));
        scene.admin.post(&elsewhere, other.clone()).await.ok();
        let viewer = scene.fixture.client(&scene.kit, "viewer");
        viewer.post(&ssh_keys, other).await.refused(403, "permission_denied");

        let open = scene.running("open", "a", json!({"people": true})).await;
        let closed = scene.running("closed", "a", json!({})).await;
        until("both are known", async || {
            last(&hand).networks.first().is_some_and(|network| network.neighbours.len() == 2)
        })
        .await;
        let desired = last(&hand);
        let network = scene.admin.get(&format!("{}/networks/default", scene.base)).await.ok().body;
        assert_eq!(desired.networks.len(), 1);
        assert_eq!(json!(desired.networks[0].network_id), network["id"]);
        assert_eq!(
            (json!(desired.networks[0].subnet), desired.networks[0].name.as_str()),
            (network["subnet"].clone(), "default")
        );
        let shown: Vec<Value> = desired.networks[0]
            .neighbours
            .iter()
            .map(|one| json!([one.cell_id, one.name, one.address]))
            .collect();
        let member = |cell: &Value| json!([cell["id"], cell["name"], cell["address"]]);
        assert_eq!(shown, [member(&open), member(&closed)]);
        let found = desired.people_of(cells(&desired)[0]).unwrap();
        let people: Vec<Value> = found.iter().map(|one| json!([one.name, one.keys])).collect();
        assert_eq!(json!(cells(&desired)), json!([open["id"]]));
        assert_eq!(json!(people), json!([["tenant_admin", []], ["project_admin", [KEY]]]));
        until("it is written that it followed", async || {
            let (desired, applied) = scene.kit.store().node_revisions(hand.node).await.unwrap();
            applied == desired && desired == last(&hand).revision
        })
        .await;

        admin.delete(&format!("{ssh_keys}/{}", key.text_of("id"))).await.ok();
        until("the key is taken away", async || keys(&hand) == [""]).await;
        admin.post(&ssh_keys, json!({"name": "k", "public_key": KEY})).await.ok();
        until("another is given", async || keys(&hand) == [KEY]).await;
        let binding = format!("/v1/role-bindings/{}", scene.fixture.id("project_admin_binding"));
        scene.admin.delete(&binding).await.ok();
        until("its owner has left", async || keys(&hand) == [""]).await;

        scene.done(scene.act("allocations/a/release").await).await;
        until("nothing is left", async || last(&hand).networks.is_empty() && last(&hand).people.is_empty())
            .await;
        drop(hand);
        scene.kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_sent_once_however_many_cells_it_counts_in() {
    let scene = Scene::new(Database::sqlite(), 1).await;
    let hand = Hand::start(&scene, 0).await;
    scene.allocate("a", 0).await;
    let admin = scene.fixture.client(&scene.kit, "project_admin");
    admin.post(&format!("{}/ssh-keys", scene.base), json!({"name": "k", "public_key": KEY})).await.ok();
    for name in ["one", "two", "three"] {
        scene.running(name, "a", json!({"people": true})).await;
    }
    until("three cells have it", async || keys(&hand) == [KEY, KEY, KEY]).await;
    assert_eq!(last(&hand).people[0].keys, [KEY]);
    drop(hand);
    scene.kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_reaches_a_node_that_waits_at_another_server_within_a_second() {
    let scene = Scene::new(Database::postgres(), 2).await;
    let hand = Hand::start(&scene, 1).await;
    scene.allocate("a", 0).await;
    scene.running("open", "a", json!({"people": true})).await;
    until("its keys are known", async || keys(&hand) == [""]).await;
    let body = json!({"name": "k", "public_key": KEY});
    scene
        .fixture
        .client(&scene.kit, "project_admin")
        .post(&format!("{}/ssh-keys", scene.base), body)
        .await
        .ok();
    let asked = Instant::now();
    until("the key is there", async || keys(&hand) == [KEY]).await;
    assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
    drop(hand);
    scene.kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn desired_state_is_resent_until_the_node_applied_it() {
    let scene = Scene::new(Database::sqlite(), 1).await;
    let hand = Hand::start(&scene, 0).await;
    scene.allocate("a", 0).await;
    scene.running("shell", "a", json!({})).await;
    let followed = async || {
        let (desired, applied) = scene.kit.store().node_revisions(hand.node).await.unwrap();
        desired == applied
    };
    let other = approved(&scene, 0).await;
    assert!(poll(&other, 0, 0).await.get("desired").is_none(), "a node without cells has nothing to follow");
    until("it has followed", followed).await;
    hand.held.lock().idle = true;
    let mut tx = scene.kit.store().begin().await.unwrap();
    tx.bump_desired_node(hand.node).await.unwrap();
    tx.commit().await.unwrap();
    let count = || hand.held.lock().desired.len();
    let before = count();
    until("it is told again until it follows", async || count() > before + 2).await;
    let (desired, applied) = scene.kit.store().node_revisions(hand.node).await.unwrap();
    assert!(applied < desired, "{applied} of {desired}");
    hand.held.lock().idle = false;
    until("it has followed again", followed).await;
    drop(hand);
    scene.kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_a_node_is_found_is_told_to_those_who_share_a_network_with_it() {
    let scene = Scene::new(Database::sqlite(), 1).await;
    let hand = Hand::start(&scene, 0).await;
    scene.allocate("a", 0).await;
    scene.running("shell", "a", json!({})).await;
    until("it is known", async || found_at(&hand) == [ADDRESS]).await;
    let mut tx = scene.kit.store().begin().await.unwrap();
    assert!(tx.node_address(hand.node, "192.0.2.2").await.unwrap());
    tx.bump_desired_node(hand.node).await.unwrap();
    tx.commit().await.unwrap();
    until("it is told", async || found_at(&hand) == ["192.0.2.2"]).await;
    let agent = approved(&scene, 0).await;
    let body = json!({"agent_version": "0.1.0", "inventory": super::hand::machine("x"), "sandboxes": [],
                      "address": "not-an-address"});
    agent.send("hello", &body).await.refused(400, "invalid_request");
    drop(hand);
    scene.kit.stop().await;
}

fn at(time: jiff::Timestamp) -> Value {
    json!(time.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_lets_a_person_into_one_allocation_and_ends_with_its_time() {
    let scene = Scene::new(Database::sqlite(), 1).await;
    let hand = Hand::start(&scene, 0).await;
    for name in ["a", "b"] {
        scene.allocate(name, 0).await;
        scene.running(&format!("in-{name}"), name, json!({"people": true})).await;
    }
    let ssh_keys = format!("{}/ssh-keys", scene.base);
    let admin = scene.fixture.client(&scene.kit, "project_admin");
    let now = Env::system().now();
    let (soon, later) = (at(now + Duration::from_secs(5)), at(now + Duration::from_secs(3600)));
    let grant = json!({"name": "help", "public_key": OTHER_KEY, "user": scene.fixture.id("viewer"),
                           "allocation": "a", "expires_at": soon});
    let without = |field: &str| {
        let mut body = grant.clone();
        body.as_object_mut().unwrap().remove(field);
        body
    };
    for (body, field) in [
        (without("allocation"), "/allocation"),
        (without("expires_at"), "/expires_at"),
        (json!({"name": "k", "public_key": KEY, "allocation": "missing"}), "/allocation"),
        (json!({"name": "k", "public_key": KEY, "expires_at": "2020-01-01T00:00:00Z"}), "/expires_at"),
        (json!({"name": "k", "public_key": KEY, "user": "stranger@acme.example"}), "/user"),
    ] {
        let refused = admin.post(&ssh_keys, body).await.refused(400, "invalid_request");
        assert_eq!(refused.body["errors"][0]["pointer"], field, "{}", refused.text);
    }
    let viewer = scene.fixture.client(&scene.kit, "viewer");
    viewer.post(&ssh_keys, grant.clone()).await.refused(403, "permission_denied");
    let granted = admin.post(&ssh_keys, grant).await.ok();
    assert_eq!(granted.text_of("granted_by"), scene.fixture.id("project_admin"));
    let own = json!({"name": "own", "public_key": KEY, "allocation": "b", "expires_at": later});
    admin.post(&ssh_keys, own).await.ok();

    until("each key is in the cells of its allocation alone", async || keys(&hand) == [OTHER_KEY, KEY]).await;
    let open = cells(&last(&hand));
    let logins = |cell: usize| {
        let people = last(&hand).people_of(open[cell]).unwrap();
        people.into_iter().map(|person| person.name).collect::<Vec<_>>()
    };
    assert!(logins(0).contains(&"viewer".to_owned()), "{:?}", logins(0));
    assert!(!logins(1).contains(&"viewer".to_owned()), "{:?}", logins(1));
    scene.done(scene.act("allocations/b/release").await).await;
    let waited = Instant::now();
    while keys(&hand) != [""] {
        assert!(waited.elapsed() < Duration::from_secs(90), "the expired grant is still in the cell");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(!logins(0).contains(&"viewer".to_owned()), "{:?}", logins(0));
    assert!(scene.told().await.iter().any(|event| event == "ssh_key.expired"));

    let waited = Instant::now();
    while !admin.get(&ssh_keys).await.ok().body["items"].as_array().unwrap().is_empty() {
        assert!(waited.elapsed() < Duration::from_secs(90), "the key outlives its allocation");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    drop(hand);
    scene.kit.stop().await;
}

/// Returns the address to which a node's neighbours send packets for its cells, and their revision.
async fn sent_to(scene: &Scene, node: muster_ids::NodeId) -> (Vec<Option<String>>, i64) {
    let store = scene.kit.store();
    let mut addresses = Vec::new();
    for network in store.network_on_node(node).await.unwrap() {
        let neighbours = store.network_neighbours(network.id).await.unwrap();
        addresses.extend(neighbours.into_iter().map(|member| member.node_address));
    }
    (addresses, store.node_revisions(node).await.unwrap().0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_reports_another_address_moves_no_packets() {
    let scene = Scene::new(Database::sqlite(), 1).await;
    let hand = Hand::start(&scene, 0).await;
    scene.allocate("a", 0).await;
    scene.running("shell", "a", json!({})).await;
    until("it is known", async || found_at(&hand) == [ADDRESS]).await;
    let (node, agent) = (hand.node, hand.agent.clone());
    let victim = approved(&scene, 0).await;
    hello(&victim, json!({"address": "192.0.2.7"})).await;
    let before = sent_to(&scene, node).await;
    assert_eq!(before.0, [Some(ADDRESS.to_owned())]);

    // It claims another node's address.
    hello(&agent, json!({"address": "192.0.2.7"})).await;
    hello(&agent, json!({"address": "192.0.2.7"})).await;
    assert_eq!(sent_to(&scene, node).await, before);
    let operator = scene.kit.operator();
    let path = format!("/v1/nodes/{node}");
    let seen = operator.get(&path).await.ok().body;
    assert_eq!((&seen["address"], &seen["reported_address"]), (&json!(ADDRESS), &json!("192.0.2.7")));
    assert_eq!((&seen["needs_approval"], &seen["peer_address"]), (&json!(true), &json!("127.0.0.1")));
    scene.kit.sealed().await;
    let told = operator.get("/v1/audit?action=node.hello").await.ok().body;
    let claims: Vec<&Value> =
        told["items"].as_array().unwrap().iter().map(|entry| &entry["record"]["detail"]).collect();
    let claims: Vec<_> = claims.iter().filter(|detail| detail["reported_address"] == "192.0.2.7").collect();
    assert_eq!(claims.len(), 1, "told once: {told:#}");
    let holder = operator.get(&format!("/v1/nodes/{}", victim.name)).await.ok().text_of("id");
    assert_eq!((&claims[0]["address"], &claims[0]["held_by"]), (&json!(ADDRESS), &json!(holder)));

    // Not even an operator can give two nodes the same address.
    let digest = machine(&agent.name).hardware_digest();
    let approve = async |body: Value| {
        let request = operator.request(reqwest::Method::POST, &format!("{path}/approve"));
        let key = format!("approve-{body}").replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
        let request = request.header("if-match", "*").header("idempotency-key", key);
        operator.send(request.json(&body)).await
    };
    approve(json!({"digest": digest})).await.refused(409, "invalid_state");
    operator.patch(&path, json!({"address": "192.0.2.7"})).await.refused(409, "invalid_state");
    assert_eq!(sent_to(&scene, node).await, before);

    // A new one is used once an operator has approved it.
    hello(&agent, json!({"address": "192.0.2.8"})).await;
    assert_eq!(sent_to(&scene, node).await, before);
    operator.patch(&path, json!({"address": "192.0.2.9"})).await.refused(400, "invalid_request");
    approve(json!({"digest": digest, "address": "192.0.2.9"})).await.refused(400, "invalid_request");
    operator.patch(&path, json!({"address": "192.0.2.8"})).await.ok();
    let (sent, revision) = sent_to(&scene, node).await;
    assert_eq!(sent, [Some("192.0.2.8".to_owned())]);
    assert!(revision > before.1, "its neighbours are told");
    hello(&agent, json!({"address": "192.0.2.10"})).await;
    approve(json!({"digest": digest, "address": "192.0.2.10"})).await.ok();
    assert_eq!(sent_to(&scene, node).await.0, [Some("192.0.2.10".to_owned())]);
    let seen = operator.get(&path).await.ok().body;
    assert_eq!(seen["needs_approval"], false, "{seen:#}");
    drop(hand);
    scene.kit.stop().await;
}

/// Adds as many keys of the largest size as a project may have.
async fn fill_with_keys(scene: &Scene, project: &str, user: &str) {
    let (env, store) = (Env::system(), scene.kit.store());
    let project = store.project_lookup(scene.fixture.id(project).parse().unwrap()).await.unwrap().unwrap();
    let mut tx = store.begin().await.unwrap();
    for number in 0..KEYS_OF_PROJECT {
        let key = SshKey {
            id: env.id(),
            tenant_id: project.tenant_id,
            project_id: project.id,
            user_id: scene.fixture.id(user).parse().unwrap(),
            name: format!("k{number}"),
            public_key: format!("ssh-rsa {number:02200}"),
            fingerprint: format!("SHA256:{number}"),
            allocation_id: None,
            expires_at: None,
            granted_by: None,
            created_at: env.now(),
            version: 1,
        };
        tx.insert_record(&key).await.unwrap();
    }
    tx.bump_desired_people(project.tenant_id).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_desired_state_comes_in_pages_that_are_bounded_by_bytes() {
    for database in Database::both() {
        let scene = Scene::new(database, 1).await;
        let agent = approved(&scene, 0).await;
        let mut open = Vec::new();
        for (project, user) in
            [("train", "tenant_admin"), ("serve", "tenant_admin"), ("lab", "other_tenant_admin")]
        {
            for name in ["one", "two"] {
                let id = scene.fixture.id(project);
                open.push(
                    cell_of(scene.kit.store(), id, agent.node, &format!("{project}-{name}"), true).await,
                );
            }
            fill_with_keys(&scene, project, user).await;
        }
        let (mut pages, mut desired, mut after): (u32, DesiredState, Option<String>) = Default::default();
        let first = loop {
            let mut body = json!({"session": agent.session, "wait_seconds": 0, "revision": 0});
            if let Some(after) = &after {
                body["desired_after"] = json!(after);
            }
            let answer = agent.send("poll", &body).await.ok();
            let length = answer.to_string().len();
            assert!(length < 4 << 20, "{length} bytes");
            let page: DesiredState = serde_json::from_value(answer["desired"].clone()).unwrap();
            if pages == 0 {
                desired.revision = page.revision;
            }
            pages += 1;
            after = page.next.clone();
            desired.add_page(page);
            if after.is_none() {
                break desired;
            }
        };
        assert_eq!(pages, 2, "1.1 MB of keys each, of three projects, and pages of 2 MiB");
        assert_eq!(first.networks.len(), 3);
        for cell in open {
            let people = first.people_of(cell).unwrap();
            let keys: usize = people.iter().map(|person| person.keys.len()).sum();
            assert_eq!(keys, usize::try_from(KEYS_OF_PROJECT).unwrap());
        }
        // The tenant can have no more, and sees why.
        let body = json!({"name": "another", "public_key": KEY});
        let refused = scene.admin.post(&format!("{}/ssh-keys", scene.base), body).await;
        assert!(refused.refused(409, "quota_exceeded").text.contains("SSH keys"));
        let strange = json!({"session": agent.session, "wait_seconds": 0, "desired_after": "network x"});
        agent.send("poll", &strange).await.refused(400, "invalid_request");
        scene.kit.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_and_a_project_have_so_many_admins() {
    let scene = Scene::new(Database::sqlite(), 1).await;
    let (env, store) = (Env::system(), scene.kit.store());
    let train = store.project_lookup(scene.fixture.id("train").parse().unwrap()).await.unwrap().unwrap();
    let viewer = scene.fixture.id("viewer");
    let (tenant_scope, project_scope) = (Scope::Tenant(train.tenant_id), train.scope());
    for (role, scope, place) in [
        (Role::TenantAdmin, tenant_scope, json!({"tenant": "acme"})),
        (Role::ProjectAdmin, project_scope, json!({"project": "acme.train"})),
    ] {
        // One is there already.
        let mut tx = store.begin().await.unwrap();
        let one = store.user_lookup(viewer.parse().unwrap()).await.unwrap().unwrap();
        for number in 1..LOGINS_OF_PROJECT / 2 {
            let mut user = one.clone();
            let login = format!("{}-{number}", role.as_str().replace('_', "-"));
            (user.id, user.email) = (env.id(), format!("{login}@acme.example"));
            let uid = tx.tenant_next_uid(train.tenant_id).await.unwrap().unwrap();
            user.login = Some(Login { name: login, uid });
            tx.user_insert(&user).await.unwrap();
            let (user_id, user_email) = (user.id, user.email);
            let binding =
                RoleBinding { id: env.id(), user_id, user_email, role, scope, created_at: env.now() };
            tx.role_binding_insert(&binding).await.unwrap();
        }
        tx.commit().await.unwrap();
        let mut body = place;
        body["user"] = json!(viewer);
        body["role"] = json!(role.as_str());
        let refused = scene.admin.post("/v1/role-bindings", body).await.refused(409, "quota_exceeded");
        assert!(refused.text.contains("500 admins"), "{}", refused.text);
    }
    scene.kit.stop().await;
}
