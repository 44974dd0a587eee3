//! `pool_send` measures a broadcast through four numbers with their own paces.
//!
//! The reference is the same broadcast through one such number. Both go to a fake of the channel,
//! and are measured after the initial burst of a number, so that the paces are the bound.

use std::time::Duration;

use postrider_actors::domain::Phone;
use postrider_actors::{Engine, NewNumber, NewProvider, Workspace};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::Group;
use super::broadcast::to_phones;
use super::cloud_api::number;
use crate::cloud_api::FakeCloudApi;
use crate::measure::{Measured, Phones, Stopwatch, alternate};
use crate::report::Row;
use crate::scale::Scale;
use crate::{Result, setup};

/// The rows.
pub(crate) const GROUP: Group = Group { rows: &["pool_send"], run };

const BUDGET_AND_GOAL: (f64, f64) = (3.8, 3.95);
/// The messages per second through each number.
const PACE: u32 = 80;
/// The numbers of the pool.
const NUMBERS: u32 = 4;
/// The interval between checks of the number of sent messages.
const LOOK: Duration = Duration::from_millis(5);
/// The maximum wait for the initial burst.
const PATIENCE: Duration = Duration::from_secs(60);
const REFERENCE: &str = "messages/s of one number of the same pace";

/// The phones, each of which gets its first message here.
static PHONES: Phones = Phones::new();

/// An engine with this number of numbers.
struct Bench {
    runtime: Runtime,
    fake: FakeCloudApi,
    engine: Engine,
    workspace: Workspace,
    numbers: u32,
    _data: TempDir,
}

fn run(scale: &Scale) -> Result<Vec<Row>> {
    let (pool, one) = (Bench::start(NUMBERS)?, Bench::start(1)?);
    let pair = alternate(scale, |time| pool.send_for(time), |time| one.send_for(time))?;
    [pool, one].into_iter().try_for_each(Bench::stop)?;
    let unit = format!("messages/s of {NUMBERS} numbers at {PACE} each");
    Ok(vec![Row::of_rates(GROUP.rows[0], unit, REFERENCE, pair, BUDGET_AND_GOAL)])
}

/// Makes one of the numbers.
fn paced(index: u32) -> Result<NewNumber> {
    let mut new = number("secret")?;
    new.messages_per_second = Some(PACE);
    if let NewProvider::CloudApi(account, _) = &mut new.provider {
        account.phone_number_id = format!("10654{index}").parse()?;
        account.phone = format!("+1555000111{index}").parse::<Phone>()?;
    }
    Ok(new)
}

impl Bench {
    fn start(numbers: u32) -> Result<Self> {
        let (data, runtime) = (setup::data_directory()?, setup::runtime()?);
        let fake = FakeCloudApi::start();
        let mut options = setup::options(data.path(), 1000);
        options.cloud_api.base_url = fake.base_url();
        let engine = runtime.block_on(Engine::start(options))?;
        let workspace = runtime.block_on(setup::workspace_with(&engine, paced(0)?))?;
        for index in 1..numbers {
            let id = setup::workspace_id()?;
            runtime.block_on(engine.admin().connect_number(&id, paced(index)?))?;
        }
        Ok(Self { runtime, fake, engine, workspace, numbers, _data: data })
    }

    /// Measures the speed of a broadcast with more recipients than it reaches in this time.
    fn send_for(&self, time: Duration) -> Result<Measured> {
        let at_once = u64::from(self.numbers * PACE);
        let lasting = (time.as_secs_f64() + 4.0) * at_once as f64;
        let new = to_phones(&PHONES, at_once as usize + lasting as usize)?;
        self.runtime.block_on(async {
            let begun = self.fake.accepted_count();
            let id = self.workspace.create_broadcast(new, None).await?.answer.broadcast_id;
            let waited = Stopwatch::start();
            while self.fake.accepted_count() - begun <= at_once {
                if waited.elapsed() > PATIENCE {
                    return Err("the broadcast does not go on".into());
                }
                tokio::time::sleep(LOOK).await;
            }
            let (before, watch) = (self.fake.accepted_count(), Stopwatch::start());
            tokio::time::sleep(time).await;
            let sent = self.fake.accepted_count() - before;
            let rate = sent as f64 / watch.elapsed().as_secs_f64();
            self.workspace.cancel_broadcast(id).await?;
            Ok(Measured::rate(rate))
        })
    }

    fn stop(self) -> Result<()> {
        Ok(self.runtime.block_on(self.engine.shutdown(Duration::from_secs(30)))?)
    }
}
