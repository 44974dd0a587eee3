//! `postrider users`: prints links and invites, lists people, and disables them.

use clap::Subcommand;
use postrider_actors::domain::{PersonId, WorkspaceId};
use postrider_actors::{Login, Role};
use reqwest::Method;
use serde_json::{Value, json};

use super::client::AdminClient;
use super::error::CliError;
use super::output::{listed_of_server, print};
use super::server_args::Group;
use super::table::{self, Column};

const USER: [Column; 5] = [
    ("ID", "/id"),
    ("E-MAIL", "/email"),
    ("OPERATOR", "/operator"),
    ("DISABLED", "/disabled"),
    ("CREATED", "/created_at"),
];

const LINK: [Column; 3] = [("LINK", "/url"), ("USER", "/user_id"), ("EXPIRES", "/expires_at")];

const INVITE: [Column; 3] = [("INVITE", "/url"), ("ID", "/id"), ("EXPIRES", "/expires_at")];

#[derive(Debug, Subcommand)]
pub(crate) enum UsersCommand {
    /// Create a link that signs a user in
    ///
    /// The link works once, within 15 minutes. If the user does not exist, the server creates the
    /// user.
    Link {
        /// The e-mail address of the user
        email: String,
        /// Give the user the rights of a server operator
        #[arg(long)]
        operator: bool,
        /// Add the user to this workspace
        #[arg(long, short, requires = "role")]
        workspace: Option<WorkspaceId>,
        /// The role in the workspace: owner, admin, marketer, agent, analyst or developer
        #[arg(long, requires = "workspace")]
        role: Option<Role>,
    },
    /// Create an invite to a workspace
    ///
    /// The invite works once, within 72 hours.
    Invite {
        /// The e-mail address of the invited person
        email: String,
        /// The ID of the workspace
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// The role in the workspace: owner, admin, marketer, agent, analyst or developer
        #[arg(long)]
        role: Role,
    },
    /// List the users
    List,
    /// Disable a user: end all sessions and refuse new sign-ins
    Disable {
        /// The e-mail address or the ID of the user
        user: String,
    },
    /// Enable a disabled user, who can then sign in again
    Enable {
        /// The e-mail address or the ID of the user
        user: String,
    },
}

/// Runs `postrider users`.
pub(crate) async fn run(group: Group<UsersCommand>) -> Result<(), CliError> {
    let client = AdminClient::new(&group.remote)?;
    let (answer, shown) = match group.command {
        UsersCommand::Link { email, operator, workspace, role } => {
            let mut body = json!({ "email": email, "operator": operator });
            if let (Some(workspace), Some(role)) = (workspace, role) {
                body["workspace"] = workspace.to_string().into();
                body["role"] = role.as_str().into();
            }
            let made = client.administer(Method::POST, "/users/link", Some(&body)).await?;
            let mut shown = table::record(&made, &LINK);
            shown.push_str("Open the link now: it works once and is not shown again.\n");
            (made, shown)
        }
        UsersCommand::Invite { email, workspace, role } => {
            let body = json!({ "email": email, "role": role.as_str() });
            let path = format!("/workspaces/{workspace}/invites");
            let made = client.administer(Method::POST, &path, Some(&body)).await?;
            let mut shown = table::record(&made, &INVITE);
            shown.push_str("Send the invite: it works once and is not shown again.\n");
            (made, shown)
        }
        UsersCommand::List => listed_of_server(&client, "/users", &USER).await?,
        UsersCommand::Disable { user } => set_disabled(&client, &user, true).await?,
        UsersCommand::Enable { user } => set_disabled(&client, &user, false).await?,
    };
    print(group.remote.json, &answer, &shown)
}

async fn set_disabled(
    client: &AdminClient,
    user: &str,
    disabled: bool,
) -> Result<(Value, String), CliError> {
    let id = find_user_id(client, user).await?;
    let body = json!({ "disabled": disabled });
    let row = client.administer(Method::PATCH, &format!("/users/{id}"), Some(&body)).await?;
    let shown = table::record(&row, &USER);
    Ok((row, shown))
}

/// Returns the id of the user with this id or e-mail address.
async fn find_user_id(client: &AdminClient, user: &str) -> Result<PersonId, CliError> {
    if let Ok(id) = user.parse() {
        return Ok(id);
    }
    let (all, _) = listed_of_server(client, "/users", &USER).await?;
    let email = Login::new(user).ok();
    let rows = all["data"].as_array().cloned().unwrap_or_default();
    let found = rows.iter().find(|row| row["email"].as_str() == email.as_ref().map(Login::as_str));
    let id = found.and_then(|row| row["id"].as_str()).and_then(|id| id.parse().ok());
    id.ok_or_else(|| CliError::NoSuchUser(user.to_owned()))
}
