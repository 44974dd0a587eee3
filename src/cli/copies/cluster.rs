//! `postrider import --cluster`: a cluster gets the data of a single node.

use std::path::Path;

use postrider::settings::{Flags, Settings};
use postrider::{ClusterImported, import_into_cluster};
use serde_json::json;

use super::report::Report;
use crate::cli::error::CliError;

/// Imports into the cluster of the settings.
pub(super) async fn import(from: &Path, config: Option<&Path>) -> Result<Report, CliError> {
    let settings = Settings::load(config, &Flags::default())?;
    let imported = import_into_cluster(&settings, from).await?;
    let ClusterImported { cluster, shards, records, workspaces } = imported;
    let text = format!(
        "the cluster {cluster} has {records} records of {workspaces} workspaces, in {shards} shards\n\
         its nodes may start now\n"
    );
    let object = json!({
        "cluster": cluster,
        "shards": shards,
        "records": records,
        "workspaces": workspaces,
    });
    Ok(Report { object, text })
}
