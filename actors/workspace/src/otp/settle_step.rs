//! Notes the outcome of a step by SMS or mail.

use postrider_domain::RequestId;
use postrider_domain::event::chain::TryStatus;
use postrider_domain::unavailable::Unavailable;

use crate::core::command::{Command, Context, Footprint};
use crate::core::otp::chain;

/// The command to note the outcome of a request's step, with the error code of its channel.
pub(crate) struct SettleStep(
    pub(crate) RequestId,
    pub(crate) u8,
    pub(crate) TryStatus,
    pub(crate) Option<u32>,
);

impl Command for SettleStep {
    type Answer = ();
    type Error = Unavailable;

    const FOOTPRINT: Footprint = Footprint::Ends;

    fn carry_out(self, context: &mut Context<'_>) -> Result<(), Unavailable> {
        let Self(id, number, status, error) = self;
        chain::settle_step(context.core, id, number, (status, error), context.effects);
        Ok(())
    }
}
