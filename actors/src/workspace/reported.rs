//! What the provider reports of one-time passwords after it took them, pure.

use serde_json::json;

use crate::channel::callback::Progress;
use crate::domain::event::{Delivery, OtpFailure, OtpStatus};
use crate::domain::{Event, EventKind, PublicEvent, RequestId};

use super::core::{Core, Settled};
use super::effects::Effects;

impl Core {
    /// Takes what the provider reports of a request's message. Reports come in any order and more
    /// than once: a delivery never goes back. One that comes before the channel's own answer leaves
    /// that its turn, unless it says that the message failed.
    pub(super) fn report(&mut self, id: RequestId, progress: &Progress, effects: &mut Effects) {
        let Some(otp) = self.known(id) else { return };
        let waits = otp.unsettled > 0 && otp.delivery == Delivery::Queued;
        // Who has entered the code has got it.
        let got = otp.noted == OtpStatus::Verified;
        let delivery = match (progress, otp.delivery) {
            (_, Delivery::Read | Delivery::Failed) => return,
            (Progress::Read, _) => Delivery::Read,
            (_, Delivery::Delivered) => return,
            (Progress::Delivered, _) => Delivery::Delivered,
            (Progress::Sent, Delivery::Unknown) => Delivery::Sent,
            // The number's own answer says so too.
            (Progress::Sent, _) => return,
            (Progress::Failed(_), _) if got => return,
            (Progress::Failed(failure), _) if waits => {
                return self.settle(id, &Settled::Failed(failure.clone()), effects);
            }
            (Progress::Failed(failure), _) => {
                // It was taken and paid for; from here on it has failed, so it is paid back once.
                let refunded = self.credits.saturating_add(self.rules.prices.otp);
                self.set_credits(refunded, effects);
                let reason = OtpFailure::Channel { error_code: failure.code };
                self.tell_failure(&otp, reason, effects);
                Delivery::Failed
            }
        };
        self.perform(Event::OtpReported { id, delivery }, effects);
        if delivery == Delivery::Delivered {
            let data = json!({ "request_id": id.to_string(), "phone": otp.phone.to_string() });
            let (kind, data) = (EventKind::OtpDelivered, data.to_string().into());
            effects.tell(self.now(), PublicEvent::Other { kind, data });
        }
    }
}
