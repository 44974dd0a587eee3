//! `otp_send_in_process` measures the engine's speed in an embedding program.
//!
//! The reference is the minimum cost of a question to an actor.

use std::sync::Arc;
use std::time::Duration;

use postrider_actors::{Engine, SendOtp, Workspace};
use ractor::rpc::CallResult;
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use tokio::runtime::Runtime;

use super::Group;
use crate::callers::{Ask, in_loops};
use crate::measure::{Measured, Phones, alternate};
use crate::report::Row;
use crate::scale::Scale;
use crate::{Result, setup};

/// The row.
pub(crate) const GROUP: Group = Group { rows: &["otp_send_in_process"], run };

const BUDGET_AND_GOAL: (f64, f64) = (0.28, 0.45);

/// An actor that only answers.
struct Idle;

impl Actor for Idle {
    type Msg = RpcReplyPort<()>;
    type State = ();
    type Arguments = ();

    async fn pre_start(
        &self,
        _myself: ActorRef<Self::Msg>,
        (): (),
    ) -> std::result::Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(
        &self,
        _myself: ActorRef<Self::Msg>,
        reply: Self::Msg,
        (): &mut (),
    ) -> std::result::Result<(), ActorProcessingErr> {
        reply.send(())?;
        Ok(())
    }
}

fn run(scale: &Scale) -> Result<Vec<Row>> {
    let runtime = setup::runtime()?;
    let callers = best_callers(scale, &runtime)?;
    let (idle, _) = runtime.block_on(Actor::spawn(None, Idle, ()))?;
    let send = |time| send_otps(&runtime, callers, time);
    let ask = |time| in_loops(&runtime, callers, time, || AskIdle(idle.clone()));
    let pair = alternate(scale, send, ask)?;
    idle.stop(None);
    let unit = format!("sends/s of {callers} concurrent callers");
    let reference = "calls/s of a ractor actor that only answers";
    Ok(vec![Row::of_rates(GROUP.rows[0], unit, reference, pair, BUDGET_AND_GOAL)])
}

/// Returns the number of callers with the most answers of the engine, which both sides then have.
fn best_callers(scale: &Scale, runtime: &Runtime) -> Result<usize> {
    let mut best = (0.0, scale.callers[0]);
    for &callers in scale.callers {
        let Measured { rate, p99_ms, .. } = send_otps(runtime, callers, scale.round)?;
        eprintln!("  {callers} callers: {rate:.0} sends/s, p99 {p99_ms:.1} ms");
        if rate > best.0 {
            best = (rate, callers);
        }
    }
    Ok(best.1)
}

/// Runs a round on its own engine, so that no round finds more pending requests than another.
fn send_otps(runtime: &Runtime, callers: usize, time: Duration) -> Result<Measured> {
    let data = setup::data_directory()?;
    let engine = runtime.block_on(Engine::start(setup::options(data.path(), 1000)))?;
    let workspace = runtime.block_on(setup::make_workspace(&engine))?;
    let phones = Arc::new(Phones::new());
    let send = || SendOne { workspace: workspace.clone(), phones: Arc::clone(&phones) };
    in_loops(runtime, callers, time / 10, send)?;
    let measured = in_loops(runtime, callers, time, send)?;
    runtime.block_on(engine.shutdown(Duration::from_secs(30)))?;
    Ok(measured)
}

/// Sends a one-time password to a new phone.
struct SendOne {
    workspace: Workspace,
    phones: Arc<Phones>,
}

impl Ask for SendOne {
    async fn ask(&self) -> Result<()> {
        self.workspace.send_otp(SendOtp::to(self.phones.next_phone()?)).await?;
        Ok(())
    }
}

/// Asks the actor that only answers.
struct AskIdle(ActorRef<RpcReplyPort<()>>);

impl Ask for AskIdle {
    async fn ask(&self) -> Result<()> {
        match self.0.call(|reply| reply, None).await? {
            CallResult::Success(()) => Ok(()),
            other => Err(format!("no answer: {other:?}").into()),
        }
    }
}
