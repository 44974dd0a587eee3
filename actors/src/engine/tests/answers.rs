//! Tests of channel answers whose workspace is rebuilt before it records them.

use crate::{Delivery, MessageStatus};
use postrider_channel::{AttemptOutcome, Failure};
use postrider_store::CrashOutcome;

use super::scripted::Rig;
use super::*;

fn refused() -> AttemptOutcome {
    AttemptOutcome::Failed(Failure::permanent(Some(7)))
}

#[tokio::test(start_paused = true)]
async fn an_answer_whose_commit_failed_is_given_again() {
    for commit in [CrashOutcome::Lost, CrashOutcome::Kept, CrashOutcome::Unsynced] {
        for (answer, status, credits) in [
            (AttemptOutcome::Sent, MessageStatus::Sent, 99),
            (refused(), MessageStatus::Failed, 100),
        ] {
            let store = CrashingStore::new();
            let rig = Rig::start(store.clone(), Arc::default(), START).await;
            rig.script.answers.lock().push_back(answer);
            // The commits of the message, of its claim, and then of its outcome.
            store.fail_after(2, commit);
            let message = rig.send(1).await;
            rig.becomes(message, status).await;
            healed(&rig.acme).await;
            rig.settle().await;
            assert_eq!((rig.count(message), rig.credits().await), (1, credits), "{commit:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_code_whose_answer_was_not_noted_does_not_go_out_twice() {
    for (answer, delivery, credits) in
        [(AttemptOutcome::Sent, Delivery::Sent, 99), (refused(), Delivery::Failed, 100)]
    {
        let store = CrashingStore::new();
        let rig = Rig::start(store.clone(), Arc::default(), START).await;
        rig.script.answers.lock().push_back(answer);
        store.fail_after(1, CrashOutcome::Lost);
        let request = rig.acme.send_otp(SendOtp::to(phone(1))).await.unwrap().request_id;
        let noted = async || rig.acme.otp(request).await.is_ok_and(|otp| otp.delivery == delivery);
        until("it is noted", noted).await;
        healed(&rig.acme).await;
        rig.settle().await;
        let handed = rig.script.handed.lock().len();
        assert_eq!((handed, rig.credits().await), (1, credits));
    }
}
