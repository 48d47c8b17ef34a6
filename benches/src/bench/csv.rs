//! Reading of a dataset in OGB's raw layout, compared with decompressing its files alone.

use crate::args::{Common, CsvArgs};
use crate::measure::child_program;
use crate::measure::record::Record;
use crate::measure::report::Report;
use crate::measure::timing::Timing;
use anyhow::{Context, ensure};
use edgecut_cli::message;
use edgecut_graph::readers::read_ogb;
use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The large files in `raw/`.
const FILES: [&str; 3] = ["edge.csv.gz", "node-feat.csv.gz", "node-label.csv.gz"];
const CHUNK_BYTES: usize = 1 << 16;

pub(crate) fn run(args: &CsvArgs, common: &Common, report: &mut Report) -> anyhow::Result<()> {
    let raw = args.data.join("raw");
    let files: Vec<PathBuf> = FILES.iter().map(|file| raw.join(file)).filter(|path| path.is_file()).collect();
    ensure!(!files.is_empty(), "{}: the folder holds no {}", raw.display(), FILES[0]);
    let mut bytes = 0;
    let decompressing = Timing::measure(common.long_reps(), |stopwatch| {
        bytes = stopwatch.time(|| decompress_all(&files))?;
        Ok(())
    })?;
    let reading = Timing::measure(common.long_reps(), |stopwatch| {
        stopwatch.time(|| read_ogb("bench", &args.data, args.split.as_deref())).map(drop)?;
        Ok(())
    })?;
    let record = |name: &str, timing: Timing| {
        let work = format!("{} files", files.len());
        Record::new("csv", name, work, timing, bytes as f64, "B/s").param("uncompressed_bytes", bytes)
    };
    let limit = bytes as f64 / decompressing.median_s;
    report.add(&record("read_ogb", reading).against(limit, "decompressing alone, a thread per file"))?;
    report.add(&record("decompressing alone", decompressing))?;
    if Command::new("gzip").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        message!("gzip is not installed: skipping the comparison with it");
        return Ok(());
    }
    report.add(&record("gzip -dc, one process per file", gzip(&files, common)?))
}

/// Decompresses all files in parallel, like the reader does. Returns the number of bytes.
fn decompress_all(files: &[PathBuf]) -> anyhow::Result<u64> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = files.iter().map(|file| scope.spawn(|| decompress(file))).collect();
        threads.into_iter().map(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).sum()
    })
}

fn decompress(path: &Path) -> anyhow::Result<u64> {
    let name = || format!("decompress {}", path.display());
    let file = File::open(path).with_context(name)?;
    let mut text = MultiGzDecoder::new(BufReader::with_capacity(CHUNK_BYTES, file));
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut bytes = 0;
    loop {
        match text.read(&mut chunk).with_context(name)? {
            0 => return Ok(bytes),
            count => bytes += count as u64,
        }
    }
}

fn gzip(files: &[PathBuf], common: &Common) -> anyhow::Result<Timing> {
    Timing::measure(common.long_reps(), |stopwatch| {
        let cpu = child_program::cpu_of_children()?;
        let start = std::time::Instant::now();
        let start_one = |file: &PathBuf| Command::new("gzip").arg("-dc").arg(file).stdout(Stdio::null()).spawn();
        let children = files.iter().map(start_one).collect::<Result<Vec<_>, _>>().context("start gzip")?;
        for mut child in children {
            ensure!(child.wait().context("wait for gzip")?.success(), "gzip failed");
        }
        stopwatch.add(start.elapsed(), child_program::cpu_of_children()?.saturating_sub(cpu));
        Ok(())
    })
}
