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

#[derive(Debug, Subcommand)]
pub(crate) enum DestinationsCommand {
    /// Show the destinations in force
    Show {
        #[arg(long, short)]
        workspace: WorkspaceId,
    },
    /// Set the destinations; what is left out is empty
    Set {
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// First digits of phones that may be written to, such as 49; may be repeated; none: all
        #[arg(long, value_name = "PREFIX", value_delimiter = ',')]
        allow: Vec<Prefix>,
        /// First digits of phones that may not be written to, whatever is allowed; may be repeated
        #[arg(long, value_name = "PREFIX", value_delimiter = ',')]
        deny: Vec<Prefix>,
    },
}

/// Runs `postrider destinations`.
pub(crate) async fn run(group: Group<DestinationsCommand>) -> Result<(), CliError> {
    let client = Client::new(&group.remote)?;
    let answer = match group.command {
        DestinationsCommand::Show { workspace } => {
            client.call(Method::GET, &format!("/{workspace}/destinations"), None).await?
        }
        DestinationsCommand::Set { workspace, allow, deny } => {
            let body = json!({ "allow": allow, "deny": deny });
            let path = format!("/{workspace}/destinations");
            client.call(Method::PUT, &path, Some(&body)).await?
        }
    };
    let listed = |name: &str| {
        let prefixes = answer[name].as_array().into_iter().flatten().filter_map(Value::as_str);
        json!({ "list": name, "prefixes": prefixes.collect::<Vec<_>>().join(" ") })
    };
    let columns = [("LIST", "/list"), ("PREFIXES", "/prefixes")];
    let shown = table::rows(&[listed("allow"), listed("deny")], &columns);
    print(group.remote.json, &answer, &shown)
}
