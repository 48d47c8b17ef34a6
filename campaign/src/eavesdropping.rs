//! A capture of the traffic of jobs, searched for the data that they exchange.

use crate::frame::payload;
use crate::job::Site;
use anyhow::{Context, ensure};
use edgecut_cli::result;
use std::collections::HashSet;

/// The number of hosts.
const HOSTS: usize = 2;
/// The bytes of a feature row that are searched for: more than two rows have in common by chance.
const NEEDLE_BYTES: usize = 16;
/// The bytes of a `.npy` file before its data.
const NPY_HEADER_BYTES: usize = 128;
/// The bytes of a stored feature value.
const VALUE_BYTES: usize = 4;
/// A key of the JSON by which a rank registers.
const CONTROL: &[u8] = b"\"world_size\"";

/// The protections of connections, with their names.
const PROTECTIONS: [(&str, &[&str]); 3] =
    [("none", &[]), ("`--check-traffic`", &["--check-traffic"]), ("`--encrypt`", &["--encrypt"])];

/// The results of a capture.
struct Found {
    segments: usize,
    bytes: usize,
    /// Segments with features, with control messages, and with the secret.
    features: usize,
    control: usize,
    secret: usize,
}

/// Captures the traffic of a job of two processes with each protection, and prints in how many TCP segments data of the job
/// is readable.
///
/// # Errors
/// Data is readable with encryption, or no data is found without it.
pub(crate) fn run() -> anyhow::Result<()> {
    let site = Site::new(HOSTS)?;
    let needles = needles(&site)?;
    result!("| protection | TCP segments | bytes | with features | with control messages | with the secret |")?;
    result!("|---|---|---|---|---|---|")?;
    let mut readable = Vec::new();
    for (name, flags) in PROTECTIONS {
        site.hosts.switch.start_capture();
        let mut job = site.start(flags)?;
        job.wait_until_training()?;
        drop(job);
        let found = search(&site.hosts.switch.end_capture(), &needles, site.token().as_bytes());
        let Found { segments, bytes, features, control, secret } = found;
        result!("| {name} | {segments} | {bytes} | {features} | {control} | {secret} |")?;
        ensure!(secret == 0, "the secret is readable with the protection {name}");
        readable.push((features, control));
    }
    let is_found = |&(features, control): &(usize, usize)| features > 0 && control > 0;
    ensure!(readable[..2].iter().all(is_found), "the search finds no data without encryption");
    ensure!(readable[2] == (0, 0), "data is readable with encryption");
    Ok(())
}

/// Returns the first bytes of all feature rows of the graph.
fn needles(site: &Site) -> anyhow::Result<HashSet<[u8; NEEDLE_BYTES]>> {
    let mut needles = HashSet::new();
    for part in 0..HOSTS {
        let path = site.parts().join(format!("part_{part}/nodes/node/features.npy"));
        let bytes = std::fs::read(&path).with_context(|| format!("read {}", path.display()))?;
        let data = bytes.get(NPY_HEADER_BYTES..).context("the features are empty")?;
        needles.extend(data.as_chunks::<NEEDLE_BYTES>().0);
    }
    Ok(needles)
}

fn search(frames: &[Vec<u8>], needles: &HashSet<[u8; NEEDLE_BYTES]>, token: &[u8]) -> Found {
    let mut found = Found { segments: 0, bytes: 0, features: 0, control: 0, secret: 0 };
    let contains = |data: &[u8], text: &[u8]| data.windows(text.len()).any(|window| window == text);
    for data in frames.iter().map(|frame| payload(frame)).filter(|data| !data.is_empty()) {
        found.segments += 1;
        found.bytes += data.len();
        let has_features = data.windows(NEEDLE_BYTES).any(|window| {
            // A row of zeros is also in other data.
            window.chunks_exact(VALUE_BYTES).all(|value| value != [0; VALUE_BYTES])
                && <&[u8; NEEDLE_BYTES]>::try_from(window).is_ok_and(|window| needles.contains(window))
        });
        found.features += usize::from(has_features);
        found.control += usize::from(contains(data, CONTROL));
        found.secret += usize::from(contains(data, token));
    }
    found
}
