//! `muster profile list`, `show` and `use`.

use clap::ArgMatches;
use serde_json::{Value, json};

use crate::context::{Context, Output, say};
use crate::failure::Result;
use crate::operate::show;
use crate::profile::{Profile, Profiles};

/// Runs one of them.
pub(crate) fn profile(context: &Context, verb: &str, matches: &ArgMatches) -> Result<()> {
    let mut profiles = Profiles::load(context.profiles_path())?;
    match verb {
        "use" => {
            let name = matches.get_one::<String>("name").map(String::as_str);
            let name = profiles.chosen(name)?.map(|(name, _)| name.to_owned()).unwrap_or_default();
            if let Some(profile) = profiles.profiles.get_mut(&name) {
                for (place, kept) in [("tenant", &mut profile.tenant), ("project", &mut profile.project)] {
                    if let Some(given) = matches.get_one::<String>(place) {
                        *kept = Some(given.clone()).filter(|given| !given.is_empty());
                    }
                }
            }
            profiles.current = Some(name.clone());
            profiles.save()?;
            eprintln!("{name} is the current profile");
            Ok(())
        }
        "show" => match profiles.chosen(context.profile_name.as_deref())? {
            Some((name, profile)) => show(context, &["profile", "show"], described(name, profile, &profiles)),
            None => {
                eprintln!("no profile is in use; `muster login` creates one");
                Ok(())
            }
        },
        _ => {
            let all: Vec<Value> =
                profiles.profiles.iter().map(|(name, profile)| described(name, profile, &profiles)).collect();
            if context.output == Output::Name {
                return say(&profiles.profiles.keys().map(|name| format!("{name}\n")).collect::<String>());
            }
            show(context, &["profile", "list"], json!({"items": all}))
        }
    }
}

/// Returns a profile for display: whether it has a token, never the token.
fn described(name: &str, profile: &Profile, profiles: &Profiles) -> Value {
    json!({
        "name": name,
        "current": profiles.current.as_deref() == Some(name),
        "server": profile.server,
        "token": profile.token.is_some(),
        "tenant": profile.tenant,
        "project": profile.project,
        "ca_file": profile.ca_file,
    })
}
