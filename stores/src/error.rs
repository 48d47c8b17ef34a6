//! Errors of object stores and of local copies.

use crate::StoreUrl;
use object_store::Error;
use std::error::Error as _;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Variables of the environment whose values no error may repeat.
const SECRETS: [&str; 8] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_ACCESS_KEY",
    "AZURE_STORAGE_SAS_KEY",
    "AZURE_STORAGE_TOKEN",
    "GOOGLE_SERVICE_ACCOUNT_KEY",
];

/// An error of an object store, or of the local copy of what it holds.
#[derive(Debug, Error)]
pub enum StoreError {
    /// A URL in a build without the clients of object stores.
    #[error("this build has no object stores: build it with the feature `stores`, or give a local path")]
    NoClients,
    /// A text that is no URL of an object store.
    #[error("{url}: {why}")]
    Url {
        /// The URL, without what may be a secret.
        url: String,
        /// The mistake and the remedy.
        why: String,
    },
    /// A request that failed.
    #[error("{action} {url}: {why}")]
    Request {
        /// The operation, as in "read".
        action: &'static str,
        /// The URL.
        url: String,
        /// The cause and the remedy. The error of the store may repeat credentials, so it is not kept.
        why: String,
    },
    /// A file of the local copy.
    #[error("{}: {source}. --cache-dir chooses another folder for local copies", path.display())]
    Local {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// An object that an upload would replace.
    #[error("{url} exists: choose another URL, or add --overwrite")]
    Exists {
        /// The URL of the object.
        url: String,
    },
    /// Complete outputs of an earlier command.
    #[error(
        "{} is complete, but was not uploaded to {url} by the command that wrote it: upload it and remove {}, or choose another URL",
        path.display(), folder.display()
    )]
    NotUploaded {
        /// The outputs.
        path: PathBuf,
        /// The folder of the outputs, which is to be removed.
        folder: PathBuf,
        /// Their URL.
        url: String,
    },
    /// A lock of another process.
    #[error("{}: {why}", path.display())]
    Locked {
        /// The file with the lock.
        path: PathBuf,
        /// The cause and the remedy.
        why: String,
    },
    /// The runtime of the requests cannot be started.
    #[error("start the runtime of requests to object stores: {source}")]
    Runtime {
        /// The error of the operating system.
        source: io::Error,
    },
}

impl StoreError {
    /// Returns true for an object that an upload would replace. Nothing was written then.
    pub fn is_existing_object(&self) -> bool {
        matches!(self, Self::Exists { .. })
    }

    /// Returns the complete outputs of an earlier command, for the error that these are not uploaded.
    pub fn left_output(&self) -> Option<&Path> {
        match self {
            Self::NotUploaded { path, .. } => Some(path),
            _ => None,
        }
    }

    pub(crate) fn local(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Local { path, source }
    }

    /// Describes a failed request, with its remedy and without credentials.
    pub(crate) fn request(action: &'static str, url: &StoreUrl, error: &Error) -> Self {
        let variables = url.scheme.variables();
        let text = texts(error);
        // Errors of listings have the status of the answer only.
        let why = match status_of(error, &text) {
            Some(401 | 403) => format!("the store denies access: check the rights, and {variables}"),
            Some(404) if text.contains("NoSuchBucket") || text.contains("ContainerNotFound") => {
                format!("there is no bucket {}: create it, or correct the URL", url.bucket)
            }
            Some(404) => "there is no such object: correct the URL".to_owned(),
            Some(412) => "it has changed while it was read: run the command again once nobody writes there".to_owned(),
            _ => format!("{}. Check the network, and {variables}", without_secrets(&text)),
        };
        Self::Request { action, url: url.to_string(), why }
    }

    /// Creates the error of a URL that does not name what a request needs.
    pub(crate) fn nothing(url: &StoreUrl, why: &str) -> Self {
        Self::Request { action: "read", url: url.to_string(), why: why.to_owned() }
    }

    /// Creates the error of a URL that names a bucket in place of an object.
    pub(crate) fn no_key(url: &StoreUrl) -> Self {
        Self::nothing(url, "it names a bucket and no object: add the key of the object")
    }

    /// Creates an error about an object that is not what the listing says.
    pub(crate) fn damaged(url: &StoreUrl, expected: u64, found: u64) -> Self {
        let why = format!(
            "got {found} bytes of {expected}: it was truncated or has changed while it was read. Run the command again once \
             nobody writes there"
        );
        Self::Request { action: "read", url: url.to_string(), why }
    }
}

/// Returns the status with which the server has answered.
fn status_of(error: &Error, text: &str) -> Option<u16> {
    match error {
        Error::Unauthenticated { .. } => return Some(401),
        Error::PermissionDenied { .. } => return Some(403),
        Error::NotFound { .. } => return Some(404),
        Error::Precondition { .. } => return Some(412),
        _ => {}
    }
    // The type of the answer is private.
    let (_, status) = text.split_once("status code: ")?;
    status.get(..3)?.parse().ok()
}

/// Returns the texts of an error and of its innermost cause.
fn texts(error: &Error) -> String {
    let outermost = error.to_string();
    let mut innermost = None;
    let mut cause = error.source();
    while let Some(error) = cause {
        innermost = Some(error.to_string());
        cause = error.source();
    }
    match innermost {
        Some(innermost) if !outermost.contains(&innermost) => format!("{outermost}: {innermost}"),
        _ => outermost,
    }
}

/// Returns the first line of a text up to the document of a server, which may repeat a signature, without the values of
/// secret variables.
fn without_secrets(text: &str) -> String {
    let mut text = text.split(['<', '\n']).next().unwrap_or_default().trim_end_matches([' ', ':', '-']).to_owned();
    for secret in SECRETS.iter().filter_map(|name| std::env::var(name).ok()).filter(|value| !value.is_empty()) {
        text = text.replace(&secret, "…");
    }
    text
}
