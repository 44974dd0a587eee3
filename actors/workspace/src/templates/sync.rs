//! Synchronizes a workspace's templates with those of its provider.
//!
//! It synchronizes on request, and in the background when a number is connected or an unknown
//! template is reported. The request for it is written with its cause, so the next start continues
//! an interrupted one.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use postrider_channel::cloud_api::{CloudApiNumber, ListError, ListedTemplate};
use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_domain::{AuditEntry, WorkspaceId, template};
use postrider_number::record::{NumberInfo, NumberKind};
use postrider_runtime::clock::Clock;
use postrider_runtime::flow::Backoff;
use postrider_store::{StoreError, Table};

use crate::core::command::{Command, Context};
use crate::core::records;
use crate::core::senders::pool::Pool;
use crate::core::settings::ChangeError;
use crate::core::view::unreadable;
use crate::handle::Workspace;
use crate::services::Services;
use crate::templates::update::{put_listed, reason_of};
use crate::templates::{ChannelFacts, NewTemplate, Template, TemplateError};

/// An account, and a number of it.
type Provider = (Option<Box<str>>, Arc<CloudApiNumber>);
/// An account and its templates.
type ListedTemplates = (Option<Box<str>>, Vec<ListedTemplate>);

/// The provider's words for the form of parameters.
const PARAMETER_FORMATS: [&str; 2] = ["positional", "named"];
/// The number of templates that one command stores, so that its changes fit in a commit.
const TAKEN_AT_ONCE: usize = 50;
/// The number of templates in one call of the provider.
///
/// The provider allows 200 calls an hour: half of that is used.
const LISTED_AT_ONCE: usize = 100;
const PAUSE_FOR_EACH_CALL: Duration = Duration::from_secs(36);
/// The wait after a failed try in the background.
const RETRY: Backoff = Backoff { min: Duration::from_secs(1), max: Duration::from_secs(300) };
/// The pause between two workspaces when a start continues their synchronizations.
const PAUSE_AT_START: Duration = Duration::from_millis(200);
/// The maximum number of tries in the background.
const TRIES_MAX: u32 = 20;

impl Workspace {
    /// Synchronizes the templates with those of each account of the workspace's numbers.
    ///
    /// Returns all of them. A template that an account does not have stays as it is. A sandbox
    /// number has only the existing ones.
    ///
    /// # Errors
    /// [`TemplateError`]: the provider does not answer, or the workspace is unavailable.
    pub async fn sync_templates(&self) -> Result<Vec<Template>, TemplateError> {
        let (listed, failed) = self.list_templates().await?;
        if let (true, Some(error)) = (listed.is_empty(), &failed) {
            return Err(error.clone().into());
        }
        // This comes first: the listed templates follow in as many commits as they need.
        let none = TakeListed { account: None, listed: Vec::new() };
        self.perform_audited(none, AuditEntry::new("template.sync")).await?;
        for (account, listed) in listed {
            self.take_listed(account, listed).await?;
        }
        // The other accounts are up to date.
        failed.map_or(Ok(()), Err)?;
        Ok(self.templates().await?)
    }

    /// Synchronizes in the background, with more tries after a failure.
    ///
    /// Of several requests during a run, or soon after it, only one more run results.
    pub fn sync_templates_soon(&self) {
        let id = self.slot.id.clone();
        if self.shared.template_syncs.ask(&id) {
            let (shared, clock) = (Arc::downgrade(&self.shared), self.shared.clock.clone());
            drop(tokio::spawn(BackgroundSync { shared, clock, id }.run()));
        }
    }

    /// Returns the number of requests since the last synchronization; 0 for none.
    async fn templates_wanted(&self) -> Result<u64, Unavailable> {
        let key = records::templates_wanted_key(&self.slot.id);
        self.read(move |store, _| count(store.get(Table::Workspaces, &key)?)).await
    }

    /// Checks whether a start synchronizes the templates.
    ///
    /// It does if the last time was cut short, or no template of an account in the pool is known.
    async fn is_outdated(&self) -> Result<bool, Unavailable> {
        if self.templates_wanted().await? > 0 {
            return Ok(true);
        }
        let numbers = self.known_numbers().await?;
        let pooled = numbers.iter().filter(|number| number.pool);
        let accounts: BTreeSet<_> =
            pooled.filter_map(|it| Some(it.account.as_ref()?.account_id.as_str())).collect();
        if accounts.len() < 2 {
            return Ok(false);
        }
        let rows = self.templates().await?;
        let home = Pool::of(self.id(), &numbers, None);
        let home = home.home().filter(|_| rows.iter().any(|row| row.account.is_none()));
        let named = rows.iter().flat_map(Template::accounts).map(|(account, ..)| account);
        let named: BTreeSet<_> = named.chain(home).collect();
        Ok(accounts.iter().any(|account| !named.contains(account)))
    }

    /// The workspace's numbers, oldest first.
    async fn known_numbers(&self) -> Result<Vec<NumberInfo>, Unavailable> {
        let settings = self.settings().await.map_err(|error| match error {
            ChangeError::Unavailable(why) => why,
            // Reading has no other refusal.
            _ => Unavailable::because(UnavailableReason::Restarting),
        })?;
        Ok(settings.numbers)
    }

    /// Returns the templates of the accounts of the workspace's numbers, and the first error.
    async fn list_templates(
        &self,
    ) -> Result<(Vec<ListedTemplates>, Option<ListError>), Unavailable> {
        let (mut all, mut failed) = (Vec::new(), None);
        for (account, provider) in self.template_providers().await? {
            match provider.list_templates().await {
                Ok(listed) => all.push((account, listed)),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        Ok((all, failed))
    }

    /// Returns a number of each account of the workspace's numbers, first those of the pool.
    async fn template_providers(&self) -> Result<Vec<Provider>, Unavailable> {
        let known = self.known_numbers().await?;
        let numbers = &self.shared.numbers;
        let (pooled, others): (Vec<_>, Vec<_>) = known.iter().partition(|number| number.pool);
        let mut found: Vec<Provider> = Vec::new();
        for number in pooled.into_iter().chain(others) {
            let account = number.account.as_ref().map(|it| Box::from(it.account_id.as_str()));
            let is_new = found.iter().all(|(known, _)| *known != account);
            let provider = numbers.connected(number.id).and_then(|it| it.cloud_api.clone());
            found.extend(provider.filter(|_| is_new).map(|provider| (account, provider)));
        }
        Ok(found)
    }

    async fn take_listed(
        &self,
        account: Option<Box<str>>,
        listed: Vec<ListedTemplate>,
    ) -> Result<(), Unavailable> {
        let mut known = listed.into_iter().filter_map(read).peekable();
        while known.peek().is_some() {
            let listed = known.by_ref().take(TAKEN_AT_ONCE).collect();
            self.perform(TakeListed { account: account.clone(), listed }).await?;
        }
        Ok(())
    }
}

/// The work in the background. It does not keep the engine alive.
struct BackgroundSync {
    shared: Weak<Services>,
    clock: Clock,
    id: WorkspaceId,
}

/// The engine has stopped, or is stopping.
struct EngineStopped;

impl BackgroundSync {
    async fn run(self) {
        while let Ok(calls) = self.try_until_done().await {
            self.wait(PAUSE_FOR_EACH_CALL * calls).await;
            let goes_on = self.shared.upgrade().map(|it| it.template_syncs.goes_on(&self.id));
            if goes_on != Some(true) {
                return;
            }
        }
    }

    /// Returns the number of calls of the last try.
    async fn try_until_done(&self) -> Result<u32, EngineStopped> {
        for tried in 1..=TRIES_MAX {
            let error = match self.sync().await {
                Ok(calls) => return Ok(calls),
                Err(TemplateError::Unavailable(why))
                    if why.reason == UnavailableReason::Draining =>
                {
                    return Err(EngineStopped);
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
        let (all, failed) = self.workspace()?.list_templates().await?;
        for (account, listed) in all {
            calls += listed.len() / LISTED_AT_ONCE + 1;
            self.workspace()?.take_listed(account, listed).await?;
        }
        failed.map_or(Ok(()), Err)?;
        self.workspace()?.perform(SyncDone { wanted }).await?;
        Ok(u32::try_from(calls).unwrap_or(u32::MAX))
    }

    fn workspace(&self) -> Result<Workspace, Unavailable> {
        let stopped = || Unavailable::because(UnavailableReason::Draining);
        let shared = self.shared.upgrade().ok_or_else(stopped)?;
        let slot = shared.workspaces.slot(&self.id).ok_or_else(stopped)?;
        Ok(Workspace::new(shared, slot))
    }

    async fn wait(&self, time: Duration) {
        self.clock.sleep_until(self.clock.now().plus(time)).await;
    }
}

/// Converts a template of the provider; `None` if it cannot be one of ours.
fn read(listed: ListedTemplate) -> Option<(NewTemplate, ChannelFacts)> {
    let ListedTemplate { name, language, category, status, components, .. } = listed;
    template::check_name(&name).and_then(|()| template::check_language(&language)).ok()?;
    let category = category.to_ascii_lowercase().parse().ok()?;
    let correct = listed.correct_category.and_then(|it| it.to_ascii_lowercase().parse().ok());
    let format = listed.parameter_format.map(|it| it.to_ascii_lowercase());
    let status = template::TemplateStatus::from_channel(&status)?;
    let facts = ChannelFacts {
        quality: listed.quality.map(|word| template::TemplateQuality::from_channel(&word)),
        ttl_seconds: listed.ttl_seconds,
        parameter_format: format.filter(|it| PARAMETER_FORMATS.contains(&&**it)).map(Into::into),
        correct_category: correct.filter(|it| *it != category),
        rejected_reason: reason_of(status, listed.rejected_reason.as_deref()),
    };
    let new = NewTemplate {
        name,
        language,
        category,
        status,
        components: serde_json::from_str(&components).ok()?,
    };
    Some((new, facts))
}

/// Stores the templates of an account.
struct TakeListed {
    account: Option<Box<str>>,
    listed: Vec<(NewTemplate, ChannelFacts)>,
}

impl Command for TakeListed {
    type Answer = ();
    type Error = Unavailable;

    fn carry_out(self, context: &mut Context<'_>) -> Result<(), Unavailable> {
        let Self { account, listed } = self;
        listed.into_iter().try_for_each(|listed| put_listed(context, account.clone(), listed))
    }
}

/// Records that the templates must be synchronized.
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

/// Records that the templates include everything that was requested up to this count.
struct SyncDone {
    wanted: u64,
}

impl Command for SyncDone {
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

/// Continues the synchronizations that the previous process left, one workspace after the other.
pub fn resume(shared: &Arc<Services>) {
    let ids = shared.numbers.workspaces_with(NumberKind::CloudApi);
    let (shared, clock) = (Arc::downgrade(shared), shared.clock.clone());
    drop(tokio::spawn(async move {
        for id in ids {
            let background =
                BackgroundSync { shared: Weak::clone(&shared), clock: clock.clone(), id };
            let Ok(workspace) = background.workspace() else { continue };
            match workspace.is_outdated().await {
                Ok(false) => continue,
                Ok(true) => workspace.sync_templates_soon(),
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

/// Returns the reason of a failure for the log.
///
/// It has the provider's code without its words, which may hold phones or tokens.
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
    use crate::services::TemplateSyncs;

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
