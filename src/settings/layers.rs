//! Merges the layers of the settings, and checks each value when its layer is added.
//!
//! A section is declared once, for reading and checking it, and for its documents.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::value::{Raw, Rule};

/// The prefix of the environment variables that are settings.
pub const VARIABLE_PREFIX: &str = "POSTRIDER__";

/// The settings whose values are never shown.
pub(super) const SECRETS: [&str; 4] =
    ["admin.token", "email.password", "secrets.master_key", "secrets.previous_master_keys"];

/// The values in force by `section.key`, without secrets.
pub type InForce = BTreeMap<String, serde_json::Value>;

/// The origin of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The compiled-in defaults.
    Defaults,
    /// A file.
    File(PathBuf),
    /// An environment variable.
    Variable(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Defaults => f.write_str("config/default.toml"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Variable(name) => write!(f, "environment variable {name}"),
        }
    }
}

/// The reason why the settings are refused. No message repeats a value, as it may be a secret.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("{file}: cannot be read: {source}", file = .file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file is not TOML.
    #[error("{origin}: not TOML: {message}")]
    Syntax {
        /// The file.
        origin: Origin,
        /// The syntax error and its line.
        message: String,
    },
    /// No such key exists.
    #[error("{origin}: unknown key `{key}`; allowed: {allowed}")]
    UnknownKey {
        /// The origin of the key.
        origin: Origin,
        /// The key.
        key: String,
        /// The keys that exist in its place.
        allowed: String,
    },
    /// The key does not allow the value.
    #[error("{origin}: bad value of `{key}`: must be {allowed}")]
    BadValue {
        /// The origin of the key.
        origin: Origin,
        /// The key.
        key: String,
        /// The allowed values.
        allowed: String,
    },
}

/// The specification of a section: values are checked by it, and documents are made of it.
#[derive(Debug)]
pub(super) struct SectionSpec {
    /// Its name in a file.
    pub(super) name: &'static str,
    /// Its description.
    #[cfg(test)]
    pub(super) about: &'static str,
    /// Its keys.
    pub(super) keys: Vec<KeySpec>,
}

/// The specification of a key.
#[derive(Debug)]
pub(super) struct KeySpec {
    /// Its name in a section.
    pub(super) name: &'static str,
    /// Its published description.
    #[cfg(test)]
    pub(super) about: &'static str,
    /// Its default.
    pub(super) default: Raw,
    /// The values that it allows.
    pub(super) rule: Rule<()>,
}

/// Declares a section: its description, and of each key description, type, default and rule.
///
/// The comments are published: in `config/default.toml`, and those of keys in `docs/settings.md`.
/// A field is `None` for the one text or number that its rule sets apart by `or` or that its parser
/// says: mostly the empty text, else "auto", "nats" or 0.
macro_rules! section {
    (
        $(#[doc = $about:literal])* $type:ident = $name:literal
        $($(#[doc = $key_about:literal])* $key:ident: $of:ty = $default:expr, $rule:expr;)*
    ) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone)]
        pub struct $type { $($(#[doc = $key_about])* pub $key: $of,)* }

        impl $type {
            pub(super) fn spec() -> SectionSpec {
                SectionSpec {
                    name: $name,
                    #[cfg(test)]
                    about: concat!($($about),*),
                    keys: vec![$(KeySpec {
                        name: stringify!($key),
                        #[cfg(test)]
                        about: concat!($($key_about),*),
                        default: Raw::from($default),
                        rule: Rule::<$of>::map($rule, |_| ()),
                    }),*],
                }
            }

            pub(super) fn build(layers: &Layers) -> Result<Self, SettingsError> {
                Ok(Self { $($key: layers.take($name, stringify!($key), &$rule)?,)* })
            }
        }
    };
}

pub(super) use section;

/// The merged layers. A value of a later layer replaces the earlier one.
#[derive(Debug)]
pub(super) struct Layers {
    /// All sections.
    sections: Vec<SectionSpec>,
    values: BTreeMap<(&'static str, &'static str), (Raw, Origin)>,
}

impl Layers {
    /// Makes the layer of the defaults of these sections.
    pub(super) fn of(sections: Vec<SectionSpec>) -> Self {
        let defaults = sections.iter().flat_map(|section| {
            let of =
                |key: &KeySpec| ((section.name, key.name), (key.default.clone(), Origin::Defaults));
            section.keys.iter().map(of)
        });
        Self { values: defaults.collect(), sections }
    }

    /// Returns the parsed value of a key.
    pub(super) fn take<T: 'static>(
        &self,
        section: &'static str,
        key: &'static str,
        rule: &Rule<T>,
    ) -> Result<T, SettingsError> {
        self.value(section, key).and_then(|(raw, _)| rule.read(raw)).ok_or_else(|| {
            // Each later layer was checked, so only a bad default gets here. A test detects that
            // first.
            let origin = self.origin(section, key);
            let key = format!("{section}.{key}");
            SettingsError::BadValue { origin, key, allowed: rule.allowed.clone() }
        })
    }

    /// Adds the text of a file.
    pub(super) fn add_file(&mut self, text: &str, origin: &Origin) -> Result<(), SettingsError> {
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            // The full error quotes the line, which may contain a secret. Only the cause and the
            // line number are reported.
            let line = error.span().map_or(1, |span| {
                text.bytes().take(span.start).filter(|byte| *byte == b'\n').count() + 1
            });
            let message = format!("{} (line {line})", error.message());
            SettingsError::Syntax { origin: origin.clone(), message }
        })?;
        for (section, keys) in table {
            let toml::Value::Table(keys) = keys else {
                return Err(self.unknown_section(&section, origin));
            };
            for (key, value) in keys {
                self.add(&section, &key, Raw::Toml(value), origin)?;
            }
            self.section_named(&section).ok_or_else(|| self.unknown_section(&section, origin))?;
        }
        Ok(())
    }

    /// Adds a file.
    pub(super) fn add_path(&mut self, path: &Path) -> Result<(), SettingsError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| SettingsError::Read { file: path.to_owned(), source })?;
        self.add_file(&text, &Origin::File(path.to_owned()))
    }

    /// Adds the environment variables with the prefix.
    pub(super) fn add_variables(
        &mut self,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<(), SettingsError> {
        for (name, value) in variables {
            let Some(path) = name.strip_prefix(VARIABLE_PREFIX) else { continue };
            let path = path.to_ascii_lowercase();
            let origin = Origin::Variable(name);
            let (section, key) = path.split_once("__").unwrap_or((&path, ""));
            self.add(section, key, Raw::Text(value), &origin)?;
        }
        Ok(())
    }

    /// Checks and adds one value.
    pub(super) fn add(
        &mut self,
        section: &str,
        key: &str,
        raw: Raw,
        origin: &Origin,
    ) -> Result<(), SettingsError> {
        let spec =
            self.section_named(section).ok_or_else(|| self.unknown_section(section, origin))?;
        let origin = origin.clone();
        let Some(known) = spec.keys.iter().find(|known| known.name == key) else {
            let names: Vec<_> = spec.keys.iter().map(|known| known.name).collect();
            let (key, allowed) = (format!("{section}.{key}"), names.join(", "));
            return Err(SettingsError::UnknownKey { origin, key, allowed });
        };
        if known.rule.read(&raw).is_none() {
            let (key, allowed) = (format!("{section}.{key}"), known.rule.allowed.clone());
            return Err(SettingsError::BadValue { origin, key, allowed });
        }
        let place = (spec.name, known.name);
        self.values.insert(place, (raw, origin));
        Ok(())
    }

    /// Returns every effective value, as it was given, by `section.key`.
    ///
    /// A secret is only reported as set.
    pub(super) fn in_force(&self) -> InForce {
        let of = |((section, key), (raw, _)): (&(&str, &str), &(Raw, Origin))| {
            let name = format!("{section}.{key}");
            let value = shown_value(raw);
            let is_empty = value == "";
            let is_hidden = SECRETS.contains(&name.as_str()) && !is_empty;
            (name, if is_hidden { "set".into() } else { value })
        };
        self.values.iter().map(of).collect()
    }

    /// Returns the effective value and its origin.
    pub(super) fn value(&self, section: &'static str, key: &'static str) -> Option<&(Raw, Origin)> {
        self.values.get(&(section, key))
    }

    /// Returns the origin of the effective value.
    pub(super) fn origin(&self, section: &'static str, key: &'static str) -> Origin {
        self.value(section, key).map_or(Origin::Defaults, |(_, origin)| origin.clone())
    }

    fn section_named(&self, name: &str) -> Option<&SectionSpec> {
        self.sections.iter().find(|section| section.name == name)
    }

    fn unknown_section(&self, section: &str, origin: &Origin) -> SettingsError {
        let names: Vec<_> =
            self.sections.iter().map(|section| format!("[{}]", section.name)).collect();
        let allowed = format!("the sections {}", names.join(", "));
        SettingsError::UnknownKey { origin: origin.clone(), key: section.to_owned(), allowed }
    }
}

/// Converts a value for an operator: to a number or a boolean where it reads as one.
fn shown_value(raw: &Raw) -> serde_json::Value {
    let text = match raw {
        Raw::Toml(value) => return serde_json::to_value(value).unwrap_or_default(),
        Raw::Text(text) => text,
    };
    let number = || text.parse::<u64>().map_or_else(|_| text.as_str().into(), Into::into);
    text.parse::<bool>().map_or_else(|_| number(), Into::into)
}
