//! The original ids of the sources of the own part's edges, fetched from their owners.

use crate::dist_graph::DistGraph;
use crate::error::SampleError;
use crate::part::source_ids::{distinct_sources, find_parallel, spread};
use edgecut_graph::NodeTypeId;
use std::sync::Arc;

impl DistGraph {
    /// Makes the sources of this part's edges known, which layer-neighbor sampling needs. Fetches each original id once
    /// from its owner. Later calls return at once. The work goes on if the caller stops waiting.
    pub(crate) async fn find_sources(self: &Arc<Self>) -> Result<(), SampleError> {
        if self.part.knows_sources() {
            return Ok(());
        }
        let this = self.clone();
        let finding = tokio::spawn(async move { this.find_sources_once().await });
        finding.await.map_err(|source| SampleError::process("find the sources of edges", source))?
    }

    async fn find_sources_once(self: &Arc<Self>) -> Result<(), SampleError> {
        // A call that finds another one at work waits for its result.
        let _turn = self.finding_sources.lock().await;
        if self.part.knows_sources() {
            return Ok(());
        }
        let num_node_types = self.part().meta().node_types.len();
        let part = self.part().clone();
        let mut all = self.workers.run(move || find_parallel(&part)).await?;
        for node_type in (0..num_node_types as u16).map(NodeTypeId) {
            if self.part().has_original_order(node_type) {
                continue;
            }
            let part = self.part().clone();
            let sources = self.workers.run(move || distinct_sources(&part, node_type)).await?;
            let originals = self.original_ids(node_type, sources.clone()).await?;
            let part = self.part().clone();
            let spread = move || {
                spread(&part, node_type, &sources, &originals, &mut all);
                all
            };
            all = self.workers.run(spread).await?;
        }
        let _ = self.part.source_ids.set(all);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        BatchKey, DistGraphConfig, DistNeighborSampler, Fanout, Labor, SampleSeeds, SampledSubgraph, SamplerConfig,
    };
    use edgecut_cluster::Cluster;
    use edgecut_graph::readers::{FakeOptions, fake};
    use edgecut_partition::{Method, PartitionOptions, partition};
    use std::pin::pin;

    async fn sample(graph: &Arc<DistGraph>) -> Result<SampledSubgraph, SampleError> {
        let config = SamplerConfig::new(vec![Fanout::Count(2)]).with_labor(Some(Labor::default()));
        let sampler = Arc::new(DistNeighborSampler::new(graph.clone(), config)?);
        let nodes = graph.part().meta().node_types[0].book.num_nodes();
        let seeds = SampleSeeds::of_type(NodeTypeId(0), (0..nodes as u32).collect(), 1);
        sampler.sample(seeds, BatchKey { seed: 1, epoch: 0, batch: 0 }).await
    }

    #[test]
    fn peers_are_asked_again_until_they_know_their_sources() {
        let dir = tempfile::tempdir().unwrap();
        let options = PartitionOptions { method: Method::Random, ..PartitionOptions::new(2) };
        partition(&fake(&FakeOptions::default()).unwrap(), &options, dir.path(), &()).unwrap();
        let ranks = Cluster::join_local(2, |_| {}).unwrap();
        let config = DistGraphConfig { rpc_timeout_ms: 2000, ..DistGraphConfig::default() };
        let graphs: Vec<Arc<DistGraph>> = ranks
            .iter()
            .map(|cluster| {
                let part = DistGraph::open_part(dir.path(), cluster.rank(), 2, true).unwrap();
                DistGraph::start(Arc::new(part), cluster.clone(), config.clone()).unwrap()
            })
            .collect();
        let slow = async {
            let _turn = graphs[1].finding_sources.lock().await;
            // The first request of rank 0 fetches ids, which does not wait. Hops follow, each of which waits for a second.
            while graphs[0].traffic.count().requests < 4 {
                tokio::task::yield_now().await;
            }
        };
        let sampled = graphs[0].handle().block_on(async {
            let mut sampling = pin!(sample(&graphs[0]));
            tokio::select! {
                biased;
                early = &mut sampling => panic!("{early:?} while the other rank is slow"),
                () = slow => {}
            }
            sampling.await
        });
        assert!(!sampled.unwrap().edges.is_empty());
        drop(graphs);
        std::thread::scope(|scope| {
            for cluster in ranks {
                scope.spawn(move || cluster.shutdown().unwrap());
            }
        });
    }
}
