//! A channel that panics: its number continues.

use parking_lot::Mutex;

use postrider_actors::{CustomChannel, NewNumber, NewProvider};
use postrider_channel::{AttemptOutcome, Channel, Outbound, Sending};
use postrider_domain::event::Delivery;

use super::*;

/// Panics for some phones, in different ways, and accepts all others.
#[derive(Default)]
struct Panicking(Arc<Mutex<Vec<Phone>>>);

impl Channel for Panicking {
    fn send(&self, message: Outbound) -> Sending {
        let to = message.to.phone().unwrap();
        self.0.lock().push(to);
        assert!(to != phone(1), "when it is called");
        Box::pin(async move {
            assert!(to != phone(2), "when it is polled first");
            tokio::task::yield_now().await;
            assert!(to != phone(3), "later");
            AttemptOutcome::Sent
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_channel_that_panics_leaves_the_outcome_unknown_and_its_number_goes_on() {
    let calls = Arc::default();
    let channel = CustomChannel(Arc::new(Panicking(Arc::clone(&calls))));
    let options = EngineOptions { channel: Some(channel), ..options(CrashingStore::new(), START) };
    let engine = Engine::start(options).await.unwrap();
    let admin = engine.admin();
    admin.create_workspace(id("acme"), "acme".to_owned()).await.unwrap();
    admin.set_credits(&id("acme"), 10).await.unwrap();
    let number = NewNumber::of(NewProvider::Custom);
    admin.connect_number(&id("acme"), number).await.unwrap();
    let acme = engine.workspace(&id("acme")).unwrap();
    for number in 1..=4 {
        let request = acme.send_otp(SendOtp::to(phone(number))).await.unwrap().request_id;
        let expected = if number == 4 { Delivery::Sent } else { Delivery::Unknown };
        let is = async || acme.otp(request).await.unwrap().delivery == expected;
        until("it has an outcome", is).await;
    }
    assert_eq!(*calls.lock(), [1, 2, 3, 4].map(phone), "none is repeated at once");
    engine.shutdown(LONG).await.unwrap();
}
