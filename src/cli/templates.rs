//! `postrider templates`: creates, lists and synchronizes templates, and changes their status.

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
    /// List the templates of a workspace
    List {
        /// The ID of the workspace
        #[arg(long, short)]
        workspace: WorkspaceId,
    },
    /// Create a template with a body, such as "Hello {{1}}"
    #[command(alias = "add")]
    Create {
        /// The ID of the workspace
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// The name of the template: a-z, 0-9 and _
        name: String,
        /// The language of the template, in the notation of the channel
        #[arg(long, default_value = "en")]
        language: String,
        /// The category of the template: utility, marketing or authentication: utility, marketing
        /// or authentication
        #[arg(long, value_parser = TemplateCategory::from_str)]
        category: TemplateCategory,
        /// The status of the template
        #[arg(long, default_value = "approved", value_parser = TemplateStatus::from_str)]
        status: TemplateStatus,
        /// The text of the body, with {{1}}, {{2}} … for its variables
        #[arg(long)]
        body: String,
    },
    /// Set the status of a template
    Status {
        /// The ID of the workspace
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// The name of the template
        name: String,
        /// The language of the template
        #[arg(long, default_value = "en")]
        language: String,
        /// The new status, such as approved or paused
        #[arg(value_parser = TemplateStatus::from_str)]
        status: TemplateStatus,
    },
    /// Synchronize the templates with those of the channel
    Sync {
        /// The ID of the workspace
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
        TemplatesCommand::Create { workspace, name, language, category, status, body } => {
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
