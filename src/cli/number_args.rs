//! What can be typed of a number to be connected or changed.

use clap::Args;

/// A number to be connected.
#[derive(Args)]
pub(crate) struct NumberArgs {
    /// What is behind it
    #[arg(long, value_parser = ["sandbox", "cloud_api"])]
    pub(crate) kind: String,
    /// Most messages in a second; 0 is no limit
    #[arg(long, value_name = "COUNT")]
    pub(crate) messages_per_second: Option<u32>,
    #[command(flatten)]
    pub(crate) account: AccountArgs,
}

/// What a number of the chat-app channel needs.
#[derive(Args)]
#[group(id = "account")]
pub(crate) struct AccountArgs {
    /// The phone number itself, such as +15550001111
    #[arg(long, required_if_eq("kind", "cloud_api"))]
    pub(crate) phone: Option<String>,
    /// The number's id at the provider
    #[arg(long, required_if_eq("kind", "cloud_api"))]
    pub(crate) phone_number_id: Option<String>,
    /// The id of its business account at the provider
    #[arg(long, required_if_eq("kind", "cloud_api"))]
    pub(crate) account_id: Option<String>,
    /// The bearer token of the provider's interface
    #[arg(
        long,
        value_name = "TOKEN",
        env = "POSTRIDER_CHANNEL_TOKEN",
        hide_env_values = true,
        required_if_eq("kind", "cloud_api")
    )]
    pub(crate) channel_token: Option<String>,
    /// What the provider signs callbacks with
    #[arg(
        long,
        value_name = "SECRET",
        env = "POSTRIDER_CHANNEL_APP_SECRET",
        hide_env_values = true,
        required_if_eq("kind", "cloud_api")
    )]
    pub(crate) app_secret: Option<String>,
    /// What the provider shows when it verifies the callback's address; of your choice
    #[arg(
        long,
        value_name = "TOKEN",
        env = "POSTRIDER_CHANNEL_VERIFY_TOKEN",
        hide_env_values = true,
        required_if_eq("kind", "cloud_api")
    )]
    pub(crate) verify_token: Option<String>,
}

/// What is to change of a number.
#[derive(Args)]
pub(crate) struct NumberChangeArgs {
    /// Another bearer token of the provider's interface
    #[arg(long, value_name = "TOKEN", env = "POSTRIDER_CHANNEL_TOKEN", hide_env_values = true)]
    pub(crate) channel_token: Option<String>,
    /// Another secret that the provider signs callbacks with
    #[arg(
        long,
        value_name = "SECRET",
        env = "POSTRIDER_CHANNEL_APP_SECRET",
        hide_env_values = true
    )]
    pub(crate) app_secret: Option<String>,
    /// Another token that the provider shows when it verifies the callback's address
    #[arg(
        long,
        value_name = "TOKEN",
        env = "POSTRIDER_CHANNEL_VERIFY_TOKEN",
        hide_env_values = true
    )]
    pub(crate) verify_token: Option<String>,
    /// Most messages in a second; 0 is no limit
    #[arg(long, value_name = "COUNT")]
    pub(crate) messages_per_second: Option<u32>,
}

impl std::fmt::Debug for NumberChangeArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NumberChangeArgs").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for NumberArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NumberArgs").field("kind", &self.kind).finish_non_exhaustive()
    }
}
