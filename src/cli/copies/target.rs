//! `postrider import` and `restore`: makes a data directory from a copy.

use std::path::{Path, PathBuf};

use clap::Args;
use postrider::CopyTarget;
use postrider::settings::{Flags, Settings};
use postrider_actors::copies::{CopyError, Made};
use serde_json::json;

use super::contents;
use super::report::Report;
use crate::cli::error::CliError;

/// Names the directory.
#[derive(Debug, Args)]
pub(crate) struct TargetArgs {
    /// The directory that is made: missing, or with nothing but master.key, admin.token and
    /// demo.key
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// Settings of the server, for its master keys
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print what was done as JSON
    #[arg(long)]
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
        let contents = contents::text(&made.contents);
        let made = format!("{dir}: position {}, log {log}\n", made.position);
        let hint = "put master.key of the old directory here before the server starts\n";
        let text = made + &contents;
        if target.has_keys() { text } else { text + hint }
    }
}

fn log_id(made: &Made) -> String {
    made.log.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Restores the data of an archive.
pub(super) fn import(
    from: &Path,
    media: Option<&Path>,
    args: &TargetArgs,
) -> Result<Report, CliError> {
    if let Some(dir) = media.filter(|dir| !dir.is_dir()) {
        return Err(CopyError::Io(format!("there is no directory {}", dir.display())).into());
    }
    let target = args.open()?;
    let made = target.import(from, media)?;
    let object = json!({
        "position": made.position.0,
        "records": made.counts.records,
        "workspaces": made.counts.workspaces,
        "log_id": log_id(&made),
        "media": contents::object(&made.contents),
    });
    Ok(Report { object, text: args.text(&made, &target) })
}

/// Restores the data of a backup.
pub(super) fn restore(
    from: &Path,
    position: Option<u64>,
    held: bool,
    args: &TargetArgs,
) -> Result<Report, CliError> {
    let target = args.open()?;
    let made = target.restore(from, position, held)?;
    let object = json!({
        "position": made.position.0,
        "held": held,
        "log_id": log_id(&made),
        "media": contents::object(&made.contents),
    });
    Ok(Report { object, text: args.text(&made, &target) })
}
