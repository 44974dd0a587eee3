//! The preconditions for claiming more recipients.

use crate::control::{Control, TEMPLATE_GONE, TEMPLATE_PAUSED};
use crate::record::WINDOW;
use postrider_domain::template::TemplateStatus;

use super::{Fanout, Running};

/// The smallest claim, so that a few messages in flight do not block the others.
const CLAIMED_MIN: u32 = 50;

impl Fanout {
    /// Whether the number will soon need more messages. Messages that are with the channel do not
    /// count against the limit, because their answers may take long.
    pub(super) fn has_capacity(&self, state: &Running) -> bool {
        let under_way = self.services.numbers.slot(state.record.number).under_way();
        state.plan.in_flight() <= self.claim_size(state).saturating_add(under_way).min(WINDOW)
    }

    /// How many recipients one claim takes: what the number may send in a second. A larger claim
    /// would leave more outcomes unknown after a crash.
    pub(super) fn claim_size(&self, state: &Running) -> u32 {
        let number = self.services.numbers.connected(state.record.number);
        let pace = number.map(|number| number.messages_per_second).filter(|pace| *pace > 0);
        pace.unwrap_or(WINDOW).clamp(CLAIMED_MIN, WINDOW)
    }

    /// Whether more may be claimed. Pauses the broadcast if its number was disconnected, pauses or
    /// fails it if its template is not approved, and waits while the number's breaker is open or
    /// nothing may leave.
    pub(super) async fn may_send(&self, state: &mut Running) -> bool {
        if !self.services.numbers.hold.lets_out() {
            return false;
        }
        let host = self.host.as_ref();
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
                self.services.numbers.slot(number).down_for(self.services.clock.now()).is_none()
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
