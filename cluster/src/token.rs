//! The secret that all processes of a job share.

use std::env::VarError;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::error::{ClusterError, system};

const TOKEN_VARIABLE: &str = "EDGECUT_TOKEN";
const TOKEN_FILE_VARIABLE: &str = "EDGECUT_TOKEN_FILE";

/// The shared secret of a job: who knows it may join. Its `Debug` form never shows it.
///
/// It is better handed over in the environment or in a file that only its owner can read than on a command line,
/// which every user of the machine can see.
///
/// ```
/// let token = edgecut_cluster::Token::random()?;
/// assert_eq!(format!("{token:?}"), "Token(hidden)");
/// # Ok::<(), edgecut_cluster::ClusterError>(())
/// ```
#[derive(Clone)]
pub struct Token(Arc<str>);

impl Token {
    /// Reads `EDGECUT_TOKEN`, or else the file that `EDGECUT_TOKEN_FILE` names; `None` where neither is set.
    ///
    /// # Errors
    /// A variable that is set but empty, or not text; a file that cannot be read or is empty.
    pub fn from_env() -> Result<Option<Self>, ClusterError> {
        if let Some(secret) = variable(TOKEN_VARIABLE)? {
            return Self::from_text(&secret, TOKEN_VARIABLE).map(Some);
        }
        match variable(TOKEN_FILE_VARIABLE)? {
            Some(path) => Self::from_file(path).map(Some),
            None => Ok(None),
        }
    }

    /// Reads a file. White space around the secret, such as an editor's last newline, does not belong to it.
    ///
    /// # Errors
    /// A file that cannot be read, is not UTF-8, or is empty.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, ClusterError> {
        let path = path.as_ref();
        let text =
            std::fs::read_to_string(path).map_err(|cause| ClusterError::TokenFile { path: path.to_owned(), cause })?;
        Self::from_text(&text, &path.display().to_string())
    }

    /// Makes a new secret of 256 random bits, as hexadecimal text.
    ///
    /// # Errors
    /// The operating system has no random bytes to give.
    pub fn random() -> Result<Self, ClusterError> {
        Ok(Self(random_hex::<32>()?.into()))
    }

    /// The text to hand to child processes in `EDGECUT_TOKEN`.
    pub fn to_env_value(&self) -> &str {
        &self.0
    }

    pub(crate) fn key(token: Option<&Self>) -> &[u8] {
        token.map_or(&[], |token| token.0.as_bytes())
    }

    fn from_text(text: &str, origin: &str) -> Result<Self, ClusterError> {
        match text.trim() {
            "" => Err(ClusterError::TokenEmpty { origin: origin.to_owned() }),
            secret => Ok(Self(secret.into())),
        }
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(hidden)")
    }
}

/// `N` random bytes as hexadecimal text.
pub(crate) fn random_hex<const N: usize>() -> Result<String, ClusterError> {
    Ok(random_bytes::<N>().map_err(system("get random bytes"))?.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// `N` random bytes from the operating system.
pub(crate) fn random_bytes<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(bytes)
}

fn variable(name: &str) -> Result<Option<String>, ClusterError> {
    match std::env::var(name) {
        Ok(value) => Ok(Some(value)),
        Err(VarError::NotPresent) => Ok(None),
        // The value itself must not show up in a message.
        Err(VarError::NotUnicode(_)) => {
            Err(ClusterError::Env { variable: name.to_owned(), reason: "is not UTF-8 text".to_owned() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_is_trimmed_and_must_not_be_empty() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let error = Token::from_file(file.path()).unwrap_err().to_string();
        assert!(error.contains("is empty"), "{error}");

        writeln!(file, " s3cret ").unwrap();
        let token = Token::from_file(file.path()).unwrap();
        assert_eq!(token.to_env_value(), "s3cret");
        assert!(!format!("{token:?}").contains("s3cret"));
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = Token::from_file("/nonexistent/token").unwrap_err().to_string();
        assert!(error.contains("/nonexistent/token"), "{error}");
    }

    #[test]
    fn random_tokens_differ() {
        let (a, b) = (Token::random().unwrap(), Token::random().unwrap());
        assert_eq!(a.to_env_value().len(), 64);
        assert_ne!(a.to_env_value(), b.to_env_value());
    }
}
