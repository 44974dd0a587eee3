//! `postrider export`, `import`, `backup` and `restore`: copies of all data.

mod export;
mod import;
pub(super) mod report;
mod source;

use std::path::PathBuf;

use clap::Args;

use super::error::CliError;
use import::TargetArgs;
use source::SourceArgs;

/// Arguments of `postrider export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The file to create. The command replaces an existing file once the new file is complete
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    /// Copy media files, which the exported file does not contain, to this directory. The command
    /// copies only files that are not there yet
    #[arg(long, value_name = "DIR")]
    media: Option<PathBuf>,
    #[command(flatten)]
    source: SourceArgs,
}

/// Arguments of `postrider import`. A single node's program does not offer `--cluster`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    #[cfg_attr(
        feature = "cluster",
        doc = "The archive of `export`; with --cluster, also the directory of a stopped server"
    )]
    #[cfg_attr(not(feature = "cluster"), doc = "The archive of `export`")]
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    /// Import into the cluster that the settings describe. No node may have used this cluster yet
    #[cfg(feature = "cluster")]
    #[arg(long)]
    cluster: bool,
    /// The data directory to create. An existing directory may contain only master.key, admin.token
    /// and demo.key
    #[cfg(feature = "cluster")]
    #[arg(
        long,
        value_name = "DIR",
        required_unless_present = "cluster",
        conflicts_with = "cluster"
    )]
    data_dir: Option<PathBuf>,
    /// The data directory to create. An existing directory may contain only master.key, admin.token
    /// and demo.key
    #[cfg(not(feature = "cluster"))]
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    #[cfg_attr(
        feature = "cluster",
        doc = "The directory of `export --media`; a data directory in --from has its own files"
    )]
    #[cfg_attr(not(feature = "cluster"), doc = "The directory of `export --media`")]
    #[arg(long, value_name = "DIR")]
    media: Option<PathBuf>,
    #[cfg_attr(
        feature = "cluster",
        doc = "The settings file of the server, for its master keys and its cluster"
    )]
    #[cfg_attr(
        not(feature = "cluster"),
        doc = "The settings file of the server, for its master keys"
    )]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// Arguments of `postrider backup`.
#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The directory of the backup: a new one, or one with an earlier backup
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    #[command(flatten)]
    source: SourceArgs,
}

/// Arguments of `postrider restore`.
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The directory of the backup: of a server, of a cluster or of one shard
    #[arg(long, value_name = "DIR")]
    from: PathBuf,
    /// Restore only what was committed up to this position of the log
    #[arg(long)]
    position: Option<u64>,
    /// Hold the server that starts on this data: it sends nothing until `postrider release`
    #[arg(long)]
    held: bool,
    #[command(flatten)]
    target: TargetArgs,
}

/// Runs `postrider export`.
pub(crate) async fn export(args: ExportArgs) -> Result<(), CliError> {
    let as_json = args.source.json();
    let done =
        blocking(move || export::write_export(&args.to, args.media.as_deref(), &args.source)).await;
    report::show_report(as_json, done)
}

/// Runs `postrider import`.
pub(crate) async fn import(args: ImportArgs) -> Result<(), CliError> {
    let ImportArgs { from, data_dir, media, config, json, .. } = args;
    #[cfg(feature = "cluster")]
    let Some(data_dir) = data_dir else {
        let done = import::import_to_cluster(&from, media.as_deref(), config.as_deref()).await;
        return report::show_report(json, done);
    };
    let target = TargetArgs::new(data_dir, config, json);
    let done = blocking(move || import::import_archive(&from, media.as_deref(), &target)).await;
    report::show_report(json, done)
}

/// Runs `postrider backup`.
pub(crate) async fn backup(args: BackupArgs) -> Result<(), CliError> {
    let as_json = args.source.json();
    let done = blocking(move || export::write_backup(&args.to, &args.source)).await;
    report::show_report(as_json, done)
}

/// Runs `postrider restore`.
pub(crate) async fn restore(args: RestoreArgs) -> Result<(), CliError> {
    let as_json = args.target.json();
    let done = blocking(move || {
        import::restore_backup(&args.from, args.position, args.held, &args.target)
    });
    report::show_report(as_json, done.await)
}

/// Runs an operation on files on a thread that may block.
async fn blocking<T: Send + 'static>(
    run: impl FnOnce() -> Result<T, CliError> + Send + 'static,
) -> Result<T, CliError> {
    tokio::task::spawn_blocking(run).await.unwrap_or(Err(CliError::Interrupted))
}
