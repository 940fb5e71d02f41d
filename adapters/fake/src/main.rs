//! An adapter that stands for any. Its app class has no meaning, so whatever it is asked for can be done, refused, slowed
//! down or forgotten as a test wants; it will be what tests and demos run instead of a real one.
//!
//! For now it says who it is, and whether the platform takes it: instances, and with them steps to lease, come next.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    match muster_adapter_kit::connect_from_env().await {
        Ok(adapter) => {
            println!("{}", introduction(&adapter.identity));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("muster-adapter-fake: {error}");
            ExitCode::FAILURE
        }
    }
}

fn introduction(identity: &muster_adapter_kit::Identity) -> String {
    let may = match identity.permissions.len() {
        0 => "nothing".to_owned(),
        _ => identity.permissions.join(", "),
    };
    format!(
        "I am the service account {} ({}) in the project {} and may: {may}",
        identity.name, identity.id, identity.project_id
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_who_it_is_and_what_it_may() {
        let mut identity = muster_adapter_kit::Identity {
            id: "sa_1".to_owned(),
            name: "fake".to_owned(),
            project_id: "prj_1".to_owned(),
            permissions: vec!["event.list".to_owned(), "event.stream".to_owned()],
        };
        let said = introduction(&identity);
        assert_eq!(
            said,
            "I am the service account fake (sa_1) in the project prj_1 and may: event.list, event.stream"
        );
        identity.permissions.clear();
        assert!(introduction(&identity).ends_with("may: nothing"));
    }
}
