//! Checks of the answers against the server after a restart.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::client::{Client, Outcome};
use super::journey::{read_code, submit};
use super::ledger::Otp;
use super::load::Story;
use super::process::Process;

/// The initial credits of the demo workspace.
const CREDITS: u64 = 1_000_000;

/// The possible outcomes of requests without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// The process was killed, or its disk failed.
    MayBeThere,
    /// The server had the time to answer every request that it took.
    MustNotBeThere,
}

/// The event log as read so far.
#[derive(Debug, Default)]
pub struct Books {
    cursor: Option<String>,
    sequence: u64,
    sends: u64,
    /// The number of sends that repeated an earlier request.
    resends: u64,
    verified: HashSet<String>,
    invalidated: HashSet<String>,
    /// The requests whose resend was acknowledged, since the last check.
    resent: HashSet<String>,
}

impl Story {
    /// Checks the server against everything that was acknowledged, in this life and all before.
    pub async fn check(&mut self, process: &Process, lost: Lost) {
        let mut demo = process.demo();
        self.check_log(&mut demo, lost).await;
        let credits = process.admin().fetch("/admin/v1/workspaces/demo").await["credits"].clone();
        assert_eq!(credits.as_u64(), Some(CREDITS - self.books.sends), "a credit for each send");
        self.check_requests(&demo).await;
        let all = self.journeys.iter().flat_map(|journey| &journey.ledger.otps);
        for otp in all {
            let logged = self.books.verified.contains(&otp.id);
            assert_eq!(logged, otp.verified, "the log says otherwise: {otp:?}");
            let logged = self.books.invalidated.contains(&otp.id);
            assert_eq!(logged, otp.invalidated, "the log says otherwise: {otp:?}");
        }
    }

    /// Checks that the new events match the requests since the last check. Each acknowledged send
    /// occurs once, and each unanswered one at most once.
    async fn check_log(&mut self, demo: &mut Client, lost: Lost) {
        let mut acknowledged = HashMap::new();
        let mut unanswered = HashSet::new();
        for journey in &mut self.journeys {
            let ledger = &mut journey.ledger;
            for otp in &ledger.otps[ledger.logged..] {
                acknowledged.insert(otp.phone.clone(), otp.id.clone());
            }
            ledger.logged = ledger.otps.len();
            unanswered.extend(ledger.lost.drain(..));
        }
        for event in self.books.read_on(demo).await {
            let text = |name: &str| event["data"][name].as_str().unwrap().to_owned();
            let id = text("request_id");
            match event["type"].as_str().unwrap() {
                "otp.sent" if event["data"]["resend"] == true => {
                    assert!(self.books.resent.remove(&id), "nobody asked for this: {event}");
                    self.books.resends += 1;
                }
                "otp.sent" => {
                    let phone = text("phone");
                    let expected = acknowledged.remove(&phone);
                    let is_known =
                        expected.map_or_else(|| unanswered.remove(&phone), |it| it == id);
                    assert!(is_known, "nobody asked for this, or not again: {event}");
                }
                "otp.verified" => assert!(self.books.verified.insert(id), "twice: {event}"),
                "otp.failed" => {
                    assert_eq!(event["data"]["reason"], "max_attempts");
                    assert!(self.books.invalidated.insert(id), "twice: {event}");
                }
                other => panic!("{other}: {event}"),
            }
        }
        assert!(acknowledged.is_empty(), "acknowledged and not in the log: {acknowledged:?}");
        assert!(self.books.resent.is_empty(), "resent and not in the log: {:?}", self.books.resent);
        let asked: usize = self.journeys.iter().map(|journey| journey.ledger.otps.len()).sum();
        let beyond = self.books.sends - self.books.resends - asked as u64;
        if lost == Lost::MustNotBeThere {
            assert_eq!(beyond, 0, "requests were carried out and not answered");
        }
    }

    /// Resends some open requests: the code is the one that was delivered before.
    pub async fn resend_some(&mut self, process: &Process) {
        let mut demo = process.demo();
        let all = self.journeys.iter_mut().flat_map(|journey| &mut journey.ledger.otps);
        for otp in all.filter(|otp| otp.code.is_some() && otp.is_open()).take(5) {
            let body = json!({"request_id": otp.id});
            let resent = demo.post("/v1/otp/resend", &body).await;
            assert!(matches!(&resent, Outcome::Answered(it) if it.status == 200), "{resent:?}");
            self.books.resent.insert(otp.id.clone());
            let before = otp.code.take();
            assert!(read_code(otp, &mut demo).await, "no message: {otp:?}");
            assert_eq!(otp.code, before, "another code: {otp:?}");
        }
    }

    /// Checks that each request has its reported status, and that ended requests stay ended.
    async fn check_requests(&mut self, demo: &Client) {
        let mut shares = JoinSet::new();
        for (number, journey) in self.journeys.iter_mut().enumerate() {
            let mut otps = std::mem::take(&mut journey.ledger.otps);
            let (mut demo, one_in) = (demo.another(), self.checked_one_in);
            shares.spawn(async move {
                for otp in otps.iter_mut().step_by(one_in) {
                    check_request(otp, &mut demo).await;
                }
                (number, otps)
            });
        }
        while let Some(share) = shares.join_next().await {
            let (number, otps) = share.unwrap();
            self.journeys[number].ledger.otps = otps;
        }
    }
}

async fn check_request(otp: &mut Otp, demo: &mut Client) {
    let state = demo.fetch(&format!("/v1/otp/{}", otp.id)).await;
    assert_eq!(state["request_id"], json!(otp.id));
    otp.stands(&state);
    if (otp.verified || otp.invalidated) && otp.code.is_some() {
        // This changes nothing, or `submitted` fails.
        let again = submit(otp, true, demo).await;
        let refused = matches!(&again, Outcome::Answered(answer) if answer.status == 422);
        assert!(refused, "{otp:?}: {again:?}");
        otp.submitted(true, &again);
    }
}

impl Books {
    /// Returns the events since the last time; their sequences continue without a gap.
    async fn read_on(&mut self, demo: &mut Client) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            let cursor = self.cursor.as_ref().map(|cursor| format!("&cursor={cursor}"));
            let cursor = cursor.unwrap_or_default();
            let page = demo.fetch(&format!("/v1/events?limit=200{cursor}")).await;
            let data = page["data"].as_array().unwrap();
            if data.is_empty() {
                return events;
            }
            for event in data {
                self.sequence += 1;
                assert_eq!(event["sequence"].as_u64(), Some(self.sequence), "{event}");
                self.sends += u64::from(event["type"] == "otp.sent");
            }
            events.extend_from_slice(data);
            self.cursor = Some(page["next_cursor"].as_str().unwrap().to_owned());
        }
    }
}
