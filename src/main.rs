//! The command `postrider`: serves, or administers a server that runs.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use postrider::settings::{Flags, Settings};
use postrider::{Server, banner, logging};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Allocates less and faster than the system's under many small, short-lived values.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Dispatches one-time passwords and business messages.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: ServeArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve (what happens without a command).
    Serve(ServeArgs),
}

#[derive(Debug, Args)]
struct ServeArgs {
    /// A file of settings, laid over the defaults.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address and port to listen on, instead of `server.listen`.
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Directory of everything durable, instead of `server.data_dir`.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// Why the command failed.
type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let command = cli.command.unwrap_or(Command::Serve(cli.serve));
    let done = tokio::runtime::Runtime::new().map_err(Failure::from).and_then(|runtime| {
        runtime.block_on(async {
            match command {
                Command::Serve(args) => serve(args).await,
            }
        })
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Where nobody reads errors there is nobody to tell.
            writeln!(std::io::stderr(), "postrider: {error}").ok();
            ExitCode::FAILURE
        }
    }
}

async fn serve(args: ServeArgs) -> Result<(), Failure> {
    let flags = Flags { listen: args.listen, data_dir: args.data_dir };
    let settings = Settings::load(args.config.as_deref(), &flags)?;
    logging::start(&settings.log);
    let mut stop = StopSignals::new()?;
    let server = Server::start(&settings).await?;
    let banner = banner::banner(&settings, server.address(), server.demo_key());
    // A closed standard output is no reason not to serve.
    writeln!(std::io::stdout(), "{banner}").ok();
    stop.wait().await;
    tracing::info!("stopping: requests under way are answered first");
    tokio::select! {
        stopped = server.shutdown() => Ok(stopped?),
        () = stop.wait() => Err("stopped at once, by a second signal".into()),
    }
}

/// SIGTERM and SIGINT.
struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    fn new() -> Result<Self, std::io::Error> {
        let terminate = signal(SignalKind::terminate())?;
        Ok(Self { terminate, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn wait(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
