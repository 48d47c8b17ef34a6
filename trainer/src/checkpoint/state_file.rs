//! The file of one rank.

use super::rank_state::RankState;
use crate::error::CheckpointError;
use edgecut_output::OutputFile;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::Path;
use xxhash_rust::xxh3::Xxh3;

/// The bytes that are read or written at a time.
const BUFFER_BYTES: usize = 1 << 20;

/// The name, length and checksum of a rank's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StateFile {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    /// The XXH3-64 checksum in hexadecimal digits.
    pub(crate) xxh3: String,
}

/// The form of the names of ranks' files.
pub(super) const STATE_FORM: &str = "rank-#.state";

/// Returns the name of a rank's file.
pub(crate) fn state_file_name(rank: usize) -> String {
    format!("rank-{rank:05}.state")
}

/// Returns the rank whose file has this name.
pub(crate) fn rank_of_state_file(name: &str) -> Option<usize> {
    let rank = name.strip_prefix("rank-")?.strip_suffix(".state")?.parse().ok()?;
    (state_file_name(rank) == name).then_some(rank)
}

/// Writes the state of a rank to a file of this folder, which is created.
pub(crate) fn write_state(folder: &Path, rank: usize, state: &RankState) -> io::Result<StateFile> {
    std::fs::create_dir_all(folder)?;
    let name = state_file_name(rank);
    let output = OutputFile::create(&folder.join(&name))?;
    let hashed = Hashed { inner: output.file(), hash: Xxh3::new(), bytes: 0 };
    let mut writer = BufWriter::with_capacity(BUFFER_BYTES, hashed);
    bincode::serialize_into(&mut writer, state).map_err(io::Error::other)?;
    if !state.averages.0.is_empty() || state.left_out > 0 {
        bincode::serialize_into(&mut writer, &state.averages).map_err(io::Error::other)?;
    }
    if state.left_out > 0 {
        bincode::serialize_into(&mut writer, &state.left_out).map_err(io::Error::other)?;
    }
    let Hashed { hash, bytes, .. } = writer.into_inner().map_err(io::IntoInnerError::into_error)?;
    output.commit()?;
    Ok(StateFile { name, bytes, xxh3: format!("{:016x}", hash.digest()) })
}

impl StateFile {
    /// Checks the length and the checksum of the file in this folder.
    ///
    /// # Errors
    /// The file cannot be read, or [`ErrorKind::InvalidData`] with a description of the damage.
    pub(crate) fn verify(&self, folder: &Path) -> io::Result<()> {
        let read = || -> io::Result<(u64, String)> {
            let mut file = File::open(folder.join(&self.name))?;
            let mut buffer = vec![0; BUFFER_BYTES];
            let mut hash = Xxh3::new();
            let mut bytes = 0;
            loop {
                match file.read(&mut buffer)? {
                    0 => return Ok((bytes, format!("{:016x}", hash.digest()))),
                    count => {
                        hash.update(&buffer[..count]);
                        bytes += count as u64;
                    }
                }
            }
        };
        let (bytes, xxh3) = read()?;
        if bytes != self.bytes {
            let what = format!("the file has {bytes} bytes, but {} were written", self.bytes);
            return Err(io::Error::new(ErrorKind::InvalidData, what));
        }
        if xxh3 != self.xxh3 {
            let what = format!("the checksum of the file is {xxh3}, but {} was written", self.xxh3);
            return Err(io::Error::new(ErrorKind::InvalidData, what));
        }
        Ok(())
    }
}

/// Reads the state of a rank, whose file was [verified](StateFile::verify).
///
/// # Errors
/// [`CheckpointError::Read`] if the file cannot be read.
pub(crate) fn read_state(path: &Path) -> Result<RankState, CheckpointError> {
    let read_error = |source: io::Error| CheckpointError::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(read_error)?;
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, file);
    let state = bincode::deserialize_from(&mut reader);
    let mut state: RankState = state.map_err(|error| read_error(io::Error::other(error)))?;
    if !reader.fill_buf().map_err(read_error)?.is_empty() {
        let averages = bincode::deserialize_from(&mut reader);
        state.averages = averages.map_err(|error| read_error(io::Error::other(error)))?;
    }
    if !reader.fill_buf().map_err(read_error)?.is_empty() {
        let left_out = bincode::deserialize_from(&mut reader);
        state.left_out = left_out.map_err(|error| read_error(io::Error::other(error)))?;
    }
    Ok(state)
}

/// A writer that computes the checksum and the number of bytes.
struct Hashed<W> {
    inner: W,
    hash: Xxh3,
    bytes: u64,
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.hash.update(&bytes[..count]);
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
