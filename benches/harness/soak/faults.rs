//! The faults of a soak, one after the other, with a rest after each.

use std::time::Duration;

use crate::Result;
use crate::cloud_api::Scripted;
use crate::machine::Machine;

use super::served::Served;
use super::world::World;

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// `kill -9`, and a start.
    Kill,
    /// `kill -9` while each sync takes long.
    KillOnSlowDisk,
    /// A clean stop, and a start.
    Stop,
    /// The process is suspended.
    Pause,
    /// Each sync takes long.
    SlowDisk,
    /// Nothing can be written.
    FullDisk,
    /// The provider answers 500.
    ProviderFails,
    /// The provider accepts messages and does not answer.
    AnswersLost,
    /// The provider is slow.
    ProviderSlow,
    /// A receiver of webhooks does not answer.
    ReceiverHangs,
    /// The wall clock is two days ahead for a moment.
    ClockGlitch,
    /// The wall clock is an hour behind for a while.
    ClockBehind,
    /// The wall clock is an hour ahead for a while.
    ClockAhead,
}

/// All faults, in the order of a round.
pub(super) const ALL: [Fault; 13] = [
    Fault::SlowDisk,
    Fault::Kill,
    Fault::ProviderFails,
    Fault::ClockGlitch,
    Fault::AnswersLost,
    Fault::FullDisk,
    Fault::ReceiverHangs,
    Fault::Stop,
    Fault::ClockBehind,
    Fault::ProviderSlow,
    Fault::KillOnSlowDisk,
    Fault::Pause,
    Fault::ClockAhead,
];

const DAY_MS: i64 = 86_400_000;
const HOUR_MS: i64 = 3_600_000;
const SLOW_SYNC: Duration = Duration::from_millis(60);
const SLOW_ANSWER: Duration = Duration::from_millis(800);

impl Fault {
    /// Returns whether the process is another one afterwards.
    pub(super) const fn restarts(self) -> bool {
        matches!(self, Self::Kill | Self::KillOnSlowDisk | Self::Stop)
    }

    /// Returns the duration of the fault.
    const fn length(self) -> Duration {
        match self {
            // The engine reads the wall clock once a second, and must see the glitch.
            Self::ClockGlitch => Duration::from_millis(1500),
            Self::Kill | Self::Stop => Duration::ZERO,
            Self::Pause | Self::FullDisk | Self::KillOnSlowDisk => Duration::from_secs(3),
            Self::AnswersLost | Self::ClockBehind | Self::ClockAhead => Duration::from_secs(5),
            Self::ProviderFails | Self::ProviderSlow => Duration::from_secs(6),
            Self::SlowDisk | Self::ReceiverHangs => Duration::from_secs(10),
        }
    }

    /// Causes the fault, and ends it.
    pub(super) async fn happen(
        self,
        world: &World,
        served: &mut Served,
        machine: &Machine,
    ) -> Result<()> {
        self.begin(world, served, machine)?;
        tokio::time::sleep(self.length()).await;
        if self == Self::KillOnSlowDisk {
            served.kill()?;
            machine.set_sync_delay(Duration::ZERO)?;
            served.begin(machine)?;
        }
        self.end(world, served, machine)
    }

    fn begin(self, world: &World, served: &mut Served, machine: &Machine) -> Result<()> {
        let script = |scripted| world.fake.script(None, scripted, None);
        match self {
            Self::Kill => {
                served.kill()?;
                served.begin(machine)
            }
            Self::Stop => {
                served.stop()?;
                served.begin(machine)
            }
            Self::Pause => served.signal("STOP"),
            Self::SlowDisk | Self::KillOnSlowDisk => Ok(machine.set_sync_delay(SLOW_SYNC)?),
            Self::FullDisk => Ok(machine.set_full(true)?),
            Self::ProviderFails => {
                script(Scripted::Error { status: 500, code: 131_000 });
                Ok(())
            }
            Self::AnswersLost => {
                script(Scripted::Lost);
                Ok(())
            }
            Self::ProviderSlow => {
                script(Scripted::Slow(SLOW_ANSWER));
                Ok(())
            }
            Self::ReceiverHangs => {
                world.receiver.hang(true);
                Ok(())
            }
            Self::ClockGlitch => Ok(machine.set_wall_offset(2 * DAY_MS)?),
            Self::ClockBehind => Ok(machine.set_wall_offset(-HOUR_MS)?),
            Self::ClockAhead => Ok(machine.set_wall_offset(HOUR_MS)?),
        }
    }

    fn end(self, world: &World, served: &Served, machine: &Machine) -> Result<()> {
        match self {
            Self::Kill | Self::Stop | Self::KillOnSlowDisk => Ok(()),
            Self::Pause => served.signal("CONT"),
            Self::SlowDisk => Ok(machine.set_sync_delay(Duration::ZERO)?),
            Self::FullDisk => Ok(machine.set_full(false)?),
            Self::ProviderFails | Self::AnswersLost | Self::ProviderSlow => {
                world.fake.heal();
                Ok(())
            }
            Self::ReceiverHangs => {
                world.receiver.hang(false);
                Ok(())
            }
            Self::ClockGlitch | Self::ClockBehind | Self::ClockAhead => {
                Ok(machine.set_wall_offset(0)?)
            }
        }
    }
}
