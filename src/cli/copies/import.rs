//! `postrider import` and `restore`: makes a data directory from a copy, or fills a cluster.

use std::path::{Path, PathBuf};

use clap::Args;
use postrider::CopyTarget;
use postrider::settings::{Flags, Settings};
#[cfg(feature = "cluster")]
use postrider::{ClusterImported, import_into_cluster};
use postrider_actors::copies::{CopyError, Made};
use serde_json::json;

use super::report::{self, CopyReport};
use crate::cli::error::CliError;

/// Names the directory.
#[derive(Debug, Args)]
pub(crate) struct TargetArgs {
    /// The data directory to create. An existing directory may contain only master.key, admin.token
    /// and demo.key
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// The settings file of the server, for its master keys
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

impl TargetArgs {
    pub(super) const fn new(data_dir: PathBuf, config: Option<PathBuf>, json: bool) -> Self {
        Self { data_dir, config, json }
    }

    pub(super) const fn json(&self) -> bool {
        self.json
    }

    fn open(&self) -> Result<CopyTarget, CliError> {
        let flags = Flags { data_dir: Some(self.data_dir.clone()), listen: None };
        let settings = Settings::load(self.config.as_deref(), &flags)?;
        Ok(CopyTarget::open(&settings)?)
    }

    fn text(&self, made: &Made, target: &CopyTarget) -> String {
        let (dir, log) = (self.data_dir.display(), log_id(made));
        let contents = report::contents_text(&made.contents);
        let made = format!("{dir}: position {}, log {log}\n", made.position);
        let text = made + &contents;
        if target.has_keys() {
            return text;
        }
        text + &format!("copy the old master.key to {dir} before you start the server\n")
    }
}

fn log_id(made: &Made) -> String {
    made.log.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Restores the data of an archive.
pub(super) fn import_archive(
    from: &Path,
    media: Option<&Path>,
    args: &TargetArgs,
) -> Result<CopyReport, CliError> {
    if let Some(dir) = media.filter(|dir| !dir.is_dir()) {
        return Err(CopyError::Io(format!("the directory {} does not exist", dir.display())).into());
    }
    let target = args.open()?;
    let made = target.import(from, media)?;
    let object = json!({
        "position": made.position.0,
        "records": made.counts.records,
        "workspaces": made.counts.workspaces,
        "log_id": log_id(&made),
        "media": report::contents_object(&made.contents),
    });
    Ok(CopyReport { object, text: args.text(&made, &target) })
}

/// Restores the data of a backup.
pub(super) fn restore_backup(
    from: &Path,
    position: Option<u64>,
    held: bool,
    args: &TargetArgs,
) -> Result<CopyReport, CliError> {
    let target = args.open()?;
    let made = target.restore(from, position, held)?;
    let object = json!({
        "position": made.position.0,
        "held": held,
        "log_id": log_id(&made),
        "media": report::contents_object(&made.contents),
    });
    Ok(CopyReport { object, text: args.text(&made, &target) })
}

/// Imports the data of a single node into the cluster of the settings.
#[cfg(feature = "cluster")]
pub(super) async fn import_to_cluster(
    from: &Path,
    media: Option<&Path>,
    config: Option<&Path>,
) -> Result<CopyReport, CliError> {
    if let Some(dir) = media.filter(|dir| !dir.is_dir()) {
        return Err(CopyError::Io(format!("the directory {} does not exist", dir.display())).into());
    }
    let settings = Settings::load(config, &Flags::default())?;
    let imported = import_into_cluster(&settings, from, media).await?;
    let ClusterImported { cluster, shards, records, workspaces, contents, left_out } = imported;
    let lacks = match left_out {
        0 => String::new(),
        files => format!(
            "WARNING: {files} media files were not found and not imported: use --media DIR with \
             the directory of `export --media`\n"
        ),
    };
    let text = format!(
        "the cluster {cluster} has {records} records of {workspaces} workspaces, in {shards} shards\n\
         {}{lacks}you can start its nodes now\n",
        report::contents_text(&contents)
    );
    let mut media = report::contents_object(&contents);
    media["left_out"] = json!(left_out);
    let object = json!({
        "cluster": cluster,
        "shards": shards,
        "records": records,
        "workspaces": workspaces,
        "media": media,
    });
    Ok(CopyReport { object, text })
}
