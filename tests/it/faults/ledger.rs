//! The answers that one client received, and its requests without an answer.

use serde_json::Value;

use super::client::{Answer, Outcome};

/// The number of wrong codes that end a request.
pub const ATTEMPTS: u64 = 5;

/// A request whose sending was acknowledged.
#[derive(Debug, Clone)]
pub struct Otp {
    pub id: String,
    pub phone: String,
    /// The code, as the sandbox delivered it.
    pub code: Option<String>,
    /// The number of acknowledged wrong codes.
    pub wrong: u64,
    /// The number of wrong codes without an answer.
    pub wrong_lost: u64,
    pub verified: bool,
    /// Set if the right code was submitted without an answer.
    pub verified_lost: bool,
    pub invalidated: bool,
}

/// The requests of one client.
#[derive(Debug, Default)]
pub struct Ledger {
    pub otps: Vec<Otp>,
    /// The number of requests that were checked against the event log.
    pub logged: usize,
    /// The phones whose request for a code has no answer, since the last check.
    pub lost: Vec<String>,
}

impl Otp {
    pub fn new(id: String, phone: String) -> Self {
        Self {
            id,
            phone,
            code: None,
            wrong: 0,
            wrong_lost: 0,
            verified: false,
            verified_lost: false,
            invalidated: false,
        }
    }

    /// Returns whether the code can still be submitted, as far as is known.
    pub fn is_open(&self) -> bool {
        !(self.verified || self.verified_lost || self.invalidated) && self.wrong_lost == 0
    }

    /// Records the outcome of the submission of a code.
    pub fn submitted(&mut self, right: bool, outcome: &Outcome) {
        let answer = match outcome {
            Outcome::Answered(answer) if answer.status != 503 => answer,
            Outcome::Refused => return,
            // A commit whose failure was reported may still exist afterwards.
            Outcome::Answered(_) | Outcome::Lost => {
                self.verified_lost |= right;
                self.wrong_lost += u64::from(!right);
                return;
            }
        };
        match (answer.status, answer.body["verified"].as_bool()) {
            (200, Some(true)) => {
                assert!(right, "a wrong code was accepted: {self:?}");
                assert!(!self.verified, "a code was accepted twice: {self:?}");
                assert!(!self.invalidated, "a code was accepted after five wrong ones: {self:?}");
                self.verified = true;
            }
            (200, Some(false)) => self.missed(right, answer),
            (422, _) => self.ended(right, answer),
            _ => panic!("{self:?}: {answer:?}"),
        }
    }

    fn missed(&mut self, right: bool, answer: &Answer) {
        assert!(!right, "the right code was refused: {self:?}");
        assert!(!self.verified, "a verified request took a wrong code: {self:?}");
        self.wrong += 1;
        let remaining = answer.body["attempts_remaining"].as_u64().unwrap();
        self.check_remaining(remaining);
    }

    fn ended(&mut self, right: bool, answer: &Answer) {
        match &answer.body["code"] {
            Value::String(code) if code == "OTP_MAX_ATTEMPTS" => {
                let wrong = self.wrong + self.wrong_lost + u64::from(!right);
                assert!(self.invalidated || wrong >= ATTEMPTS, "ended early: {self:?}");
                assert!(!self.verified, "ended after its code was accepted: {self:?}");
                self.invalidated = true;
            }
            Value::String(code) if code == "UNPROCESSABLE" => {
                assert!(self.verified || self.verified_lost, "verified by nobody: {self:?}");
                self.verified = true;
            }
            _ => panic!("{self:?}: {answer:?}"),
        }
    }

    fn check_remaining(&self, remaining: u64) {
        let counted = ATTEMPTS - remaining;
        assert!(counted >= self.wrong, "attempts were given back, {remaining} remain: {self:?}");
        let most = self.wrong + self.wrong_lost;
        assert!(counted <= most, "attempts were taken, {remaining} remain: {self:?}");
    }

    /// Records the status of the request that the server reports. It is a fact from now on.
    pub fn stands(&mut self, state: &Value) {
        match state["status"].as_str().unwrap() {
            "verified" => {
                assert!(self.verified || self.verified_lost, "verified by nobody: {self:?}");
                self.verified = true;
            }
            "invalidated" => {
                let wrong = self.wrong + self.wrong_lost;
                assert!(self.invalidated || wrong >= ATTEMPTS, "ended early: {self:?}");
                assert!(!self.verified, "ended after its code was accepted: {self:?}");
                self.invalidated = true;
            }
            "active" => {
                assert!(!self.verified && !self.invalidated, "forgotten to have ended: {self:?}");
            }
            other => panic!("{other}: {self:?}"),
        }
        if !self.invalidated {
            let remaining = state["attempts_remaining"].as_u64().unwrap();
            self.check_remaining(remaining);
            self.wrong = ATTEMPTS - remaining;
        }
        (self.wrong_lost, self.verified_lost) = (0, false);
    }
}
