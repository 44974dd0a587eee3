//! The figures of a number: its state, its queues and its speed.

use postrider_actors::domain::Timestamp;
use postrider_actors::domain::template::TemplateQuality;
use postrider_actors::{LaneFigures, NumberError, NumberFigures, NumberState};
use serde::Serialize;
use utoipa::ToSchema;

/// The reason for a stop if no other reason is known.
pub(crate) const KEEPS_FAILING: &str = "the channel keeps failing";

/// Whether calls are held back.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NumberBreaker {
    /// Whether they are, because they kept failing or the account cannot send.
    open: bool,
    /// Failures in a row.
    #[schema(example = 0)]
    failures: u32,
    /// When the next call is tried; null while none is held back.
    #[schema(format = DateTime)]
    next_try_at: Option<String>,
}

/// Messages in a second.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NumberPace {
    /// The most; null: no limit.
    #[schema(example = 80)]
    set: Option<u32>,
    /// How many were accepted, over the last ten seconds; null while none was.
    #[schema(example = 12)]
    now: Option<u32>,
}

/// The messages of one kind.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NumberLane {
    /// Messages without an outcome.
    #[schema(example = 3)]
    waiting: usize,
    /// How long ago the oldest of them was accepted.
    #[schema(example = 2)]
    oldest_seconds: u64,
}

/// What waits, by kind.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NumberLanes {
    /// Codes.
    otp: NumberLane,
    /// Single messages.
    single: NumberLane,
    /// Messages of broadcasts that were handed to the number.
    broadcast: NumberLane,
}

/// An error that a number met.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NumberLastError {
    /// The provider's code; null: it gave none.
    #[schema(example = 131_026)]
    code: Option<u32>,
    /// What the provider said, without what looks like a phone or a token.
    message: String,
    /// When.
    #[schema(format = DateTime)]
    at: String,
}

/// How a number does.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = NumberFigures)]
pub(crate) struct FiguresAnswer {
    /// `open`; `slow`: the provider asked for a pause; `stopped`: its account cannot send, or its
    /// channel keeps failing.
    #[schema(example = "open")]
    state: &'static str,
    /// `active`; `stopped`: its account cannot send; `open`: its channel keeps failing, and calls
    /// are held back.
    #[schema(example = "active")]
    status: &'static str,
    /// How recipients rate it, as the channel says: `green`, `yellow`, `red` or `unknown`.
    #[schema(example = "green")]
    quality: &'static str,
    /// What became of the name that it is to show, as the channel says; null: nothing was said.
    #[schema(example = "approved")]
    name_status: Option<Box<str>>,
    /// How fast the channel lets it send: `standard`; `high`: 1,000 messages in a second;
    /// `coexistence`: 20, because it is in the channel's app as well. Null: nothing was said.
    #[schema(example = "high")]
    throughput: Option<&'static str>,
    /// Why, as the provider explains it; null while it is open.
    reason: Option<String>,
    /// Since when; of an open one that was never otherwise since the start, when it was connected.
    #[schema(format = DateTime)]
    since: String,
    /// Whether calls are held back.
    breaker: NumberBreaker,
    /// How fast it goes.
    pace: NumberPace,
    /// What waits.
    lanes: NumberLanes,
    /// Messages that are with the channel, or about to be.
    #[schema(example = 1)]
    in_flight: usize,
    /// Messages that were accepted in the last minute.
    #[schema(example = 40)]
    sent_last_minute: u32,
    /// The last error since the start.
    last_error: Option<NumberLastError>,
    /// When the provider last called back, since the start.
    #[schema(format = DateTime)]
    last_callback_at: Option<String>,
}

impl FiguresAnswer {
    /// Returns the answer for a number that was connected at `connected`, with its figures at
    /// `now`.
    pub(super) fn of(figures: NumberFigures, connected: Timestamp, now: Timestamp) -> Self {
        let lane = |lane: LaneFigures| NumberLane {
            waiting: lane.waiting,
            oldest_seconds: lane.oldest.map_or(0, |at| now.since(at).as_secs()),
        };
        let error = |error: NumberError| NumberLastError {
            code: error.code,
            message: error.message,
            at: error.at.to_string(),
        };
        let some = |rate: u32| (rate > 0).then_some(rate);
        let [otp, single, broadcast] = figures.lanes.map(lane);
        let state = match figures.state {
            NumberState::Open => "open",
            NumberState::Slow => "slow",
            NumberState::Stopped => "stopped",
        };
        let why = match figures.state {
            NumberState::Open => None,
            NumberState::Slow => Some("the provider asked for a pause"),
            NumberState::Stopped => Some(KEEPS_FAILING),
        };
        let status = match (figures.breaker_open, figures.is_account_stopped) {
            (false, _) => "active",
            (true, true) => "stopped",
            (true, false) => "open",
        };
        let facts = figures.facts;
        Self {
            state,
            status,
            quality: facts.quality.unwrap_or(TemplateQuality::Unknown).as_str(),
            name_status: facts.name_status,
            throughput: facts.throughput.map(|it| it.as_str()),
            reason: why.map(|why| figures.reason.unwrap_or_else(|| why.to_owned())),
            since: figures.since.unwrap_or(connected).to_string(),
            breaker: NumberBreaker {
                open: figures.breaker_open,
                failures: figures.failures,
                next_try_at: figures.next_try_at.map(|at| at.to_string()),
            },
            pace: NumberPace { set: some(figures.rate_set), now: some(figures.rate_now) },
            lanes: NumberLanes { otp, single, broadcast },
            in_flight: figures.in_flight,
            sent_last_minute: figures.sent_last_minute,
            last_error: figures.last_error.map(error),
            last_callback_at: figures.last_callback_at.map(|at| at.to_string()),
        }
    }
}
