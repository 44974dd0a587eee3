//! Refuses a change of what stays as it was made.
//!
//! A client may send back what it has read. What it has altered there would be lost behind a 200.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Serialize;
use serde_json::Value;

use super::error::ApiError;
use super::stage::Call;

impl<C> Call<C> {
    /// Checks that the body has these fields, if at all, as they are. `read` gives the thing that
    /// is changed; it is called where the body has one of them.
    pub(crate) async fn keeps<T: Serialize>(
        &self,
        fields: &[&str],
        read: impl AsyncFnOnce() -> Result<T, ApiError>,
    ) -> Result<(), ApiError> {
        // That the body is an object was checked before.
        let body: HashMap<Cow<'_, str>, Value> =
            serde_json::from_slice(self.raw()).unwrap_or_default();
        if !fields.iter().any(|field| body.contains_key(*field)) {
            return Ok(());
        }
        let row = serde_json::to_value(read().await?).map_err(|_| ApiError::internal())?;
        let is_other = |field: &&&str| {
            body.get(**field).is_some_and(|given| *given != row[**field] && !given.is_null())
        };
        match fields.iter().find(is_other) {
            Some(field) => Err(ApiError::field(field, "cannot be changed here")),
            None => Ok(()),
        }
    }
}
