//! The one setting of the host that is changed: whether it forwards. It is turned on while a cell needs it and put back
//! afterwards, together with the settings that the kernel changes along with it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::NetworkError;
use crate::inside::Inside;
use crate::record::{Book, Forwarding};

const FORWARD: &str = "ipv4/ip_forward";
const REDIRECTS: &str = "ipv4/conf/all/accept_redirects";

/// Writes down how it is, before it is turned on. `None` if the host forwards of its own accord.
pub(crate) fn remember(
    book: &Book,
    inside: &Inside,
    namespace: (u64, u64),
) -> Result<Option<Forwarding>, NetworkError> {
    if let Some(kept) = ours(book, namespace)? {
        return Ok(Some(kept));
    }
    if inside.setting(FORWARD)?.as_deref() != Some("0") {
        return Ok(None);
    }
    let mut before = BTreeMap::new();
    for key in keys()? {
        if let Some(value) = inside.setting(&key)? {
            before.insert(key, value);
        }
    }
    let forwarding = Forwarding { boot: boot()?, namespace, before };
    book.keep_forwarding(&forwarding)?;
    Ok(Some(forwarding))
}

/// Turns it on.
pub(crate) fn turn_on(inside: &Inside) -> Result<(), NetworkError> {
    inside.set(FORWARD, "1")
}

/// Puts it back, if it was turned on for us. The caller forgets the record when the rules that go with it are gone.
pub(crate) fn put_back(book: &Book, inside: &Inside, namespace: (u64, u64)) -> Result<(), NetworkError> {
    let Some(kept) = ours(book, namespace)? else { return Ok(()) };
    inside.set(FORWARD, "0")?;
    // Turning it off turned it off everywhere and changed how redirects are taken: what was otherwise is so again.
    for (key, value) in &kept.before {
        inside.set(key, value)?;
    }
    Ok(())
}

/// The record, if it tells of this start of the machine and of this namespace.
fn ours(book: &Book, namespace: (u64, u64)) -> Result<Option<Forwarding>, NetworkError> {
    let Some(kept) = book.forwarding()? else { return Ok(None) };
    Ok((kept.namespace == namespace && kept.boot == boot()?).then_some(kept))
}

fn boot() -> Result<String, NetworkError> {
    let path = Path::new("/proc/sys/kernel/random/boot_id");
    let text = fs::read_to_string(path).map_err(|error| NetworkError::file(path, error))?;
    Ok(text.trim().to_owned())
}

/// Which settings change when forwarding is turned on. The devices are those of the calling thread's namespace.
fn keys() -> Result<Vec<String>, NetworkError> {
    let folder = Path::new("/proc/sys/net/ipv4/conf");
    let unable = |error| NetworkError::file(folder, error);
    let mut keys = vec![REDIRECTS.to_owned()];
    for entry in fs::read_dir(folder).map_err(unable)? {
        let name = entry.map_err(unable)?.file_name();
        // `all` is another name of the setting itself.
        if let Some(name) = name.to_str().filter(|name| *name != "all") {
            keys.push(format!("ipv4/conf/{name}/forwarding"));
        }
    }
    Ok(keys)
}
