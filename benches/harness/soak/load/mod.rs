//! The load of a soak: every capability at a modest pace, each answer compared with the books.

mod broadcasts;
mod codes;
mod contacts;
mod inbox;
mod messages;
mod stream;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::world::World;
use crate::Result;

type Turn = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// One kind of load: its operation, the number of concurrent callers, and the rest between.
struct Kind {
    name: &'static str,
    many: usize,
    rest: Duration,
    turn: fn(Arc<World>) -> Turn,
}

macro_rules! kind {
    ($name:literal, $many:literal at a time, $rest:literal ms, $turn:path) => {
        Kind {
            name: $name,
            many: $many,
            rest: Duration::from_millis($rest),
            turn: |world| Box::pin($turn(world)),
        }
    };
}

const KINDS: &[Kind] = &[
    kind!("codes", 6 at a time, 150 ms, codes::verified),
    kind!("early codes", 2 at a time, 100 ms, codes::before_its_end),
    kind!("late codes", 2 at a time, 100 ms, codes::after_its_end),
    kind!("limited phones", 1 at a time, 2000 ms, codes::limited),
    kind!("messages", 4 at a time, 150 ms, messages::sent),
    kind!("broadcasts", 2 at a time, 5000 ms, broadcasts::completed),
    kind!("contacts", 2 at a time, 200 ms, contacts::changed),
    kind!("inbox", 2 at a time, 400 ms, inbox::written_and_answered),
    kind!("stream", 1 at a time, 0 ms, stream::followed),
];

/// Starts all of the load; it ends when the world ends it.
pub(super) fn begin(world: &Arc<World>) -> JoinSet<()> {
    let mut load = JoinSet::new();
    for kind in KINDS {
        for _ in 0..kind.many {
            let world = Arc::clone(world);
            load.spawn(async move {
                while !world.is_ended() {
                    if let Err(error) = (kind.turn)(Arc::clone(&world)).await {
                        world.finding(format!("{}: {error}", kind.name));
                    }
                    world.rest(kind.rest).await;
                }
            });
        }
    }
    load
}
