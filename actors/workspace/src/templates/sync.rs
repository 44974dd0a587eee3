//! Synchronizes a workspace's templates with those of its provider.
//!
//! That happens on request, and in the background when a number is connected or a template is
//! reported that is not known. The request for it is written with what caused it, so the next start
//! continues what was cut short.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::services::Services;
use postrider_channel::cloud_api::{CloudApiNumber, ListError, ListedTemplate};
use postrider_domain::{AuditEntry, WorkspaceId, template};
use postrider_number::record::NumberKind;
use postrider_runtime::clock::Clock;
use postrider_runtime::flow::Backoff;
use postrider_store::{StoreError, Table};

use crate::core::command::{Command, Context};
use crate::core::records;
use crate::core::settings::ChangeError;
use crate::core::view::unreadable;
use crate::handle::Workspace;
use crate::templates::update::put_listed;
use crate::templates::{ChannelFacts, NewTemplate, Template, TemplateError};
use postrider_domain::unavailable::{Unavailable, UnavailableReason};

/// How the provider says that parameters are given.
const PARAMETER_FORMATS: [&str; 2] = ["positional", "named"];
/// Templates that one command takes, so that its changes fit in a commit.
const TAKEN_AT_ONCE: usize = 50;
/// The provider lists so many in one call, and allows 200 calls an hour: half of that is used.
const LISTED_AT_ONCE: usize = 100;
const PAUSE_FOR_EACH_CALL: Duration = Duration::from_secs(36);
/// How long a failed try in the background waits for the next one.
const RETRY: Backoff = Backoff { min: Duration::from_secs(1), max: Duration::from_secs(300) };
/// A start goes on with those of one workspace after the other, so far apart.
const PAUSE_AT_START: Duration = Duration::from_millis(200);
/// Tries in the background.
const TRIES_MAX: u32 = 20;

impl Workspace {
    /// Brings the templates up to date with those of the provider behind the oldest number of the
    /// workspace's pool that has one, and gives all of them. A template that the provider does not
    /// have stays as it is. A sandbox number has none but those that are there.
    ///
    /// # Errors
    /// [`TemplateError`]: the provider does not tell, or not now.
    pub async fn sync_templates(&self) -> Result<Vec<Template>, TemplateError> {
        let listed = match self.template_provider().await? {
            Some(provider) => provider.list_templates().await?,
            None => Vec::new(),
        };
        // First: what is taken follows in as many commits as it needs.
        self.perform_audited(TakeListed(Vec::new()), AuditEntry::new("template.sync")).await?;
        self.take_listed(listed).await?;
        Ok(self.templates().await?)
    }

    /// Has the same done in the background, with more tries where one fails. Of those that are
    /// asked for while one is under way, or soon after it, only one more comes.
    pub fn sync_templates_soon(&self) {
        let id = self.slot.id.clone();
        if self.shared.template_syncs.ask(&id) {
            let (shared, clock) = (Arc::downgrade(&self.shared), self.shared.clock.clone());
            drop(tokio::spawn(Background { shared, clock, id }.run()));
        }
    }

    /// How often it was wanted since it was done; 0 for not at all.
    async fn templates_wanted(&self) -> Result<u64, Unavailable> {
        let key = records::templates_wanted_key(&self.slot.id);
        self.read(move |store, _| count(store.get(Table::Workspaces, &key)?)).await
    }

    async fn template_provider(&self) -> Result<Option<Arc<CloudApiNumber>>, Unavailable> {
        let settings = self.settings().await.map_err(|error| match error {
            ChangeError::Unavailable(why) => why,
            // Reading has no other refusal.
            _ => Unavailable::because(UnavailableReason::Restarting),
        })?;
        let numbers = &self.shared.numbers;
        let (pooled, others): (Vec<_>, Vec<_>) =
            settings.numbers.iter().partition(|number| number.pool);
        let mut connected =
            pooled.into_iter().chain(others).filter_map(|number| numbers.connected(number.id));
        Ok(connected.find_map(|connected| connected.cloud_api.clone()))
    }

    async fn take_listed(&self, listed: Vec<ListedTemplate>) -> Result<(), Unavailable> {
        let mut known = listed.into_iter().filter_map(read).peekable();
        while known.peek().is_some() {
            let some = known.by_ref().take(TAKEN_AT_ONCE).collect();
            self.perform(TakeListed(some)).await?;
        }
        Ok(())
    }
}

/// What is done in the background. It does not keep the engine from going.
struct Background {
    shared: Weak<Services>,
    clock: Clock,
    id: WorkspaceId,
}

/// The engine is gone, or going.
struct Gone;

impl Background {
    async fn run(self) {
        while let Ok(calls) = self.try_until_done().await {
            self.wait(PAUSE_FOR_EACH_CALL * calls).await;
            let goes_on = self.shared.upgrade().map(|it| it.template_syncs.goes_on(&self.id));
            if goes_on != Some(true) {
                return;
            }
        }
    }

    /// Gives how many calls the last try was.
    async fn try_until_done(&self) -> Result<u32, Gone> {
        for tried in 1..=TRIES_MAX {
            let error = match self.sync().await {
                Ok(calls) => return Ok(calls),
                Err(TemplateError::Unavailable(why))
                    if why.reason == UnavailableReason::Draining =>
                {
                    return Err(Gone);
                }
                Err(error) => error,
            };
            let (workspace, reason) = (&self.id, log_reason(&error));
            tracing::warn!(%workspace, %reason, tried, "templates could not be brought up to date");
            self.wait(RETRY.delay(tried - 1)).await;
        }
        Ok(1)
    }

    async fn sync(&self) -> Result<u32, TemplateError> {
        let wanted = self.workspace()?.templates_wanted().await?;
        let mut calls = 0;
        if let Some(provider) = self.workspace()?.template_provider().await? {
            let listed = provider.list_templates().await?;
            calls = listed.len() / LISTED_AT_ONCE + 1;
            self.workspace()?.take_listed(listed).await?;
        }
        self.workspace()?.perform(Done { wanted }).await?;
        Ok(u32::try_from(calls).unwrap_or(u32::MAX))
    }

    fn workspace(&self) -> Result<Workspace, Unavailable> {
        let gone = || Unavailable::because(UnavailableReason::Draining);
        let shared = self.shared.upgrade().ok_or_else(gone)?;
        let slot = shared.workspaces.slot(&self.id).ok_or_else(gone)?;
        Ok(Workspace::new(shared, slot))
    }

    async fn wait(&self, time: Duration) {
        self.clock.sleep_until(self.clock.now().plus(time)).await;
    }
}

/// A template of the provider's as one of ours; nothing if it cannot be one.
fn read(listed: ListedTemplate) -> Option<(NewTemplate, ChannelFacts)> {
    let ListedTemplate { name, language, category, status, components, .. } = listed;
    template::check_name(&name).and_then(|()| template::check_language(&language)).ok()?;
    let category = category.to_ascii_lowercase().parse().ok()?;
    let correct = listed.correct_category.and_then(|it| it.to_ascii_lowercase().parse().ok());
    let format = listed.parameter_format.map(|it| it.to_ascii_lowercase());
    let facts = ChannelFacts {
        quality: listed.quality.map(|word| template::TemplateQuality::from_channel(&word)),
        ttl_seconds: listed.ttl_seconds,
        parameter_format: format.filter(|it| PARAMETER_FORMATS.contains(&&**it)).map(Into::into),
        correct_category: correct.filter(|it| *it != category),
    };
    let new = NewTemplate {
        name,
        language,
        category,
        status: template::TemplateStatus::from_channel(&status)?,
        components: serde_json::from_str(&components).ok()?,
    };
    Some((new, facts))
}

struct TakeListed(Vec<(NewTemplate, ChannelFacts)>);

impl Command for TakeListed {
    type Answer = ();
    type Error = Unavailable;

    fn carry_out(self, context: &mut Context<'_>) -> Result<(), Unavailable> {
        self.0.into_iter().try_for_each(|listed| put_listed(context, listed))
    }
}

/// Notes that the templates are to be brought up to date.
pub(crate) fn want(context: &mut Context<'_>) -> Result<(), Unavailable> {
    let key = records::templates_wanted_key(&context.core.id);
    let wanted = count(context.get(Table::Workspaces, &key)?).map_err(unreadable)?;
    context.put(Table::Workspaces, key, (wanted + 1).to_be_bytes().to_vec());
    Ok(())
}

fn count(value: Option<Vec<u8>>) -> Result<u64, StoreError> {
    let Some(bytes) = value else { return Ok(0) };
    let damaged = |_| StoreError::Damaged("the note on templates to be brought over".into());
    bytes.try_into().map(u64::from_be_bytes).map_err(damaged)
}

/// The templates are up to date with what was wanted when it was read how often.
struct Done {
    wanted: u64,
}

impl Command for Done {
    type Answer = ();
    type Error = Unavailable;

    fn carry_out(self, context: &mut Context<'_>) -> Result<(), Unavailable> {
        let key = records::templates_wanted_key(&context.core.id);
        let value = context.get(Table::Workspaces, &key)?;
        if value.is_some() && count(value).map_err(unreadable)? == self.wanted {
            context.delete(Table::Workspaces, key);
        }
        Ok(())
    }
}

/// Goes on with what the process before this one has not done, one workspace after the other.
pub fn resume(shared: &Arc<Services>) {
    let ids = shared.numbers.workspaces_with(NumberKind::CloudApi);
    let (shared, clock) = (Arc::downgrade(shared), shared.clock.clone());
    drop(tokio::spawn(async move {
        for id in ids {
            let background = Background { shared: Weak::clone(&shared), clock: clock.clone(), id };
            let Ok(workspace) = background.workspace() else { continue };
            match workspace.templates_wanted().await {
                Ok(0) => continue,
                Ok(_) => workspace.sync_templates_soon(),
                Err(error) => {
                    let workspace = &background.id;
                    tracing::warn!(%workspace, %error, "templates are not brought up to date");
                }
            }
            drop(workspace);
            background.wait(PAUSE_AT_START).await;
        }
    }));
}

/// What the log says of a failure: the provider's code without its words, which may hold phones or
/// tokens.
fn log_reason(error: &TemplateError) -> String {
    match error {
        TemplateError::Provider(ListError::Refused(failure)) => {
            format!("the provider refuses: {:?}, code {:?}", failure.class, failure.code)
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use crate::template_syncs::TemplateSyncs;

    #[test]
    fn one_is_under_way_and_at_most_one_more_is_to_come() {
        let (syncs, acme) = (TemplateSyncs::default(), "acme".parse().unwrap());
        assert!(syncs.ask(&acme));
        assert!(!syncs.ask(&acme) && !syncs.ask(&acme));
        assert!(syncs.ask(&"other".parse().unwrap()));
        assert!(syncs.goes_on(&acme));
        assert!(!syncs.goes_on(&acme));
        assert!(syncs.ask(&acme));
    }
}
