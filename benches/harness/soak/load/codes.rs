//! One-time passwords: accepted once, not after their end, not more than the limit.

use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use serde_json::json;

use super::super::api::{Answer, Call, Outcome};
use super::super::world::World;
use crate::Result;
use crate::measure::Stopwatch;

const SEND: &str = "/v1/otp/send";
const VERIFY: &str = "/v1/otp/verify";
/// The maximum wait for a code to arrive at the provider.
const DELIVERY: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(25);
/// The minimum expiry.
const EXPIRY_SECONDS: u64 = 60;
/// The time of a submission before the end, and the times of a sure acceptance and a sure refusal.
///
/// The engine's time may run 5 % fast or slow while it follows the wall clock, and an answer takes
/// some time.
const STILL_ALIVE: Duration = Duration::from_secs(50);
const SURELY_ALIVE: Duration = Duration::from_secs(55);
const SURELY_ENDED: Duration = Duration::from_secs(70);
/// The codes that one phone may have in ten minutes, and the number of requests.
const LIMIT: usize = 5;
const ASKED: usize = 8;

/// A code that was requested.
struct Code {
    id: String,
    code: String,
    /// The time since before the first try to send it.
    since: Stopwatch,
}

/// Sends a code and waits until the provider has it; `None` if it does not get it.
async fn send(world: &World, expiry: u64) -> Result<Option<Code>> {
    let (phone, key, since) = (world.phone(), world.key(), Stopwatch::start());
    let body = json!({"phone": phone, "expiry": expiry});
    let (answer, _) = world.api.certain(&Call::once(SEND, &body, &key)).await?;
    let id = answer.text("request_id");
    if answer.status != 200 {
        return Err(format!("a code for {phone}: {answer:?}").into());
    }
    world.count("codes acknowledged", 1);
    world.books().codes.insert(id.clone(), false);
    let waiting = Stopwatch::start();
    while waiting.elapsed() < DELIVERY {
        if let Some(taken) = world.fake.newest_to(&phone[1..]) {
            let text = &taken.body["template"]["components"][0]["parameters"][0]["text"];
            let code = text.as_str().ok_or("the template has no code")?.to_owned();
            return Ok(Some(Code { id, code, since }));
        }
        tokio::time::sleep(LOOK).await;
    }
    let path = format!("/v1/otp/{id}");
    let state = world.api.fetch(&Call::get(&path)).await?;
    let taken = world.fake.accepted_to(&phone[1..]);
    world.expect(taken > 0 || state["delivery"]["status"] != "sent", || {
        format!("{id} is sent, and the provider never had it: {state}")
    });
    world.count("codes that the provider had not within 30 s", 1);
    Ok(None)
}

/// Submits a code until the answer is certain; also returns whether an earlier try was not.
async fn submit(world: &World, id: &str, code: &str) -> Result<(Answer, bool)> {
    let body = json!({"request_id": id, "otp": code});
    let (answer, unknown) = world.api.certain(&Call::of(Method::POST, VERIFY, &body)).await?;
    Ok((answer, unknown > 0))
}

fn is_accepted(answer: &Answer) -> bool {
    answer.status == 200 && answer.body["verified"] == true
}

/// Submits the right code twice, and checks that it is accepted once, whatever happens in between.
async fn accept(world: &World, code: &Code) -> Result<()> {
    let (first, unknown) = submit(world, &code.id, &code.code).await?;
    // A try without an answer may have been the one that was accepted.
    let accepted = is_accepted(&first) || (unknown && first.status == 422);
    world.expect(accepted, || format!("{} is not accepted: {first:?}", code.id));
    let (second, _) = submit(world, &code.id, &code.code).await?;
    world.expect(second.status == 422, || format!("{} is accepted twice: {second:?}", code.id));
    world.books().codes.insert(code.id.clone(), accepted);
    world.count("codes accepted", 1);
    Ok(())
}

/// Submits a code as soon as it arrives, sometimes after a wrong one.
pub(super) async fn verified(world: Arc<World>) -> Result<()> {
    let Some(code) = send(&world, 300).await? else { return Ok(()) };
    if code.id.ends_with(['a', 'e', 'k', 'p']) {
        let wrong = if code.code == "000000" { "111111" } else { "000000" };
        let (answer, _) = submit(&world, &code.id, wrong).await?;
        let refused = answer.status == 200 && answer.body["verified"] == false;
        world.expect(refused, || format!("a wrong code for {}: {answer:?}", code.id));
    }
    accept(&world, &code).await
}

/// Submits a code shortly before its end: no step of the clock ends it early.
pub(super) async fn before_its_end(world: Arc<World>) -> Result<()> {
    let Some(code) = send(&world, EXPIRY_SECONDS).await? else { return Ok(()) };
    world.rest(STILL_ALIVE.saturating_sub(code.since.elapsed())).await;
    let body = json!({"request_id": code.id, "otp": code.code});
    let call = Call::of(Method::POST, VERIFY, &body);
    let outcome = world.api.call(&call).await;
    // Only an answer that came in time is conclusive.
    if let (Outcome::Answered(answer), true) = (outcome, code.since.elapsed() < SURELY_ALIVE) {
        world.expect(is_accepted(&answer), || format!("{} ended early: {answer:?}", code.id));
        world.books().codes.insert(code.id, is_accepted(&answer));
        world.count("codes accepted shortly before their end", 1);
    }
    Ok(())
}

/// Submits a code after its end: no step of the clock keeps it alive.
pub(super) async fn after_its_end(world: Arc<World>) -> Result<()> {
    let Some(code) = send(&world, EXPIRY_SECONDS).await? else { return Ok(()) };
    let acknowledged = Stopwatch::start();
    while acknowledged.elapsed() < SURELY_ENDED {
        if world.is_ended() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let (answer, _) = submit(&world, &code.id, &code.code).await?;
    let expired = answer.status == 422 && answer.body["code"] == "OTP_EXPIRED";
    world.expect(expired, || format!("{} outlived its end: {answer:?}", code.id));
    world.count("codes refused after their end", 1);
    Ok(())
}

/// Requests more codes for one phone than its limit allows.
pub(super) async fn limited(world: Arc<World>) -> Result<()> {
    let (phone, mut acknowledged, mut unknown) = (world.phone(), 0, 0);
    for _ in 0..ASKED {
        let body = json!({"phone": phone});
        match world.api.call(&Call::of(Method::POST, SEND, &body)).await {
            Outcome::Answered(answer) if answer.status == 200 => acknowledged += 1,
            Outcome::Answered(answer) if answer.body["code"] == "OTP_RATE_LIMITED" => {}
            Outcome::Answered(answer) => {
                return Err(format!("a code for {phone}: {answer:?}").into());
            }
            Outcome::Unknown => unknown += 1,
        }
        world.rest(Duration::from_secs(1)).await;
    }
    let held = acknowledged <= LIMIT && acknowledged + unknown >= LIMIT;
    world.expect(held, || format!("{phone} had {acknowledged} codes, and {unknown} unknown"));
    world.count("phones at their limit", 1);
    Ok(())
}
