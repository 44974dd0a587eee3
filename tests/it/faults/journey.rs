//! The actions of one client under load.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;

use super::client::{Client, Outcome};
use super::ledger::{ATTEMPTS, Ledger, Otp};
use super::load::Progress;

/// The number of times that a client looks for a message before it continues without its code.
const LOOKS: u32 = 500;
/// The pause of a client after an answer that the server cannot accept the request now.
const REST: Duration = Duration::from_millis(5);

/// A client, its plans and its answers.
pub struct Journey {
    pub ledger: Ledger,
    rng: StdRng,
    /// The number that makes its phones its own.
    number: usize,
    sends: usize,
}

/// The server has stopped.
pub struct Stopped;

impl Journey {
    pub fn new(seed: u64, number: usize) -> Self {
        let rng = StdRng::seed_from_u64(seed.wrapping_add(number as u64));
        Self { ledger: Ledger::default(), rng, number, sends: 0 }
    }

    /// Continues until asked to stop or until the server has stopped.
    pub async fn run(mut self, mut clients: [Client; 3], progress: &Progress) -> Self {
        while !progress.is_over() {
            if self.step(&mut clients, progress).await.is_err() {
                break;
            }
        }
        self
    }

    /// Only sends, on all its connections.
    pub async fn flood(mut self, mut clients: [Client; 3], progress: &Progress) -> Self {
        while !progress.is_over() {
            if self.send(&mut clients[0], progress).await.is_err() {
                break;
            }
        }
        self
    }

    async fn step(
        &mut self,
        clients: &mut [Client; 3],
        progress: &Progress,
    ) -> Result<(), Stopped> {
        let plan = self.rng.random_range(0..8);
        if plan == 0 {
            return self.old_one(&mut clients[0], progress).await;
        }
        let Some(at) = self.send(&mut clients[0], progress).await? else { return Ok(()) };
        if plan == 1 || !read_code(&mut self.ledger.otps[at], &mut clients[0]).await {
            return Ok(());
        }
        match plan {
            2 | 3 => self.submit(at, true, &mut clients[0], progress).await,
            4 => self.race(at, clients, progress).await,
            5 => {
                let wrong = self.rng.random_range(1..=ATTEMPTS);
                self.miss(at, wrong, &mut clients[0], progress).await
            }
            6 => {
                self.miss(at, 2, &mut clients[0], progress).await?;
                self.submit(at, true, &mut clients[0], progress).await
            }
            _ => Ok(()),
        }
    }

    /// Sends a code; returns its place in the ledger, if it was acknowledged.
    async fn send(
        &mut self,
        client: &mut Client,
        progress: &Progress,
    ) -> Result<Option<usize>, Stopped> {
        self.sends += 1;
        let phone = format!("+1{:04}{:07}", 2000 + self.number, self.sends);
        let outcome = client.post("/v1/otp/send", &json!({"phone": phone, "expiry": 900})).await;
        let outcome = progress.seen(outcome);
        match &outcome {
            Outcome::Answered(answer) if answer.status == 200 => {
                let id = answer.body["request_id"].as_str().unwrap().to_owned();
                self.ledger.otps.push(Otp::new(id, phone));
            }
            Outcome::Refused => {}
            _ => self.ledger.lost.push(phone),
        }
        progress.take(&outcome)?;
        match outcome {
            Outcome::Answered(answer) if answer.status == 200 => {
                Ok(Some(self.ledger.otps.len() - 1))
            }
            _ => {
                tokio::time::sleep(REST).await;
                Ok(None)
            }
        }
    }

    /// Uses a code that was sent before, perhaps before the server was killed.
    async fn old_one(&mut self, client: &mut Client, progress: &Progress) -> Result<(), Stopped> {
        let open = |otp: &&Otp| otp.code.is_some() && otp.is_open();
        let open = self.ledger.otps.iter().filter(open).count();
        if open == 0 {
            return Ok(());
        }
        let skip = self.rng.random_range(0..open);
        let is_open = |otp: &Otp| otp.code.is_some() && otp.is_open();
        let mut places = (0..self.ledger.otps.len()).filter(|at| is_open(&self.ledger.otps[*at]));
        let at = places.nth(skip).unwrap();
        let right = self.rng.random_bool(0.5);
        self.submit(at, right, client, progress).await
    }

    async fn submit(
        &mut self,
        at: usize,
        right: bool,
        client: &mut Client,
        progress: &Progress,
    ) -> Result<(), Stopped> {
        let otp = &mut self.ledger.otps[at];
        let outcome = progress.seen(submit(otp, right, client).await);
        otp.submitted(right, &outcome);
        progress.take(&outcome)
    }

    async fn miss(
        &mut self,
        at: usize,
        times: u64,
        client: &mut Client,
        progress: &Progress,
    ) -> Result<(), Stopped> {
        for _ in 0..times {
            self.submit(at, false, client, progress).await?;
        }
        Ok(())
    }

    /// Submits the right code from three sides at once.
    async fn race(
        &mut self,
        at: usize,
        clients: &mut [Client; 3],
        progress: &Progress,
    ) -> Result<(), Stopped> {
        let otp = &mut self.ledger.otps[at];
        let [a, b, c] = clients;
        let (a, b, c) =
            tokio::join!(submit(otp, true, a), submit(otp, true, b), submit(otp, true, c));
        let mut outcomes = [a, b, c].map(|outcome| progress.seen(outcome));
        // The accepted outcome comes first, then those that may have been accepted.
        outcomes.sort_by_key(|outcome| match outcome {
            Outcome::Answered(answer) if answer.status == 422 => 1,
            _ => 0,
        });
        for outcome in &outcomes {
            otp.submitted(true, outcome);
        }
        let known =
            |outcome: &Outcome| matches!(outcome, Outcome::Answered(it) if it.status != 503);
        assert!(!outcomes.iter().all(known) || otp.verified, "nobody won: {outcomes:?}");
        outcomes.iter().try_for_each(|outcome| progress.take(outcome))
    }
}

/// Submits the code, or another one.
pub async fn submit(otp: &Otp, right: bool, client: &mut Client) -> Outcome {
    let mut code = otp.code.clone().unwrap();
    if !right {
        let other = if code.starts_with('0') { "1" } else { "0" };
        code.replace_range(..1, other);
    }
    client.post("/v1/otp/verify", &json!({"request_id": otp.id, "otp": code})).await
}

/// Waits for the message with the code; returns whether it has come.
pub async fn read_code(otp: &mut Otp, client: &mut Client) -> bool {
    let path = format!("/v1/sandbox/messages?limit=1&to={}", otp.phone.replace('+', "%2B"));
    for _ in 0..LOOKS {
        let Outcome::Answered(answer) = client.get(&path).await else { return false };
        if let Some(code) = answer.body["data"][0]["code"].as_str() {
            otp.code = Some(code.to_owned());
            return true;
        }
        tokio::task::yield_now().await;
    }
    false
}
