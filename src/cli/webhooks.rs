//! `postrider webhooks`: lists, creates, changes and deletes webhooks.

use clap::Subcommand;
use postrider_actors::domain::{WebhookId, WorkspaceId};
use reqwest::Method;
use serde_json::{Value, json};

use super::client::AdminClient;
use super::error::CliError;
use super::output::{listed, print};
use super::server_args::Group;
use super::table::{self, Column};

const WEBHOOK: [Column; 6] = [
    ("ID", "/id"),
    ("URL", "/url"),
    ("EVENTS", "/events"),
    ("ENABLED", "/enabled"),
    ("REASON", "/disabled_reason"),
    ("CREATED", "/created_at"),
];

const NEW_WEBHOOK: [Column; 3] = [("SECRET", "/secret"), ("ID", "/id"), ("URL", "/url")];

#[derive(Debug, Subcommand)]
pub(crate) enum WebhooksCommand {
    /// List the webhooks of a workspace
    List {
        /// The ID of the workspace
        #[arg(long, short)]
        workspace: WorkspaceId,
    },
    /// Create a webhook and show its secret once
    #[command(alias = "add")]
    Create {
        /// The ID of the workspace
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// The URL to which the server posts events
        url: String,
        /// An event type to deliver, such as otp.verified (repeatable). By default, all types
        #[arg(long = "event", value_name = "TYPE", value_delimiter = ',')]
        events: Vec<String>,
        /// The description of the webhook
        #[arg(long)]
        description: Option<String>,
        /// Deliver the events of each contact in order
        #[arg(long)]
        ordered: bool,
        /// Deliver the events in arrays of up to 100
        #[arg(long)]
        batch: bool,
    },
    /// Delete a webhook and its undelivered events
    #[command(alias = "remove")]
    Delete {
        /// The ID of the workspace
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// The ID of the webhook, as `list` shows it
        webhook_id: WebhookId,
    },
    /// Enable a webhook, which resumes where it stopped
    Enable {
        /// The ID of the workspace
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// The ID of the webhook, as `list` shows it
        webhook_id: WebhookId,
    },
    /// Disable a webhook
    Disable {
        /// The ID of the workspace
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// The ID of the webhook, as `list` shows it
        webhook_id: WebhookId,
    },
    /// Replace the secret of a webhook and show the new secret once
    Rotate {
        /// The ID of the workspace
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// The ID of the webhook, as `list` shows it
        webhook_id: WebhookId,
    },
}

/// Runs `postrider webhooks`.
pub(crate) async fn run(group: Group<WebhooksCommand>) -> Result<(), CliError> {
    let client = AdminClient::new(&group.remote)?;
    let (answer, shown) = match group.command {
        WebhooksCommand::List { workspace } => {
            listed(&client, &format!("/{workspace}/webhooks"), &WEBHOOK).await?
        }
        WebhooksCommand::Create { workspace, url, events, description, ordered, batch } => {
            let body = json!({
                "url": url,
                "events": events,
                "description": description,
                "ordered": ordered,
                "batch": batch,
            });
            let path = format!("/{workspace}/webhooks");
            with_secret(client.call(Method::POST, &path, Some(&body)).await?)
        }
        WebhooksCommand::Delete { workspace, webhook_id } => {
            client
                .call(Method::DELETE, &format!("/{workspace}/webhooks/{webhook_id}"), None)
                .await?;
            (json!({ "removed": webhook_id.to_string() }), format!("deleted {webhook_id}\n"))
        }
        WebhooksCommand::Enable { workspace, webhook_id } => {
            set_enabled(&client, &workspace, webhook_id, true).await?
        }
        WebhooksCommand::Disable { workspace, webhook_id } => {
            set_enabled(&client, &workspace, webhook_id, false).await?
        }
        WebhooksCommand::Rotate { workspace, webhook_id } => {
            let path = format!("/{workspace}/webhooks/{webhook_id}/rotate-secret");
            with_secret(client.call(Method::POST, &path, None).await?)
        }
    };
    print(group.remote.json, &answer, &shown)
}

async fn set_enabled(
    client: &AdminClient,
    workspace: &WorkspaceId,
    id: WebhookId,
    enabled: bool,
) -> Result<(Value, String), CliError> {
    let path = format!("/{workspace}/webhooks/{id}");
    let changed = client.call(Method::PATCH, &path, Some(&json!({ "enabled": enabled }))).await?;
    let shown = table::record(&changed, &WEBHOOK);
    Ok((changed, shown))
}

fn with_secret(made: Value) -> (Value, String) {
    let mut shown = table::record(&made, &NEW_WEBHOOK);
    shown.push_str("Save the secret now: it is not shown again.\n");
    (made, shown)
}
