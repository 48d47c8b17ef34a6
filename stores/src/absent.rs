//! The same interface as `client.rs`, for builds without the clients of object stores.

use crate::{StoreError, StoreUrl};
use object_store::{Error, ObjectStore};
use std::sync::Arc;

/// Refuses to connect. [`StoreUrl::parse`] has refused the URL before.
pub(crate) fn connect(_: &StoreUrl) -> Result<Arc<dyn ObjectStore>, StoreError> {
    Err(StoreError::NoClients)
}

/// Returns true if an answer has begun and was not complete: there are no answers.
pub(crate) fn is_cut(_: &Error) -> bool {
    false
}
