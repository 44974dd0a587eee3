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

/// Run and administer a server that sends one-time passwords and messages over a chat-app channel.
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
    /// Run the server (the default command)
    Serve(serve::ServeArgs),
    /// Run a demo: send a one-time password and a broadcast on a temporary server
    ///
    /// With --keep, the demo creates a week of history and serves the dashboard until you stop it.
    Demo(demo::DemoArgs),
    /// Check whether a server accepts work
    ///
    /// The command exits with status 1 if the server accepts no work or does not answer.
    Health(server_state::HealthArgs),
    /// Create, list, show and delete workspaces
    Workspaces(Group<workspaces::WorkspacesCommand>),
    /// Create, list and revoke API keys
    Keys(Group<keys::KeysCommand>),
    /// Create, list and revoke admin tokens
    Tokens(Group<keys::TokensCommand>),
    /// Create sign-in links and invites, and list, disable and enable users
    Users(Group<users::UsersCommand>),
    /// Create, inspect, drain, back up and repair a cluster
    #[cfg(feature = "cluster")]
    Cluster(cluster::ClusterArgs),
    /// Show the clock of a server, or rebase the stored times of a stopped server
    Clock(Group<server_state::ClockCommand>),
    /// Show and set the limits of a workspace
    Limits(Group<workspaces::LimitsCommand>),
    /// Show and set the destinations that a workspace may send one-time passwords to
    Destinations(Group<otp_settings::DestinationsCommand>),
    /// Show and set the daily recipient limit of a portfolio of numbers
    Portfolios(Group<numbers::PortfoliosCommand>),
    /// Set, show and delete the SMS gateway for one-time passwords
    Sms(Group<otp_settings::SmsCommand>),
    /// Show and set the channels that deliver one-time passwords
    OtpChannels(Group<otp_settings::OtpChannelsCommand>),
    /// Show and set the SMS and e-mail texts of one-time passwords
    OtpTexts(Group<otp_settings::OtpTextsCommand>),
    /// Show and set test phones, which have fixed codes and receive no messages
    TestPhones(Group<otp_settings::TestPhonesCommand>),
    /// Set the credits of a workspace, or add to them
    Credits(Group<workspaces::CreditsCommand>),
    /// Connect, list, update, check and disconnect messaging numbers
    Numbers(Group<numbers::NumbersCommand>),
    /// Show, follow and verify the audit log
    Audit(audit::AuditArgs),
    /// Let a held server send again
    ///
    /// A server that starts on data from `restore --held` sends nothing until you release it.
    Release(server_state::ReleaseArgs),
    /// Check the data directory of a stopped server for damage
    ///
    /// The command reads every file and exits with status 1 if it finds damage.
    Check(offline::CheckArgs),
    /// Repair the data directory of a stopped server, so that a server can start on it
    Repair(offline::RepairArgs),
    /// Export all data of a running or stopped server to one file
    Export(copies::ExportArgs),
    /// Create a data directory from an exported file
    Import(copies::ImportArgs),
    /// Back up all data of a running or stopped server to a directory
    ///
    /// A later backup to the same directory adds only what is new.
    Backup(copies::BackupArgs),
    /// Create a data directory from a backup
    ///
    /// The data directory has the state at the end of the backup, or at --position.
    Restore(copies::RestoreArgs),
    /// Import and export contacts
    Contacts(contacts::ContactsArgs),
    /// List and show one-time passwords, and list decisions about destinations
    Otp(OwnGroup<workspace_lists::OtpCommand>),
    /// List messages
    Messages(OwnGroup<workspace_lists::MessagesCommand>),
    /// Create, list and synchronize templates, and set their status
    Templates(Group<templates::TemplatesCommand>),
    /// Create, list, enable, disable and delete webhooks, and rotate their secrets
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
            "postrider templates create -w a hello --category utility --body Hello",
            "postrider templates status -w a hello paused --language en_US",
            "postrider audit --workspace a --actor key --action webhook --limit 5 --json",
            "postrider audit --since 2026-01-31T09:30:00Z --follow --server http://h:1",
            "postrider audit verify",
            "postrider audit verify --stopped data --json",
            "postrider contacts import a.csv --key k --refused b.csv",
            "postrider contacts export --server http://h:1",
            "postrider messages list --to US.7 --type interactive --status failed --cursor x",
            "postrider messages list --number num_01jd3v0x5n8m7k2q4r6s8t0w2y --template welcome",
            "postrider webhooks create -w a https://example.com/ --event otp.sent,otp.failed \
             --ordered",
            "postrider webhooks rotate -w a whk_01jd3v0x5n8m7k2q4r6s8t0w2y",
        ] {
            assert!(parse(good).is_ok(), "{good}");
        }
    }

    #[test]
    fn commands_take_other_verbs_for_the_same_act() {
        for good in [
            "postrider keys delete -w a key_01jd3v0x5n8m7k2q4r6s8t0w2y",
            "postrider tokens delete tok_01jd3v0x5n8m7k2q4r6s8t0w2y",
            "postrider numbers create -w a --kind sandbox",
            "postrider numbers delete -w a num_01jd3v0x5n8m7k2q4r6s8t0w2y",
            "postrider templates add -w a hello --category utility --body Hello",
            "postrider webhooks add -w a https://example.com/",
            "postrider webhooks delete -w a whk_01jd3v0x5n8m7k2q4r6s8t0w2y",
            "postrider webhooks remove -w a whk_01jd3v0x5n8m7k2q4r6s8t0w2y",
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
            "postrider templates create -w a hello --category x --body Hello",
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
