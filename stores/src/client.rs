//! Connections to object stores.

use crate::limits::MAX_RETRIES;
use crate::store_url::Scheme;
use crate::timeouts::{CONNECT_TIMEOUT, FIRST_PAUSE, LONGEST_PAUSE, REQUEST_TIMEOUT, RETRY_TIMEOUT};
use crate::{StoreError, StoreUrl};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::client::HttpError;
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::{BackoffConfig, ClientConfigKey, Error, ObjectStore, RetryConfig};
use std::error::Error as _;
use std::sync::Arc;

/// The variables that name a server other than the provider's.
const ENDPOINTS: [&str; 5] =
    ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT", "AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"];

/// Connects to the store of a URL, with the credentials in the environment.
///
/// # Errors
/// Settings in the environment that are missing or wrong.
pub(crate) fn connect(url: &StoreUrl) -> Result<Arc<dyn ObjectStore>, StoreError> {
    // Another part of the process may have chosen the same before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // A user who names a server without TLS means it. Requests carry signatures and no secrets.
    let is_plain = ENDPOINTS.iter().any(|name| std::env::var(name).is_ok_and(|url| url.starts_with("http://")));
    let options = [
        (ClientConfigKey::Timeout, format!("{} s", REQUEST_TIMEOUT.as_secs())),
        (ClientConfigKey::ConnectTimeout, format!("{} s", CONNECT_TIMEOUT.as_secs())),
        (ClientConfigKey::AllowHttp, is_plain.to_string()),
    ];
    let backoff = BackoffConfig { init_backoff: FIRST_PAUSE, max_backoff: LONGEST_PAUSE, base: 2.0 };
    let retry = RetryConfig { backoff, max_retries: MAX_RETRIES, retry_timeout: RETRY_TIMEOUT };
    let bucket = &url.bucket;
    let connected: Result<Arc<dyn ObjectStore>, Error> = match url.scheme {
        Scheme::S3 => {
            let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(retry);
            for (key, value) in options {
                builder = builder.with_config(AmazonS3ConfigKey::Client(key), value);
            }
            builder.build().map(|store| Arc::new(store) as _)
        }
        Scheme::Gs => {
            let mut builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(bucket).with_retry(retry);
            for (key, value) in options {
                builder = builder.with_config(GoogleConfigKey::Client(key), value);
            }
            builder.build().map(|store| Arc::new(store) as _)
        }
        Scheme::Az => {
            let mut builder = MicrosoftAzureBuilder::from_env().with_container_name(bucket).with_retry(retry);
            for (key, value) in options {
                builder = builder.with_config(AzureConfigKey::Client(key), value);
            }
            builder.build().map(|store| Arc::new(store) as _)
        }
    };
    connected.map_err(|error| StoreError::request("connect to", url, &error))
}

/// Returns true if an answer has begun and was not complete. The client sends requests without an answer again, and continues the
/// content of objects, but not a listing.
pub(crate) fn is_cut(error: &Error) -> bool {
    // Below the error of the store is the error of the listing, and below that the cause. In between are the retries of a request
    // without an answer.
    let cause = error.source().and_then(|listing| listing.source());
    cause.is_some_and(|cause| cause.is::<HttpError>())
}
