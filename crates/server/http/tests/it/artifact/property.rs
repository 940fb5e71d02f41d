//! Random promotions, demotions, signatures, keys and policies by different people, over real HTTP, each compared with an
//! independent model of the rules.

use muster_testkit::{Client, Database, Fixture, Kit};
use muster_trust::PrivateKey;
use serde_json::{Value, json};

use super::sign;
use crate::registry::{Image, Remote};

const SEQUENCES: u64 = 40;
const REQUESTS: usize = 25;
const STATES: [&str; 6] = ["draft", "staged", "canary", "active", "deprecated", "retired"];

/// A small random generator, so that a failure names the seed to reproduce it.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 16) % u64::try_from(sides).unwrap()).unwrap()
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Standing {
    Unknown,
    Trusted,
    Revoked,
}

/// Model of an artifact: its state, and the keys that signed it.
#[derive(Debug, Clone)]
struct Known {
    state: usize,
    line: usize,
    signed: Vec<usize>,
}

/// Model of the rules.
#[derive(Debug)]
struct Model {
    artifacts: Vec<Known>,
    keys: [Standing; 2],
    unsigned_up_to: usize,
    grace: bool,
}

impl Model {
    fn trusted(&self, artifact: &Known, to: usize) -> bool {
        if artifact.signed.is_empty() {
            return to <= self.unsigned_up_to;
        }
        artifact.signed.iter().any(|key| self.keys[*key] == Standing::Trusted)
    }

    /// Applies the step and returns true if the rules allow it.
    fn promote(&mut self, at: usize, to: usize) -> bool {
        let artifact = self.artifacts[at].clone();
        let next = to == artifact.state + 1 && to <= 3;
        if !next || !self.trusted(&artifact, to) {
            return false;
        }
        if to == 3 {
            for other in
                self.artifacts.iter_mut().filter(|other| other.line == artifact.line && other.state == 3)
            {
                other.state = 4;
            }
        }
        self.artifacts[at].state = to;
        true
    }

    fn demote(&mut self, at: usize, to: usize) -> bool {
        let allowed = match (self.artifacts[at].state, to) {
            (0 | 1, 5) | (2, 1) | (3, 4) => true,
            (4, 5) => !self.grace,
            _ => false,
        };
        if allowed {
            self.artifacts[at].state = to;
        }
        allowed
    }
}

/// An actor with its permissions, and the expected refusal without them.
struct Actor {
    client: Client,
    promotes: bool,
    demotes: bool,
    otherwise: u16,
}

/// A project for one sequence, with four artifacts in two release lines.
struct Table {
    base: String,
    remote: Remote,
    admin: Client,
    actors: Vec<Actor>,
    ids: Vec<String>,
    images: Vec<Image>,
    signers: Vec<PrivateKey>,
    key_ids: [String; 2],
}

impl Table {
    async fn set(kit: &Kit, fixture: &Fixture, seed: u64) -> Self {
        let admin = fixture.client(kit, "tenant_admin");
        let name = format!("p{seed}");
        let project = admin.post("/v1/tenants/acme/projects", json!({"name": name})).await.ok().text_of("id");
        let base = format!("/v1/projects/{project}");
        let remote = Remote::new(kit, 0, fixture.token("tenant_admin"), &format!("acme.{name}/base"));
        let account = json!({"name": "ci", "permissions": ["artifact.promote", "artifact.get"]});
        let account = admin.post(&format!("{base}/service-accounts"), account).await.ok().text_of("id");
        let token = admin.post("/v1/tokens", json!({"service_account": account, "name": "ci"})).await.ok();
        let actor =
            |client: Client, promotes, demotes, otherwise| Actor { client, promotes, demotes, otherwise };
        let actors = vec![
            actor(admin.clone(), true, true, 0),
            actor(admin.with_token(&token.text_of("secret")), true, false, 403),
            actor(kit.operator(), false, false, 403),
            actor(fixture.client(kit, "other_tenant_admin"), false, false, 404),
            actor(admin.with_token(""), false, false, 401),
        ];
        let (mut ids, mut images) = (Vec::new(), Vec::new());
        for n in 0..4 {
            let image = Image::of(&format!("{seed}-{n}"));
            remote.push(&format!("v{n}"), &image).await.is(201);
            let line = if n == 3 { "edge" } else { "main" };
            let body = json!({"repository": "base", "reference": format!("v{n}"), "line": line});
            ids.push(admin.post(&format!("{base}/artifacts"), body).await.ok().text_of("id"));
            images.push(image);
        }
        let signers = vec![PrivateKey::generate(), PrivateKey::generate()];
        Self { base, remote, admin, actors, ids, images, signers, key_ids: Default::default() }
    }

    /// Sends one request and compares the response with the model.
    async fn ask(&mut self, dice: &mut Dice, model: &mut Model) -> String {
        // One of the four is chosen more often, so that it reaches the final state.
        let at = if dice.roll(2) == 0 { 0 } else { dice.roll(4) };
        match dice.roll(12) {
            kind @ 0..=7 => {
                // Prefer targets that allow further steps, so that sequences get far.
                let state = model.artifacts[at].state;
                let forward = if dice.roll(3) == 0 { kind < 4 } else { state < 3 };
                let to = match dice.roll(3) {
                    0 => dice.roll(6),
                    _ if forward => (state + 1).min(5),
                    _ => [0, 0, 1, 4, 5, 5][state],
                };
                let who = if dice.roll(3) == 0 { dice.roll(5) } else { 0 };
                let actor = &self.actors[who];
                let (verb, may) =
                    if forward { ("promote", actor.promotes) } else { ("demote", actor.demotes) };
                let path = format!("{}/artifacts/{}/{verb}", self.base, self.ids[at]);
                let answer = actor.client.post(&path, json!({"to": STATES[to], "reason": "a test"})).await;
                let expected = match (may, forward) {
                    (false, _) => actor.otherwise,
                    (true, true) => {
                        if model.promote(at, to) {
                            200
                        } else {
                            409
                        }
                    }
                    (true, false) => {
                        if model.demote(at, to) {
                            200
                        } else {
                            409
                        }
                    }
                };
                let what = format!("{verb} {at} to {} by {who}", STATES[to]);
                assert_eq!(answer.status, expected, "{what}: {}\n{model:?}", answer.text);
                what
            }
            8 => {
                let key = dice.roll(2);
                sign(&self.remote, &self.signers[key], &self.images[at]).await;
                if !model.artifacts[at].signed.contains(&key) {
                    model.artifacts[at].signed.push(key);
                }
                format!("key {key} signs {at}")
            }
            9 => {
                let key = dice.roll(2);
                match model.keys[key] {
                    Standing::Unknown => {
                        let pem = self.signers[key].public().to_pem();
                        let body = json!({"name": format!("k{key}"), "public_key": pem});
                        let path = format!("{}/keys", self.base);
                        self.key_ids[key] = self.admin.post(&path, body).await.ok().text_of("id");
                        model.keys[key] = Standing::Trusted;
                        format!("key {key} is trusted")
                    }
                    Standing::Trusted if dice.roll(2) == 0 => {
                        let path = format!("{}/keys/{}/revoke", self.base, self.key_ids[key]);
                        self.admin.post(&path, json!({"reason": "a test"})).await.ok();
                        model.keys[key] = Standing::Revoked;
                        format!("key {key} is revoked")
                    }
                    _ => "nothing".to_owned(),
                }
            }
            10 => {
                model.unsigned_up_to = dice.roll(4);
                let body = json!({"unsigned_up_to": STATES[model.unsigned_up_to]});
                self.admin.patch(&format!("{}/trust-policy", self.base), body).await.ok();
                format!("unsigned up to {}", STATES[model.unsigned_up_to])
            }
            _ => {
                model.grace = dice.roll(2) == 0;
                let body = json!({"grace_hours": if model.grace { 1 } else { 0 }});
                self.admin.patch(&format!("{}/trust-policy", self.base), body).await.ok();
                format!("grace {}", model.grace)
            }
        }
    }

    /// Returns the states of all four from the API, without the client's response checks, which other tests cover.
    async fn states(&self) -> Vec<String> {
        let asked = self.admin.request(reqwest::Method::GET, &format!("{}/artifacts", self.base));
        let found: Value = asked.send().await.unwrap().json().await.unwrap();
        let items = found["items"].as_array().unwrap();
        let state = |id: &String| items.iter().find(|item| item["id"] == json!(id)).unwrap()["state"].clone();
        self.ids.iter().map(|id| state(id).as_str().unwrap().to_owned()).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_sequence_of_requests_leads_where_the_rules_do_not() {
    let kit = Kit::start(Database::sqlite(), 1).await;
    let fixture = Fixture::build(&kit).await;
    let mut reached = std::collections::BTreeSet::new();
    for seed in 1..=SEQUENCES {
        let mut table = Table::set(&kit, &fixture, seed).await;
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let artifact = |n| Known { state: 0, line: usize::from(n == 3), signed: Vec::new() };
        let artifacts = (0..4).map(artifact).collect();
        // Half of the sequences begin with a lenient policy, so that some reach the final state.
        let lenient = seed % 2 == 0;
        let unsigned_up_to = if lenient { 3 } else { 1 };
        let mut model = Model { artifacts, keys: [Standing::Unknown; 2], unsigned_up_to, grace: !lenient };
        if lenient {
            let rules = json!({"unsigned_up_to": "active", "grace_hours": 0});
            table.admin.patch(&format!("{}/trust-policy", table.base), rules).await.ok();
        }
        let mut so_far = Vec::new();
        for _ in 0..REQUESTS {
            so_far.push(table.ask(&mut dice, &mut model).await);
            let expected: Vec<&str> = model.artifacts.iter().map(|known| STATES[known.state]).collect();
            assert_eq!(table.states().await, expected, "seed {seed}, after {so_far:#?}\n{model:?}");
            reached.extend(expected.into_iter().map(str::to_owned));
        }
    }
    assert_eq!(reached.len(), STATES.len(), "every state was reached by somebody: {reached:?}");
    kit.stop().await;
}
