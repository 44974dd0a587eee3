//! `postrider otp-texts`: sets and shows the texts of codes over SMS and mail.

use std::path::PathBuf;

use clap::Subcommand;
use postrider_actors::domain::WorkspaceId;
use reqwest::Method;
use serde_json::Value;

use super::client::Client;
use super::error::CliError;
use super::json_file::read;
use super::output::print;
use super::remote::Group;
use super::table::{self, Column};

const TEXT: [Column; 4] = [
    ("LANGUAGE", "/language"),
    ("SMS", "/sms"),
    ("SUBJECT", "/email_subject"),
    ("MAIL", "/email_text"),
];

#[derive(Debug, Subcommand)]
pub(crate) enum OtpTextsCommand {
    /// Show the texts of each language
    Show {
        #[arg(long, short)]
        workspace: WorkspaceId,
    },
    /// Set the texts, in place of those before
    Set {
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// A file of JSON as `show --json` prints it: by language, `sms`, `email_subject` and
        /// `email_text`, where {code} and {minutes} stand for what they name; `-`: standard input
        file: PathBuf,
    },
}

/// Runs `postrider otp-texts`.
pub(crate) async fn run(group: Group<OtpTextsCommand>) -> Result<(), CliError> {
    let client = Client::new(&group.remote)?;
    let place = |workspace: WorkspaceId| format!("/{workspace}/otp-texts");
    let answer = match group.command {
        OtpTextsCommand::Show { workspace } => {
            client.call(Method::GET, &place(workspace), None).await?
        }
        OtpTextsCommand::Set { workspace, file } => {
            let texts = read(&file)?;
            client.call(Method::PUT, &place(workspace), Some(&texts)).await?
        }
    };
    let row = |(language, text): (&String, &Value)| {
        let mut row = text.clone();
        row["language"] = language.as_str().into();
        row
    };
    let rows: Vec<_> = answer.as_object().into_iter().flatten().map(row).collect();
    print(group.remote.json, &answer, &table::rows(&rows, &TEXT))
}
