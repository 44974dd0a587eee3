//! Pure: the rate limits of a workspace and its keys. Zero disables a limit.

use serde::{Deserialize, Serialize};

macro_rules! limits {
    ($($(#[$doc:meta])* $name:ident = $default:literal;)*) => {
        /// The limits in force.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct Limits {
            $($(#[$doc])* pub $name: u32,)*
        }

        impl Default for Limits {
            fn default() -> Self {
                Self { $($name: $default,)* }
            }
        }

        /// Limits of one workspace or key that override the general ones. `None` keeps a limit as
        /// it is.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct LimitsOverride {
            $($(#[$doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $name: Option<u32>,)*
        }

        impl Limits {
            /// The limits' names, as settings spell them.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];

            /// These limits, overridden by `over`.
            #[must_use]
            pub fn with(self, over: LimitsOverride) -> Self {
                Self { $($name: over.$name.unwrap_or(self.$name),)* }
            }
        }

        impl LimitsOverride {
            /// These overrides, overridden by `later`.
            #[must_use]
            pub fn with(self, later: Self) -> Self {
                Self { $($name: later.$name.or(self.$name),)* }
            }
        }
    };
}

limits! {
    /// Requests of an API key in an hour; a token bucket, full at first.
    key_requests_per_hour = 1000;
    /// Requests of an API key in a minute; a token bucket, full at first.
    key_requests_per_minute = 0;
    /// One-time passwords to one phone in any ten minutes.
    otp_per_phone_10m = 5;
    /// One-time passwords to one phone in any hour.
    otp_per_phone_hour = 0;
    /// One-time passwords of the workspace in any hour.
    otp_per_workspace_hour = 1000;
    /// Requests that create contacts in a minute, in the workspace; a token bucket, full at first.
    contacts_per_minute = 500;
    /// Requests without a valid key in a minute, for each client address; a token bucket.
    unauthenticated_per_minute = 60;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_override_replaces_what_it_names() {
        let over = LimitsOverride { otp_per_phone_10m: Some(0), ..Default::default() };
        let limits = Limits::default().with(over);
        assert_eq!(limits.otp_per_phone_10m, 0);
        assert_eq!(limits.otp_per_workspace_hour, 1000);
        let later = LimitsOverride { otp_per_phone_hour: Some(7), ..Default::default() };
        assert_eq!(Limits::default().with(over.with(later)).otp_per_phone_hour, 7);
        assert_eq!(over.with(later).otp_per_phone_10m, Some(0));
    }
}
