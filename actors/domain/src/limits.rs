//! Pure: the rate limits and quotas of a workspace and its keys. Zero disables a limit.

use serde::{Deserialize, Serialize};

const U32_MAX: u64 = u32::MAX as u64;
/// The largest whole number that every program reads from JSON exactly.
const EXACT_MAX: u64 = (1 << 53) - 1;

macro_rules! limits {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $default:literal, $max:expr;)*) => {
        /// The limits in force.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct Limits {
            $($(#[$doc])* pub $name: $type,)*
        }

        impl Default for Limits {
            fn default() -> Self {
                Self { $($name: $default,)* }
            }
        }

        /// Limits of one workspace or key that override the general ones. `None` keeps a limit
        /// unchanged.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct LimitsOverride {
            $($(#[$doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $name: Option<$type>,)*
        }

        impl Limits {
            /// The limits' names, as settings spell them.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];

            /// Returns the largest value of the limit of this name, or 0 if there is no such limit.
            #[must_use]
            pub fn max_of(name: &str) -> u64 {
                match name {
                    $(stringify!($name) => $max,)*
                    _ => 0,
                }
            }

            /// Returns these limits, overridden by `over`.
            #[must_use]
            pub fn with(self, over: LimitsOverride) -> Self {
                Self { $($name: over.$name.unwrap_or(self.$name),)* }
            }
        }

        impl LimitsOverride {
            /// Returns these overrides, overridden by `later`.
            #[must_use]
            pub fn with(self, later: Self) -> Self {
                Self { $($name: later.$name.or(self.$name),)* }
            }
        }
    };
}

limits! {
    /// Requests of an API key in an hour; a token bucket, full at first.
    key_requests_per_hour: u32 = 1000, U32_MAX;
    /// Requests of an API key in a minute; a token bucket, full at first.
    key_requests_per_minute: u32 = 0, U32_MAX;
    /// One-time passwords to one phone in any ten minutes.
    otp_per_phone_10m: u32 = 5, U32_MAX;
    /// One-time passwords to one phone in any hour.
    otp_per_phone_hour: u32 = 0, U32_MAX;
    /// One-time passwords for one address of a person (`context.ip`) in any ten minutes.
    otp_per_ip_10m: u32 = 0, U32_MAX;
    /// One-time passwords for one address of a person in any hour.
    otp_per_ip_hour: u32 = 0, U32_MAX;
    /// One-time passwords for one session of a person (`context.session`) in any ten minutes.
    otp_per_session_10m: u32 = 0, U32_MAX;
    /// One-time passwords for one session of a person in any hour.
    otp_per_session_hour: u32 = 0, U32_MAX;
    /// One-time passwords of the workspace in any hour.
    otp_per_workspace_hour: u32 = 1000, U32_MAX;
    /// Requests that create contacts in a minute, in the workspace; a token bucket, full at first.
    contacts_per_minute: u32 = 500, U32_MAX;
    /// Requests without a valid key in a minute, for each client address; a token bucket.
    unauthenticated_per_minute: u32 = 60, U32_MAX;
    /// Broadcasts that the workspace may keep, whatever their status.
    broadcasts_kept_max: u32 = 10000, U32_MAX;
    /// Bytes of records and events that the workspace may have.
    bytes_max: u64 = 0, EXACT_MAX;
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
        assert_eq!(Limits::max_of("otp_per_phone_10m"), 4_294_967_295);
        assert_eq!(Limits::max_of("bytes_max"), 9_007_199_254_740_991);
        assert_eq!(Limits::max_of("unknown"), 0);
    }
}
