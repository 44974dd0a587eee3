//! Creates the workspace `demo` of a sandbox, and warns of its remains once a server is no sandbox.
//!
//! After a crash the next start completes the workspace.

use std::sync::Arc;
use std::time::Duration;

use postrider_actors::domain::template::{TemplateCategory, TemplateStatus};
use postrider_actors::domain::{AuditContext, Scopes, WorkspaceId};
use postrider_actors::{
    AdminError, ChangeError, CreateWorkspaceError, Engine, Login, NewKey, NewTemplate, PeopleError,
    Role, TemplateError, UnavailableReason,
};
use serde_json::json;

use super::directory::DataDir;
use super::error::{BootError, DemoError};
use crate::settings::{Secret, Settings};

const WORKSPACE: &str = "demo";
const KEY_FILE: &str = "demo.key";
/// The person who signs in by the link that a start prints.
const OWNER: &str = "owner@localhost";
const CREDITS: u64 = 1_000_000;

/// The wait for the removal of an earlier workspace, or for a place in a busy one, between tries.
const WAIT: Duration = Duration::from_millis(50);
/// The maximum number of tries to get a place.
const BUSY_TRIES: usize = 200;

/// The maximum number of workspaces that one warning names.
const NAMED_MAX: usize = 5;

/// Creates the missing parts of the demo workspace and returns its API key.
///
/// The key file is written last. While it exists and its key is valid, the workspace was complete
/// once, and its user removed whatever is missing.
pub(crate) async fn prepare_demo(
    engine: &Engine,
    directory: &DataDir,
) -> Result<Secret, BootError> {
    if let Some(key) = directory.read(KEY_FILE)?
        && engine.access().authenticate(&key).is_some()
    {
        return Ok(Secret::new(key));
    }
    let mut tries = 1;
    let key = loop {
        match create(engine).await {
            Err(error) if is_busy(&error) && tries < BUSY_TRIES => tokio::time::sleep(WAIT).await,
            created => break created?,
        }
        tries += 1;
    };
    directory.write(KEY_FILE, key.reveal())?;
    Ok(key)
}

/// Makes the link that signs in the owner of the demo workspace, who also operates the server.
///
/// The link of an earlier start stops working.
///
/// `None`: the server is no sandbox, or has no dashboard.
pub(crate) async fn sign_in_link(
    settings: &Settings,
    engine: &Engine,
) -> Result<Option<Secret>, BootError> {
    if !settings.sandbox.enabled || !settings.dashboard.enabled {
        return Ok(None);
    }
    // The constants are valid.
    let id: WorkspaceId =
        WORKSPACE.parse().map_err(|_| DemoError::from(AdminError::NoSuchWorkspace))?;
    let owner = Login::new(OWNER).map_err(|_| DemoError::from(PeopleError::NoSuchPerson))?;
    let by = Arc::new(AuditContext::system());
    let made = engine.people().create_link(owner, true, Some((id, Role::Owner)), by).await;
    Ok(Some(made.map_err(DemoError::from)?.token))
}

/// Returns one template for each category and status that a new user may want to try.
fn templates() -> impl Iterator<Item = NewTemplate> {
    use TemplateCategory::{Authentication, Marketing, Utility};
    use TemplateStatus::{Approved, Pending, Rejected};
    [
        ("otp_code", Authentication, Approved, "{{1}} is your verification code."),
        ("welcome", Utility, Approved, "Welcome! We are glad that you are here."),
        ("order_update", Utility, Approved, "Hello {{1}}, your order {{2}} is on its way."),
        ("spring_sale", Marketing, Approved, "Our spring sale has begun: 20% off everything."),
        ("promo_pending", Marketing, Pending, "A promotion that the channel has not decided on."),
        ("promo_rejected", Marketing, Rejected, "A promotion that the channel has refused."),
    ]
    .into_iter()
    .map(|(name, category, status, text)| NewTemplate {
        name: name.into(),
        language: "en".into(),
        category,
        status,
        components: vec![json!({ "type": "BODY", "text": text })],
    })
}

/// Returns whether other work of the workspace had all the places that `admission` gives it.
fn is_busy(error: &DemoError) -> bool {
    use AdminError::Change;
    let why = match error {
        DemoError::Create(CreateWorkspaceError::Unavailable(why))
        | DemoError::Change(Change(ChangeError::Unavailable(why)) | AdminError::Unavailable(why))
        | DemoError::Template(TemplateError::Unavailable(why))
        | DemoError::Unavailable(why) => why,
        _ => return false,
    };
    why.reason == UnavailableReason::Overloaded
}

async fn create(engine: &Engine) -> Result<Secret, DemoError> {
    // The constant is a valid id.
    let id: WorkspaceId = WORKSPACE.parse().map_err(|_| AdminError::NoSuchWorkspace)?;
    let admin = engine.admin();
    loop {
        match admin.create_workspace(id.clone(), "Demo".to_owned()).await {
            Ok(_) | Err(CreateWorkspaceError::Exists) => break,
            // An earlier workspace that was deleted may have been large.
            Err(CreateWorkspaceError::BeingRemoved) => tokio::time::sleep(WAIT).await,
            Err(error) => return Err(error.into()),
        }
    }
    // The key is created after the number and the credits. So if a key exists, the user chose a
    // missing number or an empty balance. A lost key file revokes no key.
    if admin.keys(&id).await?.is_empty() {
        if admin.numbers(&id).await?.is_empty() {
            admin.connect_sandbox_number(&id).await?;
        }
        if admin.workspace(&id).await?.credits == 0 {
            admin.set_credits(&id, CREDITS).await?;
        }
        let workspace = engine.workspace(&id).ok_or(AdminError::NoSuchWorkspace)?;
        for template in templates() {
            match workspace.create_template(template).await {
                Ok(_) | Err(TemplateError::Exists) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    let created = admin.create_key(&id, NewKey::new("demo", Scopes::all())).await?;
    Ok(Secret::new(created.key.reveal()))
}

/// Returns a warning for sandbox numbers and one for a key that remain without a sandbox.
pub(crate) fn sandbox_leftovers(
    engine: &Engine,
    directory: &DataDir,
) -> Result<Vec<String>, BootError> {
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
