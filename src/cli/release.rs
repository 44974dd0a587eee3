//! `postrider release`: lets a held server send again.

use clap::Args;
use reqwest::Method;

use super::client::Client;
use super::error::CliError;
use super::output::print;
use super::remote::Remote;

#[derive(Debug, Args)]
pub(crate) struct ReleaseArgs {
    #[command(flatten)]
    remote: Remote,
}

/// Runs `postrider release`.
pub(crate) async fn run(args: &ReleaseArgs) -> Result<(), CliError> {
    let client = Client::new(&args.remote)?;
    let answer = client.administer(Method::POST, "/release", None).await?;
    print(args.remote.json, &answer, "the server is not held: what waited goes out\n")
}
