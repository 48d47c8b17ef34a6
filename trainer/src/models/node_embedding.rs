//! The setting of learned embeddings beside features.

use edgecut_settings::text_value;
use std::fmt;
use std::str::FromStr;

/// A learned embedding of the nodes of a type, which may have features too. It is written as `TYPE` or `TYPE=DIM`.
///
/// ```
/// use edgecut_trainer::models::NodeEmbedding;
/// let embedding: NodeEmbedding = "user=16".parse()?;
/// assert_eq!((embedding.node_type.as_str(), embedding.dim), ("user", Some(16)));
/// assert_eq!("user".parse::<NodeEmbedding>()?.dim, None);
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeEmbedding {
    /// The node type.
    pub node_type: String,
    /// The number of values; `None` is the width of the hidden layers.
    pub dim: Option<usize>,
}

text_value!(NodeEmbedding);

impl fmt::Display for NodeEmbedding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.dim {
            Some(dim) => write!(f, "{}={dim}", self.node_type),
            None => f.write_str(&self.node_type),
        }
    }
}

impl FromStr for NodeEmbedding {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (node_type, dim) = match text.trim().rsplit_once('=') {
            None => (text.trim(), None),
            Some((node_type, dim)) => {
                let dim = dim.parse().ok().filter(|dim| (1..=1 << 20).contains(dim));
                let dim =
                    dim.ok_or_else(|| format!("{text:?} has no number of values from 1 to 1048576: write TYPE=DIM"))?;
                (node_type, Some(dim))
            }
        };
        if node_type.is_empty() {
            return Err(format!("{text:?} names no node type: write TYPE or TYPE=DIM"));
        }
        Ok(Self { node_type: node_type.to_owned(), dim })
    }
}
