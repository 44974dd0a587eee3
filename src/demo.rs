//! The demo workspace of the sandbox.

use std::path::Path;

use postrider_actors::domain::{LimitsOverride, Scopes, WorkspaceId};
use postrider_actors::{AdminError, CreateWorkspaceError, Engine, NewKey, Unavailable};

use crate::files::{self, FileError};

/// The file that holds the demo workspace's key.
pub(crate) const KEY_FILE: &str = "demo.key";
/// The workspace's id.
const WORKSPACE: &str = "demo";
/// Credits that it begins with.
const CREDITS: u64 = 1_000_000;

/// Why there is no demo workspace.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// Its key could not be written or read.
    #[error(transparent)]
    File(#[from] FileError),
    /// It could not be made.
    #[error("the demo workspace: {0}")]
    Admin(#[from] AdminError),
    /// The engine takes nothing.
    #[error("the demo workspace: {0}")]
    Unavailable(#[from] Unavailable),
}

/// Makes the demo workspace and its key, or what of it is missing, and gives the key.
///
/// The key's file comes last. While it is missing every step is looked at again, so a first start
/// that was cut off is finished by the next one.
pub(crate) async fn prepare(engine: &Engine, data_dir: &Path) -> Result<String, DemoError> {
    let path = data_dir.join(KEY_FILE);
    if let Some(key) = files::read_secret(&path)? {
        if engine.access().authenticate(&key).is_none() {
            tracing::warn!(
                file = %path.display(),
                "this key does not work any more; delete the file to have a new one made"
            );
        }
        return Ok(key);
    }
    // The constant has the form of an id.
    let Ok(id) = WORKSPACE.parse::<WorkspaceId>() else {
        return Err(AdminError::NoSuchWorkspace.into());
    };
    let admin = engine.admin();
    match admin.create_workspace(id.clone(), "Demo".to_owned()).await {
        Ok(_) | Err(CreateWorkspaceError::Exists) => {}
        Err(CreateWorkspaceError::Unavailable(why)) => return Err(why.into()),
    }
    if admin.numbers(&id).await?.is_empty() {
        admin.connect_sandbox_number(&id).await?;
    }
    if admin.workspace(&id).await?.credits == 0 {
        admin.set_credits(&id, CREDITS).await?;
    }
    let new = NewKey {
        name: "demo".to_owned(),
        scopes: Scopes::all(),
        limits: LimitsOverride::default(),
    };
    let created = admin.create_key(&id, new).await?;
    files::write_secret(&path, created.key.reveal())?;
    Ok(created.key.reveal().to_owned())
}
