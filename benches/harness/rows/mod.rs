//! The rows, in groups that are measured together.

use crate::Result;
use crate::report::Row;
use crate::scale::Scale;

mod beside;
mod broadcast;
mod callbacks;
pub(crate) mod child;
mod cloud_api;
mod contacts;
pub(crate) mod curve;
mod durable;
mod echo;
mod find;
mod forget_keys;
mod in_process;
mod inbound_verify;
mod log;
mod media;
mod otp_http;
mod overload;
mod pending;
mod pool;
mod restart;
mod served;
mod store_commit;
mod traced;
mod watched;
mod webhooks;

/// Rows that one measurement gives.
pub(crate) struct Group {
    /// Their names.
    pub(crate) rows: &'static [&'static str],
    /// Measures them.
    pub(crate) run: fn(&Scale) -> Result<Vec<Row>>,
}

/// All of them, in the report's order.
pub(crate) const GROUPS: &[Group] = &[
    otp_http::SEND,
    otp_http::SEND_256,
    otp_http::SEND_ECHO,
    otp_http::VERIFY,
    traced::GROUP,
    watched::GROUP,
    otp_http::MESSAGE,
    in_process::GROUP,
    log::APPEND,
    store_commit::GROUP,
    log::REBUILD,
    pending::GROUP,
    broadcast::GROUP,
    served::GROUP,
    cloud_api::SEND,
    cloud_api::BROADCAST,
    pool::GROUP,
    callbacks::GROUP,
    inbound_verify::GROUP,
    beside::GROUP,
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
];
