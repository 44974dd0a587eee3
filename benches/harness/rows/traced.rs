//! `otp_send_http_traced` measures the cost of tracing one request of a hundred.
//!
//! One server sends its spans to a collector in this process, and another traces nothing. Both get
//! the same sends in turn. The collector accepts all and stores nothing.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::routing::post;
use tokio::net::TcpListener;

use super::Group;
use super::otp_http::{BARE, Sends, Servers};
use crate::client::Client;
use crate::measure::{Pair, Phones, alternate};
use crate::report::Row;
use crate::scale::Scale;
use crate::{Result, setup};

/// The row.
pub(crate) const GROUP: Group = Group { rows: &["otp_send_http_traced"], run };

/// The maximum cost is 3 %; the goal is a cost that does not exceed the noise.
const BUDGET_AND_GOAL: (f64, f64) = (0.97, 1.0);
const ONE_IN: u32 = 100;

fn run(scale: &Scale) -> Result<Vec<Row>> {
    let runtime = setup::runtime()?;
    let collector = runtime.block_on(collector())?;
    let followed = Servers::start_with(&BARE, |settings| {
        settings.traces.endpoint = Some(format!("http://{collector}/v1/traces"));
        settings.traces.sample_one_in = ONE_IN;
    })?;
    let plain = Servers::start(&BARE)?;
    let pair = sends_in_turn(scale, &followed, &plain)?;
    followed.stop()?;
    plain.stop()?;
    runtime.shutdown_background();
    let unit = format!("sends/s of {} connections, one in {ONE_IN} followed", scale.connections);
    let reference = "sends/s of a server that follows nobody";
    Ok(vec![Row::of_rates(GROUP.rows[0], unit, reference, pair, BUDGET_AND_GOAL)])
}

/// Sends codes to one server and then to another, round after round.
pub(super) fn sends_in_turn(scale: &Scale, subject: &Servers, reference: &Servers) -> Result<Pair> {
    let phones = Arc::new(Phones::new());
    let drive = |servers: &Servers, time| {
        let request = servers.send_request()?;
        let script = || Sends::new(&request, &phones, Sends::ANSWER);
        Client::connect(servers.address(), scale.connections)?.drive(time, script)
    };
    alternate(scale, |time| drive(subject, time), |time| drive(reference, time))
}

async fn collector() -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let router = Router::new().route("/v1/traces", post(async |_: axum::body::Bytes| ()));
    tokio::spawn(async { axum::serve(listener, router).await });
    Ok(address)
}
