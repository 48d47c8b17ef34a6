//! The setting of learned embeddings beside features.

use edgecut_settings::{text_value, words};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A learned embedding of the nodes of a type, which may have features too. It is written as `TYPE`, `TYPE=DIM`, `TYPE:add` or
/// `TYPE=DIM:add`.
///
/// ```
/// use edgecut_trainer::models::{EmbeddingMode, NodeEmbedding};
/// let embedding: NodeEmbedding = "user=16".parse()?;
/// assert_eq!((embedding.node_type.as_str(), embedding.dim), ("user", Some(16)));
/// assert_eq!("user".parse::<NodeEmbedding>()?.dim, None);
/// let added: NodeEmbedding = "user=16:add".parse()?;
/// assert_eq!(added, NodeEmbedding { mode: EmbeddingMode::Add, ..embedding });
/// assert_eq!(added.to_string(), "user=16:add");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeEmbedding {
    /// The node type.
    pub node_type: String,
    /// The number of values; `None` is the width of the hidden layers.
    pub dim: Option<usize>,
    /// The combination of the embedding with the features.
    pub mode: EmbeddingMode,
}

/// The combination of a learned embedding with the features of its node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EmbeddingMode {
    /// The encoder reads the features and the embedding, side by side.
    #[default]
    Concatenate,
    /// A dense layer maps the features to the width of the embedding, and the embedding is added. An encoder reads the sum
    /// if it does not have the width of the hidden layers.
    Add,
}

words!(EmbeddingMode, "combination of features and embeddings", Add = "add", Concatenate = "concatenate");

impl EmbeddingMode {
    /// Returns true for the mode that files do not store.
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

text_value!(NodeEmbedding);

impl NodeEmbedding {
    /// Takes `x:add` for the node type of this name if there is no node type `x`.
    ///
    /// # Errors
    /// Describes a text that could mean two node types.
    pub(super) fn among(&self, is_node_type: impl Fn(&str) -> bool) -> Result<Self, String> {
        let whole = format!("{}:{}", self.node_type, self.mode);
        if self.dim.is_some() || self.mode.is_default() || !is_node_type(&whole) {
            return Ok(self.clone());
        }
        if is_node_type(&self.node_type) {
            return Err(format!(
                "`node_embeddings` has {whole}, but {whole} and {} are node types: write {whole}:{}, or {}=DIM:{}",
                self.node_type,
                EmbeddingMode::default(),
                self.node_type,
                self.mode
            ));
        }
        Ok(Self { node_type: whole, ..Self::default() })
    }
}

impl fmt::Display for NodeEmbedding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.node_type)?;
        if let Some(dim) = self.dim {
            write!(f, "={dim}")?;
        }
        // The end of a type's name may be the word of a mode.
        let ends_with_mode = self.dim.is_none() && before_mode(&self.node_type).is_some();
        if self.mode.is_default() && !ends_with_mode { Ok(()) } else { write!(f, ":{}", self.mode) }
    }
}

/// Divides a text into the part before the word of a mode, and the mode; `None` without such a word.
fn before_mode(text: &str) -> Option<(&str, EmbeddingMode)> {
    let (before, word) = text.rsplit_once(':')?;
    Some((before, word.parse().ok()?))
}

impl FromStr for NodeEmbedding {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        // A node type may contain a colon, so that only the words of modes end a text.
        let (without_mode, mode) = before_mode(text).unwrap_or((text, EmbeddingMode::default()));
        let (node_type, dim) = match without_mode.rsplit_once('=') {
            None => (without_mode, None),
            Some((node_type, dim)) => {
                let dim = dim.parse().ok().filter(|dim| (1..=1 << 20).contains(dim));
                let dim = dim.ok_or_else(|| {
                    format!("{text:?} has no number of values from 1 to 1048576: write TYPE=DIM or TYPE=DIM:add")
                })?;
                (node_type, Some(dim))
            }
        };
        if node_type.is_empty() {
            return Err(format!("{text:?} names no node type: write TYPE or TYPE=DIM"));
        }
        Ok(Self { node_type: node_type.to_owned(), dim, mode })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn embedding(node_type: &str, dim: Option<usize>, mode: EmbeddingMode) -> NodeEmbedding {
        NodeEmbedding { node_type: node_type.to_owned(), dim, mode }
    }

    #[test]
    fn every_embedding_is_read_as_it_is_written() {
        for node_type in ["x", "x:add", "x:concatenate", "a:b"] {
            for dim in [None, Some(5)] {
                for mode in [EmbeddingMode::Add, EmbeddingMode::Concatenate] {
                    let written = embedding(node_type, dim, mode);
                    assert_eq!(written.to_string().parse(), Ok(written.clone()), "{written}");
                }
            }
        }
        assert_eq!(embedding("x", None, EmbeddingMode::Concatenate).to_string(), "x");
        assert_eq!(embedding("x:add", None, EmbeddingMode::Concatenate).to_string(), "x:add:concatenate");
    }

    #[test]
    fn a_node_type_may_end_with_the_word_of_a_mode() {
        let added: NodeEmbedding = "x:add".parse().expect("an embedding");
        assert_eq!(added.among(|name| name == "x"), Ok(added.clone()));
        assert_eq!(added.among(|_| false), Ok(added.clone()));
        let of_type = embedding("x:add", None, EmbeddingMode::Concatenate);
        assert_eq!(added.among(|name| name == "x:add"), Ok(of_type.clone()));
        let why = added.among(|_| true).expect_err("two node types");
        assert!(why.contains("write x:add:concatenate, or x=DIM:add"), "{why}");
        assert_eq!(of_type.among(|_| true), Ok(of_type.clone()));
    }
}
