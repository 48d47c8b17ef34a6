//! URLs of objects and folders.

use crate::StoreError;
use object_store::path::Path;
use std::fmt;

const WRONG_KEY: &str =
    "the key has an empty segment, a relative one such as `..`, or characters that a key cannot have: correct it";

/// The kind of an object store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scheme {
    /// Amazon S3, and servers with its interface.
    S3,
    /// Google Cloud Storage.
    Gs,
    /// Azure Blob Storage.
    Az,
}

impl Scheme {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::S3 => "s3",
            Self::Gs => "gs",
            Self::Az => "az",
        }
    }

    /// Returns the variables of the environment that grant access.
    pub(crate) fn variables(self) -> &'static str {
        match self {
            Self::S3 => {
                "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION, and AWS_ENDPOINT_URL for a server other than Amazon's"
            }
            Self::Gs => "GOOGLE_APPLICATION_CREDENTIALS, the file of a service account",
            Self::Az => "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
        }
    }
}

/// The URL of an object or a folder in an object store: `s3://BUCKET/KEY`, `gs://BUCKET/KEY` or `az://CONTAINER/KEY`.
/// The key is taken literally, without escapes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreUrl {
    pub(crate) scheme: Scheme,
    /// The bucket, or the container.
    pub(crate) bucket: String,
    pub(crate) path: Path,
}

impl StoreUrl {
    /// Parses a URL.
    ///
    /// # Errors
    /// Another scheme, no bucket, credentials in the URL, or a key with empty or relative segments;
    /// [`StoreError::NoClients`].
    pub fn parse(text: &str) -> Result<Self, StoreError> {
        if !cfg!(feature = "clouds") {
            return Err(StoreError::NoClients);
        }
        // The text may contain a secret, so errors repeat its scheme only.
        let (name, rest) = text.split_once("://").unwrap_or(("", text));
        let Some(scheme) = [Scheme::S3, Scheme::Gs, Scheme::Az].into_iter().find(|scheme| scheme.name() == name) else {
            let why = "the schemes of object stores are s3, gs and az";
            return Err(StoreError::Url { url: format!("{name}://…"), why: why.to_owned() });
        };
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() || bucket.contains(['@', ':', '?', '#']) || key.contains('?') {
            let why = format!(
                "the form is {name}://BUCKET/KEY, without credentials and options: the environment has those, in {}",
                scheme.variables()
            );
            return Err(StoreError::Url { url: format!("{name}://…"), why });
        }
        let Ok(path) = Path::parse(key) else {
            return Err(StoreError::Url { url: text.to_owned(), why: WRONG_KEY.to_owned() });
        };
        Ok(Self { scheme, bucket: bucket.to_owned(), path })
    }

    /// Returns the last segment of the key, or the bucket if there is no key.
    pub fn name(&self) -> &str {
        self.path.filename().unwrap_or(&self.bucket)
    }

    /// Returns the folder that the object is in.
    pub fn parent(&self) -> Self {
        let segments = self.path.parts().count().saturating_sub(1);
        Self { path: self.path.parts().take(segments).collect(), ..self.clone() }
    }

    /// Returns the URL of an object below this folder.
    ///
    /// # Errors
    /// A relative path with empty or relative segments.
    pub fn join(&self, name: &str) -> Result<Self, StoreError> {
        self.with_key(&format!("{}/{name}", self.path))
    }

    /// Returns the URL with a text at its end.
    ///
    /// # Errors
    /// A text that no key can end with.
    pub fn with_ending(&self, ending: &str) -> Result<Self, StoreError> {
        self.with_key(&format!("{}{ending}", self.path))
    }

    /// Returns true if the URL has a key: it names more than a bucket.
    pub fn has_key(&self) -> bool {
        !self.path.as_ref().is_empty()
    }

    /// Returns the URL of another key in the bucket. Unlike the key in a URL of the user, it may have a question mark.
    fn with_key(&self, key: &str) -> Result<Self, StoreError> {
        let Ok(path) = Path::parse(key) else {
            let url = format!("{}://{}/{}", self.scheme.name(), self.bucket, key.trim_start_matches('/'));
            return Err(StoreError::Url { url, why: WRONG_KEY.to_owned() });
        };
        Ok(Self { path, ..self.clone() })
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.name(), self.bucket)?;
        if self.path.as_ref().is_empty() { Ok(()) } else { write!(f, "/{}", self.path) }
    }
}

#[cfg(all(test, feature = "clouds"))]
mod tests {
    use super::*;

    #[test]
    fn urls_have_a_scheme_a_bucket_and_a_key() {
        for (text, name) in [("s3://b", "b"), ("gs://b/a/c=1", "c=1"), ("az://b/x y%20z.csv", "x y%20z.csv")] {
            let url = StoreUrl::parse(text).unwrap();
            assert_eq!((url.to_string().as_str(), url.name()), (text, name));
        }
        let url = StoreUrl::parse("s3://b/a/c").unwrap();
        assert_eq!(url.parent().to_string(), "s3://b/a");
        assert_eq!(url.parent().parent().join("d/e").unwrap().to_string(), "s3://b/d/e");
        assert_eq!(url.with_ending(".embeddings").unwrap().to_string(), "s3://b/a/c.embeddings");
        // Names of labels are names of folders.
        let bucket = StoreUrl::parse("s3://b").unwrap();
        assert_eq!(bucket.join("fraud?/labels.npy").unwrap().to_string(), "s3://b/fraud?/labels.npy");
        assert!(url.has_key() && !bucket.has_key());
        for name in ["../d", "d//e", "d\n"] {
            let error = url.join(name).unwrap_err().to_string();
            assert!(error.starts_with(&format!("s3://b/a/c/{name}: the key has an empty segment")), "{error}");
        }
    }

    #[test]
    fn wrong_urls_are_refused_without_their_secrets() {
        for text in ["s3://key:secret@b/c", "az://b/c?sig=secret", "s3a://secret/b", "secret", "s3://b/../secret"] {
            let error = StoreUrl::parse(text).unwrap_err().to_string();
            assert!(!error.contains("secret") || text.contains(".."), "{error}");
        }
        assert!(StoreUrl::parse("s3:///c").unwrap_err().to_string().contains("the form is s3://BUCKET/KEY"));
        assert!(StoreUrl::parse("s3a://b").unwrap_err().to_string().contains("s3, gs and az"));
    }
}
