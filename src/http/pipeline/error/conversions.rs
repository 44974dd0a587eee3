//! Converts the engine's errors to answers.

use std::borrow::Cow;

use postrider_actors::{
    AdminError, ChangeError, IdempotentError, NumberChangeError, PeopleError, Permission,
    ReadOtpError, ResendOtpError, SendOtpError, Unavailable, UnavailableReason, UseTemplateError,
    VerifyOtpError,
};

use super::{ApiError, Code};

impl From<Unavailable> for ApiError {
    fn from(error: Unavailable) -> Self {
        let message: Cow<'static, str> = match &error.reason {
            // The reason is only for the operator, who finds it in the admin API.
            UnavailableReason::Parked(_) => "the workspace is stopped; ask its operator".into(),
            reason => reason.to_string().into(),
        };
        match error.reason {
            UnavailableReason::QuotaBytes { .. } => {
                Self::new(Code::Unprocessable, message).because("quota_bytes")
            }
            UnavailableReason::QuotaBroadcasts { .. } => {
                Self::new(Code::Unprocessable, message).because("quota_broadcasts")
            }
            // Waiting does not help.
            UnavailableReason::NoMediaStore => {
                Self::new(Code::Unprocessable, message).because("no_media_store")
            }
            reason => {
                let refused = Self::new(Code::ServiceUnavailable, message).after(error.retry_after);
                refused.because(match reason {
                    UnavailableReason::DiskFull => "disk_full",
                    UnavailableReason::Draining => "draining",
                    UnavailableReason::Held => "held",
                    UnavailableReason::Parked(_) => "damaged",
                    UnavailableReason::ChannelDown => "provider_failed",
                    UnavailableReason::Restarting => "outcome_unknown",
                    UnavailableReason::Storage => "storage_failed",
                    UnavailableReason::Overloaded
                    | UnavailableReason::NoMediaStore
                    | UnavailableReason::QuotaBytes { .. }
                    | UnavailableReason::QuotaBroadcasts { .. } => "overloaded",
                })
            }
        }
    }
}

impl From<PeopleError> for ApiError {
    fn from(error: PeopleError) -> Self {
        let message = error.to_string();
        match error {
            PeopleError::Refused | PeopleError::SessionEnded => {
                Self::new(Code::Unauthorized, message)
            }
            PeopleError::Wait(wait) => Self::rate_limited(wait, "too many tries for this account"),
            PeopleError::Busy => Self::new(Code::ServiceUnavailable, message).because("overloaded"),
            PeopleError::TotpRequired => {
                Self::new(Code::Unauthorized, message).because("totp_required")
            }
            PeopleError::WrongCode => Self::field("code", "must be what the authenticator shows"),
            PeopleError::Disabled | PeopleError::NoAuthenticator => {
                Self::new(Code::Conflict, message)
            }
            PeopleError::HasAuthenticator => {
                Self::new(Code::Conflict, message).because("totp_exists")
            }
            PeopleError::SignInFirst => Self::new(Code::Conflict, message).because("sign_in_first"),
            PeopleError::AlreadyMember => {
                Self::new(Code::Conflict, message).because("already_member")
            }
            PeopleError::LastOwner => Self::new(Code::Conflict, message).because("last_owner"),
            PeopleError::TooManyInvites(_) => {
                Self::new(Code::Conflict, message).because("too_many_invites")
            }
            PeopleError::OwnersOnly => Self::permission_missing(Permission::OwnersManage),
            PeopleError::NoSuchPerson
            | PeopleError::NoSuchSession
            | PeopleError::NoSuchInvite
            | PeopleError::NoSuchWorkspace => Self::new(Code::NotFound, message),
            PeopleError::Unavailable(error) => error.into(),
        }
    }
}

impl From<SendOtpError> for ApiError {
    fn from(error: SendOtpError) -> Self {
        let message = error.to_string();
        match error {
            SendOtpError::PhoneLimit { retry_after } => {
                Self::new(Code::OtpRateLimited, message).after(retry_after)
            }
            SendOtpError::CallerLimit { by, retry_after } => {
                Self::new(Code::OtpRateLimited, message).because(by.as_str()).after(retry_after)
            }
            SendOtpError::WorkspaceLimit { retry_after } => {
                Self::new(Code::OtpWorkspaceLimit, message).after(retry_after)
            }
            SendOtpError::NotConnected => Self::new(Code::MessagingNotConnected, message),
            SendOtpError::UnknownNumber => {
                Self::new(Code::Unprocessable, message).because("unknown_number")
            }
            SendOtpError::Template(UseTemplateError::NotApproved(_)) => {
                Self::new(Code::TemplateNotApproved, message)
            }
            SendOtpError::Template(_) => Self::new(Code::Unprocessable, message),
            SendOtpError::DestinationBlocked(_) => {
                Self::new(Code::Unprocessable, message).because("destination_blocked")
            }
            SendOtpError::ChannelNotConfigured(_) => {
                Self::new(Code::Unprocessable, message).because("channel_not_configured")
            }
            SendOtpError::EmailMissing => Self::field("email", message),
            SendOtpError::NoEmail => {
                Self::new(Code::Unprocessable, message).because("channel_not_configured")
            }
            SendOtpError::InsufficientCredits { .. } => {
                Self::new(Code::InsufficientCredits, message)
            }
            SendOtpError::Unavailable(error) => error.into(),
        }
    }
}

impl<E> From<IdempotentError<E>> for ApiError
where
    Self: From<E>,
{
    fn from(error: IdempotentError<E>) -> Self {
        match error {
            IdempotentError::Mismatch => {
                Self::new(Code::Unprocessable, "this Idempotency-Key was used with another body")
                    .because("idempotency_mismatch")
            }
            IdempotentError::UnderWay => {
                let message = "a request with this Idempotency-Key is still under way";
                Self::new(Code::Conflict, message).because("idempotency_under_way")
            }
            IdempotentError::Refused(error) => error.into(),
        }
    }
}

impl From<VerifyOtpError> for ApiError {
    fn from(error: VerifyOtpError) -> Self {
        let message = error.to_string();
        match error {
            VerifyOtpError::NotFound => Self::new(Code::NotFound, message),
            VerifyOtpError::Expired => Self::new(Code::OtpExpired, message),
            VerifyOtpError::MaxAttempts => Self::new(Code::OtpMaxAttempts, message),
            VerifyOtpError::AlreadyVerified => Self::new(Code::Unprocessable, message),
            VerifyOtpError::Cancelled => {
                Self::new(Code::Unprocessable, message).because("cancelled")
            }
            VerifyOtpError::InboundOnly => {
                Self::new(Code::Unprocessable, message).because("inbound_only")
            }
            VerifyOtpError::Unavailable(error) => error.into(),
        }
    }
}

impl From<ResendOtpError> for ApiError {
    fn from(error: ResendOtpError) -> Self {
        match error {
            ResendOtpError::Ended(error) => error.into(),
            ResendOtpError::Refused(error) => error.into(),
        }
    }
}

impl From<ReadOtpError> for ApiError {
    fn from(error: ReadOtpError) -> Self {
        match error {
            ReadOtpError::NotFound => Self::new(Code::NotFound, error.to_string()),
            ReadOtpError::Unavailable(error) => error.into(),
        }
    }
}

impl From<AdminError> for ApiError {
    fn from(error: AdminError) -> Self {
        let message = error.to_string();
        match error {
            AdminError::NoSuchWorkspace
            | AdminError::NoSuchKey
            | AdminError::Change(ChangeError::NoSuchNumber) => Self::new(Code::NotFound, message),
            AdminError::NumberConnected
            | AdminError::Number(NumberChangeError::SecretsUnreadable(_)) => {
                Self::new(Code::Conflict, message)
            }
            AdminError::Number(NumberChangeError::NoSecrets) => Self::invalid(
                "`token`, `app_secret` and `verify_token` are for numbers of the kind `cloud_api`",
            ),
            AdminError::Change(ChangeError::TooManyCredits) => {
                Self::new(Code::Unprocessable, message).because("credits_too_large")
            }
            AdminError::Change(ChangeError::TooManyNumbers) => {
                Self::new(Code::Unprocessable, message).because("number_limit")
            }
            AdminError::Change(ChangeError::Unavailable(error))
            | AdminError::Unavailable(error) => error.into(),
        }
    }
}
