//! Pure: the rate limits and quotas of a workspace and its keys. Zero disables a limit.

use serde::{Deserialize, Serialize};

const U32_MAX: u64 = u32::MAX as u64;
/// The largest whole number that every program reads from JSON exactly.
const EXACT_MAX: u64 = (1 << 53) - 1;

macro_rules! limits {
    ($($(#[doc = $about:literal])* $name:ident: $type:ty = $default:literal, $max:expr;)*) => {
        /// The limits in force.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct Limits {
            $($(#[doc = $about])* pub $name: $type,)*
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
            $($(#[doc = $about])* #[serde(skip_serializing_if = "Option::is_none")] pub $name: Option<$type>,)*
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

            /// Returns the default of the limit of this name, or 0 if there is no such limit.
            #[must_use]
            pub fn default_of(name: &str) -> u32 {
                match name {
                    $(stringify!($name) => $default,)*
                    _ => 0,
                }
            }

            /// Returns the published description of the limit of this name, if there is one.
            #[must_use]
            pub fn about(name: &str) -> &'static str {
                match name {
                    $(stringify!($name) => concat!($($about),*).trim(),)*
                    _ => "",
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
    /// Requests of an API key in an hour: a token bucket, full at first.
    key_requests_per_hour: u32 = 1000, U32_MAX;
    /// Requests of an API key in a minute: a token bucket, full at first.
    key_requests_per_minute: u32 = 0, U32_MAX;
    /// One-time passwords to one phone, or to one address of mail, in any ten minutes: a rolling
    /// window. More are answered 429, of an address of mail with the reason `email`.
    otp_per_phone_10m: u32 = 5, U32_MAX;
    /// One-time passwords to one phone, or to one address of mail, in any hour: a rolling window
    /// with the same answers.
    otp_per_phone_hour: u32 = 0, U32_MAX;
    /// One-time passwords for one address of a person in any ten minutes: a rolling window. A
    /// caller gives the address as `context.ip`. An IPv6 address counts as its /64. More are
    /// answered 429 with the reason `ip`. While this or `otp_per_ip_hour` is set, the address is
    /// counted, as a keyed hash.
    otp_per_ip_10m: u32 = 0, U32_MAX;
    /// One-time passwords for one address of a person in any hour: a rolling window with the same
    /// answer.
    otp_per_ip_hour: u32 = 0, U32_MAX;
    /// One-time passwords for one session of a person in any ten minutes: a rolling window. A
    /// caller gives the session as `context.session`. More are answered 429 with the reason
    /// `session`. While this or `otp_per_session_hour` is set, the session is counted, as a keyed
    /// hash.
    otp_per_session_10m: u32 = 0, U32_MAX;
    /// One-time passwords for one session of a person in any hour: a rolling window with the same
    /// answer.
    otp_per_session_hour: u32 = 0, U32_MAX;
    /// One-time passwords of the workspace in any hour: a rolling window.
    otp_per_workspace_hour: u32 = 1000, U32_MAX;
    /// Requests of the workspace that create contacts in a minute: a token bucket, full at first. A
    /// call of `/contacts/batch` counts as one.
    contacts_per_minute: u32 = 500, U32_MAX;
    /// Requests without a valid key in a minute, for each client address: a token bucket. An IPv6
    /// address counts with its /64. Failures below `/channels` count too: unknown targets, wrong
    /// signatures and verify tokens. The limit stops the guessing of keys, signatures and verify
    /// tokens. Requests with a valid signature are never refused.
    unauthenticated_per_minute: u32 = 60, U32_MAX;
    /// Broadcasts that the workspace may keep, whatever their status. With as many the next is
    /// answered 422 with the reason `quota_broadcasts`.
    broadcasts_kept_max: u32 = 10000, U32_MAX;
    /// Bytes of records and events that the workspace may have, keys included. With as many,
    /// requests that create more are answered 422 with the reason `quota_bytes`. Codes, callbacks,
    /// reading and deleting go on.
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
        assert_eq!(Limits::default_of("otp_per_phone_10m"), 5);
        assert!(Limits::about("bytes_max").starts_with("Bytes of records"));
    }
}
