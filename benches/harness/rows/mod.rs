//! The rows, in groups that are measured together.

use crate::Result;
use crate::report::Row;
use crate::scale::Scale;

mod beside;
mod broadcast;
mod callbacks;
mod chained;
pub(crate) mod child;
mod cloud_api;
mod clustered;
mod contacts;
pub(crate) mod curve;
mod drained;
mod durable;
mod echo;
mod failover;
mod find;
mod forget_keys;
mod guarded;
mod in_process;
mod inbound_verify;
mod log;
mod log_nats;
mod media;
mod otp_http;
mod overload;
mod pending;
mod pool;
mod portfolio;
mod restart;
mod restored;
mod served;
mod store_commit;
mod traced;
mod watched;
mod webhooks;

/// Rows of one measurement.
pub(crate) struct Group {
    /// The names of the rows.
    pub(crate) rows: &'static [&'static str],
    /// Measures them.
    pub(crate) run: fn(&Scale) -> Result<Vec<Row>>,
}

/// All groups, in the report's order.
pub(crate) const GROUPS: &[Group] = &[
    otp_http::SEND,
    otp_http::SEND_256,
    otp_http::SEND_ECHO,
    otp_http::VERIFY,
    traced::GROUP,
    guarded::GROUP,
    chained::GROUP,
    watched::GROUP,
    otp_http::MESSAGE,
    in_process::GROUP,
    log::APPEND,
    store_commit::GROUP,
    log::REBUILD,
    pending::GROUP,
    broadcast::GROUP,
    broadcast::STICKY,
    served::GROUP,
    cloud_api::SEND,
    cloud_api::BROADCAST,
    pool::GROUP,
    portfolio::GROUP,
    callbacks::GROUP,
    callbacks::USER_IDS,
    inbound_verify::GROUP,
    beside::GROUP,
    failover::GROUP,
    forget_keys::GROUP,
    overload::OVERLOAD,
    overload::NEIGHBOUR,
    store_commit::EVENT,
    webhooks::DELIVERY,
    webhooks::BESIDE_HANGING,
    webhooks::PUBLISH_TO_ARRIVAL,
    contacts::GROUP,
    find::GROUP,
    media::GROUP,
    log_nats::GROUP,
    clustered::GROUP,
    restored::GROUP,
];
