//! What must be there before more is claimed.

use crate::channel::TemplateName;
use crate::domain::template::TemplateStatus;
use crate::store::Table;
use crate::workspace::broadcasts::control::{Control, TEMPLATE_GONE, TEMPLATE_PAUSED};
use crate::workspace::records::number_key;
use crate::workspace::templates;

use super::{Fanout, Running};

impl Fanout {
    /// Whether more may be claimed. Without its number the broadcast is held, without its template
    /// it is held or over, and while the number is left alone it waits.
    pub(super) async fn may_send(&self, state: &mut Running) -> bool {
        let (store, workspace) = (self.shared.store.as_ref(), &self.slot.workspace);
        let number = state.record.number;
        match store.get(Table::Workspaces, &number_key(workspace, number)) {
            Ok(Some(_)) => {}
            Ok(None) => {
                self.pause("the messaging number was disconnected", state).await;
                return false;
            }
            Err(_) => return false,
        }
        let TemplateName { name, language } = &state.record.template;
        let Ok(template) = templates::read(store, workspace, name, language) else { return false };
        match template.map(|template| template.status) {
            Some(TemplateStatus::Approved) => {
                self.shared.numbers.slot(number).down_for(self.shared.clock.now()).is_none()
            }
            Some(TemplateStatus::Paused) => {
                self.pause(TEMPLATE_PAUSED, state).await;
                false
            }
            _ => {
                self.control(Control::Fail { reason: TEMPLATE_GONE.into() }, state).await;
                false
            }
        }
    }
}
