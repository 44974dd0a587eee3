//! Warns of sandbox numbers and keys that remain when a server is no longer a sandbox.

use postrider_actors::Engine;

use super::demo::KEY_FILE;
use super::directory::DataDir;
use super::error::BootError;

/// The maximum number of workspaces that one warning names.
const NAMED_MAX: usize = 5;

/// Returns one line for each warning.
pub(crate) fn leftovers(engine: &Engine, directory: &DataDir) -> Result<Vec<String>, BootError> {
    let mut warnings = Vec::new();
    let workspaces = engine.admin().workspaces_with_sandbox_number();
    if !workspaces.is_empty() {
        let mut named: Vec<_> =
            workspaces.iter().take(NAMED_MAX).map(ToString::to_string).collect();
        if workspaces.len() > NAMED_MAX {
            named.push(format!("{} more", workspaces.len() - NAMED_MAX));
        }
        let named = named.join(", ");
        warnings.push(format!(
            "this is no sandbox, but there are sandbox numbers, and what leaves through them reaches \
             nobody; workspaces: {named}"
        ));
    }
    if let Some(key) = directory.read(KEY_FILE)?
        && engine.access().authenticate(&key).is_some()
    {
        let file = directory.file(KEY_FILE);
        warnings.push(format!(
            "this is no sandbox, but the sandbox key of {} is valid; revoke it",
            file.display()
        ));
    }
    Ok(warnings)
}
