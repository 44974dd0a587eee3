//! `postrider otp-channels`: sets and shows the channels of a workspace's codes.

use clap::Subcommand;
use postrider_actors::domain::WorkspaceId;
use postrider_actors::domain::event::chain::OtpChannel;
use reqwest::Method;
use serde_json::{Value, json};

use super::client::Client;
use super::error::CliError;
use super::output::print;
use super::remote::Group;
use super::table;

#[derive(Debug, Subcommand)]
pub(crate) enum OtpChannelsCommand {
    /// Show the channels of codes whose request names none
    Show {
        #[arg(long, short)]
        workspace: WorkspaceId,
    },
    /// Set the channels of codes whose request names none
    Set {
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// One to three of messaging, sms and email, in this order, each with the seconds after
        /// which the next one begins, such as sms=20; left out: those of the settings
        #[arg(required = true, num_args = 1..=3, value_name = "CHANNEL[=SECONDS]", value_parser = step)]
        channels: Vec<Value>,
    },
}

/// Parses CHANNEL or CHANNEL=SECONDS.
fn step(text: &str) -> Result<Value, String> {
    let (channel, seconds) = match text.split_once('=') {
        None => (text, None),
        Some((channel, seconds)) => {
            let seconds: u16 = seconds.parse().map_err(|_| "the seconds must be a whole number")?;
            (channel, Some(seconds))
        }
    };
    if OtpChannel::of(channel).is_none() {
        return Err("there are the channels messaging, sms and email".to_owned());
    }
    Ok(match seconds {
        None => channel.into(),
        Some(seconds) => json!({ "channel": channel, "timeout_seconds": seconds }),
    })
}

/// Runs `postrider otp-channels`.
pub(crate) async fn run(group: Group<OtpChannelsCommand>) -> Result<(), CliError> {
    let client = Client::new(&group.remote)?;
    let place = |workspace: WorkspaceId| format!("/{workspace}/otp-channels");
    let answer = match group.command {
        OtpChannelsCommand::Show { workspace } => {
            client.call(Method::GET, &place(workspace), None).await?
        }
        OtpChannelsCommand::Set { workspace, channels } => {
            let body = json!({ "channels": channels });
            client.call(Method::PUT, &place(workspace), Some(&body)).await?
        }
    };
    let steps = answer["channels"].as_array().map(Vec::as_slice).unwrap_or_default();
    let columns = [("CHANNEL", "/channel"), ("SECONDS", "/timeout_seconds")];
    print(group.remote.json, &answer, &table::rows(steps, &columns))
}
