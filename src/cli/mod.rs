//! The command line: runs a server, or administers a running one over HTTP.

mod api;
mod audit;
mod client;
#[cfg(feature = "cluster")]
mod cluster;
mod contacts;
mod copies;
mod demo;
mod error;
mod input;
mod keys;
mod numbers;
mod offline;
mod otp_settings;
mod output;
mod serve;
mod server_args;
mod server_state;
mod table;
mod templates;
mod users;
mod webhooks;
mod workspace_lists;
mod workspaces;

use clap::{Parser, Subcommand};

pub(crate) use error::CliError;
use server_args::Group;
use workspace_lists::OwnGroup;

/// Dispatches one-time passwords and messages over a chat-app channel.
#[derive(Debug, Parser)]
#[command(name = "postrider", version, args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) serve: serve::ServeArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server; what happens without a command
    Serve(serve::ServeArgs),
    /// See it at work: a password, a broadcast, on a temporary directory that goes afterwards; or,
    /// with --keep, a dashboard with a week of history
    Demo(demo::DemoArgs),
    /// Ask whether a server takes work; ends with status 1 if it does not
    Health(server_state::HealthArgs),
    /// Make and see workspaces
    Workspaces(Group<workspaces::WorkspacesCommand>),
    /// Make, list and revoke API keys
    Keys(Group<keys::KeysCommand>),
    /// Make, list and revoke admin tokens
    Tokens(Group<keys::TokensCommand>),
    /// Print links that sign people in and invites, list and disable people
    Users(Group<users::UsersCommand>),
    /// Make a cluster, and see how it is
    #[cfg(feature = "cluster")]
    Cluster(cluster::ClusterArgs),
    /// Show the engine's clock
    Clock(Group<server_state::ClockCommand>),
    /// See and set a workspace's limits
    Limits(Group<workspaces::LimitsCommand>),
    /// See and set where a workspace's one-time passwords may go
    Destinations(Group<otp_settings::DestinationsCommand>),
    /// Show and set how many people a portfolio of numbers may write to first within a day
    Portfolios(Group<numbers::PortfoliosCommand>),
    /// Set, show and remove the SMS gateway of one-time passwords
    Sms(Group<otp_settings::SmsCommand>),
    /// Set and show over which channels one-time passwords arrive
    OtpChannels(Group<otp_settings::OtpChannelsCommand>),
    /// Set and show what one-time passwords are written in over SMS and mail
    OtpTexts(Group<otp_settings::OtpTextsCommand>),
    /// Set and show the phones that nothing is sent to, each with its own code
    TestPhones(Group<otp_settings::TestPhonesCommand>),
    /// Set or add to a workspace's credits
    Credits(Group<workspaces::CreditsCommand>),
    /// Connect, list, update and disconnect messaging numbers
    Numbers(Group<numbers::NumbersCommand>),
    /// Show, follow and verify the audit log: who changed what
    Audit(audit::AuditArgs),
    /// Have a server send again that is held since it was restored
    Release(server_state::ReleaseArgs),
    /// Read everything in the data directory of a stopped server, and report what is damaged
    Check(offline::CheckArgs),
    /// Make damaged data of a stopped server such that a server starts on it
    Repair(offline::RepairArgs),
    /// Write everything to one file, of a server that runs or of its directory
    Export(copies::ExportArgs),
    /// Make a data directory of an exported file
    Import(copies::ImportArgs),
    /// Copy everything to a directory, or what is new since the last time
    Backup(copies::BackupArgs),
    /// Make a data directory of a backup, as of its end or of a position
    Restore(copies::RestoreArgs),
    /// Import and export contacts
    Contacts(contacts::ContactsArgs),
    /// List and show one-time passwords
    Otp(OwnGroup<workspace_lists::OtpCommand>),
    /// List messages
    Messages(OwnGroup<workspace_lists::MessagesCommand>),
    /// Add and list templates, change their status
    Templates(Group<templates::TemplatesCommand>),
    /// List, register, delete, enable and disable webhooks, replace their secrets
    Webhooks(Group<webhooks::WebhooksCommand>),
}

/// Runs the command of the command line.
pub(crate) async fn run(cli: Cli) -> Result<(), CliError> {
    match cli.command {
        None => serve::run(&cli.serve).await,
        Some(Command::Serve(args)) => serve::run(&args).await,
        Some(Command::Demo(args)) => demo::run(&args).await,
        Some(Command::Health(args)) => server_state::run_health(&args).await,
        Some(Command::Workspaces(group)) => workspaces::run(group).await,
        Some(Command::Keys(group)) => keys::run(group).await,
        Some(Command::Tokens(group)) => keys::run_tokens(group).await,
        Some(Command::Users(group)) => users::run(group).await,
        #[cfg(feature = "cluster")]
        Some(Command::Cluster(args)) => cluster::run(args).await,
        Some(Command::Clock(group)) => server_state::run_clock(group).await,
        Some(Command::Limits(group)) => workspaces::run_limits(group).await,
        Some(Command::Destinations(group)) => otp_settings::run_destinations(group).await,
        Some(Command::Portfolios(group)) => numbers::run_portfolios(group).await,
        Some(Command::Sms(group)) => otp_settings::run_sms(group).await,
        Some(Command::OtpChannels(group)) => otp_settings::run_channels(group).await,
        Some(Command::OtpTexts(group)) => otp_settings::run_texts(group).await,
        Some(Command::TestPhones(group)) => otp_settings::run_test_phones(group).await,
        Some(Command::Credits(group)) => workspaces::run_credits(group).await,
        Some(Command::Numbers(group)) => numbers::run(group).await,
        Some(Command::Audit(args)) => audit::run(args).await,
        Some(Command::Release(args)) => server_state::run_release(&args).await,
        Some(Command::Repair(args)) => offline::run_repair(&args),
        Some(Command::Check(args)) => offline::run_check(&args),
        Some(Command::Export(args)) => copies::export(args).await,
        Some(Command::Import(args)) => copies::import(args).await,
        Some(Command::Backup(args)) => copies::backup(args).await,
        Some(Command::Restore(args)) => copies::restore(args).await,
        Some(Command::Contacts(args)) => contacts::run(args).await,
        Some(Command::Otp(group)) => workspace_lists::run_otp(group).await,
        Some(Command::Messages(group)) => workspace_lists::run_messages(group).await,
        Some(Command::Templates(group)) => templates::run(group).await,
        Some(Command::Webhooks(group)) => webhooks::run(group).await,
    }
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
    fn a_role_goes_with_a_workspace() {
        for good in [
            "postrider users link ada@acme.com",
            "postrider users link ada@acme.com --operator --workspace acme --role owner --json",
            "postrider users list --server http://h:1",
            "postrider users invite --workspace acme --role agent bob@acme.com --json",
            "postrider users disable ada@acme.com",
        ] {
            assert!(parse(good).is_ok(), "{good}");
        }
        for bad in [
            "postrider users link",
            "postrider users link ada@acme.com --role owner",
            "postrider users invite bob@acme.com --workspace acme",
            "postrider users link ada@acme.com --workspace acme --role king",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn commands_on_a_directory_need_one() {
        for good in [
            "postrider check --data-dir d",
            "postrider check --data-dir d --deep --json",
            "postrider repair --data-dir d --accept-loss --json",
            "postrider release --server http://h:1 --json",
        ] {
            assert!(parse(good).is_ok(), "{good}");
        }
        for bad in ["postrider check", "postrider repair --accept-loss", "postrider release x"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn copies_are_of_a_directory_or_of_a_server() {
        for good in [
            "postrider export --to f --data-dir d",
            "postrider export --to f --server http://h:1 --token-file t --json",
            "postrider import --from f --data-dir d --config c --json",
            "postrider backup --to b --server http://h:1",
            "postrider export --to f",
            "postrider restore --from b --data-dir d --position 7 --held",
        ] {
            assert!(parse(good).is_ok(), "{good}");
        }
        for bad in [
            "postrider export --to f --server ftp://h",
            "postrider export --to f --data-dir d --server http://h:1",
            "postrider import --from f",
            "postrider backup --data-dir d",
            "postrider restore --from b --data-dir d --position x",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_demo_is_shown_or_kept() {
        assert!(parse("postrider demo --keep --listen 127.0.0.1:0 --data-dir d").is_ok());
        for bad in ["postrider demo --keep --recipients 5", "postrider demo --data-dir d"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn commands_about_codes_take_their_arguments() {
        for good in [
            "postrider otp list --phone +15550123456 --status verified --channel sms --json",
            "postrider sms set -w a --url https://h/sms --sender A --secret-file f",
            "postrider sms set -w a --kind sandbox --json",
            "postrider sms delete -w a",
            "postrider otp-channels set -w a messaging sms=20 email",
            "postrider otp-texts set -w a -",
            "postrider test-phones set -w a +15550100001=123456 +15550100002=1234",
            "postrider test-phones set -w a --none",
            "postrider otp show otp_01jd3v0x5n8m7k2q4r6s8t0w2y --json",
            "postrider otp list --reference x --since 2026-01-31T09:30:00Z --limit 500 --key k",
            "postrider otp decisions --prefix 49151 --decision refused --since 2026-01-31T09:30:00Z",
        ] {
            assert!(parse(good).is_ok(), "{good}");
        }
        for bad in [
            "postrider sms set -w a --sender A",
            "postrider sms set -w a --kind smpp --url https://h/sms",
            "postrider sms set -w a --url https://h/sms --secret - --secret-file f",
            "postrider otp-channels set -w a",
            "postrider otp-channels set -w a fax",
            "postrider otp-channels set -w a sms=soon",
            "postrider otp-channels set -w a sms email messaging sms",
            "postrider otp-texts set -w a",
            "postrider test-phones set -w a",
            "postrider test-phones set -w a +15550100001",
            "postrider test-phones set -w a 5=123456",
            "postrider test-phones set -w a +15550100001=123",
            "postrider test-phones set -w a +15550100001=1234 --none",
            "postrider otp show 5",
            "postrider otp list --phone 5",
            "postrider otp list --status pending",
            "postrider otp decisions --decision kept",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[cfg(feature = "cluster")]
    #[test]
    fn commands_of_clusters_take_their_arguments() {
        for good in [
            "postrider cluster init --config c --json",
            "postrider cluster status --server http://h:1 --json",
            "postrider cluster drain pr-1 --timeout 9 --json",
            "postrider cluster undrain pr-1 --server http://h:1",
            "postrider cluster move 7 --to pr-2 --json",
            "postrider cluster repair --shard 7 --accept-loss --from b --config c --json",
            "postrider import --from f --cluster --config c --json",
        ] {
            assert!(parse(good).is_ok(), "{good}");
        }
        for bad in [
            "postrider cluster repair --accept-loss",
            "postrider import --from f --cluster --data-dir d",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[cfg(not(feature = "cluster"))]
    #[test]
    fn a_single_node_offers_no_commands_of_clusters() {
        for bad in ["postrider cluster status", "postrider import --from f --cluster"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn commands_take_their_arguments() {
        for good in [
            "postrider demo",
            "postrider demo --recipients 900000",
            "postrider health",
            "postrider health --alive --server http://h:1 --json",
            "postrider workspaces create acme --name Acme",
            "postrider workspaces list --server http://h:1 --json",
            "postrider keys create --workspace a --name n --scope messaging:send --scope contacts:read",
            "postrider keys create -w a --name n --scope messaging:send \
             --expires 2099-01-31T00:00:00Z --allow 10.1.0.0/16,::1",
            "postrider clock show --data-dir d --json",
            "postrider tokens create --name alice --expires 2099-01-31T00:00:00Z",
            "postrider tokens revoke tok_01jd3v0x5n8m7k2q4r6s8t0w2y",
            "postrider limits set --workspace a otp_per_phone_10m=0 otp_per_phone_hour=3",
            "postrider credits add -w a 5 --token t",
            "postrider destinations set -w a --allow 49,43 --deny 1876",
            "postrider destinations set -w a",
            "postrider destinations set -w a --safe 49 --adaptive refuse",
            "postrider destinations set -w a --no-safe --adaptive settings",
            "postrider portfolios show -w a 107",
            "postrider portfolios set -w a 107 --daily-recipients -1 --reserve-percent 0",
            "postrider numbers connect --workspace a --kind sandbox",
            "postrider numbers connect -w a --kind cloud_api --phone +15550001111 \
             --phone-number-id 1 --account-id 2 --channel-token t --app-secret s --verify-token v",
            "postrider numbers update -w a num_01jd3v0x5n8m7k2q4r6s8t0w2y --channel-token t",
            "postrider numbers update -w a num_01jd3v0x5n8m7k2q4r6s8t0w2y --own-portfolio",
            "postrider templates add -w a hello --category utility --body Hello",
            "postrider templates status -w a hello paused --language en_US",
            "postrider audit --workspace a --actor key --action webhook --limit 5 --json",
            "postrider audit --since 2026-01-31T09:30:00Z --follow --server http://h:1",
            "postrider audit verify",
            "postrider audit verify --stopped data --json",
            "postrider contacts import a.csv --key k --refused b.csv",
            "postrider contacts export --server http://h:1",
            "postrider messages list --to US.7 --type interactive --status failed --cursor x",
            "postrider messages list --number num_01jd3v0x5n8m7k2q4r6s8t0w2y --template welcome",
            "postrider webhooks add -w a https://example.com/ --event otp.sent,otp.failed --ordered",
            "postrider webhooks rotate -w a whk_01jd3v0x5n8m7k2q4r6s8t0w2y",
        ] {
            assert!(parse(good).is_ok(), "{good}");
        }
    }

    #[test]
    fn commands_refuse_wrong_arguments() {
        for bad in [
            "postrider demo --recipients 0",
            "postrider workspaces create ACME",
            "postrider keys create --workspace a --name n",
            "postrider keys create --workspace a --name n --scope x",
            "postrider keys revoke --workspace a x",
            "postrider keys create -w a --name n --scope messaging:send --expires tomorrow",
            "postrider tokens create",
            "postrider tokens revoke key_01jd3v0x5n8m7k2q4r6s8t0w2y",
            "postrider limits set --workspace a no=1",
            "postrider limits set --workspace a otp_per_phone_10m=-1",
            "postrider limits set --workspace a",
            "postrider credits set --workspace a x",
            "postrider credits set --workspace a -5",
            "postrider destinations set -w a --allow +49",
            "postrider destinations set -w a --safe 49 --no-safe",
            "postrider destinations set -w a --adaptive on",
            "postrider numbers connect --workspace a --kind cloud_api",
            "postrider numbers update -w a num_01jd3v0x5n8m7k2q4r6s8t0w2y --portfolio b \
             --own-portfolio",
            "postrider templates add -w a hello --category x --body Hello",
            "postrider templates status -w a hello x",
            "postrider audit --limit 0",
            "postrider audit --since yesterday",
            "postrider messages list --type email",
            "postrider messages list --limit 0",
            "postrider webhooks enable -w a evt_01jd3v0x5n8m7k2q4r6s8t0w2y",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
