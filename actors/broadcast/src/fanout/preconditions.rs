//! What must be there before more is claimed.

use crate::control::{Control, TEMPLATE_GONE, TEMPLATE_PAUSED};
use crate::record::WINDOW;
use postrider_domain::template::TemplateStatus;

use super::{Fanout, Running};

/// Least recipients that are claimed at once, so that a few that wait hold nobody up.
const CLAIMED_MIN: u32 = 50;

impl Fanout {
    /// Whether the number will soon want more. What is with the channel takes its time, and holds up
    /// nothing.
    pub(super) fn has_room(&self, state: &Running) -> bool {
        let under_way = self.services().numbers.slot(state.record.number).under_way();
        state.plan.in_flight() <= self.at_once(state).saturating_add(under_way).min(WINDOW)
    }

    /// How many recipients are claimed at once: what the number may send in a second. What is
    /// claimed is unknown after a crash.
    pub(super) fn at_once(&self, state: &Running) -> u32 {
        let number = self.services().numbers.connected(state.record.number);
        let pace = number.map(|number| number.messages_per_second).filter(|pace| *pace > 0);
        pace.unwrap_or(WINDOW).clamp(CLAIMED_MIN, WINDOW)
    }

    /// Whether more may be claimed. Without its number the broadcast is held, without its template
    /// it is held or over, and while the number is left alone it waits.
    pub(super) async fn may_send(&self, state: &mut Running) -> bool {
        let Some(host) = self.broadcasts.host() else { return false };
        let (workspace, number) = (&self.slot.workspace, state.record.number);
        match host.is_connected(workspace, number) {
            Ok(true) => {}
            Ok(false) => {
                self.pause("the messaging number was disconnected", state).await;
                return false;
            }
            Err(_) => return false,
        }
        let Ok(template) = host.template_status(workspace, &state.record.template) else {
            return false;
        };
        match template {
            Some(TemplateStatus::Approved) => {
                self.services().numbers.slot(number).down_for(self.services().clock.now()).is_none()
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
