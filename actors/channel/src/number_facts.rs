//! Pure: a provider's news of a number, besides its reports on messages.

use serde::{Deserialize, Serialize};

use postrider_domain::template::TemplateQuality;

/// The facts that a provider has reported of a number. Unreported ones are `None`. Stored as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NumberFacts {
    /// The rate at which it may send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<Throughput>,
    /// The recipients' rating.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<TemplateQuality>,
    /// The provider's decision on the number's display name, in its word in lower case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_status: Option<Box<str>>,
    /// The number of people a day who may be written to first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<DailyLimit>,
    /// Set if the number is in the provider's app as well, where that was asked. It is not stored.
    #[serde(skip)]
    pub is_in_app: Option<bool>,
}

/// The rate at which a number may send, by the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Throughput {
    /// The usual rate.
    Standard,
    /// A rate that the provider has raised.
    High,
    /// A slower rate, because the number is in the provider's app as well.
    Coexistence,
}

impl Throughput {
    /// Returns the word for the rate.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::High => "high",
            Self::Coexistence => "coexistence",
        }
    }

    /// Returns the maximum number of messages a second; `None` if it is the usual one of its kind.
    #[must_use]
    pub const fn pace(self) -> Option<u32> {
        match self {
            Self::Standard => None,
            Self::High => Some(1000),
            Self::Coexistence => Some(20),
        }
    }
}

/// The number of people a day who may be written to first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DailyLimit {
    /// There is no limit.
    Unlimited,
    /// This number of people.
    People(u32),
}

impl std::fmt::Display for DailyLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unlimited => f.write_str("unlimited"),
            Self::People(people) => write!(f, "{people}"),
        }
    }
}

/// A change of a fact of a number, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactChange {
    /// The name of the fact: `quality`, `name_status` or `limit`.
    pub field: &'static str,
    /// The former value, if it was known.
    pub previous: Option<Box<str>>,
    /// The new value.
    pub value: Box<str>,
}

impl NumberFacts {
    /// Adds newly reported facts. Returns the changes they make, except those of the rate.
    pub fn learn(&mut self, said: Self) -> Vec<FactChange> {
        let Self { throughput, quality, name_status, limit, is_in_app } = said;
        // When asked, the provider also reports the rate of a number in its app as standard.
        let stays = is_in_app != Some(false)
            && (self.throughput, throughput)
                == (Some(Throughput::Coexistence), Some(Throughput::Standard));
        let left = is_in_app == Some(false) && self.throughput == Some(Throughput::Coexistence);
        let known = self.throughput.filter(|_| !left);
        self.throughput = throughput.filter(|_| !stays).or(known);
        let quality = replace(&mut self.quality, quality, |it| it.as_str().into());
        let name = replace(&mut self.name_status, name_status, Clone::clone);
        let limit = replace(&mut self.limit, limit, |it| it.to_string().into());
        let named = [("quality", quality), ("name_status", name), ("limit", limit)];
        let changes = named.into_iter().filter_map(|(field, change)| {
            change.map(|(previous, value)| FactChange { field, previous, value })
        });
        changes.collect()
    }
}

/// Replaces a known fact by a reported one. Returns both in words if they differ.
fn replace<T: PartialEq>(
    known: &mut Option<T>,
    said: Option<T>,
    word: impl Fn(&T) -> Box<str>,
) -> Option<(Option<Box<str>>, Box<str>)> {
    let said = said.filter(|said| known.as_ref() != Some(said))?;
    let value = word(&said);
    Some((known.replace(said).map(|previous| word(&previous)), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_again_changes_nothing() {
        let mut facts = NumberFacts::default();
        let said = |limit| NumberFacts {
            quality: Some(TemplateQuality::Green),
            limit: Some(limit),
            ..NumberFacts::default()
        };
        let changes = facts.learn(said(DailyLimit::People(1000)));
        assert_eq!(changes.iter().map(|it| it.field).collect::<Vec<_>>(), ["quality", "limit"]);
        assert_eq!(facts.learn(said(DailyLimit::People(1000))), []);
        let changes = facts.learn(said(DailyLimit::Unlimited));
        let (previous, value) = (Some("1000".into()), "unlimited".into());
        assert_eq!(changes, [FactChange { field: "limit", previous, value }]);
        for (said, known) in [
            (Throughput::Coexistence, Throughput::Coexistence),
            (Throughput::Standard, Throughput::Coexistence),
            (Throughput::High, Throughput::High),
            (Throughput::Standard, Throughput::Standard),
        ] {
            let mut other = facts.clone();
            let first = if said == Throughput::Standard && known == said {
                Throughput::High
            } else {
                Throughput::Coexistence
            };
            other.throughput = Some(first);
            other.learn(NumberFacts { throughput: Some(said), ..NumberFacts::default() });
            assert_eq!(other.throughput, Some(known));
        }
        let mut left = facts.clone();
        left.throughput = Some(Throughput::Coexistence);
        let (throughput, is_in_app) = (Some(Throughput::Standard), Some(false));
        for said in [throughput, None] {
            left.throughput = Some(Throughput::Coexistence);
            left.learn(NumberFacts { throughput: said, is_in_app, ..NumberFacts::default() });
            assert_eq!((left.throughput, left.is_in_app), (said, None), "it has left the app");
        }
        let json = serde_json::to_string(&facts).unwrap();
        assert_eq!(json, r#"{"quality":"green","limit":"unlimited"}"#);
        assert_eq!(serde_json::from_str::<NumberFacts>(&json).unwrap(), facts);
    }
}
