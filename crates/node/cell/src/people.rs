//! Users of a cell, as files for its programs. Pure.

use std::fmt::Write as _;

use muster_wire::cell::Person;

/// The files, and their paths in the cell.
pub(crate) const PLACES: [(&str, &str); 3] = [
    ("passwd", "/etc/muster/passwd"),
    ("group", "/etc/muster/group"),
    ("authorized_keys", "/etc/muster/authorized_keys"),
];

/// Returns the content of each file. The comment of a key is its user's name, so that sshd can restrict each key to its own
/// user.
pub(crate) fn files(people: &[Person]) -> [(&'static str, String); 3] {
    let (mut passwd, mut group, mut keys) = (String::new(), String::new(), String::new());
    for Person { name, uid, keys: theirs } in people {
        let _ = writeln!(passwd, "{name}:x:{uid}:{uid}::/home/{name}:/bin/bash");
        let _ = writeln!(group, "{name}:x:{uid}:");
        for key in theirs {
            let _ = writeln!(keys, "{key} {name}");
        }
    }
    [("passwd", passwd), ("group", group), ("authorized_keys", keys)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_says_whose_it_is() {
        let person = |name: &str, uid, keys: &[&str]| Person {
            name: name.to_owned(),
            uid,
            keys: keys.iter().map(|&key| key.to_owned()).collect(),
        };
        let made =
            files(&[person("ada", 30_000, &["ssh-ed25519 A", "ssh-ed25519 B"]), person("bob", 30_001, &[])]);
        let [(_, passwd), (_, group), (_, keys)] = made;
        assert_eq!(
            passwd,
            "ada:x:30000:30000::/home/ada:/bin/bash\nbob:x:30001:30001::/home/bob:/bin/bash\n"
        );
        assert_eq!(group, "ada:x:30000:\nbob:x:30001:\n");
        assert_eq!(keys, "ssh-ed25519 A ada\nssh-ed25519 B ada\n");
    }
}
