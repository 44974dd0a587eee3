//! `postrider import --cluster`: imports the data of a single node into a cluster.

use std::path::Path;

use postrider::settings::{Flags, Settings};
use postrider::{ClusterImported, import_into_cluster};
use postrider_actors::copies::CopyError;
use serde_json::json;

use super::contents;
use super::report::Report;
use crate::cli::error::CliError;

/// Imports into the cluster of the settings.
pub(super) async fn import(
    from: &Path,
    media: Option<&Path>,
    config: Option<&Path>,
) -> Result<Report, CliError> {
    if let Some(dir) = media.filter(|dir| !dir.is_dir()) {
        return Err(CopyError::Io(format!("there is no directory {}", dir.display())).into());
    }
    let settings = Settings::load(config, &Flags::default())?;
    let imported = import_into_cluster(&settings, from, media).await?;
    let ClusterImported { cluster, shards, records, workspaces, contents, left_out } = imported;
    let lacks = match left_out {
        0 => String::new(),
        files => format!(
            "WARNING: the contents of {files} media files were not there: --media DIR names where \
             `export --media` has put them\n"
        ),
    };
    let text = format!(
        "the cluster {cluster} has {records} records of {workspaces} workspaces, in {shards} shards\n\
         {}{lacks}its nodes may start now\n",
        contents::text(&contents)
    );
    let mut media = contents::object(&contents);
    media["left_out"] = json!(left_out);
    let object = json!({
        "cluster": cluster,
        "shards": shards,
        "records": records,
        "workspaces": workspaces,
        "media": media,
    });
    Ok(Report { object, text })
}
