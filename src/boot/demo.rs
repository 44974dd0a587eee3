//! The workspace `demo` of the sandbox. A crash at any point is made good by the next start.

use postrider_actors::domain::{LimitsOverride, Scopes, WorkspaceId};
use postrider_actors::{AdminError, CreateWorkspaceError, Engine, NewKey};

use super::{BootError, DataDir, DemoError};
use crate::settings::Secret;

const WORKSPACE: &str = "demo";
const KEY_FILE: &str = "demo.key";
const CREDITS: u64 = 1_000_000;

/// Makes what is missing of the demo workspace and returns its key.
///
/// The key's file is written last, so while it is there and good, the rest is as its user left it.
pub(crate) async fn prepare(engine: &Engine, directory: &DataDir) -> Result<Secret, BootError> {
    if let Some(key) = directory.read(KEY_FILE)?
        && engine.access().authenticate(&key).is_some()
    {
        return Ok(Secret::new(key));
    }
    let key = make(engine).await?;
    directory.write(KEY_FILE, key.reveal())?;
    Ok(key)
}

async fn make(engine: &Engine) -> Result<Secret, DemoError> {
    // Letters only: always an id.
    let id: WorkspaceId = WORKSPACE.parse().map_err(|_| AdminError::NoSuchWorkspace)?;
    let admin = engine.admin();
    match admin.create_workspace(id.clone(), "Demo".to_owned()).await {
        Ok(_) | Err(CreateWorkspaceError::Exists) => {}
        Err(error) => return Err(error.into()),
    }
    // A key was made after the number and the credits: once there has been one, a missing number
    // or an empty balance is what its user wanted. A lost key revokes none.
    if admin.keys(&id).await?.is_empty() {
        if admin.numbers(&id).await?.is_empty() {
            admin.connect_sandbox_number(&id).await?;
        }
        if admin.workspace(&id).await?.credits == 0 {
            admin.set_credits(&id, CREDITS).await?;
        }
    }
    let new = NewKey {
        name: "demo".to_owned(),
        scopes: Scopes::all(),
        limits: LimitsOverride::default(),
    };
    let created = admin.create_key(&id, new).await?;
    Ok(Secret::new(created.key.reveal()))
}
