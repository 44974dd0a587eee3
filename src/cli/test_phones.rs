//! `postrider test-phones`: sets and shows the phones to which no code is sent.

use std::collections::BTreeMap;

use clap::Subcommand;
use postrider_actors::domain::{OtpCode, Phone, WorkspaceId};
use reqwest::Method;
use serde_json::{Value, json};

use super::client::Client;
use super::error::CliError;
use super::output::print;
use super::remote::Group;
use super::table;

#[derive(Subcommand)]
pub(crate) enum TestPhonesCommand {
    /// Show the test phones, without their codes
    Show {
        #[arg(long, short)]
        workspace: WorkspaceId,
    },
    /// Set the test phones and their codes, in place of those before
    Set {
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// A phone and the code that verifies there, of 4 to 8 digits, such as
        /// +15550100001=123456
        #[arg(required_unless_present = "none", value_name = "PHONE=CODE", value_parser = phone)]
        phones: Vec<(Phone, String)>,
        /// Let there be no test phones any more
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
fn phone(text: &str) -> Result<(Phone, String), String> {
    let (phone, code) = text.split_once('=').ok_or("must be PHONE=CODE")?;
    let phone = phone.parse::<Phone>().map_err(|rule| format!("the phone {rule}"))?;
    OtpCode::chosen(code).map_err(|rule| format!("the code {rule}"))?;
    Ok((phone, code.to_owned()))
}

/// Runs `postrider test-phones`.
pub(crate) async fn run(group: Group<TestPhonesCommand>) -> Result<(), CliError> {
    let client = Client::new(&group.remote)?;
    let place = |workspace: WorkspaceId| format!("/{workspace}/test-phones");
    let answer = match group.command {
        TestPhonesCommand::Show { workspace } => {
            client.call(Method::GET, &place(workspace), None).await?
        }
        TestPhonesCommand::Set { workspace, phones, none: _ } => {
            let phones: BTreeMap<_, _> =
                phones.into_iter().map(|(phone, code)| (phone.to_string(), code)).collect();
            let body = json!({ "phones": phones });
            client.call(Method::PUT, &place(workspace), Some(&body)).await?
        }
    };
    let phones = answer["phones"].as_array().map(Vec::as_slice).unwrap_or_default();
    let rows: Vec<Value> = phones.iter().map(|phone| json!({ "phone": phone })).collect();
    print(group.remote.json, &answer, &table::rows(&rows, &[("PHONE", "/phone")]))
}
