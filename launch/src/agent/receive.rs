//! Receives files: those that are not there yet, each checked before it takes its name.

use crate::checksum::xxh3_of_file;
use crate::messages::HELLO;
use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufRead, Read, Write, copy, stdin};
use std::path::{Component, Path};
use std::process::ExitCode;

/// Files to receive: a line of JSON, after which the bytes of the wanted ones follow end to end.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Delivery {
    pub(crate) workspace: String,
    /// Relative to the workspace.
    pub(crate) dir: String,
    pub(crate) files: Vec<DeliveredFile>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DeliveredFile {
    /// Relative to the folder.
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) xxh3: String,
}

/// What the receiver answers: first what it wants, then that it is done.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Receipt {
    /// Positions in the delivery.
    Wanted(Vec<usize>),
    Done,
    Problem(String),
}

/// Receives one delivery.
pub(crate) fn run() -> ExitCode {
    println!("{HELLO}");
    match receive() {
        Ok(()) => {
            answer(&Receipt::Done);
            ExitCode::SUCCESS
        }
        Err(error) => {
            answer(&Receipt::Problem(format!("{error:#}")));
            ExitCode::FAILURE
        }
    }
}

fn answer(receipt: &Receipt) {
    if let Ok(line) = serde_json::to_string(receipt) {
        println!("{line}");
    }
}

fn receive() -> anyhow::Result<()> {
    let mut input = stdin().lock();
    let mut line = String::new();
    input.read_line(&mut line).context("read what is delivered")?;
    let delivery: Delivery = serde_json::from_str(&line).context("read what is delivered")?;
    let dir = super::checks::expand(&delivery.workspace).join(&delivery.dir);
    for file in &delivery.files {
        let plain = Path::new(&file.name).components().all(|part| matches!(part, Component::Normal(_)));
        ensure!(plain && !file.name.is_empty(), "{:?} is no name of a file in the folder", file.name);
    }
    let is_there = |file: &DeliveredFile| {
        let path = dir.join(&file.name);
        path.metadata().is_ok_and(|found| found.len() == file.bytes)
            && xxh3_of_file(&path).is_ok_and(|checksum| checksum == file.xxh3)
    };
    let wanted: Vec<usize> = (0..delivery.files.len()).filter(|&i| !is_there(&delivery.files[i])).collect();
    answer(&Receipt::Wanted(wanted.clone()));
    for i in wanted {
        write(&dir, &delivery.files[i], &mut input)?;
    }
    Ok(())
}

/// Writes the next file of the stream beside its place, checks it, and gives it its name.
fn write(dir: &Path, file: &DeliveredFile, input: &mut impl Read) -> anyhow::Result<()> {
    let path = dir.join(&file.name);
    let shown = path.display().to_string();
    let folder = path.parent().context("a file without a folder")?;
    std::fs::create_dir_all(folder).with_context(|| format!("make the folder {}", folder.display()))?;
    let unfinished = path.with_added_extension("unfinished");
    let written = (|| {
        let mut out = File::create(&unfinished)?;
        let bytes = copy(&mut input.take(file.bytes), &mut out)?;
        out.flush()?;
        Ok::<u64, std::io::Error>(bytes)
    })();
    let checked = written.with_context(|| format!("write {shown}")).and_then(|bytes| {
        if bytes < file.bytes {
            bail!("{shown}: the connection ended after {bytes} of {} bytes", file.bytes);
        }
        let checksum = xxh3_of_file(&unfinished).with_context(|| format!("read {shown}"))?;
        ensure!(checksum == file.xxh3, "{shown} arrived with checksum {checksum} instead of {}", file.xxh3);
        std::fs::rename(&unfinished, &path).with_context(|| format!("write {shown}"))
    });
    if checked.is_err() {
        let _ = std::fs::remove_file(&unfinished);
    }
    checked
}
