//! `postrider destinations`: shows and sets where one-time passwords may go.

use clap::Subcommand;
use postrider_actors::domain::{Prefix, WorkspaceId};
use reqwest::Method;
use serde_json::{Value, json};

use super::client::Client;
use super::error::CliError;
use super::output::print;
use super::remote::Group;
use super::table;

/// The word for a workspace that follows the settings.
const SETTINGS: &str = "settings";

#[derive(Debug, Subcommand)]
pub(crate) enum DestinationsCommand {
    /// Show the destinations in force
    Show {
        #[arg(long, short)]
        workspace: WorkspaceId,
    },
    /// Set the destinations: without --allow all, without --deny all of them; --safe and --adaptive
    /// stay as they are where they are left out
    Set {
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// First digits of phones that may be written to, such as 49; may be repeated; none: all
        #[arg(long, value_name = "PREFIX", value_delimiter = ',')]
        allow: Vec<Prefix>,
        /// First digits of phones that may not be written to, whatever is allowed; may be repeated
        #[arg(long, value_name = "PREFIX", value_delimiter = ',')]
        deny: Vec<Prefix>,
        /// First digits of phones that are not limited, however few codes are verified there; may
        /// be repeated
        #[arg(long, value_name = "PREFIX", value_delimiter = ',', conflicts_with = "no_safe")]
        safe: Vec<Prefix>,
        /// Let no phones be safe from limits any more
        #[arg(long)]
        no_safe: bool,
        /// What is done where few codes are verified; settings: what those say
        #[arg(long, value_name = "MODE", value_parser = ["off", "report", "refuse", SETTINGS])]
        adaptive: Option<String>,
    },
}

/// Runs `postrider destinations`.
pub(crate) async fn run(group: Group<DestinationsCommand>) -> Result<(), CliError> {
    let client = Client::new(&group.remote)?;
    let answer = match group.command {
        DestinationsCommand::Show { workspace } => {
            client.call(Method::GET, &format!("/{workspace}/destinations"), None).await?
        }
        DestinationsCommand::Set { workspace, allow, deny, safe, no_safe, adaptive } => {
            let mut body = json!({ "allow": allow, "deny": deny });
            if no_safe || !safe.is_empty() {
                body["safe"] = json!(safe);
            }
            if let Some(mode) = adaptive {
                body["adaptive"] = json!(Some(mode).filter(|mode| mode != SETTINGS));
            }
            let path = format!("/{workspace}/destinations");
            client.call(Method::PUT, &path, Some(&body)).await?
        }
    };
    let listed = |name: &str| {
        let prefixes = answer[name].as_array().into_iter().flatten().filter_map(Value::as_str);
        json!({ "list": name, "prefixes": prefixes.collect::<Vec<_>>().join(" ") })
    };
    let adaptive = answer["adaptive"].as_str().unwrap_or(SETTINGS);
    let adaptive = json!({ "list": "adaptive", "prefixes": adaptive });
    let [allow, deny, safe] = ["allow", "deny", "safe"].map(listed);
    let columns = [("LIST", "/list"), ("PREFIXES", "/prefixes")];
    let shown = table::rows(&[allow, deny, safe, adaptive], &columns);
    print(group.remote.json, &answer, &shown)
}
