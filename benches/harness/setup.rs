//! The parts that several rows need: directories on disk, runtimes, engines with a workspace.

use std::path::PathBuf;

use postrider_actors::domain::template::{TemplateCategory, TemplateStatus};
use postrider_actors::domain::{Limits, WorkspaceId};
use postrider_actors::{Engine, EngineOptions, MasterKeys, NewNumber, NewTemplate, Workspace};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use crate::Result;

/// Returns the directory of the report and the rows' data.
///
/// It is below `target`, hence on the disk and not in memory.
pub(crate) fn directory() -> Result<PathBuf> {
    // target/release/deps/harness-…
    let executable = std::env::current_exe()?;
    let target = executable.ancestors().nth(3).ok_or("the executable is not below `target`")?;
    let directory = target.join("bench");
    std::fs::create_dir_all(&directory)?;
    Ok(directory)
}

/// Makes a data directory that is removed when this is dropped.
pub(crate) fn data_directory() -> Result<TempDir> {
    Ok(tempfile::Builder::new().prefix("data-").tempdir_in(directory()?)?)
}

/// Makes a runtime like the server's: a thread for each core.
pub(crate) fn runtime() -> Result<Runtime> {
    Ok(Builder::new_multi_thread().enable_all().build()?)
}

/// Returns the workspace that every row uses.
pub(crate) fn workspace_id() -> Result<WorkspaceId> {
    Ok("bench".parse()?)
}

/// Returns limits that are checked and never reached.
pub(crate) fn high_limits() -> Limits {
    const HIGH: u32 = 1_000_000_000;
    Limits {
        key_requests_per_hour: HIGH,
        otp_per_workspace_hour: HIGH,
        // No phone gets more than one.
        ..Limits::default()
    }
}

/// Returns an engine's options like a server's, except for the limits and `kept` messages.
///
/// The sandbox retains `kept` messages. Durability is as always.
pub(crate) fn options(directory: impl Into<PathBuf>, kept: usize) -> EngineOptions {
    let mut options = EngineOptions::on_disk(directory, MasterKeys::single([7; 32]));
    options.limits = high_limits();
    options.sandbox.messages_kept = kept;
    options
}

/// Makes the workspace, with credits and a sandbox number.
pub(crate) async fn make_workspace(engine: &Engine) -> Result<Workspace> {
    let id = workspace_id()?;
    engine.admin().create_workspace(id.clone(), "Benchmark".to_owned()).await?;
    engine.admin().set_credits(&id, u64::MAX / 2).await?;
    engine.admin().connect_sandbox_number(&id).await?;
    Ok(engine.workspace(&id).ok_or("the workspace was just made")?)
}

/// An approved template without parameters that [`workspace_with`] makes.
pub(crate) const TEMPLATE: &str = "sale";

/// Makes the workspace, with credits, a number and a template.
pub(crate) async fn workspace_with(engine: &Engine, number: NewNumber) -> Result<Workspace> {
    let id = workspace_id()?;
    engine.admin().create_workspace(id.clone(), "Benchmark".to_owned()).await?;
    engine.admin().set_credits(&id, u64::MAX / 2).await?;
    engine.admin().connect_number(&id, number).await?;
    let workspace = engine.workspace(&id).ok_or("the workspace was just made")?;
    let template = NewTemplate {
        name: TEMPLATE.into(),
        language: "en".into(),
        category: TemplateCategory::Marketing,
        status: TemplateStatus::Approved,
        components: vec![serde_json::json!({"type": "BODY", "text": "Everything must go."})],
    };
    workspace.create_template(template).await?;
    Ok(workspace)
}
