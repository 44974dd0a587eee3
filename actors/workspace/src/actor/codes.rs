//! Sends one-time passwords on the hot path.

use postrider_domain::event::chain::OtpChannel;
use postrider_domain::{MessageId, RequestId};
use postrider_runtime::random;

use crate::actor::state::WorkspaceState;
use crate::core::otp::types::{OtpSent, ResendOtpError, SendOtp, SendOtpError};
use crate::otp;
use crate::services::Services;

pub(super) fn send(
    shared: &Services,
    command: SendOtp,
    state: &mut WorkspaceState,
) -> Result<OtpSent, SendOtpError> {
    let id = random::request_id(state.core.now());
    otp::send(&mut state.context(shared.store.as_ref()), command, id)
}

pub(super) fn resend(
    shared: &Services,
    asked: (RequestId, Option<OtpChannel>),
    state: &mut WorkspaceState,
) -> Result<OtpSent, ResendOtpError> {
    let message = MessageId::from_parts(state.core.now(), random::unique());
    otp::resend(&mut state.context(shared.store.as_ref()), asked, message)
}
