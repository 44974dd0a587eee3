//! `postrider templates`: adds, lists and synchronizes templates, and changes their status.

use std::str::FromStr;

use clap::Subcommand;
use postrider_actors::domain::WorkspaceId;
use postrider_actors::domain::template::{TemplateCategory, TemplateStatus};
use reqwest::Method;
use serde_json::json;

use super::client::AdminClient;
use super::error::CliError;
use super::output::{listed, print};
use super::server_args::Group;
use super::table::{self, Column};

const TEMPLATE: [Column; 4] = [
    ("NAME", "/name"),
    ("LANGUAGE", "/language"),
    ("CATEGORY", "/category"),
    ("STATUS", "/status"),
];

#[derive(Debug, Subcommand)]
pub(crate) enum TemplatesCommand {
    /// List the templates
    List {
        #[arg(long, short)]
        workspace: WorkspaceId,
    },
    /// Add a template with a body, such as "Hello {{1}}"
    Add {
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// Its name: a-z, 0-9 and _
        name: String,
        /// Its language, as the channel writes it
        #[arg(long, default_value = "en")]
        language: String,
        #[arg(long, value_parser = TemplateCategory::from_str)]
        category: TemplateCategory,
        #[arg(long, default_value = "approved", value_parser = TemplateStatus::from_str)]
        status: TemplateStatus,
        /// The body's text, with {{1}}, {{2}} … where parameters go
        #[arg(long)]
        body: String,
    },
    /// Change a template's status
    Status {
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// Its name
        name: String,
        /// Its language
        #[arg(long, default_value = "en")]
        language: String,
        /// Such as approved or paused
        #[arg(value_parser = TemplateStatus::from_str)]
        status: TemplateStatus,
    },
    /// Bring the templates up to date with the channel's
    Sync {
        #[arg(long, short)]
        workspace: WorkspaceId,
    },
}

/// Runs `postrider templates`.
pub(crate) async fn run(group: Group<TemplatesCommand>) -> Result<(), CliError> {
    let client = AdminClient::new(&group.remote)?;
    let (answer, shown) = match group.command {
        TemplatesCommand::List { workspace } => {
            listed(&client, &format!("/{workspace}/templates"), &TEMPLATE).await?
        }
        TemplatesCommand::Add { workspace, name, language, category, status, body } => {
            let template = json!({
                "name": name,
                "language": language,
                "category": category.as_str(),
                "status": status.as_str(),
                "components": [{ "type": "BODY", "text": body }],
            });
            let path = format!("/{workspace}/templates");
            let made = client.call(Method::POST, &path, Some(&template)).await?;
            let shown = table::record(&made, &TEMPLATE);
            (made, shown)
        }
        TemplatesCommand::Status { workspace, name, language, status } => {
            let path = format!("/{workspace}/templates/{name}/{language}");
            let body = json!({ "status": status.as_str() });
            let changed = client.call(Method::PATCH, &path, Some(&body)).await?;
            let shown = table::record(&changed, &TEMPLATE);
            (changed, shown)
        }
        TemplatesCommand::Sync { workspace } => {
            client.call(Method::POST, &format!("/{workspace}/templates/sync"), None).await?;
            listed(&client, &format!("/{workspace}/templates"), &TEMPLATE).await?
        }
    };
    print(group.remote.json, &answer, &shown)
}
