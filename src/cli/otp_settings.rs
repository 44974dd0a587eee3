//! Shows and sets how and where the one-time passwords of a workspace are sent.
//!
//! `postrider otp-channels`, `otp-texts`, `sms`, `test-phones` and `destinations`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use postrider_actors::domain::event::chain::OtpChannel;
use postrider_actors::domain::{OtpCode, Phone, Prefix, WorkspaceId};
use reqwest::Method;
use serde_json::{Value, json};

use super::client::AdminClient;
use super::error::CliError;
use super::input::{SecretSource, read_json};
use super::output::print;
use super::server_args::Group;
use super::table::{self, Column};

const TEXT: [Column; 4] = [
    ("LANGUAGE", "/language"),
    ("SMS", "/sms"),
    ("SUBJECT", "/email_subject"),
    ("MAIL", "/email_text"),
];

const GATEWAY: [Column; 5] = [
    ("KIND", "/kind"),
    ("URL", "/url"),
    ("SENDER", "/sender"),
    ("CALLBACK", "/callback_path"),
    ("CREATED", "/created_at"),
];

const SECRET: [Column; 1] = [("SECRET", "/secret")];

/// The word for a workspace that follows the settings.
const FROM_SETTINGS: &str = "settings";

#[derive(Debug, Subcommand)]
pub(crate) enum OtpChannelsCommand {
    /// Show the default channels of one-time passwords
    ///
    /// They apply to requests that name no channels.
    Show {
        /// The ID of the workspace
        #[arg(long, short)]
        workspace: WorkspaceId,
    },
    /// Set the default channels of one-time passwords
    ///
    /// They apply to requests that name no channels.
    Set {
        /// The ID of the workspace
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// One to three of messaging, sms and email, in order of use. `sms=20` starts the next
        /// channel after 20 seconds; without a number, the settings decide
        #[arg(required = true, num_args = 1..=3, value_name = "CHANNEL[=SECONDS]", value_parser = parse_step)]
        channels: Vec<Value>,
    },
}

/// Sets a setting of a workspace to `body`, or reads it. Returns the setting that is in force.
async fn show_or_set(
    client: &AdminClient,
    workspace: &WorkspaceId,
    setting: &str,
    body: Option<Value>,
) -> Result<Value, CliError> {
    let method = if body.is_some() { Method::PUT } else { Method::GET };
    client.call(method, &format!("/{workspace}/{setting}"), body.as_ref()).await
}

/// Parses CHANNEL or CHANNEL=SECONDS.
fn parse_step(text: &str) -> Result<Value, String> {
    let (channel, seconds) = match text.split_once('=') {
        None => (text, None),
        Some((channel, seconds)) => {
            let seconds: u16 = seconds.parse().map_err(|_| "the seconds must be a whole number")?;
            (channel, Some(seconds))
        }
    };
    if OtpChannel::of(channel).is_none() {
        return Err("the channel must be messaging, sms or email".to_owned());
    }
    Ok(match seconds {
        None => channel.into(),
        Some(seconds) => json!({ "channel": channel, "timeout_seconds": seconds }),
    })
}

/// Runs `postrider otp-channels`.
pub(crate) async fn run_channels(group: Group<OtpChannelsCommand>) -> Result<(), CliError> {
    let client = AdminClient::new(&group.remote)?;
    let (workspace, body) = match group.command {
        OtpChannelsCommand::Show { workspace } => (workspace, None),
        OtpChannelsCommand::Set { workspace, channels } => {
            (workspace, Some(json!({ "channels": channels })))
        }
    };
    let answer = show_or_set(&client, &workspace, "otp-channels", body).await?;
    let steps = answer["channels"].as_array().map(Vec::as_slice).unwrap_or_default();
    let columns = [("CHANNEL", "/channel"), ("SECONDS", "/timeout_seconds")];
    print(group.remote.json, &answer, &table::rows(steps, &columns))
}

#[derive(Debug, Subcommand)]
pub(crate) enum OtpTextsCommand {
    /// Show the texts of one-time passwords in each language
    Show {
        /// The ID of the workspace
        #[arg(long, short)]
        workspace: WorkspaceId,
    },
    /// Set the texts of one-time passwords, and replace all previous texts
    Set {
        /// The ID of the workspace
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// A JSON file in the form of `show --json`, or `-` for standard input
        ///
        /// For each language, the file has `sms`, `email_subject` and `email_text`. The server
        /// replaces {code} and {minutes} in these texts.
        file: PathBuf,
    },
}

/// Runs `postrider otp-texts`.
pub(crate) async fn run_texts(group: Group<OtpTextsCommand>) -> Result<(), CliError> {
    let client = AdminClient::new(&group.remote)?;
    let (workspace, body) = match group.command {
        OtpTextsCommand::Show { workspace } => (workspace, None),
        OtpTextsCommand::Set { workspace, file } => (workspace, Some(read_json(&file)?)),
    };
    let answer = show_or_set(&client, &workspace, "otp-texts", body).await?;
    let row = |(language, text): (&String, &Value)| {
        let mut row = text.clone();
        row["language"] = language.as_str().into();
        row
    };
    let rows: Vec<_> = answer.as_object().into_iter().flatten().map(row).collect();
    print(group.remote.json, &answer, &table::rows(&rows, &TEXT))
}

#[derive(Debug, Subcommand)]
pub(crate) enum SmsCommand {
    /// Set the SMS gateway for one-time passwords
    ///
    /// If the server creates a secret for the gateway, the command shows it once.
    Set {
        /// The ID of the workspace
        #[arg(long, short)]
        workspace: WorkspaceId,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Show the SMS gateway, without its secret
    Show {
        /// The ID of the workspace
        #[arg(long, short)]
        workspace: WorkspaceId,
    },
    /// Delete the SMS gateway, so that the workspace sends no SMS
    Delete {
        /// The ID of the workspace
        #[arg(long, short)]
        workspace: WorkspaceId,
    },
}

/// A gateway to be.
#[derive(Args)]
pub(crate) struct GatewayArgs {
    /// The kind of gateway: HTTP requests to --url, or messages in the sandbox
    #[arg(long, value_parser = ["http", "sandbox"], default_value = "http")]
    kind: String,
    /// The URL to which the server posts each SMS
    #[arg(long, required_unless_present = "kind", required_if_eq("kind", "http"))]
    url: Option<String>,
    /// The sender name of each SMS
    #[arg(long, value_name = "NAME")]
    sender: Option<String>,
    /// With `--secret -`, read the secret that signs requests and receipts, such as whsec_…, from
    /// standard input. Without this option, the command uses POSTRIDER_SMS_SECRET, or the server
    /// creates a secret
    #[arg(long, value_name = "-")]
    secret: Option<String>,
    /// Read the secret from the first line of this file
    #[arg(long, value_name = "FILE", conflicts_with = "secret")]
    secret_file: Option<PathBuf>,
}

impl std::fmt::Debug for GatewayArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GatewayArgs").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// Runs `postrider sms`.
pub(crate) async fn run_sms(group: Group<SmsCommand>) -> Result<(), CliError> {
    let client = AdminClient::new(&group.remote)?;
    let place = |workspace: WorkspaceId| format!("/{workspace}/sms");
    let (answer, shown) = match group.command {
        SmsCommand::Set { workspace, gateway } => {
            let secret = SecretSource {
                flag: "secret",
                given: gateway.secret.as_deref(),
                file: gateway.secret_file.as_deref(),
                variable: "POSTRIDER_SMS_SECRET",
            };
            let secret = secret.read()?;
            // The server treats null like a missing field.
            let body = json!({
                "kind": gateway.kind,
                "url": gateway.url,
                "sender": gateway.sender,
                "secret": secret.as_ref().map(|secret| secret.reveal()),
            });
            let set = client.call(Method::PUT, &place(workspace), Some(&body)).await?;
            let mut shown = table::record(&set, &GATEWAY);
            if set["secret"].is_string() {
                shown = table::record(&set, &[&SECRET[..], &GATEWAY].concat());
                shown.push_str("Save the secret now: it is not shown again.\n");
            }
            (set, shown)
        }
        SmsCommand::Show { workspace } => {
            let found = client.call(Method::GET, &place(workspace), None).await?;
            let shown = table::record(&found, &GATEWAY);
            (found, shown)
        }
        SmsCommand::Delete { workspace } => {
            let deleted = workspace.to_string();
            client.call(Method::DELETE, &place(workspace), None).await?;
            let shown = format!("deleted the SMS gateway of {deleted}\n");
            (json!({ "deleted": deleted }), shown)
        }
    };
    print(group.remote.json, &answer, &shown)
}

#[derive(Subcommand)]
pub(crate) enum TestPhonesCommand {
    /// Show the test phones, without their codes
    Show {
        /// The ID of the workspace
        #[arg(long, short)]
        workspace: WorkspaceId,
    },
    /// Set the test phones and their codes, and replace all previous test phones
    Set {
        /// The ID of the workspace
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// A phone and its code of 4 to 8 digits, such as +15550100001=123456
        #[arg(required_unless_present = "none", value_name = "PHONE=CODE", value_parser = parse_test_phone)]
        phones: Vec<(Phone, String)>,
        /// Delete all test phones
        #[arg(long, conflicts_with = "phones")]
        none: bool,
    },
}

impl std::fmt::Debug for TestPhonesCommand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestPhonesCommand").finish_non_exhaustive()
    }
}

/// Parses PHONE=CODE.
fn parse_test_phone(text: &str) -> Result<(Phone, String), String> {
    let (phone, code) = text.split_once('=').ok_or("must be PHONE=CODE")?;
    let phone = phone.parse::<Phone>().map_err(|rule| format!("the phone {rule}"))?;
    OtpCode::chosen(code).map_err(|rule| format!("the code {rule}"))?;
    Ok((phone, code.to_owned()))
}

/// Runs `postrider test-phones`.
pub(crate) async fn run_test_phones(group: Group<TestPhonesCommand>) -> Result<(), CliError> {
    let client = AdminClient::new(&group.remote)?;
    let (workspace, body) = match group.command {
        TestPhonesCommand::Show { workspace } => (workspace, None),
        TestPhonesCommand::Set { workspace, phones, none: _ } => {
            let phones: BTreeMap<_, _> =
                phones.into_iter().map(|(phone, code)| (phone.to_string(), code)).collect();
            (workspace, Some(json!({ "phones": phones })))
        }
    };
    let answer = show_or_set(&client, &workspace, "test-phones", body).await?;
    let phones = answer["phones"].as_array().map(Vec::as_slice).unwrap_or_default();
    let rows: Vec<Value> = phones.iter().map(|phone| json!({ "phone": phone })).collect();
    print(group.remote.json, &answer, &table::rows(&rows, &[("PHONE", "/phone")]))
}

#[derive(Debug, Subcommand)]
pub(crate) enum DestinationsCommand {
    /// Show the allowed, denied and safe destinations
    Show {
        /// The ID of the workspace
        #[arg(long, short)]
        workspace: WorkspaceId,
    },
    /// Set the allowed, denied and safe destinations
    ///
    /// Without --allow, all destinations are allowed. Without --deny, none is denied. Without
    /// --safe or --adaptive, the current values are kept.
    Set {
        /// The ID of the workspace
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// The first digits of allowed phones, such as 49 (repeatable)
        #[arg(long, value_name = "PREFIX", value_delimiter = ',')]
        allow: Vec<Prefix>,
        /// The first digits of denied phones, even if --allow includes them (repeatable)
        #[arg(long, value_name = "PREFIX", value_delimiter = ',')]
        deny: Vec<Prefix>,
        /// The first digits of phones that --adaptive never limits (repeatable)
        #[arg(long, value_name = "PREFIX", value_delimiter = ',', conflicts_with = "no_safe")]
        safe: Vec<Prefix>,
        /// Delete all safe destinations
        #[arg(long)]
        no_safe: bool,
        /// The action for destinations where few codes are verified. `off` sends all codes,
        /// `report` sends and reports them, `refuse` sends only to a sample of phones, and
        /// `settings` uses the server's settings
        #[arg(long, value_name = "MODE", value_parser = ["off", "report", "refuse", FROM_SETTINGS])]
        adaptive: Option<String>,
    },
}

/// Runs `postrider destinations`.
pub(crate) async fn run_destinations(group: Group<DestinationsCommand>) -> Result<(), CliError> {
    let client = AdminClient::new(&group.remote)?;
    let (workspace, body) = match group.command {
        DestinationsCommand::Show { workspace } => (workspace, None),
        DestinationsCommand::Set { workspace, allow, deny, safe, no_safe, adaptive } => {
            let mut body = json!({ "allow": allow, "deny": deny });
            if no_safe || !safe.is_empty() {
                body["safe"] = json!(safe);
            }
            if let Some(mode) = adaptive {
                body["adaptive"] = json!(Some(mode).filter(|mode| mode != FROM_SETTINGS));
            }
            (workspace, Some(body))
        }
    };
    let answer = show_or_set(&client, &workspace, "destinations", body).await?;
    let listed = |name: &str| {
        let prefixes = answer[name].as_array().into_iter().flatten().filter_map(Value::as_str);
        json!({ "list": name, "prefixes": prefixes.collect::<Vec<_>>().join(" ") })
    };
    let adaptive = answer["adaptive"].as_str().unwrap_or(FROM_SETTINGS);
    let adaptive = json!({ "list": "adaptive", "prefixes": adaptive });
    let [allow, deny, safe] = ["allow", "deny", "safe"].map(listed);
    let columns = [("LIST", "/list"), ("PREFIXES", "/prefixes")];
    let shown = table::rows(&[allow, deny, safe, adaptive], &columns);
    print(group.remote.json, &answer, &shown)
}
