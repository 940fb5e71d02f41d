//! Logs of services.

use std::fs;

use muster_cell::{LogQuery, Stream};
use serde_json::json;

use crate::site::{Site, service};

#[test]
fn log_follower_gets_every_line_across_repeated_rotations() {
    let site = Site::new();
    let script =
        "sleep 0.3; for i in $(seq 1 400); do echo line $i; sleep 0.005; done; echo END >&2; sleep 1000";
    let cell = site.run(1, json!({ "services": [{ "name": "one", "command": ["/bin/sh", "-c", script] }] }));
    site.until(cell, |seen| service(seen, "one").pid != 0);
    let (mut all, mut cursor) = (Vec::new(), None);
    site.until(cell, |_| true);
    let (_, first) = site.cells.logs_after(cell, "one", None).unwrap();
    cursor = cursor.or(Some(first));
    let collected = std::cell::RefCell::new((&mut all, &mut cursor));
    site.until(cell, |_| {
        let mut held = collected.borrow_mut();
        let (lines, next) = site.cells.logs_after(cell, "one", *held.1).unwrap();
        held.0.extend(lines);
        *held.1 = Some(next);
        held.0.last().is_some_and(|line| line.text == "END")
    });
    let texts: Vec<String> = all.iter().map(|line| line.text.clone()).collect();
    let wanted: Vec<String> =
        (1..=400).map(|number| format!("line {number}")).chain(["END".to_owned()]).collect();
    assert_eq!(texts, wanted);
    assert_eq!((all[0].stream, all[400].stream), (Stream::Out, Stream::Err));
    assert!(all.windows(2).all(|pair| pair[0].at <= pair[1].at));

    let folder = site.settings.folder.join(format!("cells/{cell}/service/one"));
    let files: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name().into_string().unwrap())
        .filter(|name| name.starts_with("log"))
        .collect();
    assert!((4..=5).contains(&files.len()), "{files:?}");
    let query = LogQuery { tail: Some(2), contains: Some("line".to_owned()), since: None };
    let tail: Vec<String> =
        site.cells.logs(cell, "one", &query).unwrap().into_iter().map(|line| line.text).collect();
    assert_eq!(tail, ["line 399", "line 400"]);
    let since = LogQuery { since: Some(all[390].at), ..LogQuery::default() };
    assert_eq!(site.cells.logs(cell, "one", &since).unwrap().len(), 11);
    let kept = site.cells.logs_keep(cell, 30).unwrap();
    let kept: Vec<&str> = kept[0].1.iter().map(|line| line.text.as_str()).collect();
    assert_eq!(kept, ["line 399", "line 400", "END"]);
    assert!(site.cells.logs(cell, "../one", &LogQuery::default()).is_err());
}

#[test]
fn a_flood_of_output_stays_within_its_bound_while_nobody_looks() {
    let site = Site::new();
    let cell = site.run(
        1,
        json!({ "services": [{ "name": "one", "command": ["/bin/sh", "-c", "seq 1 20000; sleep 1000"] }] }),
    );
    site.until(cell, |seen| service(seen, "one").pid != 0);
    let newest = || site.cells.logs(cell, "one", &LogQuery { tail: Some(1), ..LogQuery::default() }).unwrap();
    let since = std::time::Instant::now();
    while newest().last().is_none_or(|line| line.text != "20000") {
        assert!(since.elapsed().as_secs() < 10, "{:?}", newest());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let folder = site.settings.folder.join(format!("cells/{cell}/service/one"));
    let size: u64 = fs::read_dir(folder)
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name().to_str().unwrap().starts_with("log"))
        .map(|entry| entry.metadata().unwrap().len())
        .sum();
    assert!(size <= 5 * 8_192, "{size}");
}
