//! Pure: applies the events of few requests, and those beside requests.

use postrider_domain::code::{ATTEMPTS_MAX, CodeLength};
use postrider_domain::destination::calling_code;
use postrider_domain::event::Delivery;
use postrider_domain::event::chain::{ChainPlan, ChainStep, OtpChannel, TryStatus};
use postrider_domain::{Event, Phone, RequestId};

use crate::core::hot::HotState;
use crate::core::otp::chain_state::{Chain, Try, TryChange};
use crate::core::otp::requests::Otp;
use crate::core::otp::resends::Standing;
use crate::core::unsent::Unsent;

impl HotState {
    /// Adds a request whose code its person sends: it has no message to hand over.
    fn insert_inbound(&mut self, otp: Otp) {
        let slot = self.otps.insert(Otp { delivery: Delivery::Sent, unsettled: 0, ..otp });
        self.count_send(otp.id.timestamp(), slot);
    }

    /// Counts a code that the event is about to end.
    pub(crate) fn count_end(&mut self, event: &Event) {
        let (id, verified) = match *event {
            Event::OtpVerified { id } => (id, true),
            Event::OtpExpired { id } | Event::OtpCancelled { id } => (id, false),
            Event::OtpMissed { id, attempts } if attempts >= ATTEMPTS_MAX => (id, false),
            _ => return,
        };
        let Some(&Otp { phone, delivery, .. }) = self.otps.get(id) else { return };
        if self.otps.extras.is_uncounted(id) {
            return;
        }
        let sent_at = self.otps.sent_at(id);
        if verified {
            self.prefixes.verified(sent_at, calling_code(phone));
        }
        let chain = self.otps.chains.get(id);
        let to_phone = chain.map(Chain::best_to_phone);
        // Nothing went to the phone, so the outcome says nothing about the phone.
        if matches!(to_phone, Some(None | Some(TryStatus::Failed))) {
            return;
        }
        let delivery = to_phone.flatten().map_or(delivery, TryStatus::delivery);
        // Nobody can submit a code that did not arrive.
        let never_left = matches!(delivery, Delivery::Queued | Delivery::Failed);
        if verified || !never_left {
            let sends = chain.map_or_else(|| self.otps.earlier.newest(id), Chain::sent_to_phone);
            self.conversions.ended(sent_at, phone, (verified, sends.max(1)));
        }
    }

    /// Applies an event that changes more than one request of its own, or one of few.
    pub(crate) fn play_rare(&mut self, event: &Event) {
        match *event {
            Event::PumpingSuspected { calling_code, at } => {
                self.advance(at);
                self.prefixes.suspected(self.now(), calling_code);
            }
            Event::OtpEarlier { id, number, delivery, unsettled } => {
                self.otps.earlier.set(id, number, Standing { delivery, unsettled });
            }
            Event::MessageQueued { id, give_up_at } => {
                self.advance(id.timestamp());
                self.messages.insert(id, Unsent { give_up_at, claimed: false });
            }
            Event::OtpTest { id, phone, expiry, key_version } => {
                let otp = Otp::new(id, phone, expiry, CodeLength::default(), key_version);
                // It has no message to hand over.
                self.otps.insert(Otp { delivery: Delivery::Sent, unsettled: 0, ..otp });
                self.otps.extras.set_test(id);
            }
            Event::OtpInbound { id, phone, expiry, length, key_version } => {
                self.insert_inbound(Otp::new(id, phone, expiry, length, key_version));
                self.otps.extras.set_inbound(id, phone);
            }
            Event::OtpOpen { id, expiry, key_version, hash } => {
                let length = CodeLength::default();
                self.insert_inbound(Otp::new(id, Phone::ANYBODY, expiry, length, key_version));
                self.otps.extras.set_open(id, hash);
            }
            Event::OtpNoted { id, ref notes } if self.otps.find(id).is_some() => {
                self.otps.extras.set_notes(id, notes.clone());
            }
            Event::OtpChain { id, ref plan } => self.plan_chain(id, plan),
            Event::OtpTry { id, step, price, skipped, at } => {
                let status = if skipped { TryStatus::Skipped } else { TryStatus::Queued };
                let ended_at = skipped.then_some(at);
                let tried = Try { step, status, error: None, price, started_at: at, ended_at };
                let best = self.otps.chains.begin(id, tried);
                self.note_best(id, best);
            }
            Event::OtpTryChanged { id, number, status, error, at, ended } => {
                let change = TryChange { number, status, error, at, ended };
                let best = self.otps.chains.change(id, change);
                self.note_best(id, best);
            }
            Event::OtpCaller { caller, at } => {
                self.advance(at);
                self.callers.push(self.now(), caller);
            }
            _ => {}
        }
    }

    /// Sets the plan of a request over several channels; its chain has the state of its tries.
    fn plan_chain(&mut self, id: RequestId, plan: &ChainPlan) {
        let Some(&otp) = self.otps.get(id) else { return };
        let adopted = plan.adopts.map(|price| self.messages_so_far(&otp, price));
        if let Some(otp) = self.otps.get_mut(id) {
            otp.unsettled = 0;
        }
        self.otps.chains.plan(id, plan.clone());
        if let Some(tries) = adopted {
            self.otps.earlier.forget(id);
            self.repeats.set(id, None);
            let steps = vec![ChainStep { channel: OtpChannel::Messaging, timeout_seconds: 0 }];
            self.otps.chains.adopt(id, steps, tries);
        }
    }

    /// Returns the messages of a request that has had no chain so far, as tries.
    fn messages_so_far(&self, otp: &Otp, price: u64) -> Vec<Try> {
        let started_at = self.otps.sent_at(otp.id);
        let tried = |number| {
            let Standing { delivery, unsettled } = self.otps.earlier.message(otp, number).is;
            let status = TryStatus::of(delivery);
            let paid = price.saturating_mul(unsettled.max(1).into());
            Try {
                step: ChainStep { channel: OtpChannel::Messaging, timeout_seconds: 0 },
                status,
                error: None,
                price: if status == TryStatus::Failed { 0 } else { paid },
                started_at,
                ended_at: Some(started_at),
            }
        };
        (1..=self.otps.earlier.newest(otp.id)).map(tried).collect()
    }

    fn note_best(&mut self, id: RequestId, best: Option<TryStatus>) {
        if let Some((otp, best)) = self.otps.get_mut(id).zip(best) {
            otp.delivery = best.delivery();
        }
    }
}
