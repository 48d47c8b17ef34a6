//! Text files as blocks of whole lines: one thread decompresses and several parse.

use crate::GraphError;
use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The size of a block in bytes, unless a single line is longer.
const BLOCK_BYTES: usize = 2 << 20;
/// The maximum length of a line in bytes.
const MAX_LINE_BYTES: usize = 256 << 20;
/// The number of bytes of compressed input read at once.
const READ_BYTES: usize = 1 << 18;
/// The first two bytes of every gzip file.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// The maximum number of parsing threads per file. More threads would be faster than any decompression.
const MAX_PARSERS: usize = 16;

/// A parser of the lines of one kind of file.
pub(crate) trait BlockParser: Sync {
    /// The result of parsing a block.
    type Output: Send;

    /// Receives the first line of the file, without its line end, before any block is parsed.
    fn first_line(&mut self, _line: &[u8]) {}

    /// Parses a block of whole lines. The last line may lack its line end.
    fn parse(&self, block: &[u8]) -> Result<Self::Output, BadLine>;
}

/// An error in a line of a block.
#[derive(Debug)]
pub(crate) struct BadLine {
    /// The offset in the block of a byte of the bad line.
    pub(crate) offset: usize,
    /// The message, which follows "FILE: line N: ".
    pub(crate) why: String,
}

/// Parses the file at `path`, gzipped if its name ends in `.gz`, and returns the results of its blocks in file order.
///
/// The calling thread decompresses. Parsing has its own threads, so it cannot be starved by a caller on a rayon thread.
/// If several lines are bad, the first one is reported.
///
/// # Errors
/// Fails for an unreadable or truncated file, and for a line that `parser` rejects, with its number counted from 1.
pub(crate) fn parse_file<P: BlockParser>(path: &Path, mut parser: P) -> Result<Vec<P::Output>, GraphError> {
    let mut blocks = Blocks::open(path)?;
    let Some(first) = blocks.next_block()? else { return Ok(Vec::new()) };
    parser.first_line(line_at(&first, 0));
    // Small files have a single block, which is parsed here without starting threads.
    let results = Results { parser: &parser, done: Mutex::default(), failed: AtomicBool::new(false) };
    results.parse(0, &first);
    drop(first);
    let read = match blocks.next_block() {
        Ok(None) => Ok(()),
        Ok(Some(second)) => {
            let parse = |index: usize, block: &[u8]| results.parse(index, block);
            parse_rest(&mut blocks, second, &parse, &results.failed)
        }
        Err(error) => Err(error),
    };
    read?;
    results.in_order(path)
}

/// Returns the first line of the file at `path`, which [`parse_file`] can read, without its line end.
///
/// # Errors
/// Fails for an unreadable file.
pub(crate) fn first_line(path: &Path) -> Result<Vec<u8>, GraphError> {
    let block = Blocks::open(path)?.next_block()?.unwrap_or_default();
    Ok(line_at(&block, 0).to_vec())
}

/// Calls `parse` with the remaining blocks and their indices, until `failed` is set. `second` is the block with index 1.
fn parse_rest(
    blocks: &mut Blocks<'_>,
    second: Vec<u8>,
    parse: &(dyn Fn(usize, &[u8]) + Sync),
    failed: &AtomicBool,
) -> Result<(), GraphError> {
    let parsers = rayon::current_num_threads().clamp(1, MAX_PARSERS);
    let (queue, blocks_to_parse) = sync_channel::<(usize, Vec<u8>)>(parsers);
    // Only the parsers hold the receiver. If all of them panic, sending fails instead of waiting forever.
    let blocks_to_parse = Arc::new(Mutex::new(blocks_to_parse));
    std::thread::scope(|scope| {
        for _ in 0..parsers {
            let blocks_to_parse = blocks_to_parse.clone();
            scope.spawn(move || {
                while let Some((index, block)) = take(&blocks_to_parse) {
                    parse(index, &block);
                }
            });
        }
        drop(blocks_to_parse);
        let queue = queue; // Dropped at the end of this closure, which stops the parsers.
        let mut next = Some(second);
        let mut index = 1;
        while let Some(block) = next
            && !failed.load(Ordering::Relaxed)
        {
            if queue.send((index, block)).is_err() {
                break;
            }
            index += 1;
            next = blocks.next_block()?;
        }
        Ok(())
    })
}

fn take<T>(queue: &Mutex<Receiver<T>>) -> Option<T> {
    lock(queue).recv().ok()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the line that starts at `offset`, without its line end.
pub(crate) fn line_at(block: &[u8], offset: usize) -> &[u8] {
    let rest = &block[offset..];
    let line = &rest[..rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len())];
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Returns the offset of the line after the one at `offset`.
pub(crate) fn after_line(block: &[u8], offset: usize) -> usize {
    block[offset..].iter().position(|&b| b == b'\n').map_or(block.len(), |length| offset + length + 1)
}

fn count_newlines(bytes: &[u8]) -> usize {
    // At most 255 newlines fit into a byte. The compiler vectorizes such short sums of bytes.
    bytes.chunks(255).map(|run| usize::from(run.iter().map(|&b| u8::from(b == b'\n')).sum::<u8>())).sum()
}

/// The result of parsing one block, with the number of its newlines, or of those before the bad line.
struct Parsed<T> {
    index: usize,
    lines: usize,
    result: Result<T, BadLine>,
}

/// The results of all blocks, collected from several threads.
struct Results<'a, P: BlockParser> {
    parser: &'a P,
    done: Mutex<Vec<Parsed<P::Output>>>,
    failed: AtomicBool,
}

impl<P: BlockParser> Results<'_, P> {
    fn parse(&self, index: usize, block: &[u8]) {
        let result = self.parser.parse(block);
        let lines = match &result {
            Ok(_) => count_newlines(block),
            Err(bad) => count_newlines(&block[..bad.offset]),
        };
        if result.is_err() {
            self.failed.store(true, Ordering::Relaxed);
        }
        lock(&self.done).push(Parsed { index, lines, result });
    }

    /// Returns the outputs in file order, or the error of the first bad line.
    fn in_order(self, path: &Path) -> Result<Vec<P::Output>, GraphError> {
        let mut done = self.done.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.sort_unstable_by_key(|parsed| parsed.index);
        let mut lines_before = 0;
        let mut outputs = Vec::with_capacity(done.len());
        for Parsed { lines, result, .. } in done {
            lines_before += lines;
            outputs.push(result.map_err(|bad| bad_line(path, lines_before + 1, &bad.why))?);
        }
        Ok(outputs)
    }
}

/// Returns the error for a bad line, counted from 1.
pub(crate) fn bad_line(path: &Path, line: usize, why: &str) -> GraphError {
    GraphError::format(path, format!("line {line}: {why}"))
}

/// The blocks of a file. Each block ends with a line, or with the file.
struct Blocks<'a> {
    path: &'a Path,
    input: Box<dyn Read>,
    /// The incomplete last line of the previous block.
    rest: Vec<u8>,
    ended: bool,
}

impl<'a> Blocks<'a> {
    fn open(path: &'a Path) -> Result<Self, GraphError> {
        let file = File::open(path).map_err(|e| GraphError::io(path, e))?;
        let input: Box<dyn Read> = if path.extension().is_some_and(|e| e == "gz") {
            let mut compressed = BufReader::with_capacity(READ_BYTES, file);
            let start = compressed.fill_buf().map_err(|e| GraphError::io(path, e))?;
            if !start.starts_with(&GZIP_MAGIC) {
                let why = "it is not a gzip file; if it is plain text, drop the .gz from its name";
                return Err(GraphError::format(path, why));
            }
            Box::new(MultiGzDecoder::new(compressed))
        } else {
            Box::new(file)
        };
        Ok(Self { path, input, rest: Vec::new(), ended: false })
    }

    fn next_block(&mut self) -> Result<Option<Vec<u8>>, GraphError> {
        let mut block = std::mem::take(&mut self.rest);
        loop {
            let start = block.len();
            // The target doubles while no line end is found, so a long line is not searched again in small steps.
            self.fill(&mut block, BLOCK_BYTES.max(2 * start))?;
            if self.ended {
                return Ok((!block.is_empty()).then_some(block));
            }
            if let Some(end) = block[start..].iter().rposition(|&b| b == b'\n') {
                self.rest = block.split_off(start + end + 1);
                return Ok(Some(block));
            }
            if block.len() >= MAX_LINE_BYTES {
                let why = format!("it has a line of more than {MAX_LINE_BYTES} bytes; is it a text file?");
                return Err(GraphError::format(self.path, why));
            }
        }
    }

    /// Reads until `block` holds `target` bytes or the file ends.
    fn fill(&mut self, block: &mut Vec<u8>, target: usize) -> Result<(), GraphError> {
        let mut filled = block.len();
        block.resize(target, 0);
        while filled < target && !self.ended {
            match self.input.read(&mut block[filled..]) {
                Ok(0) => self.ended = true,
                Ok(read) => filled += read,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(self.read_error(e)),
            }
        }
        block.truncate(filled);
        Ok(())
    }

    fn read_error(&self, error: std::io::Error) -> GraphError {
        match error.kind() {
            ErrorKind::UnexpectedEof => GraphError::format(self.path, "the gzip file is truncated; fetch it again"),
            ErrorKind::InvalidInput | ErrorKind::InvalidData => {
                GraphError::Gzip { path: self.path.into(), source: error }
            }
            _ => GraphError::io(self.path, error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgecut_testing::assert_has;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use proptest::prelude::*;
    use std::io::Write;

    /// Returns every block unchanged.
    struct Echo;

    impl BlockParser for Echo {
        type Output = Vec<u8>;
        fn parse(&self, block: &[u8]) -> Result<Vec<u8>, BadLine> {
            match block.windows(3).position(|w| w == b"bad") {
                Some(offset) => Err(BadLine { offset, why: "bad".into() }),
                None => Ok(block.to_vec()),
            }
        }
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut out = GzEncoder::new(Vec::new(), Compression::fast());
        out.write_all(bytes).unwrap();
        out.finish().unwrap()
    }

    fn read(name: &str, bytes: &[u8]) -> Result<Vec<Vec<u8>>, GraphError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        parse_file(&path, Echo)
    }

    fn numbered(lines: usize) -> Vec<u8> {
        (0..lines).flat_map(|i| format!("{i},{}\n", i * i).into_bytes()).collect()
    }

    #[test]
    fn blocks_are_whole_lines_in_file_order() {
        let text = numbered(500_000);
        for blocks in [read("a.csv", &text).unwrap(), read("a.csv.gz", &gzip(&text)).unwrap()] {
            assert!(blocks.len() > 2, "{} blocks", blocks.len());
            assert!(blocks.iter().all(|b| b.ends_with(b"\n")));
            assert_eq!(blocks.concat(), text);
        }
    }

    #[test]
    fn a_line_longer_than_a_block_stays_whole() {
        let mut text = vec![b'7'; 5 * BLOCK_BYTES];
        text.extend(b"\n8\n9");
        let blocks = read("a.csv", &text).unwrap();
        assert_eq!(blocks.concat(), text);
        assert!(blocks[0].len() > 5 * BLOCK_BYTES);
    }

    #[test]
    fn gzip_members_are_read_one_after_the_other() {
        let joined = [gzip(b"1\n2"), gzip(b""), gzip(b"3\n4\n")].concat();
        assert_eq!(read("a.csv.gz", &joined).unwrap().concat(), b"1\n23\n4\n");
    }

    #[test]
    fn the_first_bad_line_is_reported_by_its_number() {
        let mut text = numbered(400_000);
        let lines = count_newlines(&text);
        text.extend(b"bad\n");
        text.extend(numbered(400_000));
        text.extend(b"bad\n");
        let error = read("a.csv", &text).unwrap_err().to_string();
        assert!(error.ends_with(&format!("a.csv: line {}: bad", lines + 1)), "{error}");
    }

    #[test]
    fn rejects_truncated_and_foreign_gzip() {
        for lines in [10, 500_000] {
            let whole = gzip(&numbered(lines));
            for cut in [whole.len() - 1, whole.len() - 9, whole.len() / 2] {
                assert_has(read("a.csv.gz", &whole[..cut]).unwrap_err().to_string(), &["truncated"]);
            }
        }
        for foreign in [&b"0,1\n1,0\n0,1\n"[..], b"1", b""] {
            assert_has(read("a.csv.gz", foreign).unwrap_err().to_string(), &["not a gzip file"]);
        }
        let trailing = [gzip(b"1\n"), b"garbage past the end".to_vec()].concat();
        assert!(read("a.csv.gz", &trailing).unwrap_err().to_string().contains("corrupt"));
        let mut flipped = gzip(&numbered(1000));
        let crc = flipped.len() - 6;
        flipped[crc] ^= 1;
        assert!(read("a.csv.gz", &flipped).unwrap_err().to_string().contains("corrupt"));
    }

    #[test]
    fn an_empty_file_has_no_blocks() {
        assert!(read("a.csv", b"").unwrap().is_empty());
        assert!(read("a.csv.gz", &gzip(b"")).unwrap().is_empty());
    }

    #[test]
    fn loading_inside_a_pool_of_one_thread_ends() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let text = numbered(600_000);
        assert_eq!(pool.install(|| read("a.csv", &text)).unwrap().concat(), text);
    }

    /// Panics on every block except the first.
    struct Panicking(AtomicBool);

    impl BlockParser for Panicking {
        type Output = ();
        fn parse(&self, _block: &[u8]) -> Result<(), BadLine> {
            assert!(!self.0.swap(true, Ordering::Relaxed), "a parser that panics");
            Ok(())
        }
    }

    #[test]
    #[should_panic(expected = "a scoped thread panicked")]
    fn parsers_that_all_panic_do_not_leave_the_reader_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.csv");
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        std::fs::write(&path, vec![b'\n'; 8 * BLOCK_BYTES]).unwrap();
        let _ = pool.install(|| parse_file(&path, Panicking(AtomicBool::new(false))));
    }

    proptest! {
        #[test]
        fn newlines_are_counted(bytes in prop::collection::vec(prop::sample::select(vec![b'\n', b'1', 0_u8]), 0..2000)) {
            prop_assert_eq!(count_newlines(&bytes), bytes.iter().filter(|&&b| b == b'\n').count());
        }
    }
}
