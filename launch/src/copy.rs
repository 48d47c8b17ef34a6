//! Copies to a node the part that it needs, and nothing else.

use crate::agent::{DeliveredFile, Delivery, Receipt};
use crate::messages::{HELLO, RECEIVE_ROLE};
use crate::parts::{META_FILE, PartsMeta};
use crate::ssh::{FIRST_WORD, Target, cached, in_shell};
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// A node that takes or says nothing for so long is given up.
const STALL: Duration = Duration::from_secs(120);
/// How often progress is looked at.
const LOOK: Duration = Duration::from_secs(1);
const BLOCK_BYTES: usize = 1 << 20;

/// What was done.
pub(crate) struct Copied {
    pub(crate) files: usize,
    pub(crate) bytes: u64,
    pub(crate) there_already: usize,
    pub(crate) seconds: f64,
}

/// Copies the files of `parts` and their description from `source` to `dir` in `workspace` on the node.
pub(crate) fn copy_parts(
    target: &Target,
    agent_name: &str,
    source: &Path,
    meta: &PartsMeta,
    parts: &[usize],
    workspace: &str,
    dir: &str,
) -> Result<Copied, String> {
    let started = Instant::now();
    meta.check_files(source, parts)?;
    let mut files: Vec<DeliveredFile> = meta
        .files_of(parts)
        .map(|(name, file)| DeliveredFile { name: name.into(), bytes: file.bytes, xxh3: file.xxh3.clone() })
        .collect();
    // The description comes last: a folder with it is complete.
    let bytes = source.join(META_FILE).metadata().map_err(|e| format!("read {META_FILE}: {e}"))?.len();
    files.push(DeliveredFile { name: META_FILE.into(), bytes, xxh3: meta.checksum.clone() });
    let delivery = Delivery { workspace: workspace.into(), dir: dir.into(), files };

    let mut session = target.spawn(&in_shell(&format!("exec \"{}\" {RECEIVE_ROLE}", cached(agent_name))))?;
    let (input, lines) = (session.child.stdin.take(), session.lines());
    let mut input = input.ok_or("ssh takes no input")?;
    let line = serde_json::to_string(&delivery).map_err(|e| e.to_string())?;
    let _ = writeln!(input, "{line}");
    // Checksums of what is there may take a while.
    let wanted = match receipt(&lines, STALL.max(FIRST_WORD), || false) {
        Some(Receipt::Wanted(wanted)) => wanted,
        Some(Receipt::Problem(problem)) => return Err(problem),
        _ => return Err(session.explain("copy to it")),
    };
    let sizes = wanted
        .iter()
        .map(|&i| delivery.files.get(i).map(|file| file.bytes).ok_or("it wants a file that does not exist"));
    let bytes = sizes.sum::<Result<u64, _>>()?;
    let names: Vec<_> = wanted.iter().map(|&i| source.join(&delivery.files[i].name)).collect();
    let written = Arc::new(AtomicU64::new(0));
    let progress = written.clone();
    let sender = std::thread::spawn(move || {
        let mut block = vec![0; BLOCK_BYTES];
        for name in names {
            let failed = |e: std::io::Error| format!("read {}: {e}", name.display());
            let mut file = File::open(&name).map_err(failed)?;
            loop {
                let read = file.read(&mut block).map_err(failed)?;
                // A node that stops taking says why.
                if read == 0 || input.write_all(&block[..read]).is_err() {
                    break;
                }
                progress.fetch_add(read as u64, Ordering::Relaxed);
            }
        }
        Ok::<(), String>(())
    });
    let mut seen = 0;
    let done = receipt(&lines, STALL, || {
        let now = written.load(Ordering::Relaxed);
        std::mem::replace(&mut seen, now) != now
    });
    match done {
        Some(Receipt::Done) => {}
        Some(Receipt::Problem(problem)) => return Err(problem),
        _ => return Err(session.explain("copy to it")),
    }
    sender.join().map_err(|_| "the copying thread panicked".to_owned())??;
    let seconds = started.elapsed().as_secs_f64();
    Ok(Copied { files: wanted.len(), bytes, there_already: delivery.files.len() - wanted.len(), seconds })
}

/// The next answer, unless nothing moves for `patience`.
fn receipt(lines: &mpsc::Receiver<String>, patience: Duration, mut moved: impl FnMut() -> bool) -> Option<Receipt> {
    let mut last = Instant::now();
    loop {
        match lines.recv_timeout(LOOK) {
            Ok(line) if line == HELLO => {}
            Ok(line) => {
                if let Ok(receipt) = serde_json::from_str(&line) {
                    return Some(receipt);
                }
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => return None,
            Err(mpsc::RecvTimeoutError::Timeout) if moved() => last = Instant::now(),
            Err(mpsc::RecvTimeoutError::Timeout) if last.elapsed() > patience => return None,
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
    }
}
