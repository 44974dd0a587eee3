//! The row of a number in the administration.

use postrider_actors::{NumberInfo, NumberKind, Workspace, portfolio_of};
use serde::Serialize;
use utoipa::ToSchema;

use super::number_check::CheckAnswer;
use super::number_figures::FiguresAnswer;
use crate::http::callback_address;
use crate::http::pipeline::Call;

/// A connected number.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NumberRow {
    /// Its id.
    #[schema(example = "num_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    id: String,
    /// What is behind it.
    #[schema(example = "cloud_api")]
    kind: &'static str,
    /// Where the provider calls back; null for a number that has no provider.
    #[schema(example = "/channels/cloud-api/num_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    callback_path: Option<String>,
    /// The phone number itself, if it has one.
    #[schema(example = "+15550001111")]
    phone: Option<String>,
    /// Its id at the provider.
    phone_number_id: Option<String>,
    /// The id of its account at the provider.
    account_id: Option<String>,
    /// Most messages in a second, 0 for no limit; null when it is not the number's own.
    messages_per_second: Option<u32>,
    /// Whether it may be in the pool of numbers that messages leave through.
    pool: bool,
    /// Whose daily budget of recipients it shares; null: nobody is counted.
    portfolio_id: Option<String>,
    /// Why it cannot send at the time, as the provider explains it, in the list of numbers: without
    /// what looks like a phone or a token. Left out while it can, and in other answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "error 190: the access token has expired")]
    trouble: Option<String>,
    /// When it was connected.
    #[schema(format = DateTime)]
    created_at: String,
}

impl From<NumberInfo> for NumberRow {
    fn from(info: NumberInfo) -> Self {
        let called = info.kind == NumberKind::CloudApi;
        let account = info.account.as_ref();
        Self {
            id: info.id.to_string(),
            kind: info.kind.as_str(),
            callback_path: called.then(|| callback_address(&info.id.to_string())),
            phone: account.map(|account| account.phone.to_string()),
            phone_number_id: account.map(|account| account.phone_number_id.as_str().to_owned()),
            account_id: account.map(|account| account.account_id.as_str().to_owned()),
            messages_per_second: info.messages_per_second,
            pool: info.pool,
            portfolio_id: portfolio_of(&info).map(str::to_owned),
            trouble: None,
            created_at: info.created_at.to_string(),
        }
    }
}

/// A number, and how it does.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NumberDetail {
    #[serde(flatten)]
    number: NumberRow,
    #[serde(flatten)]
    figures: FiguresAnswer,
    /// What its last check found; null before the first, and of one that has no provider.
    check: Option<CheckAnswer>,
}

impl NumberDetail {
    pub(super) async fn of(call: &Call<()>, workspace: &Workspace, info: NumberInfo) -> Self {
        let check = match info.kind {
            // The number is shown even if its check cannot be read.
            NumberKind::CloudApi => workspace.last_check(info.id).await.unwrap_or_default(),
            _ => None,
        };
        let check = check.map(CheckAnswer::from);
        let (admin, now) = (call.edge.engine.admin(), call.edge.engine.clock().now());
        let figures = admin.number_figures(info.id).await;
        let trouble = figures.reason.clone();
        let figures = FiguresAnswer::of(figures, info.created_at, now);
        Self { number: NumberRow { trouble, ..NumberRow::from(info) }, figures, check }
    }
}
