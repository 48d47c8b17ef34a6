//! The shared secret of a job.

use std::env::VarError;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::num::NonZeroU32;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use ring::pbkdf2;

use crate::error::{ClusterError, system};
use crate::secure::noise::SECRET_BYTES;

const TOKEN_VARIABLE: &str = "EDGECUT_TOKEN";
const TOKEN_FILE_VARIABLE: &str = "EDGECUT_TOKEN_FILE";
/// The minimum length of a secret. Anyone who can connect to a rank can test guesses of the secret offline.
const MIN_TOKEN_BYTES: usize = 16;
/// The most bytes that are read from a file.
const MAX_TOKEN_FILE_BYTES: u64 = 64 * 1024;
/// The permissions of the group and of all other users.
const OTHERS: u32 = 0o077;
/// The iterations of the key derivation, which make each guess of a secret expensive. A process derives the key once.
const KEY_ITERATIONS: NonZeroU32 = NonZeroU32::new(10_000).unwrap();
const KEY_SALT: &[u8] = b"edgecut handshake 5";

/// The shared secret of a job. Any process that knows it may join. The `Debug` form never shows it.
///
/// Pass it in the environment, or in a file that only its owner can read; command lines are visible to every user of
/// the machine. A secret has at least 16 bytes. `openssl rand -hex 32` generates a good one.
///
/// ```
/// let token = edgecut_cluster::Token::random()?;
/// assert_eq!(format!("{token:?}"), "Token(hidden)");
/// # Ok::<(), edgecut_cluster::ClusterError>(())
/// ```
#[derive(Clone)]
pub struct Token(Arc<Secret>);

struct Secret {
    text: Box<str>,
    // The key of the handshake, derived on first use.
    key: OnceLock<[u8; SECRET_BYTES]>,
}

impl Token {
    /// Reads `EDGECUT_TOKEN`, or else the file that `EDGECUT_TOKEN_FILE` names. Returns `None` if neither is set.
    ///
    /// # Errors
    /// A variable that is not UTF-8, or a secret of fewer than 16 bytes; the errors of [`Token::from_file`].
    pub fn from_env() -> Result<Option<Self>, ClusterError> {
        if let Some(secret) = variable(TOKEN_VARIABLE)? {
            return Self::from_text(&secret, TOKEN_VARIABLE).map(Some);
        }
        match variable(TOKEN_FILE_VARIABLE)? {
            Some(path) => Self::from_file(path).map(Some),
            None => Ok(None),
        }
    }

    /// Reads a secret from a file. White space around it, such as a final newline, is ignored.
    ///
    /// # Errors
    /// A file that cannot be read, is not UTF-8 or holds fewer than 16 bytes; a file on which the group or other users
    /// have any permission.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, ClusterError> {
        let path = path.as_ref();
        let failed = |cause| ClusterError::TokenFile { path: path.to_owned(), cause };
        let file = File::open(path).map_err(failed)?;
        // Check the open file rather than the path, which could be replaced between the check and the read.
        let mode = file.metadata().map_err(failed)?.mode() & 0o777;
        if mode & OTHERS != 0 {
            let path = path.display();
            return Err(ClusterError::Secret(format!(
                "the file with the shared secret, {path}, is open to other users (mode {mode:04o}): make it private with \
                 `chmod 600 {path}`"
            )));
        }
        let mut text = String::new();
        file.take(MAX_TOKEN_FILE_BYTES).read_to_string(&mut text).map_err(failed)?;
        Self::from_text(&text, &path.display().to_string())
    }

    /// Generates a secret of 256 random bits, as hexadecimal text.
    ///
    /// # Errors
    /// A failure of the operating system's random number generator.
    pub fn random() -> Result<Self, ClusterError> {
        Ok(Self::new(&random_hex::<32>()?))
    }

    /// Returns the text of the secret, to pass to child processes in `EDGECUT_TOKEN`.
    pub fn to_env_value(&self) -> &str {
        &self.0.text
    }

    /// Returns the key of the handshake. Without a secret, it is derived from the empty text.
    pub(crate) fn key(token: Option<&Self>) -> [u8; SECRET_BYTES] {
        static NO_SECRET: OnceLock<[u8; SECRET_BYTES]> = OnceLock::new();
        match token {
            Some(token) => *token.0.key.get_or_init(|| derive_key(token.0.text.as_bytes())),
            None => *NO_SECRET.get_or_init(|| derive_key(b"")),
        }
    }

    fn new(text: &str) -> Self {
        Self(Arc::new(Secret { text: text.into(), key: OnceLock::new() }))
    }

    fn from_text(text: &str, origin: &str) -> Result<Self, ClusterError> {
        let secret = text.trim();
        let fault = match secret.len() {
            0 => "is empty".to_owned(),
            MIN_TOKEN_BYTES.. => return Ok(Self::new(secret)),
            bytes => format!(
                "has {bytes} bytes; it must have at least {MIN_TOKEN_BYTES}: make one with `openssl rand -hex 32`"
            ),
        };
        Err(ClusterError::Secret(format!("the shared secret in {origin} {fault}")))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(hidden)")
    }
}

/// Derives a key from a secret: one block of PBKDF2 with HMAC-SHA256 (RFC 8018).
fn derive_key(secret: &[u8]) -> [u8; SECRET_BYTES] {
    let mut key = [0; SECRET_BYTES];
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, KEY_ITERATIONS, KEY_SALT, secret, &mut key);
    key
}

/// Returns `N` random bytes as hexadecimal text.
pub(crate) fn random_hex<const N: usize>() -> Result<String, ClusterError> {
    Ok(random_bytes::<N>().map_err(system("get random bytes"))?.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns `N` random bytes from the operating system.
pub(crate) fn random_bytes<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

fn variable(name: &str) -> Result<Option<String>, ClusterError> {
    match std::env::var(name) {
        Ok(value) => Ok(Some(value)),
        Err(VarError::NotPresent) => Ok(None),
        // The value may be a secret, so the message does not include it.
        Err(VarError::NotUnicode(_)) => {
            Err(ClusterError::Env { variable: name.to_owned(), reason: "is not UTF-8 text".to_owned() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgecut_testing::assert_has;
    use std::io::Write;

    #[test]
    fn a_file_is_trimmed_and_must_hold_16_bytes() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        assert_has(Token::from_file(file.path()).unwrap_err().to_string(), &["is empty"]);

        write!(file, " fifteen bytes..").unwrap();
        let error = Token::from_file(file.path()).unwrap_err().to_string();
        assert!(error.contains("has 15 bytes") && error.contains("at least 16"), "{error}");
        assert!(!error.contains("fifteen"), "{error}");

        writeln!(file, ". ").unwrap();
        let token = Token::from_file(file.path()).unwrap();
        assert_eq!(token.to_env_value(), "fifteen bytes...");
        assert!(!format!("{token:?}").contains("fifteen"));
    }

    #[test]
    fn a_file_that_others_may_read_is_rejected() {
        use std::os::unix::fs::PermissionsExt;
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "a secret of 16 bytes or more").unwrap();
        let set = |mode| std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        for mode in [0o644, 0o640, 0o604, 0o660, 0o602] {
            set(mode);
            let error = Token::from_file(file.path()).unwrap_err().to_string();
            assert!(error.contains(&format!("mode {mode:04o}")) && error.contains("chmod 600"), "{error}");
        }
        for mode in [0o600, 0o400] {
            set(mode);
            Token::from_file(file.path()).unwrap();
        }
    }

    #[test]
    fn a_missing_file_is_named() {
        assert_has(Token::from_file("/nonexistent/token").unwrap_err().to_string(), &["/nonexistent/token"]);
    }

    #[test]
    fn random_tokens_differ() {
        let a = Token::random().unwrap();
        let b = Token::random().unwrap();
        assert_eq!(a.to_env_value().len(), 64);
        assert_ne!(a.to_env_value(), b.to_env_value());
    }
}
