//! Pure: the errors of a log, as those of a store.

use postrider_log::{AppendError, BodyError, ClaimError, EncodeError, LogError};

use crate::StoreError;

impl From<LogError> for StoreError {
    fn from(error: LogError) -> Self {
        match error {
            LogError::Failed(_) => Self::Failed(error.to_string()),
            LogError::Damaged { .. } => Self::Damaged(error.to_string()),
            LogError::Trimmed { asked, .. } => Self::Damaged(format!(
                "{error}: what follows entry {} is missing",
                asked.previous()
            )),
            LogError::Newer { .. } => Self::Newer(error.to_string()),
            LogError::Locked => Self::Locked,
            LogError::Lost { last, applied } => Self::Lost { last, applied },
        }
    }
}

impl From<AppendError> for StoreError {
    fn from(error: AppendError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<EncodeError> for StoreError {
    fn from(error: EncodeError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<ClaimError> for StoreError {
    fn from(error: ClaimError) -> Self {
        match error {
            ClaimError::Log(error) => error.into(),
            ClaimError::Append(error) => error.into(),
            ClaimError::Encode(error) => error.into(),
        }
    }
}

impl From<BodyError> for StoreError {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::Damaged(_) => Self::Damaged(error.to_string()),
            BodyError::Newer { .. } => Self::Newer(error.to_string()),
        }
    }
}
