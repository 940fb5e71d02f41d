//! Interrupted pulls: by the network, a partition or a crash. Each byte is sent once where possible.

use std::fs;
use std::time::Duration;

use muster_agent::PULL_POINTS;
use muster_ids::CellId;
use muster_image::Digest;
use muster_wire::task::Ending;
use serde_json::Value;

use crate::machine::kill;
use crate::pull::{create, kept, prepare, pulled, reported, scene, some, trust};
use crate::registry::Instead;
use crate::server::Server;

#[tokio::test]
async fn interrupted_pull_resumes_where_it_stopped() {
    let (server, machine, a) = scene().await;
    let cell: CellId = machine.env.id();
    let (mut image, mut layer) = (String::new(), Value::Null);
    let size = 1 << 20;
    server.script(|state| {
        let registry = &mut state.registry;
        layer = registry.blob(some(size, 1));
        image = registry.image(std::slice::from_ref(&layer));
        for at in [300_000, 200_000] {
            registry.instead("blobs", &layer["digest"], Instead::BreakAfter(at));
        }
    });
    let running = machine.start();
    let tasks = vec![prepare(&machine, a), create(&machine, a, cell, &image, trust(false))];
    let reports = reported(&server, tasks).await;
    assert_eq!(reports[1].ending, Ending::Done, "{:?}", reports[1]);
    assert_eq!(kept(&machine, &layer).unwrap(), some(size, 1));
    {
        let state = server.state.lock();
        let asked = state.registry.asked.iter();
        let ranges: Vec<_> = asked
            .filter(|(asked, _)| asked.contains(layer["digest"].as_str().unwrap()))
            .map(|(_, range)| range.as_deref())
            .collect();
        assert_eq!(ranges, [None, Some("bytes=300000-"), Some("bytes=500000-")]);
        assert_eq!(state.secret_asks.len(), 1, "the token is as good as before");
    }
    kill(running).await;
}

#[tokio::test]
async fn a_server_that_does_not_hear_of_ranges_sends_it_whole() {
    let (server, machine, a) = scene().await;
    let cell: CellId = machine.env.id();
    let (mut image, mut layer) = (String::new(), Value::Null);
    server.script(|state| {
        let registry = &mut state.registry;
        layer = registry.blob(some(400_000, 1));
        image = registry.image(std::slice::from_ref(&layer));
        registry.instead("blobs", &layer["digest"], Instead::BreakAfter(100_000));
        registry.instead("blobs", &layer["digest"], Instead::Whole);
    });
    let running = machine.start();
    let tasks = vec![prepare(&machine, a), create(&machine, a, cell, &image, trust(false))];
    let reports = reported(&server, tasks).await;
    assert_eq!(reports[1].ending, Ending::Done, "{:?}", reports[1]);
    assert_eq!(kept(&machine, &layer).unwrap(), some(400_000, 1));
    kill(running).await;
}

#[tokio::test]
async fn a_partition_cuts_a_pull_too_and_it_goes_on_when_it_is_over() {
    let (server, machine, a) = scene().await;
    let cell: CellId = machine.env.id();
    let (mut image, mut layer) = (String::new(), Value::Null);
    server.script(|state| {
        let registry = &mut state.registry;
        layer = registry.blob(some(500_000, 1));
        image = registry.image(std::slice::from_ref(&layer));
        registry.instead("blobs", &layer["digest"], Instead::StopAfter(200_000));
    });
    let running = machine.start();
    let tasks = vec![prepare(&machine, a), create(&machine, a, cell, &image, trust(false))];
    server.script(|state| state.work.push_back(tasks));
    let digest: Digest = layer["digest"].as_str().unwrap().parse().unwrap();
    let partial = pulled(&machine).join("partial").join(digest.hex());
    let so_far = || fs::metadata(&partial).map_or(0, |facts| facts.len());
    while so_far() < 200_000 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    machine.cut.send_replace(true);
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(server.state.lock().registry.count(&digest.to_string()), 1, "nothing gets through");
    machine.cut.send_replace(false);
    server.until("both are reported", |state| state.reports.len() == 2).await;
    assert_eq!(server.reports()[1].ending, Ending::Done, "{:?}", server.reports());
    assert_eq!(kept(&machine, &layer).unwrap(), some(500_000, 1));
    let sent = server.state.lock().registry.sent;
    assert_eq!(sent, 500_000 + config_size(&server), "each byte once");
    kill(running).await;
}

fn config_size(server: &Server) -> usize {
    let state = server.state.lock();
    let configs = state
        .registry
        .holds
        .iter()
        .filter(|(path, bytes)| path.contains("/blobs/") && bytes.starts_with(b"{\"architecture\""));
    configs.map(|(_, bytes)| bytes.len()).sum()
}

#[tokio::test]
async fn killed_amid_a_pull_the_next_agent_goes_on_and_what_was_spoilt_is_fetched_anew() {
    let (server, machine, a) = scene().await;
    let cell: CellId = machine.env.id();
    let (mut image, mut layer) = (String::new(), Value::Null);
    server.script(|state| {
        let registry = &mut state.registry;
        layer = registry.blob(some(500_000, 1));
        image = registry.image(std::slice::from_ref(&layer));
        registry.instead("blobs", &layer["digest"], Instead::StopAfter(200_000));
    });
    let digest: Digest = layer["digest"].as_str().unwrap().parse().unwrap();
    let partial = pulled(&machine).join("partial").join(digest.hex());
    let running = machine.start();
    let task = create(&machine, a, cell, &image, trust(false));
    server.script(|state| state.work.push_back(vec![prepare(&machine, a), task.clone()]));
    while fs::metadata(&partial).map_or(0, |facts| facts.len()) < 200_000 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    kill(running).await;
    // The state after a power cut: full length, but empty.
    fs::write(&partial, vec![0; 200_000]).unwrap();
    let running = machine.start();
    let reports = reported(&server, vec![task]).await;
    assert_eq!(reports[0].ending, Ending::Done, "{:?}", reports[0]);
    assert_eq!(kept(&machine, &layer).unwrap(), some(500_000, 1));
    {
        let state = server.state.lock();
        let asked = state.registry.asked.iter().filter(|(asked, _)| asked.contains(&digest.to_string()));
        let ranges: Vec<_> = asked.map(|(_, range)| range.as_deref()).collect();
        assert_eq!(ranges, [None, Some("bytes=200000-"), None]);
    }
    kill(running).await;
}

#[tokio::test]
async fn killed_at_each_point_of_a_pull_and_started_again_it_pulls_to_the_end() {
    for point in PULL_POINTS {
        let (server, machine, a) = scene().await;
        let (mut image, mut layer) = (String::new(), Value::Null);
        server.script(|state| {
            layer = state.registry.blob(some(100_000, 1));
            image = state.registry.image(std::slice::from_ref(&layer));
        });
        let task = create(&machine, a, machine.env.id(), &image, trust(false));
        let tasks = vec![prepare(&machine, a), task.clone()];
        server.script(|state| state.redeliver = tasks);
        let mut doomed = crate::killed::start_pulling(&machine, point);
        let ended = tokio::time::timeout(Duration::from_secs(20), doomed.wait()).await;
        assert!(!ended.unwrap_or_else(|_| panic!("nothing came to {point}")).unwrap().success(), "{point}");
        let mut second = crate::killed::start_pulling(&machine, "");
        server.until(point, |state| state.reports.iter().any(|report| report.task_id == task.id)).await;
        second.kill().await.unwrap();
        assert!(server.reports().iter().all(|report| report.ending == Ending::Done), "{point}");
        assert_eq!(kept(&machine, &layer).unwrap(), some(100_000, 1), "{point}");
        assert_eq!(server.state.lock().registry.count(layer["digest"].as_str().unwrap()), 1, "{point}");
    }
}

#[tokio::test]
async fn a_large_layer_passes_through_little_memory() {
    let (server, machine, a) = scene().await;
    let (mut image, mut layer) = (String::new(), Value::Null);
    let size = 64 << 20;
    server.script(|state| {
        layer = state.registry.blob(some(size, 1));
        image = state.registry.image(std::slice::from_ref(&layer));
    });
    let running = machine.start();
    reported(&server, vec![prepare(&machine, a)]).await;
    let most = || {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap().to_owned();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    };
    // Excludes the memory used to build the layer.
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = most();
    let task = create(&machine, a, machine.env.id(), &image, trust(false));
    let reports = reported(&server, vec![task]).await;
    let grown = most().saturating_sub(before);
    assert_eq!(reports[0].ending, Ending::Done, "{:?}", reports[0]);
    println!("pulling {size} bytes took {grown} kB more");
    assert!(grown < 24 << 10, "{grown} kB");
    kill(running).await;
}
