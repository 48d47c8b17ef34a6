//! Submissions to the leaderboards of OGB's large-scale challenge.

use super::values::class_or_none;
use crate::sample::npz::write_npz;
use anyhow::{Context, ensure};
use clap::ValueEnum;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::DistRows;
use edgecut_trainer::metrics::Decision;
use serde::Serialize;
use std::path::Path;

/// The number of nodes whose classes are read at once.
const BLOCK: usize = 1 << 14;

/// A submission whose file OGB defines: that of `MAG240MEvaluator.save_test_submission`, by mode. OGB's smaller data sets
/// have evaluators of arrays in memory, and no files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Submission {
    #[value(name = "mag240m-test-whole")]
    Whole,
    #[value(name = "mag240m-test-dev")]
    Dev,
    #[value(name = "mag240m-test-challenge")]
    Challenge,
}

impl Submission {
    /// Returns the name that OGB gives to the file.
    pub(super) fn file_name(self) -> &'static str {
        match self {
            Self::Whole => "y_pred_mag240m.npz",
            Self::Dev => "y_pred_mag240m_test-dev.npz",
            Self::Challenge => "y_pred_mag240m_test-challenge.npz",
        }
    }

    /// Returns the number of classes that OGB expects.
    fn num_nodes(self) -> usize {
        match self {
            Self::Whole => 146_818,
            Self::Dev => 88_092,
            Self::Challenge => 58_726,
        }
    }

    /// Checks the number of nodes that `--nodes` selects.
    pub(super) fn check(self, found: usize, nodes: &str) -> anyhow::Result<()> {
        let expected = self.num_nodes();
        ensure!(
            found == expected,
            "--ogb-submission: the submission has {expected} nodes, but --nodes {nodes} has {found}: give the .npy file of \
             this part of OGB's split"
        );
        Ok(())
    }

    /// Writes the classes of nodes, by original ids in the order of the submission, on rank 0. Every rank must call this with
    /// the same ids.
    pub(super) fn write(
        self,
        dir: &Path,
        rows: &DistRows,
        ids: &[u32],
        world: &mut ProcessGroup,
    ) -> anyhow::Result<()> {
        let graph = rows.node();
        let mut classes: Vec<i16> = Vec::new();
        for ids in ids.chunks(BLOCK) {
            if world.rank() == 0 {
                let nodes = graph.handle().block_on(graph.find_originals(rows.node_type(), ids))?;
                let logits = graph.handle().block_on(rows.pull(&nodes))?;
                for logits in logits.chunks_exact(rows.dim()) {
                    classes.push(
                        class_or_none(logits, &Decision::default())
                            .try_into()
                            .context("--ogb-submission: a class exceeds 16 bits")?,
                    );
                }
            }
            // Meeting at every block bounds the wait for rank 0 to the time of one block.
            world.barrier()?;
        }
        if world.rank() == 0 {
            let path = dir.join(self.file_name());
            let written = write_npz(&path, |npz| npz.array("y_pred", &[classes.len()], &classes));
            written.with_context(|| format!("--out: write {}", path.display()))?;
        }
        Ok(world.barrier()?)
    }
}
