//! A parser of single lines.

use super::blocks::{BadLine, BlockParser, after_line, line_at};

/// A parser of single lines. `None` skips a line.
pub(crate) struct Lines<F>(pub(crate) F);

impl<T: Send, F: Fn(&[u8]) -> Result<Option<T>, String> + Sync> BlockParser for Lines<F> {
    type Output = Vec<T>;

    fn parse(&self, block: &[u8]) -> Result<Vec<T>, BadLine> {
        let mut values = Vec::new();
        let mut at = 0;
        while at < block.len() {
            match (self.0)(line_at(block, at)) {
                Ok(value) => values.extend(value),
                Err(why) => return Err(BadLine { offset: at, why }),
            }
            at = after_line(block, at);
        }
        Ok(values)
    }
}

/// Concatenates blocks. Each block is freed as soon as it is copied.
pub(crate) fn concat<T: Copy>(blocks: Vec<Vec<T>>) -> Vec<T> {
    if blocks.len() < 2 {
        return blocks.into_iter().next().unwrap_or_default();
    }
    let mut joined = Vec::with_capacity(blocks.iter().map(Vec::len).sum());
    for block in blocks {
        joined.extend_from_slice(&block);
    }
    joined
}

#[cfg(test)]
pub(super) mod tests {
    use crate::GraphError;
    use std::path::Path;

    /// Reads a file with this content. The path is removed from errors.
    pub(crate) fn with_file<T>(text: &str, read: impl FnOnce(&Path) -> Result<T, GraphError>) -> Result<T, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.csv");
        std::fs::write(&path, text).unwrap();
        read(&path).map_err(|e| {
            let message = e.to_string();
            message.strip_prefix(&format!("{}: ", path.display())).expect("an error names its file").to_owned()
        })
    }
}
