//! Reads the values of a request's query, with the page or the cursor that it asks for.

use std::str::FromStr;

use axum::extract::Query as AxumQuery;
use axum::http::Uri;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use postrider_actors::domain::{Phone, Timestamp};
use serde::Serialize;

use super::error::ApiError;

/// The number of rows of a page if the query gives none.
pub(crate) const LIMIT_DEFAULT: usize = 50;
/// The maximum number of rows of a page.
pub(crate) const LIMIT_MAX: usize = 200;

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

/// The page that a query requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Page {
    page: usize,
    limit: usize,
}

/// One page of a list.
#[derive(Debug, Serialize)]
pub(crate) struct PageOf<T> {
    data: Vec<T>,
    total: usize,
    page: usize,
}

impl Page {
    /// Parses `page`, from 1, and `limit`, from 1 to 200.
    pub(crate) fn of(query: &Query) -> Result<Self, ApiError> {
        let page = query.integer("page", 1, 1, u32::MAX as usize)?;
        let limit = query.integer("limit", LIMIT_DEFAULT, 1, LIMIT_MAX)?;
        Ok(Self { page, limit })
    }

    /// Returns the number of rows before this page.
    pub(crate) const fn skip(self) -> usize {
        (self.page - 1).saturating_mul(self.limit)
    }

    /// Returns the number of the page.
    pub(crate) const fn number(self) -> usize {
        self.page
    }

    /// Returns the maximum number of rows of this page.
    pub(crate) const fn limit(self) -> usize {
        self.limit
    }

    /// Returns the page with its rows. `total` counts the rows of all pages.
    pub(crate) const fn of_rows<R>(self, data: Vec<R>, total: usize) -> PageOf<R> {
        PageOf { data, total, page: self.page }
    }

    /// Returns the page with its rows out of all rows.
    pub(crate) fn cut<T, R>(self, all: Vec<T>, row: impl FnMut(T) -> R) -> PageOf<R> {
        let total = all.len();
        let data = all.into_iter().skip(self.skip()).take(self.limit).map(row).collect();
        self.of_rows(data, total)
    }
}

/// Encodes a cursor of the format `version`.
pub(crate) fn encode_id_cursor(version: u8, before: &[u8; 16]) -> String {
    URL_SAFE_NO_PAD.encode([&[version][..], before].concat())
}

/// Returns the id that the parameter `cursor` of a request gives.
///
/// # Errors
/// [`ApiError`]: the cursor does not have this format.
pub(crate) fn id_cursor_of(query: &Query, version: u8) -> Result<Option<[u8; 16]>, ApiError> {
    let Some(text) = query.text("cursor")? else { return Ok(None) };
    let bad = || ApiError::field("cursor", "must be the `next_cursor` of an earlier answer");
    decode_id_cursor(text, version).map(Some).ok_or_else(bad)
}

fn decode_id_cursor(cursor: &str, version: u8) -> Option<[u8; 16]> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
    let (found, id) = bytes.split_first()?;
    (*found == version).then(|| id.try_into().ok())?
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

    #[test]
    fn a_cursor_gives_its_id_back() {
        let id = *b"0123456789abcdef";
        assert_eq!(decode_id_cursor(&encode_id_cursor(2, &id), 2), Some(id));
        for bad in ["", "AQ", "é", &encode_id_cursor(1, &id)] {
            assert_eq!(decode_id_cursor(bad, 2), None, "{bad}");
        }
    }

    fn page(query: &str) -> Result<Page, String> {
        let query = Query::of(&format!("/x?{query}").parse().unwrap()).unwrap();
        Page::of(&query).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn a_page_is_its_part_of_the_list() {
        let cut = |query: &str| {
            let page = page(query).unwrap().cut((1..=7).collect(), |row: u32| row);
            (page.data, page.total, page.page)
        };
        assert_eq!(cut(""), ((1..=7).collect(), 7, 1));
        assert_eq!(cut("limit=3&page=2"), (vec![4, 5, 6], 7, 2));
        assert_eq!(cut("limit=3&page=9"), (vec![], 7, 9));
        assert!(page("page=0").unwrap_err().starts_with("`page` must be"));
        assert!(page("limit=201").unwrap_err().starts_with("`limit` must be"));
    }
}
