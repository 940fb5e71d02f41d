//! Whatever members a layer has, nothing outside the root changes.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use muster_image::{Images, Limits};
use proptest::prelude::*;

use crate::canary::{plant, quick_folder, snapshot};
use crate::layout::{Header, Layout, Tar};

#[derive(Debug, Clone)]
struct Member {
    kind: u8,
    name: String,
    link: String,
    mode: u32,
}

/// Names from few parts, so that members collide, and links have targets.
fn path() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        8 => prop::sample::select(vec!["a", "b", "file", "etc"]),
        2 => prop::sample::select(vec!["..", ".", "", ".wh.a", ".wh.file", ".wh..wh..opq", ".wh.etc"]),
    ];
    let start =
        prop_oneof![6 => Just(""), 1 => Just("/"), 1 => Just("CANARY/"), 1 => Just("../../../../canary/")];
    (start, prop::collection::vec(part, 0..4))
        .prop_map(|(start, parts)| format!("{start}{}", parts.join("/")))
}

fn member() -> impl Strategy<Value = Member> {
    let kind = prop::sample::select(vec![b'0', b'0', b'1', b'2', b'2', b'5', b'3', b'6']);
    let mode = prop::sample::select(vec![0o644, 0o4755, 0o000, 0o1777]);
    (kind, path(), path(), mode).prop_map(|(kind, name, link, mode)| Member { kind, name, link, mode })
}

fn tar(members: &[Member], canary: &Path) -> Tar {
    let real = |text: &str| text.replacen("CANARY", canary.to_str().unwrap(), 1).into_bytes();
    members.iter().fold(Tar::default(), |tar, member| {
        let header =
            Header { kind: member.kind, mode: member.mode, link: real(&member.link), ..Header::default() };
        tar.member(&real(&member.name), &header, if member.kind == b'0' { b"!" } else { b"" })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_outside_ever_changes(layers in prop::collection::vec(prop::collection::vec(member(), 1..8), 1..3)) {
        let folder = quick_folder();
        let canary = folder.path().join("canary");
        plant(&canary);
        let before = snapshot(&canary);
        let images = Images::open(folder.path().join("images")).unwrap();
        let layout = Layout::new(&folder.path().join("layout"));
        // Member by member without the refused ones, so that one bad member does not hide the effects of others.
        let mut accepted: Vec<Vec<Member>> = Vec::new();
        let mut whole = BTreeSet::new();
        for layer in layers {
            accepted.push(Vec::new());
            for member in layer {
                accepted.last_mut().unwrap().push(member);
                let tars: Vec<Tar> = accepted.iter().map(|layer| tar(layer, &canary)).collect();
                let digest = layout.image(&tars);
                if let Ok(image) = images.ensure(&layout.source(), &digest, &Limits::default()) {
                    whole.insert(digest);
                    prop_assert_eq!(images.verify_tree(&image.digest).unwrap(), Vec::<String>::new());
                } else {
                    accepted.last_mut().unwrap().pop();
                }
                prop_assert_eq!(&snapshot(&canary), &before);
            }
        }
        prop_assert_eq!(images.list().unwrap(), whole.into_iter().collect::<Vec<_>>());
        prop_assert_eq!(fs::read_dir(folder.path().join("images/partial")).unwrap().count(), 0);
        let mut beside: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        beside.sort();
        prop_assert_eq!(beside, ["canary", "images", "layout"]);
    }
}
