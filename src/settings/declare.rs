//! Declares a section of the settings once, for reading and for checking it.

use super::error::Refusal;
use super::value::Raw;

/// The specification by which the layers check the keys of a section.
#[derive(Debug)]
pub(super) struct SectionSpec {
    /// Its name in a file.
    pub(super) name: &'static str,
    /// Its keys.
    pub(super) keys: &'static [&'static str],
    /// Checks a value of a key.
    pub(super) check: fn(&str, &Raw) -> Result<(), Refusal>,
}

/// Declares a section: one line for each key gives its field, its parser and the allowed values.
macro_rules! section {
    (
        $(#[$doc:meta])* $type:ident = $name:literal
        $($(#[$key_doc:meta])* $key:ident: $of:ty = $read:expr, $allowed:literal;)*
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        pub struct $type { $($(#[$key_doc])* pub $key: $of,)* }

        impl $type {
            pub(super) const SPEC: SectionSpec = SectionSpec {
                name: $name,
                keys: &[$(stringify!($key)),*],
                check: |key, raw| match key {
                    $(stringify!($key) => match ($read)(raw) {
                        Some::<$of>(_) => Ok(()),
                        None => Err(Refusal::BadValue { allowed: $allowed }),
                    },)*
                    _ => Err(Refusal::UnknownKey),
                },
            };

            pub(super) fn build(
                layers: &$crate::settings::layers::Layers,
            ) -> Result<Self, SettingsError> {
                Ok(Self { $($key: layers.take($name, stringify!($key), $read, $allowed)?,)* })
            }
        }
    };
}

pub(super) use section;
