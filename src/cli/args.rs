//! What can be typed.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand};
use postrider_actors::domain::template::{TemplateCategory, TemplateStatus};
use postrider_actors::domain::{KeyId, Limits, NumberId, Prefix, Scope, WorkspaceId};

use super::contacts_args::ContactsArgs;
use super::number_args::{NumberArgs, NumberChangeArgs};
use super::webhooks::WebhooksCommand;

/// Dispatches one-time passwords and messages over a chat-app channel.
#[derive(Debug, Parser)]
#[command(name = "postrider", version, args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) serve: ServeArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server; what happens without a command
    Serve(ServeArgs),
    /// See it at work: a password, a broadcast, on a temporary directory that goes afterwards
    Demo(DemoArgs),
    /// Make and see workspaces
    Workspaces(Group<WorkspacesCommand>),
    /// Make, list and revoke API keys
    Keys(Group<KeysCommand>),
    /// See and set a workspace's limits
    Limits(Group<LimitsCommand>),
    /// See and set where a workspace's one-time passwords may go
    Destinations(Group<DestinationsCommand>),
    /// Set or add to a workspace's credits
    Credits(Group<CreditsCommand>),
    /// Connect, list, update and disconnect messaging numbers
    Numbers(Group<NumbersCommand>),
    /// Import and export contacts
    Contacts(ContactsArgs),
    /// Add and list templates, change their status
    Templates(Group<TemplatesCommand>),
    /// List, register, delete, enable and disable webhooks, replace their secrets
    Webhooks(Group<WebhooksCommand>),
}

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ServeArgs {
    /// Settings, laid over the defaults
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Address and port to listen on, such as 127.0.0.1:8080; port 0 takes a free one
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<SocketAddr>,
    /// Directory of everything that is durable
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct DemoArgs {
    /// Recipients of the broadcast
    #[arg(
        long,
        value_name = "N",
        default_value = "100000",
        value_parser = clap::value_parser!(u32).range(1..=900_000)
    )]
    pub(crate) recipients: u32,
}

/// Commands that talk to a server.
#[derive(Debug, Args)]
pub(crate) struct Group<C: Subcommand> {
    #[command(flatten)]
    pub(crate) remote: Remote,
    #[command(subcommand)]
    pub(crate) command: C,
}

/// Which server, and how to talk to it.
#[derive(Args)]
pub(crate) struct Remote {
    /// The server's address
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "POSTRIDER_SERVER",
        default_value = "http://127.0.0.1:8080"
    )]
    pub(crate) server: String,
    /// The admin token; left out: that of the environment's settings (POSTRIDER__ADMIN__TOKEN) or the
    /// one in the data directory
    #[arg(
        long,
        global = true,
        value_name = "TOKEN",
        env = "POSTRIDER_ADMIN_TOKEN",
        hide_env_values = true
    )]
    pub(crate) token: Option<String>,
    /// The server's data directory, where admin.token is
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Print the server's answer as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote")
            .field("server", &self.server)
            .field("token", &self.token.as_ref().map(|_| "…"))
            .field("data_dir", &self.data_dir)
            .field("json", &self.json)
            .finish()
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum WorkspacesCommand {
    /// Make a workspace
    Create {
        /// 1 to 40 of a-z, 0-9 and -
        id: WorkspaceId,
        /// Its name, for people; left out: its id
        #[arg(long)]
        name: Option<String>,
    },
    /// List the workspaces
    List,
    /// Show a workspace
    Show {
        /// Its id
        id: WorkspaceId,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Make an API key and show it, this once
    Create {
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// Its name, for people
        #[arg(long)]
        name: String,
        /// What it allows, such as messaging:send; may be repeated
        #[arg(long = "scope", value_name = "SCOPE", value_delimiter = ',', required = true)]
        scopes: Vec<Scope>,
    },
    /// List the API keys, without the keys themselves
    List {
        #[arg(long, short)]
        workspace: WorkspaceId,
    },
    /// Revoke an API key, at once
    Revoke {
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// Its id, as `list` shows it
        key_id: KeyId,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum LimitsCommand {
    /// Show the limits in force; 0 is no limit
    Show {
        #[arg(long, short)]
        workspace: WorkspaceId,
    },
    /// Set limits
    Set {
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// Such as otp_per_phone_10m=10; 0 is no limit
        #[arg(required = true, value_name = "NAME=VALUE", value_parser = limit)]
        limits: Vec<(&'static str, u32)>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum DestinationsCommand {
    /// Show the destinations in force
    Show {
        #[arg(long, short)]
        workspace: WorkspaceId,
    },
    /// Set the destinations; what is left out is empty
    Set {
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// First digits of phones that may be written to, such as 49; may be repeated; none: all
        #[arg(long, value_name = "PREFIX", value_delimiter = ',')]
        allow: Vec<Prefix>,
        /// First digits of phones that may not be written to, whatever is allowed; may be repeated
        #[arg(long, value_name = "PREFIX", value_delimiter = ',')]
        deny: Vec<Prefix>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum CreditsCommand {
    /// Set the balance
    Set {
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// How many: a whole number, 0 or more
        #[arg(allow_negative_numbers = true, value_parser = credits)]
        credits: u64,
    },
    /// Add to the balance
    Add {
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// How many: a whole number, 0 or more
        #[arg(allow_negative_numbers = true, value_parser = credits)]
        credits: u64,
    },
}

fn credits(text: &str) -> Result<u64, &'static str> {
    text.parse().map_err(|_| "a whole number, 0 or more")
}

#[derive(Debug, Subcommand)]
pub(crate) enum NumbersCommand {
    /// Connect a number
    Connect {
        #[arg(long, short)]
        workspace: WorkspaceId,
        #[command(flatten)]
        number: NumberArgs,
    },
    /// List the numbers
    List {
        #[arg(long, short)]
        workspace: WorkspaceId,
    },
    /// Give a number other secrets or another pace; one that has stopped is tried at once
    Update {
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// Its id, as `list` shows it
        number_id: NumberId,
        #[command(flatten)]
        change: NumberChangeArgs,
    },
    /// Disconnect a number
    Disconnect {
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// Its id, as `list` shows it
        number_id: NumberId,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum TemplatesCommand {
    /// List the templates
    List {
        #[arg(long, short)]
        workspace: WorkspaceId,
    },
    /// Add a template with a body, such as "Hello {{1}}"
    Add {
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// Its name: a-z, 0-9 and _
        name: String,
        /// Its language, as the channel writes it
        #[arg(long, default_value = "en")]
        language: String,
        #[arg(long, value_parser = TemplateCategory::from_str)]
        category: TemplateCategory,
        #[arg(long, default_value = "approved", value_parser = TemplateStatus::from_str)]
        status: TemplateStatus,
        /// The body's text, with {{1}}, {{2}} … where parameters go
        #[arg(long)]
        body: String,
    },
    /// Change a template's status
    Status {
        #[arg(long, short)]
        workspace: WorkspaceId,
        /// Its name
        name: String,
        /// Its language
        #[arg(long, default_value = "en")]
        language: String,
        /// Such as approved or paused
        #[arg(value_parser = TemplateStatus::from_str)]
        status: TemplateStatus,
    },
    /// Bring the templates up to date with the channel's
    Sync {
        #[arg(long, short)]
        workspace: WorkspaceId,
    },
}

/// Why an argument is not a limit.
#[derive(Debug, thiserror::Error)]
enum LimitError {
    #[error("must be NAME=VALUE")]
    Form,
    #[error("there is no such limit; there are {}", Limits::NAMES.join(", "))]
    Name,
    #[error("the value must be a whole number from 0 to 4294967295")]
    Value,
}

/// The server ignores names it does not know, as it does everywhere; here one is a mistake.
fn limit(text: &str) -> Result<(&'static str, u32), LimitError> {
    let (name, value) = text.split_once('=').ok_or(LimitError::Form)?;
    let name = Limits::NAMES.iter().find(|known| **known == name).ok_or(LimitError::Name)?;
    Ok((name, value.parse().map_err(|_| LimitError::Value)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::error::ErrorKind> {
        Cli::try_parse_from(line.split_whitespace()).map_err(|error| error.kind())
    }

    #[test]
    fn the_commands_are_well_formed() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn no_command_is_serve() {
        let cli = parse("postrider --listen 127.0.0.1:0 --data-dir d").unwrap();
        assert!(cli.command.is_none() && cli.serve.listen.is_some());
        let cli = parse("postrider serve --config c").unwrap();
        assert!(matches!(cli.command, Some(Command::Serve(args)) if args.config.is_some()));
        assert!(parse("postrider --listen localhost").is_err());
    }

    #[test]
    fn commands_take_their_arguments() {
        for good in [
            "postrider demo",
            "postrider demo --recipients 900000",
            "postrider workspaces create acme --name Acme",
            "postrider workspaces list --server http://h:1 --json",
            "postrider keys create --workspace a --name n --scope messaging:send --scope contacts:read",
            "postrider limits set --workspace a otp_per_phone_10m=0 otp_per_phone_hour=3",
            "postrider credits add -w a 5 --token t",
            "postrider destinations set -w a --allow 49,43 --deny 1876",
            "postrider destinations set -w a",
            "postrider numbers connect --workspace a --kind sandbox",
            "postrider numbers connect -w a --kind cloud_api --phone +15550001111 \
             --phone-number-id 1 --account-id 2 --channel-token t --app-secret s --verify-token v",
            "postrider numbers update -w a num_01jd3v0x5n8m7k2q4r6s8t0w2y --channel-token t",
            "postrider templates add -w a hello --category utility --body Hello",
            "postrider templates status -w a hello paused --language en_US",
            "postrider contacts import a.csv --key k --refused b.csv",
            "postrider contacts export --server http://h:1",
            "postrider webhooks add -w a https://example.com/ --event otp.sent,otp.failed --ordered",
            "postrider webhooks rotate -w a whk_01jd3v0x5n8m7k2q4r6s8t0w2y",
        ] {
            assert!(parse(good).is_ok(), "{good}");
        }
        for bad in [
            "postrider demo --recipients 0",
            "postrider workspaces create ACME",
            "postrider keys create --workspace a --name n",
            "postrider keys create --workspace a --name n --scope x",
            "postrider keys revoke --workspace a x",
            "postrider limits set --workspace a no=1",
            "postrider limits set --workspace a otp_per_phone_10m=-1",
            "postrider limits set --workspace a",
            "postrider credits set --workspace a x",
            "postrider credits set --workspace a -5",
            "postrider destinations set -w a --allow +49",
            "postrider numbers connect --workspace a --kind cloud_api",
            "postrider templates add -w a hello --category x --body Hello",
            "postrider templates status -w a hello x",
            "postrider webhooks enable -w a evt_01jd3v0x5n8m7k2q4r6s8t0w2y",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
