//! Signatures: the node verifies them before it unpacks an image, once for each policy.

use std::collections::BTreeMap;

use bytes::Bytes;
use muster_ids::{AllocationId, TenantId};
use muster_trust::{Descriptor, PrivateKey, bundle, simple};
use muster_wire::cell::{Trust, TrustKey};
use muster_wire::task::{Ending, Refusal, Report, Task};
use serde_json::{Value, json};

use crate::machine::{Machine, changed, kill};
use crate::pull::{create, prepare, refusal, reported, scene};
use crate::registry::{Instead, path};
use crate::server::Server;

fn key(id: &str, key: &PrivateKey, revoked: bool) -> TrustKey {
    TrustKey { id: id.to_owned(), public_key: key.public().to_pem(), revoked }
}

fn trust(policy: &str, keys: Vec<TrustKey>) -> Trust {
    Trust { required: true, policy: policy.to_owned(), keys }
}

fn image(server: &Server) -> String {
    let mut image = String::new();
    server.script(|state| {
        let layer = state.registry.blob("layer");
        image = state.registry.image(&[layer]);
    });
    image
}

/// Signs as cosign does with a tag.
fn sign(server: &Server, image: &str, key: &PrivateKey) {
    let digest = image.parse().unwrap();
    let payload = simple::payload(&digest, "registry/acme.ml/train");
    let signature = key.sign(&payload);
    let attachment = simple::attach(Vec::new(), payload, &signature);
    server.script(|state| {
        for blob in attachment.blobs {
            state.registry.blob(blob.bytes);
        }
        state
            .registry
            .holds
            .insert(path("manifests", &simple::tag(&digest)), Bytes::from(attachment.manifest.bytes));
    });
}

/// Signs as cosign 3 does, with a referrer of the image.
fn sign_by_bundle(server: &Server, image: &str, key: &PrivateKey) {
    sign_by_bundles(server, image, vec![bundle::sign_manifest(key, &image.parse().unwrap())]);
}

/// Adds bundles that refer to the image, sorted by digest.
fn sign_by_bundles(server: &Server, image: &str, bundles: Vec<Vec<u8>>) {
    let digest: muster_trust::Digest = image.parse().unwrap();
    server.script(|state| {
        let registry = &mut state.registry;
        let size = registry.holds[&path("manifests", image)].len() as u64;
        let media_type = "application/vnd.oci.image.manifest.v1+json".to_owned();
        let subject = Descriptor { media_type, digest, size };
        let mut referring = BTreeMap::new();
        for bundle in bundles {
            let attachment = bundle::attach(&subject, bundle).unwrap();
            for blob in attachment.blobs {
                registry.blob(blob.bytes);
            }
            let manifest = attachment.manifest;
            let (digest, size) = (manifest.descriptor.digest.to_string(), manifest.descriptor.size);
            registry.holds.insert(path("manifests", &digest), Bytes::from(manifest.bytes));
            let descriptor = json!({"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": digest,
                "size": size, "artifactType": bundle::MEDIA_TYPE});
            referring.insert(digest, descriptor);
        }
        let list = json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": referring.into_values().collect::<Vec<_>>()});
        registry.holds.insert(path("referrers", image), Bytes::from(list.to_string()));
    });
}

async fn made(server: &Server, machine: &Machine, a: AllocationId, image: &str, trust: Trust) -> Report {
    let task = create(machine, a, machine.env.id(), image, trust);
    reported(server, vec![task]).await.remove(0)
}

fn asked(server: &Server, part: &str) -> usize {
    server.state.lock().registry.count(part)
}

#[tokio::test]
async fn an_unsigned_image_runs_only_where_no_signature_is_required() {
    let (server, machine, a) = scene().await;
    let image = image(&server);
    let publisher = PrivateKey::generate();
    let running = machine.start();
    reported(&server, vec![prepare(&machine, a)]).await;
    let required = trust("p1", vec![key("k1", &publisher, false)]);
    let (refused, why) = refusal(&made(&server, &machine, a, &image, required.clone()).await);
    assert_eq!(refused, Some(Refusal::ArtifactUntrusted));
    assert!(why.contains("has no signature"), "{why}");
    assert_eq!(asked(&server, "/blobs/"), 0, "nothing of it was fetched");
    let free = Trust { required: false, policy: "p2".to_owned(), ..required.clone() };
    assert_eq!(made(&server, &machine, a, &image, free).await.ending, Ending::Done);
    // Nor does a verdict cached without the requirement satisfy a policy that requires a signature, under any name.
    let named_alike = Trust { policy: "p2".to_owned(), ..required.clone() };
    let (refused, _) = refusal(&made(&server, &machine, a, &image, named_alike).await);
    assert_eq!(refused, Some(Refusal::ArtifactUntrusted));
    // A refusal is not cached: once signed, the image runs.
    sign(&server, &image, &publisher);
    assert_eq!(made(&server, &machine, a, &image, required).await.ending, Ending::Done);
    kill(running).await;
}

#[tokio::test]
async fn an_image_with_a_signature_that_does_not_count_never_runs() {
    let publisher = PrivateKey::generate();
    let stranger = PrivateKey::generate();
    let good = || vec![key("k1", &publisher, false)];
    type Sign<'k> = dyn Fn(&Server, &str) + 'k;
    let cases: Vec<(&str, Box<Sign<'_>>, Vec<TrustKey>)> = vec![
        ("by none of the 1 known keys", Box::new(|server, image| sign(server, image, &stranger)), good()),
        (
            "by none of the 1 known keys",
            Box::new(|server, image| sign_by_bundle(server, image, &stranger)),
            good(),
        ),
        ("no key is trusted", Box::new(|server, image| sign(server, image, &publisher)), Vec::new()),
        (
            "k1, which was revoked",
            Box::new(|server, image| sign(server, image, &publisher)),
            vec![key("k1", &publisher, true)],
        ),
        (
            "k1, which was revoked",
            Box::new(|server, image| sign_by_bundle(server, image, &publisher)),
            vec![key("k1", &publisher, true)],
        ),
        // A good signature over another image, under this one's tag.
        (
            "signed different content",
            Box::new(|server, image| {
                let other = muster_image::Digest::of(b"other").to_string();
                sign(server, &other, &publisher);
                server.script(|state| {
                    let registry = &mut state.registry;
                    let of_other =
                        registry.holds[&path("manifests", &simple::tag(&other.parse().unwrap()))].clone();
                    registry.holds.insert(path("manifests", &simple::tag(&image.parse().unwrap())), of_other);
                });
            }),
            good(),
        ),
        // An unreadable signature still counts as one.
        (
            "signature is invalid",
            Box::new(|server, image| {
                server.script(|state| {
                    let tag = simple::tag(&image.parse().unwrap());
                    state.registry.holds.insert(path("manifests", &tag), Bytes::from_static(b"{"));
                });
            }),
            good(),
        ),
        (
            "signature is invalid",
            Box::new(|server, image| {
                sign(server, image, &publisher);
                server.script(|state| {
                    let registry = &mut state.registry;
                    registry.holds.retain(|_, bytes| !bytes.starts_with(b"{\"critical\""));
                });
            }),
            good(),
        ),
    ];
    for (number, (says, sign, keys)) in cases.into_iter().enumerate() {
        let (server, machine, a) = scene().await;
        let image = image(&server);
        sign(&server, &image);
        let running = machine.start();
        reported(&server, vec![prepare(&machine, a)]).await;
        for required in [true, false] {
            let trust = Trust { required, ..trust("p1", keys.clone()) };
            let (refused, why) = refusal(&made(&server, &machine, a, &image, trust).await);
            assert_eq!(refused, Some(Refusal::ArtifactUntrusted), "{number}: {why}");
            assert!(why.contains(says), "{number}: {why}");
        }
        let layer: Value = json!(muster_image::Digest::of(b"layer").to_string());
        assert_eq!(asked(&server, layer.as_str().unwrap()), 0, "{number}: nothing of it was fetched");
        kill(running).await;
    }
}

#[tokio::test]
async fn a_verdict_is_found_out_once_for_each_digest_and_policy_also_across_starts() {
    // A good signature under the tag is enough, and no other one is read.
    for (way, lists) in [(sign as fn(&Server, &str, &PrivateKey), 0), (sign_by_bundle, 1)] {
        let (server, machine, a) = scene().await;
        let image = image(&server);
        let (publisher, second) = (PrivateKey::generate(), PrivateKey::generate());
        way(&server, &image, &publisher);
        let trusted = trust("p1", vec![key("k0", &second, false), key("k1", &publisher, false)]);
        let mut running = machine.start();
        reported(&server, vec![prepare(&machine, a)]).await;
        for start in 0..4 {
            let report = made(&server, &machine, a, &image, trusted.clone()).await;
            assert_eq!(report.ending, Ending::Done, "{report:?}");
            assert_eq!((asked(&server, ".sig"), asked(&server, "/referrers/")), (1, lists));
            if start == 1 {
                kill(running).await;
                running = machine.start();
            }
        }
        // The key is revoked: the policy changes with it, and the cached verdict does not count.
        let revoked = trust("p2", vec![key("k1", &publisher, true)]);
        let (refused, why) = refusal(&made(&server, &machine, a, &image, revoked).await);
        assert_eq!(refused, Some(Refusal::ArtifactUntrusted));
        assert!(why.contains("revoked"), "{why}");
        assert_eq!(asked(&server, ".sig"), 2);
        // An unreadable cache is rebuilt.
        kill(running).await;
        std::fs::write(machine.path().join("agent/verdicts.json"), "[{").unwrap();
        let running = machine.start();
        let report = made(&server, &machine, a, &image, trusted).await;
        assert_eq!(report.ending, Ending::Done);
        assert_eq!(asked(&server, ".sig"), 3);
        kill(running).await;
    }
}

/// Attack: a project runs an image that another project of the node trusts, by its digest, and without a signature of its own.
#[tokio::test]
async fn one_digest_of_two_projects_on_a_node_is_judged_by_the_policy_of_each() {
    let (server, machine, a) = scene().await;
    let b = machine.env.id();
    let image = image(&server);
    let (publisher, other) = (PrivateKey::generate(), PrivateKey::generate());
    sign(&server, &image, &publisher);
    let running = machine.start();
    reported(&server, vec![prepare(&machine, a), prepare(&machine, b)]).await;
    let ours = trust("project-a", vec![key("k1", &publisher, false)]);
    let theirs = trust("project-b", vec![key("k1", &other, false)]);
    for _ in 0..2 {
        assert_eq!(made(&server, &machine, a, &image, ours.clone()).await.ending, Ending::Done);
        let (refused, why) = refusal(&made(&server, &machine, b, &image, theirs.clone()).await);
        assert_eq!(refused, Some(Refusal::ArtifactUntrusted), "{why}");
    }
    kill(running).await;
}

/// Any user with push access can add bad signatures. They are sorted by digest, so the good one can be anywhere among them.
#[tokio::test]
async fn a_thousand_bad_signatures_keep_no_signed_image_from_running() {
    let (server, machine, a) = scene().await;
    let image = image(&server);
    let (publisher, stranger) = (PrivateKey::generate(), PrivateKey::generate());
    let junk = |n: u32| bundle::sign_manifest(&stranger, &muster_trust::Digest::of(&n.to_le_bytes()));
    let mut bundles: Vec<Vec<u8>> = (0..1000).map(junk).collect();
    let running = machine.start();
    reported(&server, vec![prepare(&machine, a)]).await;
    let required = trust("p1", vec![key("k1", &publisher, false)]);
    sign_by_bundles(&server, &image, bundles.clone());
    let (refused, why) = refusal(&made(&server, &machine, a, &image, required.clone()).await);
    assert_eq!(refused, Some(Refusal::ArtifactUntrusted), "{why}");
    assert!(asked(&server, "/manifests/") > 1000, "all of them were read");
    bundles.push(bundle::sign_manifest(&publisher, &image.parse().unwrap()));
    sign_by_bundles(&server, &image, bundles);
    assert_eq!(made(&server, &machine, a, &image, required).await.ending, Ending::Done);
    kill(running).await;
}

/// Attack: a tenant's images keep every examination of the node busy, here by signatures that do not arrive.
#[tokio::test]
async fn examinations_of_one_tenants_images_leave_one_to_another_tenant() {
    let (server, machine, _) = scene().await;
    let [greedy, modest]: [TenantId; 2] = [(); 2].map(|()| machine.env.id());
    let publisher = PrivateKey::generate();
    let required = trust("p1", vec![key("k1", &publisher, false)]);
    let sandboxes: Vec<AllocationId> = (0..7).map(|_| machine.env.id()).collect();
    let mut images = Vec::new();
    for number in 0..7 {
        server.script(|state| {
            let layer = state.registry.blob(format!("layer {number}"));
            images.push(state.registry.image(&[layer]));
        });
        sign(&server, &images[number], &publisher);
    }
    for image in &images[..6] {
        let tag = json!(simple::tag(&image.parse().unwrap()));
        server.script(|state| {
            (0..20).for_each(|_| state.registry.instead("manifests", &tag, Instead::StopAfter(0)));
        });
    }
    let owned =
        |tenant: TenantId, task: Task| changed(&task, "/act/allocation/tenant_id", tenant.to_string());
    let create = |tenant, number: usize| {
        let task = create(&machine, sandboxes[number], machine.env.id(), &images[number], required.clone());
        owned(tenant, task)
    };
    let running = machine.start();
    let prepared = sandboxes.iter().map(|place| owned(greedy, prepare(&machine, *place))).collect();
    reported(&server, prepared).await;
    let many = (0..6).map(|number| create(greedy, number)).collect();
    server.script(|state| state.work.push_back(many));
    server.until("they are under way", |state| state.registry.count("/manifests/sha256-") >= 3).await;
    let report = reported(&server, vec![create(modest, 6)]).await.remove(0);
    assert_eq!(report.ending, Ending::Done, "{report:?}");
    kill(running).await;
}
