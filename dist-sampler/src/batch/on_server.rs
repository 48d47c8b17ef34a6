//! Batches that servers sample for their clients.

use crate::batch::encoding::{Expected, decode_subgraph, encode_seeds};
use crate::batch::sampler::DistNeighborSampler;
use crate::batch::seeds::SampleSeeds;
use crate::batch::subgraph::SampledSubgraph;
use crate::batch_key::BatchKey;
use crate::error::SampleError;
use crate::rpc::peer::Outcome;
use crate::rpc::server_requests::SampleRequest;

impl DistNeighborSampler {
    /// Has a server sample a batch. Returns `None` if the message would be too large for that. The seeds have no numbers of draws.
    pub(crate) async fn sample_on_server(
        &self,
        seeds: &SampleSeeds,
        key: BatchKey,
    ) -> Result<Option<SampledSubgraph>, SampleError> {
        let graph = self.node();
        let share = graph.seed_share();
        // If this client takes seeds of all parts, its batches take turns over the servers.
        let part = share.parts.start as usize + (key.batch % share.parts.len() as u64) as usize;
        let Some(peer) = &graph.peers[part] else { return Ok(None) };
        let (lengths, payload) = encode_seeds(seeds);
        if payload.len() > graph.config.max_message_bytes {
            return Ok(None);
        }
        let request = SampleRequest { key, sampler: self.on_wire(), lengths, seeds: payload };
        let Outcome::Data(reply) = peer.send(&request).await? else { return Ok(None) };
        let meta = graph.part().meta().clone();
        let expected = Expected {
            num_hops: self.num_hops(),
            seeds: seeds.nodes.clone(),
            disjoint: self.is_disjoint(),
            positions: self.draws_positions(),
        };
        let read = move || decode_subgraph(&meta, &expected, &reply);
        let subgraph = graph.workers.run(read).await?.map_err(|why| peer.failed(&request, why))?;
        for (edge_type, edges) in subgraph.edges.iter().enumerate() {
            graph.traffic.count_edges(edge_type, edges.indptr.len() - 1, edges.indices.len());
        }
        Ok(Some(subgraph))
    }
}
