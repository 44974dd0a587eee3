//! The interface of workspaces to their broadcasts.

use std::sync::{Arc, Weak};

use postrider_broadcast::record::Record;
use postrider_broadcast::{BroadcastHost, Budget, Control, ControlError, CountedRecipients};
use postrider_domain::template::TemplateName;
use postrider_domain::template::TemplateStatus;
use postrider_domain::{
    BroadcastId, NumberId, PartyId, Phone, Timestamp, Unavailable, UnavailableReason, WorkspaceId,
};
use postrider_runtime::task::BoxFuture;
use postrider_store::{Change, StoreError, Table, View};

use crate::Workspace;
use crate::broadcasts::budget::Budgets;
use crate::core::records;
use crate::core::senders::pool::Pool;
use crate::core::senders::sticky_sender;
use crate::messages::newest_message;
use crate::services::Services;
use crate::suppressions::excluded_from_broadcasts;
use crate::{suppressions, templates};

/// The workspaces' side of fan-outs. It is weak: the services own the broadcasts.
pub struct Host(pub Weak<Services>);

impl Host {
    fn shared(&self) -> Result<Arc<Services>, StoreError> {
        let stopped = || StoreError::Failed("the engine has stopped".into());
        self.0.upgrade().ok_or_else(stopped)
    }

    fn view(&self) -> Result<Arc<dyn View>, StoreError> {
        Ok(Arc::clone(&self.shared()?.store))
    }

    fn with_budgets<T>(
        &self,
        workspace: &WorkspaceId,
        act: impl FnOnce(Budgets<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let shared = self.shared()?;
        act(Budgets {
            portfolios: &shared.portfolios,
            view: shared.store.as_ref(),
            workspace,
            now: shared.clock.now(),
        })
    }
}

/// Returns the line of a number, the id of its windows.
fn line_of(lines: &[(NumberId, NumberId)], number: NumberId) -> NumberId {
    let found = lines.iter().find(|(_, id)| *id == number);
    found.map_or(number, |(line, _)| *line)
}

impl BroadcastHost for Host {
    fn control<'a>(
        &'a self,
        workspace: &'a WorkspaceId,
        id: BroadcastId,
        control: Control,
    ) -> BoxFuture<'a, Result<Record, ControlError>> {
        Box::pin(async move {
            let draining = || Unavailable::because(UnavailableReason::Draining);
            let shared = self.0.upgrade().ok_or_else(draining)?;
            let slot = shared.workspaces.slot(workspace).ok_or(ControlError::NotFound)?;
            let workspace = Workspace::new(shared, slot);
            Ok(workspace.control_broadcast(id, control).await?)
        })
    }

    fn template_statuses(
        &self,
        workspace: &WorkspaceId,
        TemplateName { name, language }: &TemplateName,
        numbers: &[NumberId],
    ) -> Result<Vec<Option<TemplateStatus>>, StoreError> {
        let (shared, view) = (self.shared()?, self.view()?);
        let Some(row) = templates::read(view.as_ref(), workspace, name, language)? else {
            return Ok(vec![None; numbers.len()]);
        };
        let accounts: Vec<Option<Box<str>>> = numbers
            .iter()
            .map(|number| shared.numbers.connected(*number)?.account_id().map(Into::into))
            .collect();
        let is_of_one = accounts.windows(2).all(|two| two[0] == two[1]);
        // The account of a row that does not name it is read only if it matters.
        let home = match row.account.is_none() && !(is_of_one && row.others.is_empty()) {
            true => records::load(view.as_ref(), workspace)?
                .and_then(|it| Some(Pool::of(workspace, &it.numbers, None).home()?.into())),
            false => None::<Box<str>>,
        };
        let status =
            |account: &Option<Box<str>>| row.status_of((account.as_deref(), home.as_deref()));
        Ok(accounts.iter().map(status).collect())
    }

    fn is_connected(&self, workspace: &WorkspaceId, number: NumberId) -> Result<bool, StoreError> {
        let key = records::number_key(workspace, number);
        Ok(self.view()?.get(Table::Workspaces, &key)?.is_some())
    }

    fn last_used(
        &self,
        workspace: &WorkspaceId,
        phones: &[Phone],
    ) -> Result<Vec<Option<NumberId>>, StoreError> {
        let view = self.view()?;
        let Some(records) = records::load(view.as_ref(), workspace)? else {
            return Ok(vec![None; phones.len()]);
        };
        let lines: Vec<_> = records.numbers.iter().map(|it| (it.line(), it.id)).collect();
        let number = |phone: &Phone| {
            let contact = PartyId::from(*phone);
            let noted = sticky_sender::stored(view.as_ref(), workspace, &contact)?;
            let used = match noted.filter(|(at, _)| !records.profile.was_alone_after(*at)) {
                Some(noted) => Some(noted),
                None => newest_message(view.as_ref(), workspace, &contact)?
                    .map(|(at, number)| (at, line_of(&lines, number)))
                    .max(noted),
            };
            let line = used.map(|(_, line)| line);
            let found = lines.iter().find(|(known, _)| Some(*known) == line);
            Ok(found.map(|(_, number)| *number))
        };
        phones.iter().map(number).collect()
    }

    fn note_used(
        &self,
        workspace: &WorkspaceId,
        used: &[(Phone, NumberId)],
        at: Timestamp,
    ) -> Result<Vec<Change>, StoreError> {
        let Some(records) = records::load(self.view()?.as_ref(), workspace)? else {
            return Ok(Vec::new());
        };
        let lines: Vec<_> = records.numbers.iter().map(|it| (it.line(), it.id)).collect();
        let change = |(phone, number): &(Phone, NumberId)| {
            let key = sticky_sender::key(workspace, &PartyId::from(*phone));
            Change::put(Table::Windows, key, sticky_sender::encode((at, line_of(&lines, *number))))
        };
        Ok(used.iter().map(change).collect())
    }

    fn budget(&self, workspace: &WorkspaceId, numbers: &[NumberId]) -> Result<Budget, StoreError> {
        self.with_budgets(workspace, |budgets| budgets.room(numbers))
    }

    fn count(
        &self,
        (workspace, broadcast): (&WorkspaceId, BroadcastId),
        placed: &[(Phone, NumberId)],
    ) -> Result<CountedRecipients, StoreError> {
        self.with_budgets(workspace, |budgets| budgets.count(broadcast, placed))
    }

    fn give_back(
        &self,
        (workspace, broadcast): (&WorkspaceId, BroadcastId),
        placed: &[(Phone, NumberId)],
    ) -> Result<Vec<Change>, StoreError> {
        self.with_budgets(workspace, |budgets| budgets.give_back(broadcast, placed))
    }

    fn any_opted_out(&self, workspace: &WorkspaceId) -> Result<bool, StoreError> {
        suppressions::excludes_any(self.view()?.as_ref(), workspace)
    }

    fn opted_out(
        &self,
        workspace: &WorkspaceId,
        phones: &[Phone],
    ) -> Result<Vec<bool>, StoreError> {
        let view = self.view()?;
        let excluded = excluded_from_broadcasts(view.as_ref(), workspace, Some(phones))?;
        Ok(phones.iter().map(|phone| excluded.contains(phone)).collect())
    }
}
