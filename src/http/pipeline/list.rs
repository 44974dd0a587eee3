//! Splits lists into numbered pages.

use serde::Serialize;

use super::error::ApiError;
use super::query::Query;

/// The number of rows of a page if the query gives none.
pub(crate) const LIMIT_DEFAULT: usize = 50;
/// The maximum number of rows of a page.
pub(crate) const LIMIT_MAX: usize = 200;

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

#[cfg(test)]
mod tests {
    use super::*;

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
