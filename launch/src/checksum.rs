//! Checksums of files.

use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use xxhash_rust::xxh3::Xxh3;

const BLOCK_BYTES: usize = 1 << 20;

/// Returns the SHA-256 of a file as hexadecimal text. It names programs that are copied to nodes.
pub(crate) fn of_file(path: &Path) -> io::Result<String> {
    let mut hash = Sha256::new();
    read_blocks(File::open(path)?, |block| {
        hash.update(block);
        Ok(())
    })?;
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns the XXH3 of `input` in the form of the metadata of partitioned graphs. `take` gets every block that is read.
pub(crate) fn xxh3(input: impl Read, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<String> {
    let mut hash = Xxh3::new();
    read_blocks(input, |block| {
        hash.update(block);
        take(block)
    })?;
    Ok(format!("{:016x}", hash.digest()))
}

fn read_blocks(mut input: impl Read, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let mut block = vec![0; BLOCK_BYTES];
    loop {
        match input.read(&mut block)? {
            0 => return Ok(()),
            read => take(&block[..read])?,
        }
    }
}
