//! `muster login` and `muster logout`.
//!
//! A person logs in with a password once, to issue a token for this machine; the password is not stored, and the browser
//! session that issued the token is ended immediately. The remaining token has a name that identifies the machine, and
//! can be revoked from anywhere.

use std::io::{BufRead, IsTerminal};

use clap::ArgMatches;
use muster_sdk::describe::{Description, Endpoint};
use muster_sdk::{Arguments, Connection};
use serde_json::{Value, json};

use crate::collect::read_line;
use crate::context::Context;
use crate::failure::{Exit, Failure, Result};
use crate::operate::call;
use crate::printable::printable;
use crate::profile::{Profile, Profiles};

fn operation(id: &str) -> Result<&'static Endpoint> {
    let found = Description::embedded().endpoint(id);
    found
        .ok_or_else(|| Failure::new(Exit::Failed, "missing_operation", format!("the API no longer has {id}")))
}

/// Logs in and stores the profile.
pub(crate) async fn login(context: &Context, matches: &ArgMatches, input: &mut dyn BufRead) -> Result<()> {
    let token = match (matches.get_one::<String>("email"), context.named_token()) {
        (Some(email), _) => {
            let password = password(matches.get_flag("password-stdin"), input)?;
            issue(context, tenant(matches), email, &password).await?
        }
        (None, Some(token)) => token.to_owned(),
        (None, None) if std::io::stdin().is_terminal() => {
            let tenant = match tenant(matches) {
                Some(tenant) => Some(tenant.to_owned()),
                None => {
                    eprint!("tenant (empty for platform operators): ");
                    Some(read_line(input)?).filter(|tenant| !tenant.is_empty())
                }
            };
            eprint!("email: ");
            let email = read_line(input)?;
            issue(context, tenant.as_deref(), &email, &password(false, input)?).await?
        }
        (None, None) => {
            return Err(Failure::usage("neither an email nor a token was given")
                .next("add --email EMAIL, or --token-file FILE for a service account"));
        }
    };
    let who = call(&context.connect_as(Some(&token))?, operation("whoami")?, &Arguments::default()).await?;
    let name = keep(context, matches, token)?;
    let word = |key: &str| printable(who[key].as_str().unwrap_or("?")).into_owned();
    eprintln!(
        "logged in to {} as {} ({}), stored in profile {name}",
        context.server,
        word("name"),
        word("kind")
    );
    if let Some(end) = who["expires_at"].as_str() {
        eprintln!("the token expires on {}; `muster logout` revokes it earlier", printable(end));
    }
    if context.server.starts_with("http://") && !on_this_machine(&context.server) {
        eprintln!(
            "warning: {} is not encrypted; a third party on the network can steal the token",
            context.server
        );
    }
    Ok(())
}

fn on_this_machine(server: &str) -> bool {
    ["http://127.", "http://localhost", "http://[::1]"].iter().any(|start| server.starts_with(start))
}

fn password(from_input: bool, input: &mut dyn BufRead) -> Result<String> {
    if from_input {
        return Ok(read_line(input)?);
    }
    if !std::io::stdin().is_terminal() {
        return Err(Failure::usage("no terminal to ask for the password").next("add --password-stdin"));
    }
    rpassword::prompt_password("password: ")
        .map_err(|error| Failure::local("the terminal cannot be read", error))
}

/// Returns the person's tenant: explicit, or derived from the project's name.
fn tenant(matches: &ArgMatches) -> Option<&str> {
    let word = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    word("tenant").or_else(|| word("project")?.split_once('.').map(|(tenant, _)| tenant))
}

/// Issues a token for this machine, through a browser session.
async fn issue(context: &Context, tenant: Option<&str>, email: &str, password: &str) -> Result<String> {
    let connection = context.connect_as(None)?;
    let mut body = json!({"method": "password", "email": email, "password": password});
    if let Some(tenant) = tenant {
        body["tenant"] = json!(tenant);
    }
    let arguments = Arguments { body: Some(body), ..Arguments::default() };
    let create = operation("session_create")?;
    let session = connection
        .call(create, &arguments)
        .await
        .map_err(|error| Failure::call(Some(create), error).wrong_password())?;
    let lost = || {
        Failure::new(Exit::Failed, "answer_lost", "the response to the login was lost").next("log in again")
    };
    let cookie = session.headers.get("set-cookie").and_then(|header| header.to_str().ok());
    let cookie = cookie.and_then(|header| header.split(';').next()).ok_or_else(lost)?.to_owned();
    let csrf = session.json()["csrf_token"].as_str().ok_or_else(lost)?.to_owned();
    let headers = vec![("Cookie".to_owned(), cookie), ("X-CSRF-Token".to_owned(), csrf)];
    let issued = issue_within(&connection, &headers).await;
    // The session is no longer needed. If ending it fails, it expires.
    let _ =
        connection.call(operation("session_delete")?, &Arguments { headers, ..Arguments::default() }).await;
    issued?["secret"].as_str().map(str::to_owned).ok_or_else(lost)
}

async fn issue_within(connection: &Connection, headers: &[(String, String)]) -> Result<Value> {
    let body = Some(json!({"name": format!("muster cli on {}", host())}));
    call(
        connection,
        operation("token_issue")?,
        &Arguments { body, headers: headers.to_vec(), ..Arguments::default() },
    )
    .await
}

/// Returns the host name, so that people know which token to revoke when a machine is lost.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").or_else(|_| std::env::var("HOSTNAME"));
    let name = name.unwrap_or_default();
    let name: String = name.trim().chars().filter(|letter| !letter.is_control()).take(80).collect();
    if name.is_empty() { "an unnamed machine".to_owned() } else { name }
}

fn keep(context: &Context, matches: &ArgMatches, token: String) -> Result<String> {
    let mut profiles = Profiles::load(context.profiles_path())?;
    let name = context.profile_name.clone().unwrap_or_else(|| "default".to_owned());
    let before = profiles.profiles.get(&name).filter(|profile| profile.server == context.server);
    let place = |word: &str, kept: Option<&String>| matches.get_one::<String>(word).or(kept).cloned();
    let profile = Profile {
        server: context.server.clone(),
        token: Some(token),
        ca_file: context.ca_file().map(|path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned())),
        tenant: place("tenant", before.and_then(|profile| profile.tenant.as_ref())),
        project: place("project", before.and_then(|profile| profile.project.as_ref())),
    };
    profiles.profiles.insert(name.clone(), profile);
    profiles.current = Some(name.clone());
    profiles.save()?;
    Ok(name)
}

/// Revokes the profile's token and removes it. The profile keeps its server, tenant and project.
pub(crate) async fn logout(context: &Context, matches: &ArgMatches) -> Result<()> {
    let mut profiles = Profiles::load(context.profiles_path())?;
    let Some((name, profile)) = profiles.chosen(context.profile_name.as_deref())? else {
        return Err(Failure::usage("no profile to log out of"));
    };
    if profile.server != context.server {
        let detail =
            format!("profile {name} is for {}; its token is not sent to {}", profile.server, context.server);
        return Err(
            Failure::usage(detail).next("leave out --server and MUSTER_SERVER, or name another --profile")
        );
    }
    let name = name.to_owned();
    let Some(token) = profile.token.clone() else {
        eprintln!("profile {name} has no token");
        return Ok(());
    };
    if !matches.get_flag("local") {
        revoke(context, &token).await.map_err(|failure| {
            failure.next("if the server no longer exists, `muster logout --local` removes the token here")
        })?;
    }
    if let Some(profile) = profiles.profiles.get_mut(&name) {
        profile.token = None;
    }
    profiles.save()?;
    eprintln!("logged out of {}: the token of profile {name} is {}", context.server, revoked(matches));
    Ok(())
}

fn revoked(matches: &ArgMatches) -> &'static str {
    if matches.get_flag("local") { "removed here, and valid until it expires" } else { "revoked" }
}

async fn revoke(context: &Context, token: &str) -> Result<()> {
    let connection = context.connect_as(Some(token))?;
    let who = match call(&connection, operation("whoami")?, &Arguments::default()).await {
        // It is already invalid, as intended.
        Err(failure) if failure.exit == Exit::Unauthenticated => return Ok(()),
        other => other?,
    };
    let id = who["token_id"].as_str().unwrap_or_default().to_owned();
    let arguments = Arguments { path: [("token".to_owned(), id)].into(), ..Arguments::default() };
    call(&connection, operation("token_revoke")?, &arguments).await.map(|_| ())
}
