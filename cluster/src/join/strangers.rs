//! Counts of connections without a valid handshake, by source address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;

use crate::locks::lock;

/// The most source addresses that are counted separately.
const MAX_SOURCES: usize = 256;
/// The most source addresses that a message names.
const SHOWN_SOURCES: usize = 3;

/// The counts of connections without a valid handshake, including those that are still open.
#[derive(Debug, Default)]
pub(crate) struct Strangers(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    by_source: HashMap<IpAddr, u64>,
    // Connections from addresses beyond the first `MAX_SOURCES`.
    elsewhere: u64,
}

impl Strangers {
    /// Counts a new connection.
    pub(crate) fn add(&self, source: IpAddr) {
        let counts = &mut *lock(&self.0);
        let is_known = counts.by_source.contains_key(&source);
        if is_known || counts.by_source.len() < MAX_SOURCES {
            *counts.by_source.entry(source).or_insert(0) += 1;
        } else {
            counts.elsewhere += 1;
        }
    }

    /// Removes a connection that has completed the handshake, or that is reported on its own.
    pub(crate) fn remove(&self, source: IpAddr) {
        let counts = &mut *lock(&self.0);
        match counts.by_source.get_mut(&source) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) => drop(counts.by_source.remove(&source)),
            None => counts.elsewhere = counts.elsewhere.saturating_sub(1),
        }
    }

    /// Returns the counts as text; `None` if there are no such connections.
    pub(crate) fn summary(&self) -> Option<String> {
        let counts = lock(&self.0);
        let total = counts.by_source.values().sum::<u64>() + counts.elsewhere;
        if total == 0 {
            return None;
        }
        let mut sources: Vec<(&IpAddr, &u64)> = counts.by_source.iter().collect();
        sources.sort_by_key(|&(source, count)| (std::cmp::Reverse(*count), *source));
        let shown = sources.iter().take(SHOWN_SOURCES).map(|(source, count)| format!("{count} from {source}"));
        let mut text = shown.collect::<Vec<_>>().join(", ");
        if sources.len() > SHOWN_SOURCES || counts.elsewhere > 0 {
            text += ", and more from other addresses";
        }
        let subject = if total == 1 { "connection" } else { "connections" };
        Some(format!("{total} {subject} without a valid handshake ({text})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(number: u32) -> IpAddr {
        IpAddr::from((0x0a00_0000 + number).to_be_bytes())
    }

    #[test]
    fn a_summary_names_the_sources_with_the_most_connections() {
        let strangers = Strangers::default();
        assert_eq!(strangers.summary(), None);
        strangers.add(source(1));
        assert_eq!(strangers.summary().unwrap(), "1 connection without a valid handshake (1 from 10.0.0.1)");
        for _ in 0..3 {
            strangers.add(source(2));
        }
        strangers.remove(source(1));
        strangers.remove(source(2));
        assert_eq!(strangers.summary().unwrap(), "2 connections without a valid handshake (2 from 10.0.0.2)");
    }

    #[test]
    fn many_sources_are_bounded() {
        let strangers = Strangers::default();
        (0..1000).for_each(|number| strangers.add(source(number)));
        assert_eq!(lock(&strangers.0).by_source.len(), MAX_SOURCES);
        let text = strangers.summary().unwrap();
        assert!(text.starts_with("1000 connections") && text.ends_with("and more from other addresses)"), "{text}");
        (0..1000).for_each(|number| strangers.remove(source(number)));
        assert_eq!(strangers.summary(), None);
    }
}
