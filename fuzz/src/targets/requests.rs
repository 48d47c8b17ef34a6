//! Requests with arbitrary contents to a server.

use crate::sample::Sample;
use crate::target::{Input, MemoryBound, Outcome, Target};
use edgecut_cluster::{ServiceConfig, ServiceListener};
use edgecut_dist_sampler::fuzzing::{MAX_MESSAGE_BYTES, PartService, request_frames};
use edgecut_dist_sampler::{DistEmbedding, DistGraph, DistGraphConfig, EmbeddingConfig, ServerList};
use edgecut_graph::part_writer::write_one_part;
use edgecut_graph::readers::{FakeOptions, fake_hetero};
use edgecut_graph::{
    DiskPartId, EdgeLabelValues, EdgeLabels, EdgeTypeId, HoldOut, NodeTypeId, Part, TargetKind, Targets,
};
use std::net::Ipv4Addr;
use std::sync::Arc;

/// A server of a heterogeneous graph with all attributes and an embedding.
pub(super) struct Requests {
    service: PartService,
    part: Arc<Part>,
    _embedding: DistEmbedding,
    _folder: tempfile::TempDir,
}

impl Requests {
    pub(super) fn new() -> anyhow::Result<Self> {
        let options =
            FakeOptions { avg_num_nodes: 60, num_channels: 8, edge_attributes: true, ..FakeOptions::default() };
        let mut graph = fake_hetero(&options)?;
        // The first type has targets in place of labels.
        let nodes = &mut graph.node_types[0];
        nodes.labels = None;
        nodes.num_classes = 0;
        let values = vec![0.5; 3 * nodes.num_nodes].into();
        nodes.targets = Some(Targets { values, dim: 3, kind: TargetKind::Regression });
        // Edges of one type have classes, and edges of another one have targets.
        for (edge_type, has_classes) in [(1, true), (2, false)] {
            let edges = &mut graph.edge_types[edge_type];
            let num_edges = edges.src.len();
            let values = if has_classes {
                EdgeLabelValues::Classes { of_edges: vec![0; num_edges].into(), num_classes: 1 }
            } else {
                let values = vec![0.5; 3 * num_edges].into();
                EdgeLabelValues::Targets(Targets { values, dim: 3, kind: TargetKind::Regression })
            };
            let splits = (0..num_edges).map(|edge| edge as u8 % 3).collect::<Vec<u8>>().into();
            edges.attributes.labels = Some(EdgeLabels { values, splits });
        }
        graph.hold_out_edges(&[EdgeTypeId(0), EdgeTypeId(3)], &HoldOut::random(0.2, 0.2, 1))?;
        let folder = tempfile::tempdir()?;
        write_one_part(graph, folder.path())?;
        let part = Arc::new(Part::open(folder.path(), DiskPartId(0), true)?);
        let config = ServiceConfig::new(None);
        let listener = ServiceListener::bind(Ipv4Addr::LOCALHOST.into(), 0, &config)?;
        let servers = ServerList::parse(&listener.addr().to_string(), config)?;
        let limits =
            DistGraphConfig { num_workers: 1, max_message_bytes: MAX_MESSAGE_BYTES, ..DistGraphConfig::default() };
        let graph = DistGraph::serve(part.clone(), servers, 0, listener, limits)?;
        let embedding = EmbeddingConfig { dim: 2, seed: 1, scale: 0.1 };
        let embedding = DistEmbedding::new(graph.clone(), NodeTypeId(2), embedding)?;
        Ok(Self { service: PartService::new(graph), part, _embedding: embedding, _folder: folder })
    }
}

impl Target for Requests {
    fn samples(&mut self) -> anyhow::Result<Vec<Sample>> {
        Ok(request_frames(&self.part).into_iter().map(Sample::of_bytes).collect())
    }

    fn memory_bound(&self) -> MemoryBound {
        // As for frames, and each of the few requests of an input may get a reply of the largest size. A batch takes
        // several times as much until it is encoded.
        MemoryBound { fixed: 32 * MAX_MESSAGE_BYTES + (3 << 20), per_byte: 256 }
    }

    fn read(&mut self, input: &Input<'_>) -> Outcome {
        match self.service.answer(input.bytes()) {
            Ok([answered, _, _]) if answered > 0 => Outcome::Accepted,
            // A sample that is refused for its contents is still a valid message.
            Ok(_) if input.mutant.changed.is_empty() => Outcome::Accepted,
            _ => Outcome::Rejected,
        }
    }
}
