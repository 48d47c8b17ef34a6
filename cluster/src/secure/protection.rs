//! The protection of the bytes on connections.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The protection of the bytes on all connections of a process. It must be the same on all processes that connect to
/// each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Protection {
    /// Bytes are sent as they are. TCP's own checksum of 16 bits misses some faults.
    #[default]
    Unprotected,
    /// Each record has a keyed checksum of 64 bits. It protects from accidents only: bytes that a fault has modified,
    /// dropped, repeated or reordered are detected. The checksum is no MAC. Someone on the network can read the bytes and
    /// can change them without being detected.
    Checked,
    /// Each record is encrypted and authenticated by AES-256-GCM. Nobody without the shared secret can read or change
    /// bytes, and a secret that becomes known later does not disclose earlier connections. Needs a shared secret.
    Encrypted,
}

impl Protection {
    /// Returns the protection that the flags `--encrypt` and `--check-traffic` choose. Encryption includes the check.
    pub fn of_flags(encrypt: bool, check_traffic: bool) -> Self {
        match (encrypt, check_traffic) {
            (true, _) => Self::Encrypted,
            (false, true) => Self::Checked,
            (false, false) => Self::Unprotected,
        }
    }

    /// Returns the number on the wire.
    pub(crate) fn code(self) -> u8 {
        self as u8
    }

    /// Returns the protection with a number on the wire.
    pub(crate) fn from_code(code: u8) -> Option<Self> {
        [Self::Unprotected, Self::Checked, Self::Encrypted].into_iter().find(|protection| protection.code() == code)
    }
}

impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unprotected => "without protection",
            Self::Checked => "with checksums",
            Self::Encrypted => "with encryption",
        })
    }
}
