//! Several servers with one database and one folder are one registry.

use muster_db::Location;
use muster_http::Settings;
use muster_ids::Env;
use muster_testkit::{Database, Fixture, Kit};
use serde_json::json;

use super::{Image, Remote, digest};

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_began_at_one_server_is_finished_at_the_other() {
    let kit = Kit::start(Database::postgres(), 2).await;
    let fixture = Fixture::build(&kit).await;
    let token = fixture.token("project_admin");
    let [one, two] = [0, 1].map(|at| Remote::new(&kit, at, token, "acme.train/base"));
    let image = Image::of("shared");
    let upload = one.upload().await;
    let (first, rest) = image.layer.split_at(5);
    two.send("PATCH", &upload, first).await.is(202);
    assert_eq!(one.get(&upload).await.is(204).header("range"), "0-4");
    let whole = format!("{upload}?digest={}", digest(&image.layer));
    two.send("PUT", &format!("{upload}?digest={}", digest(b"other")), b"")
        .await
        .refused(400, "DIGEST_INVALID");
    let upload_gone = one.get(&upload).await;
    let upload = if upload_gone.status == 404 { one.upload().await } else { upload };
    if upload_gone.status == 404 {
        // Content that does not match its digest is discarded; it is restarted at one and completed at the other.
        one.send("PATCH", &upload, first).await.is(202);
        two.send("PUT", &format!("{upload}?digest={}", digest(&image.layer)), rest).await.is(201);
    } else {
        one.send("PUT", &whole, rest).await.is(201);
    }
    two.blob(&image.config).await.is(201);
    one.manifest("v1", &image.manifest).await.is(201);
    for remote in [&one, &two] {
        remote.pulls(&image).await.unwrap();
        assert_eq!(remote.get("{}/tags/list").await.is(200).json()["tags"], json!(["v1"]));
    }
    // Content removed at one is gone at the other.
    one.send("DELETE", &format!("{{}}/manifests/{}", image.digest()), b"").await.is(202);
    two.get("{}/manifests/v1").await.refused(404, "MANIFEST_UNKNOWN");
    let project = fixture.id("train");
    kit.client_of(0, token).delete(&format!("/v1/projects/{project}/repositories/base")).await.ok();
    for _ in 0..100 {
        if two.get("{}/tags/list").await.status == 404 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    two.get("{}/tags/list").await.refused(404, "NAME_UNKNOWN");
    // The name is free again, and the other server's cache is only briefly stale.
    two.push("v1", &image).await.is(201);
    one.pulls(&image).await.unwrap();
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_push_to_one_new_repository_at_once_through_two_servers() {
    let kit = Kit::start(Database::postgres(), 2).await;
    let fixture = Fixture::build(&kit).await;
    let token = fixture.token("project_admin").to_owned();
    for round in 0..5 {
        let name = format!("acme.train/new{round}");
        let pushes = (0..12).map(|n| {
            let remote = Remote::new(&kit, n % 2, &token, &name);
            async move {
                // Few different contents, so that some are pushed concurrently.
                let image = Image::of(&format!("{round}-{}", n % 4));
                remote.push(&format!("t{n}"), &image).await.is(201);
                (remote, image)
            }
        });
        for (remote, image) in futures::future::join_all(pushes).await {
            remote.pulls(&image).await.unwrap();
        }
        let tags = Remote::new(&kit, 0, &token, &name).get("{}/tags/list").await.is(200).json();
        assert_eq!(tags["tags"].as_array().unwrap().len(), 12);
    }
    let path = format!("/v1/projects/{}/repositories", fixture.id("train"));
    let made = kit.client_of(0, &token).get(&path).await.ok().body;
    assert_eq!(made["items"].as_array().unwrap().len(), 5, "each name is one repository");
    let artifacts = format!("/v1/projects/{}/artifacts?page_size=200", fixture.id("train"));
    let drafts = kit.client_of(0, &token).get(&artifacts).await.ok().body;
    assert_eq!(
        drafts["items"].as_array().unwrap().len(),
        20,
        "each content is one artifact of its repository"
    );
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_would_not_share_the_folder_refuses_to_start() {
    let kit = Kit::start(Database::postgres(), 1).await;
    let Location::Postgres(url) = &kit.database.location else { unreachable!() };
    let elsewhere = tempfile::tempdir().unwrap();
    let data = kit.database.folder().display().to_string();
    let mut settings = Settings::default();
    let other = elsewhere.path().join("registry").display().to_string();
    for (key, value) in [
        ("http.listen", "127.0.0.1:0"),
        ("nodes.listen", "127.0.0.1:0"),
        ("data.dir", data.as_str()),
        ("database.url", url.as_str()),
        ("registry.dir", other.as_str()),
    ] {
        settings.set(key, value.to_owned(), "the test").unwrap();
    }
    let refused = muster_http::start(&settings, Env::system()).await.err().expect("it has another folder");
    assert!(refused.to_string().contains("registry.dir"), "{refused}");
    // The same folder by another name is the same folder.
    let same = kit.database.folder().join("registry").display().to_string();
    settings.set("registry.dir", same, "the test").unwrap();
    muster_http::start(&settings, Env::system()).await.unwrap().stop().await;
    // A separate database would collect the first one's content as garbage.
    settings
        .set("database.url", elsewhere.path().join("other.db").display().to_string(), "the test")
        .unwrap();
    settings.set("data.dir", elsewhere.path().display().to_string(), "the test").unwrap();
    let refused = muster_http::start(&settings, Env::system()).await.err().expect("it has another database");
    assert!(refused.to_string().contains("another database"), "{refused}");
    kit.stop().await;
}
