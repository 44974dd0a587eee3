//! The preconditions for claiming more recipients.

use crate::control::{Control, TEMPLATE_GONE, TEMPLATE_PAUSED};
use postrider_domain::template::TemplateStatus;

use super::{Fanout, Running};

impl Fanout {
    /// Whether more may be claimed. Pauses the broadcast if its numbers were disconnected, pauses
    /// or fails it if its template is not approved, and waits while the breakers of all of them are
    /// open or nothing may leave.
    pub(super) async fn may_send(&self, state: &mut Running) -> bool {
        if !self.services.numbers.hold.lets_out() {
            return false;
        }
        let host = self.host.as_ref();
        let workspace = &self.slot.workspace;
        let connected = state.record.numbers().map(|number| host.is_connected(workspace, number));
        let connected: Result<Vec<bool>, _> = connected.collect();
        match connected {
            Ok(connected) if connected.contains(&true) => {}
            Ok(_) => {
                self.pause("the messaging number was disconnected", state).await;
                return false;
            }
            Err(_) => return false,
        }
        let Ok(template) = host.template_status(workspace, &state.record.template) else {
            return false;
        };
        match template {
            Some(TemplateStatus::Approved) => self.is_any_up(state),
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
