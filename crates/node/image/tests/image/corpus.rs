//! Hostile layers that try to escape their root, and the required outcome of each.

use crate::layout::{Header, Tar};

/// Required outcome of an attack.
pub(crate) enum End {
    /// An error with this text.
    Refused(&'static str),
    /// The file is here, inside the root.
    Inside(String),
    /// No effect.
    Nothing,
}

pub(crate) struct Attack {
    pub(crate) name: &'static str,
    /// Each becomes a layer of its own, and all together become one.
    pub(crate) members: Vec<Tar>,
    pub(crate) end: End,
}

/// Path from the root to the canary, for an escape.
const OUT: &str = "../../../../canary";

pub(crate) fn corpus(canary: &str) -> Vec<Attack> {
    let tar = Tar::default;
    let inside = |path: &str| End::Inside(path.to_owned());
    let attack = |name, members, end| Attack { name, members, end };
    vec![
        attack("dots in a name", vec![tar().file(&format!("{OUT}/file"), b"!")], End::Refused("..")),
        attack(
            "dots behind a directory",
            vec![tar().file(&format!("a/../{OUT}/new"), b"!")],
            End::Refused(".."),
        ),
        attack("dots at the end", vec![tar().directory("a/..")], End::Refused("..")),
        attack(
            "an absolute name",
            vec![tar().file(&format!("{canary}/file"), b"!")],
            inside(&format!("{canary}/file")),
        ),
        attack(
            "through an absolute link",
            vec![tar().symlink("out", canary), tar().file("out/file", b"!")],
            End::Refused("dangling link"),
        ),
        attack(
            "through a link of dots",
            vec![tar().symlink("out", OUT), tar().file("out/file", b"!")],
            End::Refused("dangling link"),
        ),
        attack(
            "through a link of dots that means something inside",
            vec![tar().directory("canary"), tar().symlink("out", OUT), tar().file("out/file", b"!")],
            inside("canary/file"),
        ),
        attack(
            "through a link to a link",
            vec![tar().symlink("a", "b/x"), tar().symlink("b", canary), tar().file("a/file", b"!")],
            End::Refused("dangling link"),
        ),
        // No machine has this folder: a link resolved against the node's root must not find anything to damage there.
        attack(
            "the image's root by a link",
            vec![
                tar().directory("muster-attacked"),
                tar().symlink("link", "/muster-attacked"),
                tar().file("link/passwd", b"!"),
            ],
            inside("muster-attacked/passwd"),
        ),
        attack(
            "/proc/self/root",
            vec![tar().symlink("out", &format!("/proc/self/root{canary}")), tar().file("out/file", b"!")],
            End::Refused("dangling link"),
        ),
        attack(
            "a directory through a link",
            vec![tar().symlink("out", canary), tar().directory("out/new")],
            End::Refused("dangling link"),
        ),
        attack(
            "over a link",
            vec![tar().symlink("x", &format!("{canary}/file")), tar().file("x", b"!")],
            inside("x"),
        ),
        attack(
            "a directory over a link, to change the mode behind it",
            vec![
                tar().symlink("x", canary),
                tar().member(b"x", &Header { kind: b'5', mode: 0o777, uid: 7, ..Header::default() }, b""),
                tar().file("x/file", b"!"),
            ],
            inside("x/file"),
        ),
        attack(
            "a second name for a file outside",
            vec![tar().hard_link("x", &format!("{OUT}/etc/shadow"))],
            End::Refused(".."),
        ),
        attack(
            "a second name for an absolute file outside",
            vec![tar().hard_link("x", &format!("{canary}/etc/shadow")), tar().file("x", b"!")],
            End::Refused("not in the image"),
        ),
        attack(
            "a second name through a link",
            vec![tar().symlink("out", canary), tar().hard_link("x", "out/file")],
            End::Refused("not in the image"),
        ),
        attack(
            "a second name for a link",
            vec![
                tar().symlink("l", &format!("{canary}/file")),
                tar().hard_link("x", "l"),
                tar().file("x", b"!"),
            ],
            inside("x"),
        ),
        attack(
            "a second name for a directory",
            vec![tar().directory("d"), tar().hard_link("x", "d")],
            End::Refused("not a file"),
        ),
        attack("a second name for the root", vec![tar().hard_link("x", "/")], End::Refused("the root")),
        attack(
            "a whiteout through a link",
            vec![tar().symlink("out", canary), tar().file("out/.wh.file", b"")],
            End::Nothing,
        ),
        attack(
            "an opaque whiteout through a link",
            vec![tar().symlink("out", OUT), tar().file("out/.wh..wh..opq", b"")],
            End::Nothing,
        ),
        attack(
            "a whiteout of the directory above",
            vec![tar().file(".wh...", b"")],
            End::Refused("whiteout"),
        ),
        attack("a whiteout of itself", vec![tar().file("a/.wh..", b"")], End::Refused("whiteout")),
        attack(
            "a link in the place of the root",
            vec![tar().symlink("./", canary)],
            End::Refused("the root"),
        ),
        attack(
            "links in a circle",
            vec![tar().symlink("a", "b"), tar().symlink("b", "a"), tar().file("a/x", b"!")],
            End::Refused("circular link"),
        ),
        attack(
            "below a file",
            vec![tar().file("a", b""), tar().file("a/b", b"!")],
            End::Refused("not a directory"),
        ),
        attack("an empty name", vec![tar().file("", b"!")], End::Refused("empty")),
        attack(
            "a NUL in a name",
            vec![tar().extended(&[(b"path", b"a\0b")]).file("x", b"!")],
            End::Refused("NUL"),
        ),
        attack("a name too long", vec![tar().file(&"x".repeat(256), b"!")], End::Refused("longer")),
        attack(
            "an owner that means nobody",
            vec![tar().extended(&[(b"uid", b"4294967295")]).file("x", b"!")],
            End::Refused("owner"),
        ),
    ]
}
