//! What must be there before more is claimed.

use crate::broadcast::record::WINDOW;
use crate::workspace::broadcasts::control::{Control, TEMPLATE_GONE, TEMPLATE_PAUSED};
use crate::workspace::records::number_key;
use crate::workspace::templates;
use postrider_channel::TemplateName;
use postrider_domain::template::TemplateStatus;
use postrider_store::Table;

use super::{Fanout, Running};

/// Least recipients that are claimed at once, so that a few that wait hold nobody up.
const CLAIMED_MIN: u32 = 50;

impl Fanout {
    /// Whether the number will soon want more. What is with the channel takes its time, and holds up
    /// nothing.
    pub(super) fn has_room(&self, state: &Running) -> bool {
        let under_way = self.shared.numbers.slot(state.record.number).under_way();
        state.plan.in_flight() <= self.at_once(state).saturating_add(under_way).min(WINDOW)
    }

    /// How many recipients are claimed at once: what the number may send in a second. What is
    /// claimed is unknown after a crash.
    pub(super) fn at_once(&self, state: &Running) -> u32 {
        let number = self.shared.numbers.connected(state.record.number);
        let pace = number.map(|number| number.messages_per_second).filter(|pace| *pace > 0);
        pace.unwrap_or(WINDOW).clamp(CLAIMED_MIN, WINDOW)
    }

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
