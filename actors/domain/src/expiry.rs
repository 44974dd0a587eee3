//! Pure: the expiry of a one-time code.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::code::OutOfBounds;

/// The validity of a code, in seconds: 60 to 900, by default 300.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expiry(u16);

impl Expiry {
    const MIN: u16 = 60;
    const MAX: u16 = 900;
    /// The longest expiry, in seconds.
    pub const MAX_SECONDS: u16 = Self::MAX;

    /// Returns the expiry of this many seconds.
    ///
    /// # Errors
    /// [`OutOfBounds`] below 60 or above 900.
    pub fn from_seconds(seconds: i64) -> Result<Self, OutOfBounds> {
        u16::try_from(seconds)
            .ok()
            .filter(|seconds| (Self::MIN..=Self::MAX).contains(seconds))
            .map(Self)
            .ok_or(OutOfBounds { min: Self::MIN, max: Self::MAX })
    }

    /// Returns the expiry as a duration.
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_secs(self.0 as u64)
    }

    /// Returns the expiry in seconds.
    #[must_use]
    pub const fn as_seconds(self) -> u16 {
        self.0
    }
}

impl Default for Expiry {
    fn default() -> Self {
        Self(300)
    }
}
