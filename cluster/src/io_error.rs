//! Errors of the operating system: their kinds, and advice for the user.

use std::error::Error;
use std::io;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// Returns an error for malformed data.
pub(crate) fn invalid(reason: impl Into<Box<dyn Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

/// Returns whether an error means that this process, or the machine, has too many open files.
pub(crate) fn is_exhausted(error: &io::Error) -> bool {
    [Errno::MFILE, Errno::NFILE].iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Adds the limit to an error about too many open files. Returns other errors unchanged.
pub(crate) fn explain(error: io::Error) -> io::Error {
    if !is_exhausted(&error) {
        return error;
    }
    let advice = if error.raw_os_error() == Some(Errno::NFILE.raw_os_error()) {
        "the limit of the machine is reached; raise fs.file-max (sysctl)".to_owned()
    } else {
        let limit = getrlimit(Resource::Nofile).current.map_or("unlimited".to_owned(), |limit| limit.to_string());
        format!("the limit of open files of this process is {limit}; raise it (ulimit -n, LimitNOFILE=)")
    };
    io::Error::new(error.kind(), format!("{error}: {advice}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgecut_testing::assert_has;

    #[test]
    fn an_exhausted_limit_is_named() {
        let text = explain(io::Error::from(Errno::MFILE)).to_string();
        assert!(text.contains("the limit of open files of this process is "), "{text}");
        assert_has(explain(io::Error::from(Errno::NFILE)).to_string(), &["fs.file-max"]);
        let other = explain(io::Error::from(Errno::CONNREFUSED));
        assert_eq!(other.raw_os_error(), Some(Errno::CONNREFUSED.raw_os_error()));
    }
}
