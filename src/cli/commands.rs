//! The commands that administer a server.

use std::io::Write;

use postrider_actors::domain::{Limits, Scope};
use reqwest::Method;
use serde_json::{Map, Value, json};

use super::CliError;
use super::args::{
    CreditsCommand, DestinationsCommand, Group, KeysCommand, LimitsCommand, NumbersCommand,
    TemplatesCommand, WorkspacesCommand,
};
use super::client::Client;
use super::table::{self, Column};

const WORKSPACE: [Column; 8] = [
    ("ID", "/id"),
    ("NAME", "/name"),
    ("STATE", "/state"),
    ("CREDITS", "/credits"),
    ("KEYS", "/counts/keys"),
    ("NUMBERS", "/counts/numbers"),
    ("OTPS", "/counts/otps"),
    ("CREATED", "/created_at"),
];

const KEY: [Column; 5] = [
    ("ID", "/id"),
    ("NAME", "/name"),
    ("PREFIX", "/prefix"),
    ("SCOPES", "/scopes"),
    ("CREATED", "/created_at"),
];

const NEW_KEY: [Column; 4] =
    [("KEY", "/key"), ("ID", "/id"), ("NAME", "/name"), ("SCOPES", "/scopes")];

const NUMBER: [Column; 5] = [
    ("ID", "/id"),
    ("KIND", "/kind"),
    ("PHONE", "/phone"),
    ("CALLBACK", "/callback_path"),
    ("CREATED", "/created_at"),
];

const TEMPLATE: [Column; 4] = [
    ("NAME", "/name"),
    ("LANGUAGE", "/language"),
    ("CATEGORY", "/category"),
    ("STATUS", "/status"),
];

/// `postrider workspaces …`
pub(crate) async fn workspaces(group: Group<WorkspacesCommand>) -> Result<(), CliError> {
    let client = Client::new(&group.remote)?;
    let (answer, shown) = match group.command {
        WorkspacesCommand::Create { id, name } => {
            let name = name.unwrap_or_else(|| id.to_string());
            let body = json!({ "id": id, "name": name });
            let made = client.call(Method::POST, "", Some(&body)).await?;
            let shown = table::record(&made, &WORKSPACE);
            (made, shown)
        }
        WorkspacesCommand::List => listed(&client, "", &WORKSPACE).await?,
        WorkspacesCommand::Show { id } => {
            let found = client.call(Method::GET, &format!("/{id}"), None).await?;
            let mut shown = table::record(&found, &WORKSPACE);
            if let Some(reason) = found["parked_reason"].as_str() {
                shown.push_str(&format!("parked because {reason}\n"));
            }
            (found, shown)
        }
    };
    print(group.remote.json, &answer, &shown)
}

/// `postrider keys …`
pub(crate) async fn keys(group: Group<KeysCommand>) -> Result<(), CliError> {
    let client = Client::new(&group.remote)?;
    let (answer, shown) = match group.command {
        KeysCommand::Create { workspace, name, scopes } => {
            let scopes: Vec<_> = scopes.into_iter().map(Scope::as_str).collect();
            let body = json!({ "name": name, "scopes": scopes });
            let path = format!("/{workspace}/keys");
            let made = client.call(Method::POST, &path, Some(&body)).await?;
            let mut shown = table::record(&made, &NEW_KEY);
            shown.push_str("Keep the key now: it is not shown again.\n");
            (made, shown)
        }
        KeysCommand::List { workspace } => {
            listed(&client, &format!("/{workspace}/keys"), &KEY).await?
        }
        KeysCommand::Revoke { workspace, key_id } => {
            client.call(Method::DELETE, &format!("/{workspace}/keys/{key_id}"), None).await?;
            (json!({ "revoked": key_id.to_string() }), format!("revoked {key_id}\n"))
        }
    };
    print(group.remote.json, &answer, &shown)
}

/// `postrider limits …`
pub(crate) async fn limits(group: Group<LimitsCommand>) -> Result<(), CliError> {
    let client = Client::new(&group.remote)?;
    let answer = match group.command {
        LimitsCommand::Show { workspace } => {
            let mut found = client.call(Method::GET, &format!("/{workspace}"), None).await?;
            found["limits"].take()
        }
        LimitsCommand::Set { workspace, limits } => {
            let body: Map<_, _> =
                limits.into_iter().map(|(name, limit)| (name.to_owned(), limit.into())).collect();
            let path = format!("/{workspace}/limits");
            client.call(Method::PUT, &path, Some(&Value::Object(body))).await?
        }
    };
    let lines = Limits::NAMES.iter().map(|name| json!({ "name": name, "limit": answer[name] }));
    let lines: Vec<_> = lines.collect();
    let shown = table::rows(&lines, &[("LIMIT", "/name"), ("VALUE", "/limit")]);
    print(group.remote.json, &answer, &shown)
}

/// `postrider destinations …`
pub(crate) async fn destinations(group: Group<DestinationsCommand>) -> Result<(), CliError> {
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

/// `postrider credits …`
pub(crate) async fn credits(group: Group<CreditsCommand>) -> Result<(), CliError> {
    let client = Client::new(&group.remote)?;
    let (method, workspace, body) = match group.command {
        CreditsCommand::Set { workspace, credits } => {
            (Method::PUT, workspace, json!({ "credits": credits }))
        }
        CreditsCommand::Add { workspace, credits } => {
            (Method::POST, workspace, json!({ "add": credits }))
        }
    };
    let answer = client.call(method, &format!("/{workspace}/credits"), Some(&body)).await?;
    let shown = table::record(&answer, &[("CREDITS", "/credits")]);
    print(group.remote.json, &answer, &shown)
}

/// `postrider numbers …`
pub(crate) async fn numbers(group: Group<NumbersCommand>) -> Result<(), CliError> {
    let client = Client::new(&group.remote)?;
    let (answer, shown) = match group.command {
        NumbersCommand::Connect { workspace, number } => {
            let path = format!("/{workspace}/numbers");
            let account = number.account;
            // What is left out is null, which is the same.
            let body = json!({
                "kind": number.kind,
                "messages_per_second": number.messages_per_second,
                "phone": account.phone,
                "phone_number_id": account.phone_number_id,
                "account_id": account.account_id,
                "token": account.channel_token,
                "app_secret": account.app_secret,
                "verify_token": account.verify_token,
            });
            let made = client.call(Method::POST, &path, Some(&body)).await?;
            let shown = table::record(&made, &NUMBER);
            (made, shown)
        }
        NumbersCommand::List { workspace } => {
            listed(&client, &format!("/{workspace}/numbers"), &NUMBER).await?
        }
        NumbersCommand::Update { workspace, number_id, change } => {
            let path = format!("/{workspace}/numbers/{number_id}");
            let body = json!({
                "token": change.channel_token,
                "app_secret": change.app_secret,
                "verify_token": change.verify_token,
                "messages_per_second": change.messages_per_second,
            });
            let changed = client.call(Method::PATCH, &path, Some(&body)).await?;
            let shown = table::record(&changed, &NUMBER);
            (changed, shown)
        }
        NumbersCommand::Disconnect { workspace, number_id } => {
            let path = format!("/{workspace}/numbers/{number_id}");
            client.call(Method::DELETE, &path, None).await?;
            (
                json!({ "disconnected": number_id.to_string() }),
                format!("disconnected {number_id}\n"),
            )
        }
    };
    print(group.remote.json, &answer, &shown)
}

/// `postrider templates …`
pub(crate) async fn templates(group: Group<TemplatesCommand>) -> Result<(), CliError> {
    let client = Client::new(&group.remote)?;
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

pub(super) async fn listed(
    client: &Client,
    path: &str,
    columns: &[Column],
) -> Result<(Value, String), CliError> {
    let answer = client.list(path).await?;
    let rows = answer["data"].as_array().map(Vec::as_slice).unwrap_or_default();
    let shown = table::rows(rows, columns);
    Ok((answer, shown))
}

pub(super) fn print(as_json: bool, answer: &Value, shown: &str) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    let written =
        if as_json { writeln!(out, "{answer:#}") } else { out.write_all(shown.as_bytes()) };
    written.map_err(|source| CliError::Io { what: "standard output", source })
}
