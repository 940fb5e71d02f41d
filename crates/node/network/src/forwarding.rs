//! Forwarding, the only setting of the host that is changed. It is enabled while a cell needs it and restored afterwards,
//! together with the settings that the kernel changes along with it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::NetworkError;
use crate::inside::Inside;
use crate::record::{Book, Forwarding};

const FORWARD: &str = "ipv4/ip_forward";
const REDIRECTS: &str = "ipv4/conf/all/accept_redirects";

/// Records the settings before forwarding is enabled. `None` if the host already forwards.
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

/// Enables forwarding.
pub(crate) fn turn_on(inside: &Inside) -> Result<(), NetworkError> {
    inside.set(FORWARD, "1")
}

/// Restores the settings, if forwarding was enabled for us. The caller removes the record after the matching rules.
pub(crate) fn restore(book: &Book, inside: &Inside, namespace: (u64, u64)) -> Result<(), NetworkError> {
    let Some(kept) = ours(book, namespace)? else { return Ok(()) };
    inside.set(FORWARD, "0")?;
    // Disabling it disabled every device and changed the handling of redirects: restore the other values.
    for (key, value) in &kept.before {
        inside.set(key, value)?;
    }
    Ok(())
}

/// Returns the record, if it is of this boot and this namespace.
fn ours(book: &Book, namespace: (u64, u64)) -> Result<Option<Forwarding>, NetworkError> {
    let Some(kept) = book.forwarding()? else { return Ok(None) };
    Ok((kept.namespace == namespace && kept.boot == boot()?).then_some(kept))
}

fn boot() -> Result<String, NetworkError> {
    let path = Path::new("/proc/sys/kernel/random/boot_id");
    let text = fs::read_to_string(path).map_err(|error| NetworkError::file(path, error))?;
    Ok(text.trim().to_owned())
}

/// Returns the settings that change with forwarding. The devices are those of the calling thread's namespace.
fn keys() -> Result<Vec<String>, NetworkError> {
    let folder = Path::new("/proc/sys/net/ipv4/conf");
    let unable = |error| NetworkError::file(folder, error);
    let mut keys = vec![REDIRECTS.to_owned()];
    for entry in fs::read_dir(folder).map_err(unable)? {
        let name = entry.map_err(unable)?.file_name();
        // `all` is an alias of the setting itself.
        if let Some(name) = name.to_str().filter(|name| *name != "all") {
            keys.push(format!("ipv4/conf/{name}/forwarding"));
        }
    }
    Ok(keys)
}
