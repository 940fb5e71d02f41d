//! Images that are damaged, inconsistent, or would take a node down.

use std::fs;

use muster_image::{Digest, Error, Images, Limits};
use serde_json::json;

use crate::layout::{Header, Layout, Packing, Tar, gzip};

/// Tries a manifest that must be refused, with low limits, and returns the error.
fn refused(layout: &Layout, images: &Images, digest: &Digest) -> String {
    let limits = Limits {
        bytes: 1 << 20,
        entries: 100,
        depth: 16,
        layers: 4,
        document_bytes: 64 << 10,
        ..Limits::default()
    };
    let error = images.ensure(&layout.source(), digest, &limits).expect_err("it must be refused");
    assert!(!matches!(error, Error::Node { .. }), "it is not the node's fault: {error}");
    assert_eq!(images.list().unwrap(), []);
    error.to_string()
}

struct Bench {
    _folder: tempfile::TempDir,
    layout: Layout,
    images: Images,
}

fn bench() -> Bench {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::new(&folder.path().join("layout"));
    let images = Images::open(folder.path().join("images")).unwrap();
    Bench { _folder: folder, layout, images }
}

#[track_caller]
fn assert_says(said: &str, words: &[&str]) {
    for word in words {
        assert!(said.contains(word), "{word:?} is not in: {said}");
    }
}

#[test]
fn image_that_would_fill_a_node_is_refused_by_layer_and_member() {
    let Bench { _folder, layout, images } = bench();
    let small = layout.layer(&Tar::default().file("small", b"").bytes(), Packing::Plain);
    let second = |tar: &Tar, packing| {
        let layer = layout.layer(&tar.bytes(), packing);
        refused(&layout, &images, &layout.manifest(&[small.clone(), layer], &json!({})))
    };
    let bomb = Tar::default().file("bomb", &vec![0; 2 << 20]);
    for packing in [Packing::Plain, Packing::Gzip, Packing::Zstd] {
        assert_says(&second(&bomb, packing), &["layer 2 (sha256:", "\"bomb\"", "2097152 bytes"]);
    }
    let half = Tar::default().file("half", &vec![0; 600 << 10]).file("more", &vec![0; 600 << 10]);
    assert_says(&second(&half, Packing::Gzip), &["layer 2", "\"more\"", "larger than 1048576 bytes"]);
    let huge = Header { size: Some(1 << 62), ..Header::default() };
    let said = second(&Tar::default().member(b"huge", &huge, b"x"), Packing::Plain);
    assert_says(&said, &["layer 2", "\"huge\"", "4611686018427387904 bytes"]);
    let pax = Tar::default().extended(&[(b"size", b"9223372036854775807")]).file("huge", b"x");
    assert_says(&second(&pax, Packing::Plain), &["\"huge\"", "9223372036854775807 bytes"]);
    let many = (0..200).fold(Tar::default(), |tar, file| tar.file(&file.to_string(), b""));
    assert_says(&second(&many, Packing::Gzip), &["layer 2", "more than 100 members"]);
    assert_says(&second(&Tar::default().directory(&"d/".repeat(17)), Packing::Plain), &["deeper than 16"]);
    let long = Header { kind: b'L', ..Header::default() };
    let said = second(&Tar::default().member(b"l", &long, &vec![b'x'; 1 << 21]), Packing::Gzip);
    assert_says(&said, &["extended header of 2097152 bytes"]);
    let padding = [Tar::default().bytes(), vec![0; 2 << 20]].concat();
    let padded = layout.layer(&padding, Packing::Gzip);
    assert_says(
        &refused(&layout, &images, &layout.manifest(&[padded], &json!({}))),
        &["at its end", "larger than"],
    );
}

#[test]
fn links_cannot_lead_deeper_than_names() {
    let Bench { _folder, layout, images } = bench();
    let mut tar = Tar::default();
    let mut way = String::new();
    for step in 0..4 {
        let deeper = format!("{way}/a{step}/b/c/d/e");
        let shortcut = if step == 0 { deeper.clone() } else { format!("l{}/a{step}/b/c/d/e", step - 1) };
        tar = tar.directory(&shortcut).symlink(&format!("l{step}"), &deeper);
        way = deeper;
    }
    assert_says(&refused(&layout, &images, &layout.image(&[tar])), &["deeper than 16"]);
}

#[test]
fn a_frame_that_asks_for_terabytes_of_memory_is_refused() {
    let Bench { _folder, layout, images } = bench();
    // The largest window of the format, and a block of 128 KiB of one byte, repeated.
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xf7];
    for _ in 0..100 {
        frame.extend_from_slice(&((128_u32 << 13) | 0b010).to_le_bytes()[..3]);
        frame.push(0);
    }
    let layer = layout.packed_layer(&frame, "+zstd", &Digest::of(b"whatever"));
    let said = refused(&layout, &images, &layout.manifest(&[layer], &json!({})));
    assert_says(&said, &["layer 1", "not a zstd stream"]);
}

#[test]
fn damage_in_transit_is_distinguished_from_a_malformed_image() {
    let Bench { _folder, layout, images } = bench();
    let plain = Tar::default().file("a", &[b'a'; 5000]).bytes();
    let image = |layer| layout.manifest(&[layer], &json!({}));

    let good = layout.layer(&plain, Packing::Gzip);
    let digest: Digest = good.descriptor["digest"].as_str().unwrap().parse().unwrap();
    let manifest = image(good);
    let packed = fs::read(layout.path_of(&digest)).unwrap();
    let mut flipped = packed.clone();
    *flipped.last_mut().unwrap() ^= 1;
    for (damage, word) in [
        (flipped, "its content has the digest"),
        (packed[..packed.len() / 2].to_vec(), "in its descriptor"),
        ([&packed[..], b"x"].concat(), "longer than"),
        (gzip(b"no tar"), "in its descriptor"),
    ] {
        fs::write(layout.path_of(&digest), damage).unwrap();
        assert_says(&refused(&layout, &images, &manifest), &["is damaged", word]);
    }
    fs::remove_file(layout.path_of(&digest)).unwrap();
    assert_says(&refused(&layout, &images, &manifest), &["does not hold"]);

    let truncated = layout.packed_layer(&packed[..packed.len() - 20], "+gzip", &Digest::of(&plain));
    assert_says(&refused(&layout, &images, &image(truncated)), &["layer 1"]);
    let other = layout.packed_layer(&packed, "+gzip", &Digest::of(b"other"));
    assert_says(&refused(&layout, &images, &image(other)), &["at its end", "in the configuration"]);
    let text = layout.layer(&vec![b'x'; 2000], Packing::Plain);
    assert_says(&refused(&layout, &images, &image(text)), &["at its beginning", "not a tar archive"]);
    let short = layout.layer(&plain[..1000], Packing::Plain);
    assert_says(&refused(&layout, &images, &image(short)), &["\"a\"", "in the middle"]);
    let not_packed = layout.packed_layer(&plain, "+gzip", &Digest::of(&plain));
    assert_says(&refused(&layout, &images, &image(not_packed)), &["layer 1", "gzip"]);
    let encrypted = layout.packed_layer(&plain, "+encrypted", &Digest::of(&plain));
    assert_says(&refused(&layout, &images, &image(encrypted)), &["media type"]);
}

#[test]
fn documents_that_cannot_be_followed_are_refused() {
    let Bench { _folder, layout, images } = bench();
    let says = |digest: &Digest, words: &[&str]| assert_says(&refused(&layout, &images, digest), words);
    let document = |value: serde_json::Value| layout.blob(value.to_string().as_bytes());
    says(&Digest::of(b"nowhere"), &["does not hold"]);
    says(&layout.blob(b"{"), &["cannot be read"]);
    says(&document(json!({"schemaVersion": 2})), &["neither an index"]);
    says(&document(json!({"manifests": [], "layers": [], "config": null})), &["neither an index"]);
    says(&document(json!({"manifests": []})), &["offers []"]);
    says(&layout.blob(&vec![b' '; 65 << 10]), &["longer than 65536 bytes"]);
    let traversal = json!({"manifests": [{"digest": "sha256:../../../../etc/passwd", "size": 1}]});
    says(&document(traversal), &["invalid digest"]);

    // No document can contain its own digest, but one can be stored under a digest that is not its own.
    let own = Digest::of(b"itself");
    let index = json!({"manifests": [{"digest": own, "size": 1}]});
    fs::write(layout.path_of(&own), index.to_string()).unwrap();
    says(&own, &["is damaged"]);
    let mut nested = document(json!({"manifests": []}));
    for _ in 0..6 {
        let size = fs::metadata(layout.path_of(&nested)).unwrap().len();
        nested = document(json!({"manifests": [{"digest": nested, "size": size}]}));
    }
    says(&nested, &["more than 4 indexes"]);

    let layer = layout.layer(&Tar::default().bytes(), Packing::Plain);
    says(&layout.manifest(&vec![layer.clone(); 5], &json!({})), &["5 layers"]);
    let manifest = layout.manifest(&[layer], &json!({}));
    let manifest: serde_json::Value =
        serde_json::from_slice(&fs::read(layout.path_of(&manifest)).unwrap()).unwrap();
    let mut fewer = manifest.clone();
    fewer["layers"] = json!([]);
    says(&document(fewer), &["0 layers, but its configuration has 1"]);
    let foreign = json!({"os": "windows", "architecture": "amd64", "rootfs": {"diff_ids": []}});
    let mut other = manifest;
    other["config"] = layout.descriptor("", foreign.to_string().as_bytes());
    says(&document(other), &["windows/amd64"]);
}

#[test]
fn a_pipe_in_the_place_of_a_blob_holds_nobody() {
    let Bench { _folder, layout, images } = bench();
    let digest = Digest::of(b"pipe");
    let made = std::process::Command::new("mkfifo").arg(layout.path_of(&digest)).status().unwrap();
    assert!(made.success());
    assert_says(&refused(&layout, &images, &digest), &["not a regular file"]);
}

#[test]
fn devices_and_pipes_are_counted_and_not_made() {
    let Bench { _folder, layout, images } = bench();
    let node = |kind| Header { kind, mode: 0o666, ..Header::default() };
    let tar = Tar::default()
        .file("was-file", b"")
        .member(b"null", &node(b'3'), b"")
        .member(b"disk", &node(b'4'), b"")
        .member(b"pipe", &node(b'6'), b"")
        .member(b"was-file", &node(b'3'), b"");
    let image = images.ensure(&layout.source(), &layout.image(&[tar]), &Limits::default()).unwrap();
    assert_eq!((image.left_out.devices, image.left_out.fifos), (3, 1));
    assert_eq!(fs::read_dir(&image.rootfs).unwrap().count(), 0);
}
