//! Tests of providers' numbers that engines share: each is claimed before its commit.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use postrider_store::CrashOutcome;

use super::*;
use crate::{
    AdminError, CloudApiAccount, CloudApiSecrets, NewNumber, NewProvider, NumberClaim,
    NumberClaimError, NumberClaims, Secret,
};

/// Stores all claims.
#[derive(Debug, Default)]
struct Claimed(Mutex<BTreeSet<String>>);

impl NumberClaims for Claimed {
    fn claim(&self, claim: &NumberClaim) -> Result<bool, NumberClaimError> {
        self.0.lock().insert(claim.number.to_string());
        Ok(true)
    }

    fn release(&self, claim: &NumberClaim) {
        self.0.lock().remove(&claim.number.to_string());
    }
}

/// Returns a number of the chat-app channel.
pub(super) fn cloud_number() -> NewNumber {
    let account = CloudApiAccount {
        phone: phone(1),
        phone_number_id: "106".parse().unwrap(),
        account_id: "107".parse().unwrap(),
    };
    let secret = |text: &str| Secret::new(text);
    let (token, app_secret, verify_token) = (secret("t"), secret("s"), secret("v"));
    NewNumber::of(NewProvider::CloudApi(
        account,
        CloudApiSecrets { token, app_secret, verify_token },
    ))
}

/// Returns the numbers that the engine claims.
async fn claims_of(engine: &Engine) -> Vec<String> {
    let held = engine.admin().hold_claims().await;
    held.claims.iter().map(|claim| claim.number.to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_failed_is_given_up_once_it_is_known_not_to_be_durable() {
    for outcome in [CrashOutcome::Lost, CrashOutcome::Kept] {
        let (store, claimed) = (CrashingStore::new(), Arc::<Claimed>::default());
        let claims: Arc<dyn NumberClaims> = claimed.clone();
        let options =
            EngineOptions { number_claims: Some(claims), ..options(store.clone(), START) };
        let engine = Engine::start(options).await.unwrap();
        engine.admin().create_workspace(id("acme"), "acme".to_owned()).await.unwrap();
        store.fail_next_commits(1, outcome);
        let failed = engine.admin().connect_number(&id("acme"), cloud_number()).await;
        assert!(failed.is_err(), "{failed:?}");
        let claimed = claimed.0.lock().iter().cloned().collect::<Vec<_>>();
        assert_eq!(claimed.len(), 1);
        assert_eq!(claims_of(&engine).await, claimed, "it may be durable");
        healed(&engine.workspace(&id("acme")).unwrap()).await;
        engine.admin().settle_numbers().await;
        let is_kept = outcome == CrashOutcome::Kept;
        assert_eq!(claims_of(&engine).await, if is_kept { claimed } else { Vec::new() });
        let again = engine.admin().connect_number(&id("acme"), cloud_number()).await;
        assert_eq!(matches!(again, Err(AdminError::NumberConnected)), is_kept, "{again:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_number_is_connected_while_the_claims_are_held() {
    let claims: Arc<dyn NumberClaims> = Arc::<Claimed>::default();
    let options =
        EngineOptions { number_claims: Some(claims), ..options(CrashingStore::new(), START) };
    let engine = Engine::start(options).await.unwrap();
    engine.admin().create_workspace(id("acme"), "acme".to_owned()).await.unwrap();
    let held = engine.admin().hold_claims().await;
    assert_eq!(held.claims, []);
    let other = engine.clone();
    let connecting =
        tokio::spawn(
            async move { other.admin().connect_number(&id("acme"), cloud_number()).await },
        );
    // A caller that cannot hold them gives up, and has changed nothing.
    let second = tokio::time::timeout(Duration::from_secs(2), engine.admin().hold_claims()).await;
    assert!(second.is_err() && !connecting.is_finished());
    drop(held);
    connecting.await.unwrap().unwrap();
    assert_eq!(claims_of(&engine).await.len(), 1);
}
