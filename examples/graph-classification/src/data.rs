//! The data: IMDB-BINARY, with node degrees as features.

use anyhow::anyhow;
use edgecut_cluster::Cluster;
use edgecut_dist_loader::{GraphDataLoader, GraphLoaderConfig};
use edgecut_dist_sampler::share_graphs;
use edgecut_graph::GraphDataset;
use edgecut_graph::small_graphs::{FAKE_GRAPHS_NAME, GraphSource, load_graphs, split_dataset};
use std::path::Path;
use std::sync::Arc;

/// Loads the graphs, which all processes share in memory. Without a dataset name and without IMDB-BINARY, generates
/// graphs.
pub(crate) fn load(root_dir: &Path, dataset: Option<&str>, cluster: &Cluster) -> anyhow::Result<Arc<GraphDataset>> {
    let mut source = GraphSource::new(dataset.unwrap_or("IMDB-BINARY"), root_dir);
    if let (None, Err(absent)) = (dataset, source.folder()) {
        if cluster.rank() == 0 {
            println!("{absent}; generating graphs instead");
        }
        source.name = FAKE_GRAPHS_NAME.into();
    }
    Ok(Arc::new(share_graphs(cluster, || load_graphs(&source).map(GraphDataset::with_degrees_as_labels))?))
}

/// Returns the loaders of the training, validation and test graphs: 80, 10 and 10 percent.
pub(crate) fn loaders(
    graphs: &Arc<GraphDataset>,
    batch_size: usize,
    seed: u64,
    cluster: &Cluster,
) -> anyhow::Result<[GraphDataLoader; 3]> {
    let [train, valid, test] = split_dataset(graphs.num_graphs(), [0.8, 0.1, 0.1], seed).map_err(|why| anyhow!(why))?;
    let loader = |which: Vec<u32>, shuffle| {
        let config = GraphLoaderConfig { shuffle, ..GraphLoaderConfig::new(batch_size) };
        GraphDataLoader::new(graphs.clone(), which, config, cluster.rank(), cluster.world_size())
    };
    Ok([loader(train, true)?, loader(valid, false)?, loader(test, false)?])
}
