//! Refuses changes of fields that are fixed when a resource is created.
//!
//! A client may send back the fields that it has read. If it altered a fixed one, a 200 would hide
//! that the change is lost.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Serialize;
use serde_json::Value;

use super::error::ApiError;
use super::stage::Call;

impl<C> Call<C> {
    /// Checks that the body leaves these fields unchanged, if it has them. `read` returns the
    /// resource; it is called only if the body has one of them.
    pub(crate) async fn keeps<T: Serialize>(
        &self,
        fields: &[&str],
        read: impl AsyncFnOnce() -> Result<T, ApiError>,
    ) -> Result<(), ApiError> {
        // The body was already checked to be an object.
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
