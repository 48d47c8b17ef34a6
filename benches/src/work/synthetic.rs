//! Synthetic data for benchmarks that need no real dataset.

use anyhow::Context;
use burn::backend::{Autodiff, NdArray};
use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorData};
use edgecut_gnn::ops::{BatchGraph, Block};
use edgecut_graph::readers::{FakeOptions, fake};
use edgecut_graph::rng::CounterRng;
use edgecut_partition::{Method, PartitionOptions, partition};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// The CPU backend of the programs.
pub(crate) type Cpu = NdArray<f32>;
/// The CPU backend with gradients.
pub(crate) type Grad = Autodiff<Cpu>;

/// Returns random numbers in `[-1, 1)`.
pub(crate) fn random_values(count: usize, key: u64) -> Vec<f32> {
    let mut rng = CounterRng::new(key);
    (0..count).map(|_| (rng.unit() * 2.0 - 1.0) as f32).collect()
}

/// Returns a matrix of random numbers in `[-1, 1)`.
pub(crate) fn random_tensor<B: Backend>(rows: usize, columns: usize, key: u64) -> Tensor<B, 2> {
    let data = TensorData::new(random_values(rows * columns, key), [rows, columns]);
    Tensor::from_data(data, &Default::default())
}

/// Returns a block with the proportions of the first block of a sampled batch: two and a half edges and a quarter of a
/// destination per source node.
pub(crate) fn random_block(num_src: usize) -> anyhow::Result<Block> {
    let num_dst = num_src / 4;
    let mut rng = CounterRng::new(4);
    let mut indptr = vec![0_u32];
    let mut indices = Vec::new();
    for _ in 0..num_dst {
        // Five to fifteen edges per destination, ten on average.
        for _ in 0..5 + rng.below(11) {
            indices.push(rng.below(num_src as u64) as u32);
        }
        indptr.push(indices.len() as u32);
    }
    let graph = Arc::new(BatchGraph::new(indptr, indices, num_src)?);
    Ok(Block::new(graph, num_dst, num_src)?)
}

/// The parts of a generated graph in a temporary folder. Dropping the value removes the folder.
pub(crate) struct GeneratedParts {
    path: PathBuf,
    _dir: TempDir,
}

impl GeneratedParts {
    /// Generates a graph with `num_nodes` nodes of some degree and `num_channels` features, and partitions it at random.
    pub(crate) fn of(num_parts: u32, num_nodes: usize, num_channels: usize, avg_degree: f64) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir().context("make a temporary folder")?;
        let path = dir.path().join(format!("{num_parts}-parts"));
        let options = FakeOptions { avg_num_nodes: num_nodes, num_channels, avg_degree, ..FakeOptions::default() };
        let method = PartitionOptions { method: Method::Random, ..PartitionOptions::new(num_parts) };
        partition(&fake(&options)?, &method, &path, &())?;
        Ok(Self { path, _dir: dir })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}
