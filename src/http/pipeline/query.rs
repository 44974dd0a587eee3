//! Reads the values of a request's query.

use std::str::FromStr;

use axum::extract::Query as AxumQuery;
use axum::http::Uri;
use postrider_actors::domain::{Phone, Timestamp};

use super::error::ApiError;

/// The names and values of a query. Unknown names are ignored.
#[derive(Debug)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn of(uri: &Uri) -> Result<Self, ApiError> {
        AxumQuery::try_from_uri(uri)
            .map(|AxumQuery(pairs)| Self(pairs))
            .map_err(|_| ApiError::invalid("the query cannot be read"))
    }

    /// Returns the value of `name`. A repeated name is refused.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>, ApiError> {
        let mut values = self.0.iter().filter(|(given, _)| given == name).map(|(_, value)| value);
        let value = values.next();
        match values.next() {
            None => Ok(value.map(String::as_str)),
            Some(_) => Err(ApiError::field(name, "must be given once")),
        }
    }

    /// Returns the names that begin with `prefix`, without the prefix, and their values.
    pub(crate) fn below(&self, prefix: &'static str) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, value.as_str())))
    }

    /// Parses an integer from `min` to `max`.
    pub(crate) fn integer(
        &self,
        name: &str,
        default: usize,
        min: usize,
        max: usize,
    ) -> Result<usize, ApiError> {
        let Some(text) = self.text(name)? else { return Ok(default) };
        let digits_only = text.bytes().all(|byte| byte.is_ascii_digit());
        usize::from_str(text)
            .ok()
            .filter(|number| digits_only && (min..=max).contains(number))
            .ok_or_else(|| {
                let rule = format_args!("must be a whole number from {min} to {max}");
                ApiError::field(name, rule)
            })
    }

    /// Parses a moment in the form of RFC 3339.
    pub(crate) fn moment(&self, name: &str) -> Result<Option<Timestamp>, ApiError> {
        let moment = self.text(name)?.map(str::parse).transpose();
        moment.map_err(|error| ApiError::field(name, error))
    }

    /// Parses a phone. An unescaped `+` arrives as a space, with which no phone starts.
    pub(crate) fn phone(&self, name: &str) -> Result<Option<Phone>, ApiError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let parsed = match text.strip_prefix(' ') {
            Some(digits) => format!("+{digits}").parse(),
            None => text.parse(),
        };
        parsed.map(Some).map_err(|error| ApiError::field(name, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Query {
        Query::of(&format!("/v1/events?{text}").parse().unwrap()).unwrap()
    }

    #[test]
    fn numbers_are_whole_and_within_bounds() {
        let limit =
            |text| query(text).integer("limit", 50, 1, 200).map_err(|e| e.message().to_owned());
        assert_eq!(limit("other=1"), Ok(50));
        assert_eq!(limit("limit=200"), Ok(200));
        for bad in
            ["limit=0", "limit=201", "limit=-1", "limit=+5", "limit=", "limit=1.0", "limit=a"]
        {
            assert_eq!(
                limit(bad),
                Err("`limit` must be a whole number from 1 to 200".into()),
                "{bad}"
            );
        }
        assert_eq!(limit("limit=1&limit=1"), Err("`limit` must be given once".into()));
    }

    #[test]
    fn a_phone_may_forget_to_escape_its_plus() {
        let phone =
            |text| query(text).phone("to").map(|phone| phone.map(|phone| phone.to_string()));
        for good in ["to=%2B15550123456", "to=+15550123456"] {
            assert_eq!(phone(good).unwrap().as_deref(), Some("+15550123456"), "{good}");
        }
        assert!(
            phone("to=15550123456").unwrap_err().message().starts_with("`to` must be in E.164")
        );
        assert_eq!(phone("").unwrap(), None);
    }
}
