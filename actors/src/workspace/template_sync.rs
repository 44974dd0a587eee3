//! Bringing a workspace's templates up to date with its provider's.

use crate::channel::cloud_api::ListedTemplate;
use crate::domain::template;

use super::actor::Configure;
use super::command::{Command, Context};
use super::handle::Workspace;
use super::messages::{ChangeError, Unavailable};
use super::templates::{NewTemplate, Template, TemplateError, put_listed};

/// Templates that one command takes, so that its changes fit in a commit.
const TAKEN_AT_ONCE: usize = 50;

impl Workspace {
    /// Brings the templates up to date with those of the provider behind the workspace's oldest
    /// number that has one, and gives all of them. A template that the provider does not have stays
    /// as it is. A sandbox number has none but those that are there.
    ///
    /// # Errors
    /// [`TemplateError`]: the provider does not tell, or not now.
    pub async fn sync_templates(&self) -> Result<Vec<Template>, TemplateError> {
        let settings = self.configure(Configure::Read).await.map_err(|error| match error {
            ChangeError::Unavailable(why) => why,
            // Reading has no other refusal.
            _ => Unavailable::because(super::messages::UnavailableReason::Restarting),
        })?;
        let numbers = &self.shared.numbers;
        let mut connected =
            settings.numbers.iter().filter_map(|number| numbers.connected(number.id));
        if let Some(provider) = connected.find_map(|connected| connected.cloud_api.clone()) {
            let listed = provider.list_templates().await?;
            let mut known = listed.into_iter().filter_map(read).peekable();
            while known.peek().is_some() {
                let some = known.by_ref().take(TAKEN_AT_ONCE).collect();
                self.perform(TakeListed(some)).await?;
            }
        }
        Ok(self.templates().await?)
    }
}

/// A template of the provider's as one of ours; nothing if it cannot be one.
fn read(listed: ListedTemplate) -> Option<NewTemplate> {
    let ListedTemplate { name, language, category, status, components } = listed;
    template::check_name(&name).and_then(|()| template::check_language(&language)).ok()?;
    Some(NewTemplate {
        name,
        language,
        category: category.to_ascii_lowercase().parse().ok()?,
        status: template::TemplateStatus::from_channel(&status)?,
        components: serde_json::from_str(&components).ok()?,
    })
}

struct TakeListed(Vec<NewTemplate>);

impl Command for TakeListed {
    type Answer = ();
    type Error = Unavailable;

    fn carry_out(self, context: &mut Context<'_>) -> Result<(), Unavailable> {
        self.0.into_iter().try_for_each(|listed| put_listed(context, listed))
    }
}
