//! The sources that embeddings are loaded from.

use crate::error::ModelError;
use crate::model_file::{EmbeddingTable, NewEmbeddings, SavedEmbeddings};
use edgecut_dist_sampler::SamplerConfig;

/// The source that embeddings are loaded from.
#[derive(Clone, Copy, Debug)]
pub enum EmbeddingSource<'a> {
    /// Tables in memory.
    Tables(&'a [EmbeddingTable]),
    /// A saved model.
    Saved(&'a SavedEmbeddings),
}

impl EmbeddingSource<'_> {
    /// Returns the random seed of rows of new nodes.
    pub(crate) fn seed(&self) -> u64 {
        match self {
            Self::Tables(_) => 0,
            Self::Saved(saved) => saved.seed(),
        }
    }

    /// Returns the source for batches of a sampler.
    ///
    /// # Errors
    /// The error of [`check_start`].
    pub(crate) fn read_by(self, sampler: &SamplerConfig) -> Result<Self, ModelError> {
        if let Self::Saved(saved) = self {
            check_start(saved.new_embeddings(), sampler)?;
        }
        Ok(self)
    }
}

/// Checks that the start of new rows counts no edges that are later than the seeds of a sampler. Each node has one row, for
/// seeds of all times.
///
/// # Errors
/// [`ModelError::Settings`] for a start from neighbors if neighbors are drawn by time.
pub(crate) fn check_start(start: Option<NewEmbeddings>, sampler: &SamplerConfig) -> Result<(), ModelError> {
    if start != Some(NewEmbeddings::Neighbors) || sampler.temporal.is_none() {
        return Ok(());
    }
    let what = "new embeddings that start from neighbors (`new_embeddings=neighbors`) would count edges of all times, also \
                edges later than a seed (`temporal`): choose another start (`new_embeddings=mean`)";
    Err(ModelError::Settings { what: what.into() })
}

impl<'a> From<&'a [EmbeddingTable]> for EmbeddingSource<'a> {
    fn from(tables: &'a [EmbeddingTable]) -> Self {
        Self::Tables(tables)
    }
}

impl<'a> From<&'a Vec<EmbeddingTable>> for EmbeddingSource<'a> {
    fn from(tables: &'a Vec<EmbeddingTable>) -> Self {
        Self::Tables(tables)
    }
}

impl<'a> From<&'a SavedEmbeddings> for EmbeddingSource<'a> {
    fn from(saved: &'a SavedEmbeddings) -> Self {
        Self::Saved(saved)
    }
}
