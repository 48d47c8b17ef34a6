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

impl fmt::Display for NodeEmbedding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.node_type)?;
        if let Some(dim) = self.dim {
            write!(f, "={dim}")?;
        }
        if self.mode.is_default() { Ok(()) } else { write!(f, ":{}", self.mode) }
    }
}

impl FromStr for NodeEmbedding {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        // A node type may contain a colon, so that only the words of modes end a text.
        let mut mode = EmbeddingMode::default();
        let mut before_mode = text;
        if let Some((before, word)) = text.rsplit_once(':')
            && let Ok(given) = word.parse()
        {
            mode = given;
            before_mode = before;
        }
        let (node_type, dim) = match before_mode.rsplit_once('=') {
            None => (before_mode, None),
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
