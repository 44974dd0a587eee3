//! `otp_inbound_verify` measures how fast codes that people send are verified.
//!
//! Each callback has one message, whose text has the code that its phone is to send. The reference
//! is the same callbacks from phones without a pending code. So a verification adds the lookup of
//! the request, the record of its end and two events.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postrider_actors::domain::{Phone, RequestId};
use postrider_actors::{OtpStatus, SendMore, SendOtp, Workspace};
use serde_json::json;
use tokio::task::JoinSet;

use super::Group;
use super::callbacks::Bench;
use crate::Result;
use crate::measure::{Measured, Phones, alternate};
use crate::report::Row;
use crate::scale::Scale;

/// The rows.
pub(crate) const GROUP: Group = Group { rows: &["otp_inbound_verify"], run };

const BUDGET_AND_GOAL: (f64, f64) = (0.9, 1.0);
/// The codes per second that are prepared for a round: more than it uses.
const CODES_PER_SECOND: u32 = 60_000;
/// The number of concurrent calls that make codes.
const CONCURRENT: usize = 256;

/// The phones of this process: none is used twice.
static PHONES: Phones = Phones::new();
/// Each message has an id of its own.
static MESSAGES: AtomicUsize = AtomicUsize::new(0);

fn run(scale: &Scale) -> Result<Vec<Row>> {
    let bench = Bench::start()?;
    let pair = alternate(
        scale,
        |time| {
            let asked = bench.runtime.block_on(ask(&bench, codes(time)))?;
            let texts =
                asked.iter().map(|(phone, code, _)| (*phone, format!("My code is {code}.")));
            let measured = write(&bench, texts.collect(), scale, time)?;
            bench.runtime.block_on(check(&bench, &asked))?;
            Ok(measured)
        },
        |time| {
            let texts = (0..codes(time)).map(|number| {
                Ok((PHONES.next_phone()?, format!("My code is {:06}.", number % 1_000_000)))
            });
            write(&bench, texts.collect::<Result<_>>()?, scale, time)
        },
    )?;
    bench.runtime.block_on(bench.server.shutdown())?;
    let unit = format!("codes/s verified by callbacks, of {} connections", scale.connections);
    let reference = "callbacks/s with a message that verifies nothing";
    Ok(vec![Row::of_rates(GROUP.rows[0], unit, reference, pair, BUDGET_AND_GOAL)])
}

/// Returns the number of codes that a round may use.
fn codes(time: Duration) -> usize {
    (time * CODES_PER_SECOND).as_secs_f64().ceil() as usize
}

/// The phone that is to send a code, the code, and the request.
type Asked = (Phone, String, RequestId);

/// Makes codes that people are to send.
async fn ask(bench: &Bench, codes: usize) -> Result<Vec<Asked>> {
    let mut asked = Vec::with_capacity(codes);
    while asked.len() < codes {
        let some = CONCURRENT.min(codes - asked.len());
        let running: JoinSet<_> = (0..some).map(|_| ask_one(bench.workspace.clone())).collect();
        for made in running.join_all().await {
            asked.push(made?);
        }
    }
    Ok(asked)
}

async fn ask_one(workspace: Workspace) -> Result<Asked> {
    let phone = PHONES.next_phone()?;
    let more = SendMore { inbound: true, ..SendMore::default() };
    let command = SendOtp { more: Some(Box::new(more)), ..SendOtp::to(phone) };
    let sent = workspace.send_otp(command).await?;
    let state = workspace.otp(sent.request_id).await?;
    let code = state.inbound_code.ok_or("a code that is sent by its person is shown")?;
    Ok((phone, code.reveal(), sent.request_id))
}

/// Calls back with the text of each phone, for at most this time.
fn write(
    bench: &Bench,
    texts: Vec<(Phone, String)>,
    scale: &Scale,
    time: Duration,
) -> Result<Measured> {
    let request = |(phone, text): (Phone, String)| {
        let (digits, number) =
            (phone.as_u64().to_string(), MESSAGES.fetch_add(1, Ordering::Relaxed));
        bench.signed(json!({
            "contacts": [{"profile": {"name": "Ana"}, "wa_id": digits}],
            "messages": [{"from": digits, "id": format!("wamid.{number}"),
                "timestamp": "1750857384", "type": "text", "text": {"body": text}}],
        }))
    };
    bench.call(texts.into_iter().map(request).collect(), scale, time)
}

/// Checks that the first code that was sent is verified.
async fn check(bench: &Bench, asked: &[Asked]) -> Result<()> {
    let (_, _, first) = asked.first().ok_or("no code was asked for")?;
    match bench.workspace.otp(*first).await?.status {
        OtpStatus::Verified => Ok(()),
        other => Err(format!("the first code is {other:?}").into()),
    }
}
