//! The workspaces, as their broadcasts see them.

use std::sync::{Arc, Weak};

use postrider_broadcast::record::Record;
use postrider_broadcast::{BroadcastHost, Control, ControlError};
use postrider_domain::template::TemplateName;
use postrider_domain::template::TemplateStatus;
use postrider_domain::{
    BroadcastId, NumberId, PartyId, Phone, Timestamp, Unavailable, UnavailableReason, WorkspaceId,
};
use postrider_runtime::task::BoxFuture;
use postrider_store::{Change, StoreError, Table, View};

use crate::Workspace;
use crate::core::records;
use crate::core::sticky;
use crate::messages::newest_message;
use crate::services::Services;
use crate::{suppressions, templates};

/// What fan-outs ask of their workspaces. Weak: the broadcasts are owned by what it leads to.
pub struct Host(pub Weak<Services>);

impl Host {
    fn view(&self) -> Result<Arc<dyn View>, StoreError> {
        let shared = self.0.upgrade();
        let stopped = || StoreError::Failed("the engine has stopped".into());
        Ok(Arc::clone(&shared.ok_or_else(stopped)?.store))
    }
}

/// What a number's windows are known by.
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

    fn template_status(
        &self,
        workspace: &WorkspaceId,
        TemplateName { name, language }: &TemplateName,
    ) -> Result<Option<TemplateStatus>, StoreError> {
        let template = templates::read(self.view()?.as_ref(), workspace, name, language)?;
        Ok(template.map(|template| template.status))
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
            let noted = sticky::stored(view.as_ref(), workspace, &contact)?;
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
            let key = sticky::key(workspace, &PartyId::from(*phone));
            Change::put(Table::Windows, key, sticky::encode((at, line_of(&lines, *number))))
        };
        Ok(used.iter().map(change).collect())
    }

    fn any_opted_out(&self, workspace: &WorkspaceId) -> Result<bool, StoreError> {
        suppressions::any(self.view()?.as_ref(), workspace)
    }

    fn opted_out(
        &self,
        workspace: &WorkspaceId,
        phones: &[Phone],
    ) -> Result<Vec<bool>, StoreError> {
        suppressions::opted_out(self.view()?.as_ref(), workspace, phones)
    }
}
