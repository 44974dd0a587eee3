//! Pure: enums whose variants are words, in requests and in storage.
//!
//! One declaration generates the variants, their words and the list of all words, so that none of
//! them can be forgotten.

/// The text is not one of the known words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be one of {}", .0.join(", "))]
pub struct UnknownWord(pub(crate) &'static [&'static str]);

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize,
        )]
        pub enum $name {
            $($(#[$about])* #[serde(rename = $word)] $variant,)*
        }

        impl $name {
            /// Every word, as it is serialized.
            pub const WORDS: &'static [&'static str] = &[$($word,)*];

            /// Returns the word.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::words::UnknownWord;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($word => Ok(Self::$variant),)*
                    _ => Err($crate::words::UnknownWord(Self::WORDS)),
                }
            }
        }
    };
}

pub(crate) use words;
