//! Pure: what a provider says of a number, besides what it does with messages.

use serde::{Deserialize, Serialize};

use postrider_domain::template::TemplateQuality;

/// What a provider has said of a number; what it has not said is `None`. It is stored as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NumberFacts {
    /// How fast it may send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<Throughput>,
    /// How recipients rate it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<TemplateQuality>,
    /// What became of the name that it is to show, in the provider's word in small letters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_status: Option<Box<str>>,
    /// How many people a day may be written to first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<DailyLimit>,
    /// Whether it is in the provider's app as well, where that was asked. It is not kept.
    #[serde(skip)]
    pub is_in_app: Option<bool>,
}

/// How fast a number may send, as the provider says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Throughput {
    /// As fast as any.
    Standard,
    /// Raised by the provider.
    High,
    /// Slower, because it is in the provider's app as well.
    Coexistence,
}

impl Throughput {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::High => "high",
            Self::Coexistence => "coexistence",
        }
    }

    /// Most messages a second; `None`: as many as any number of its kind.
    #[must_use]
    pub const fn pace(self) -> Option<u32> {
        match self {
            Self::Standard => None,
            Self::High => Some(1000),
            Self::Coexistence => Some(20),
        }
    }
}

/// How many people a day may be written to first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DailyLimit {
    /// As many as one likes.
    Unlimited,
    /// So many.
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

/// Something that is otherwise with a number now, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactChange {
    /// What: `quality`, `name_status` or `limit`.
    pub field: &'static str,
    /// What it was, if that was known.
    pub previous: Option<Box<str>>,
    /// What it is.
    pub value: Box<str>,
}

impl NumberFacts {
    /// Takes up what the provider says now. Returns what is otherwise by it, besides the speed.
    pub fn learn(&mut self, said: Self) -> Vec<FactChange> {
        let Self { throughput, quality, name_status, limit, is_in_app } = said;
        // Asked, the provider calls the speed of one in its app standard, too.
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

/// Replaces what is known by what is said. Returns both in words if they differ.
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
