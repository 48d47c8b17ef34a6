//! The machine, the commit and the date of a record.

use serde::Serialize;
use std::fs;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// The machine that measurements run on.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) kernel: String,
}

impl Machine {
    pub(crate) fn this() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            cpu: model.map_or(std::env::consts::ARCH, |(_, name)| name.trim()).to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: kernel.trim().to_owned(),
        }
    }
}

/// Returns the commit of the working folder, with `+` if files have changed since; `None` outside of a repository.
pub(crate) fn commit() -> Option<String> {
    let git = |args: &[&str]| Command::new("git").args(args).output().ok();
    let head = git(&["rev-parse", "--short=12", "HEAD"]).filter(|output| output.status.success())?;
    let changed = git(&["diff", "--quiet", "HEAD"]).is_some_and(|output| !output.status.success());
    let commit = String::from_utf8(head.stdout).ok()?.trim().to_owned();
    Some(if changed { format!("{commit}+") } else { commit })
}

/// Returns the date and time in UTC in ISO 8601 format.
pub(crate) fn date() -> String {
    date_of(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}

/// Formats a Unix time. Years start in March and are counted in eras of 400 years, so that the leap day is the last day
/// of a year (Hinnant, "chrono-compatible low-level date algorithms").
fn date_of(unix_seconds: u64) -> String {
    // 719,468 days lie between 0000-03-01 and 1970-01-01. An era has 146,097 days.
    let days = unix_seconds / 86_400 + 719_468;
    let seconds = unix_seconds % 86_400;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let hour = seconds / 3600;
    let minute = seconds / 60 % 60;
    let second = seconds % 60;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date_of(0), "1970-01-01T00:00:00Z");
        assert_eq!(date_of(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(date_of(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(date_of(1_767_225_599), "2025-12-31T23:59:59Z");
    }
}
