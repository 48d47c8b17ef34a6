//! Attributes of a batch's nodes, fetched from their owners.

use crate::arrays::bytes_of;
use crate::cache::cached_features::CachedTable;
use crate::config::node_fields::NodeFields;
use crate::dist_graph::DistGraph;
use crate::dist_graph::attribute_draft::{Draft, Shape};
use crate::dist_graph::look_ahead::CachedFetch;
use crate::dist_graph::placement::Placement;
use crate::dist_graph::routing::Sources;
use crate::dist_graph::rows_in_flight::{Requested, RowsInFlight, SharedRows, deliver, divide};
use crate::error::SampleError;
use crate::part::requests::FetchRequest;
use crate::payload::PayloadSink;
use crate::workers::LINE_BYTES;
use bytes::Bytes;
use edgecut_graph::NodeTypeId;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use std::sync::{Arc, Weak};
use tokio_util::task::AbortOnDropHandle;

/// Attributes of nodes, one row per node in the order of the request. Attributes that were not requested are empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeAttributes {
    /// The class of each node, -1 if unlabelled.
    pub labels: Vec<i64>,
    /// `[num_nodes, target_dim]`, row-major, of types that have targets. NaN is an unknown value.
    pub targets: Vec<f32>,
    /// The targets per node, 0 if they were not requested.
    pub target_dim: usize,
    /// The time of each node.
    pub times: Vec<i64>,
    /// The id of each node in the dataset.
    pub original_ids: Vec<u32>,
    /// The in-degree of each node in the whole graph.
    pub degrees: Vec<u32>,
    /// The sum of the weights of each node's in-edges in the whole graph.
    pub in_weights: Vec<f32>,
    /// `[num_nodes, feature_dim]`, row-major.
    pub features: Vec<f32>,
    /// Features per node, 0 if features were not requested.
    pub feature_dim: usize,
}

impl DistGraph {
    /// Fetches attributes of `nodes`, which are distinct global ids of one type. Own rows are read from the mapped
    /// part, cached features from the cache, and other rows are fetched in bounded chunks from their owners, all at the
    /// same time. If only features are wanted, rows that another call waits for are not requested again.
    ///
    /// # Errors
    /// [`SampleError::NoSuchNode`] if the graph lacks a requested attribute, or an error of a peer.
    pub fn fetch(
        self: &Arc<Self>,
        node_type: NodeTypeId,
        nodes: Vec<u32>,
        wanted: NodeFields,
    ) -> BoxFuture<'_, Result<NodeAttributes, SampleError>> {
        self.fetch_with(node_type, nodes, wanted, None)
    }

    /// Returns the ids of `nodes` in the dataset, fetched as [`DistGraph::fetch`] does.
    ///
    /// # Errors
    /// The errors of [`DistGraph::fetch`].
    pub fn original_ids(
        self: &Arc<Self>,
        node_type: NodeTypeId,
        nodes: Vec<u32>,
    ) -> BoxFuture<'_, Result<Vec<u32>, SampleError>> {
        Box::pin(async move {
            let wanted = NodeFields { original_ids: true, ..NodeFields::default() };
            Ok(self.fetch(node_type, nodes, wanted).await?.original_ids)
        })
    }

    /// Fetches attributes of `nodes` as [`DistGraph::fetch`]. Features of a batch come from the cache that looks ahead as
    /// `ahead` tells, and go there.
    pub fn fetch_with<'a>(
        self: &'a Arc<Self>,
        node_type: NodeTypeId,
        nodes: Vec<u32>,
        wanted: NodeFields,
        ahead: Option<&'a Arc<CachedFetch>>,
    ) -> BoxFuture<'a, Result<NodeAttributes, SampleError>> {
        Box::pin(async move {
            let ahead = ahead.filter(|_| wanted.features);
            let has_cache = wanted.features && (ahead.is_some() || self.cached_table(node_type).is_some());
            let others = NodeFields { features: false, ..wanted };
            if !has_cache || others == NodeFields::default() {
                return self.fetch_rows(node_type, nodes, wanted, ahead).await;
            }
            // A request returns whole rows of all attributes, so features that may be cached have requests of their
            // own.
            let (others, features) = futures::try_join!(
                self.fetch_rows(node_type, nodes.clone(), others, None),
                self.fetch_rows(node_type, nodes, NodeFields::FEATURES, ahead)
            )?;
            Ok(NodeAttributes { features: features.features, feature_dim: features.feature_dim, ..others })
        })
    }

    /// Returns the cached rows of a node type, if there are any.
    fn cached_table(&self, node_type: NodeTypeId) -> Option<&CachedTable> {
        self.cached.get()?.of_type(node_type)
    }

    /// Fetches attributes of `nodes`. If only features are wanted, cached ones are not requested.
    async fn fetch_rows(
        self: &Arc<Self>,
        node_type: NodeTypeId,
        nodes: Vec<u32>,
        wanted: NodeFields,
        ahead: Option<&Arc<CachedFetch>>,
    ) -> Result<NodeAttributes, SampleError> {
        let shape = self.shape(node_type, wanted)?;
        let num_nodes = nodes.len();
        if wanted.features {
            self.traffic.count_read(node_type.index(), num_nodes, num_nodes * shape.feature_dim * size_of::<f32>());
        }
        let this = self.clone();
        let ahead = ahead.cloned();
        let of_batch = ahead.clone();
        let look = move || {
            let book = &this.part().meta().node_types[node_type.index()].book;
            let cached = this.cached_table(node_type).filter(|_| wanted.features).map(|table| &table.nodes);
            let read = of_batch.as_deref().map_or(&[][..], |ahead| ahead.read_slots(node_type));
            Sources::new(book, this.part().id(), &nodes, cached, read)
        };
        // Each node takes a few sequential reads and writes of 4 bytes.
        let mut sources = self.workers.run_sized(num_nodes / 4, look).await?;
        let mut requested = Arc::new(std::mem::take(&mut sources.others));
        let num_here = num_nodes - requested.iter().map(|of_part| of_part.rows.len()).sum::<usize>();
        let has_others = requested.iter().any(|of_part| !of_part.rows.is_empty());
        // Replies with several attributes have another layout.
        let in_flight = (wanted == NodeFields::FEATURES && has_others).then(|| &self.rows_in_flight[node_type.index()]);
        let mut shared = Vec::new();
        let others = in_flight.map(RowsInFlight::batches).unwrap_or_default();
        if !others.is_empty() {
            let all = requested.clone();
            // A lookup reads a cache line of the filter of each batch that is searched, and seldom more.
            let lines = num_nodes * others.len();
            let divided = self.workers.run_sized(lines, move || divide(&all, &others)).await?;
            requested = Arc::new(divided.0);
            shared = divided.1;
            let num_shared = shared.iter().map(|reply| reply.rows.len()).sum();
            self.traffic.count_shared(node_type.index(), num_shared);
        }
        self.traffic.count_cached(node_type.index(), sources.num_cached, sources.num_cached * shape.bytes_per_node);
        let per_piece = (self.config.fetch_chunk_bytes / shape.bytes_per_node.max(1)).max(1);
        let mut draft = Draft::new(self.part(), num_nodes, shape);
        let mut deliveries = vec![Vec::new(); self.peers.len()];
        let mut placements = vec![Vec::new(); self.peers.len()];
        for (part, peer) in self.peers.iter().enumerate() {
            let Some(peer) = peer else { continue };
            let rows = &requested[part].rows;
            if wanted.features {
                self.traffic.count_fetched(node_type.index(), rows.len());
            }
            for rows in rows.chunks(per_piece) {
                self.traffic.count_fetch();
                let peer = peer.clone();
                let reply_bytes = shape.bytes_per_node * rows.len();
                let start = placements[part].len() * per_piece;
                let rows_placed = start..start + rows.len();
                let placement = draft.features.as_ref().map(|features| {
                    Arc::new(Placement::new(features.clone(), requested.clone(), part, rows_placed, shape))
                });
                let mut request = FetchRequest::new(node_type, wanted, bytes_of(rows.to_vec()));
                request.sink = placement.as_ref().map(|placement| Arc::downgrade(placement) as Weak<dyn PayloadSink>);
                placements[part].push(placement);
                let task = tokio::spawn(async move { peer.ask(request, Some(reply_bytes)).await });
                let task = AbortOnDropHandle::new(task);
                let receive = async move {
                    task.await.map_err(|source| SampleError::process(format!("fetch from part {part}"), source))?
                };
                deliveries[part].push(deliver(receive));
            }
        }
        let registration =
            in_flight.map(|of_type| of_type.register(Requested::new(requested.clone(), per_piece, &deliveries)));
        let mut pieces = FuturesUnordered::new();
        for (part, (deliveries, placements)) in deliveries.into_iter().zip(placements).enumerate() {
            for (i, (delivery, placement)) in deliveries.into_iter().zip(placements).enumerate() {
                let place = Place::Piece { part, start: i * per_piece, placement };
                pieces.push(async move { (place, delivery.await) }.boxed());
            }
        }
        for SharedRows { delivery, rows } in shared {
            pieces.push(async move { (Place::Rows(rows), delivery.await) }.boxed());
        }
        let graph = self.clone();
        let gather = move || {
            let cached = graph.cached_table(node_type).map(|table| &table.rows);
            graph.part.watch_fetch(node_type, wanted, num_here, || draft.gather(graph.part(), &sources, cached, shape));
            draft
        };
        // Rows that are not gathered here take a few bytes each.
        let lines = self.part.lines_of_fetch(node_type, wanted, num_here).saturating_add(num_nodes / 8);
        draft = self.workers.run_sized(lines, gather).await?;
        let mut stored = Vec::new();
        while let Some((place, reply)) = pieces.next().await {
            let data = reply.map_err(SampleError::shared)?;
            let requested = requested.clone();
            let lines = place.bytes_left(&data).div_ceil(LINE_BYTES);
            let ahead = ahead.clone();
            let place = move || {
                let to_store = match place {
                    Place::Piece { part, start, placement } => {
                        let positions = &requested[part].positions[start..];
                        draft.place(positions, &data, shape);
                        if let Some(placement) = placement {
                            placement.finish(&data);
                        }
                        let num_rows = data.len() / shape.bytes_per_node.max(1);
                        let rows = positions[..num_rows].iter().copied().zip(0..);
                        ahead.and_then(|ahead| ahead.to_store(node_type, &data, rows))
                    }
                    Place::Rows(rows) => {
                        draft.place_rows(&rows, &data, shape);
                        ahead.and_then(|ahead| ahead.to_store(node_type, &data, rows.into_iter()))
                    }
                };
                (draft, to_store)
            };
            let (placed, to_store) = self.workers.run_sized(lines, place).await?;
            draft = placed;
            stored.extend(to_store);
        }
        drop(registration);
        if let Some(ahead) = ahead {
            ahead.wait_for_turn().await?;
            let exchange = move || {
                if let Some(features) = &draft.features {
                    ahead.exchange(node_type, shape.dtype, features, &stored);
                }
                draft
            };
            let lines = self.part.lines_of_fetch(node_type, wanted, num_nodes);
            draft = self.workers.run_sized(lines, exchange).await?;
        }
        self.workers.run_sized(num_nodes / u64::BITS as usize, move || draft.finish()).await?
    }

    fn shape(&self, node_type: NodeTypeId, wanted: NodeFields) -> Result<Shape, SampleError> {
        let t = &self.part().meta().node_types[node_type.index()];
        let missing = if wanted.features && t.feature_dim == 0 {
            Some("features")
        } else if wanted.labels && !t.is_labeled() {
            Some("labels")
        } else if wanted.times && !t.has_times {
            Some("times")
        } else {
            None
        };
        if let Some(missing) = missing {
            let what = format!("nodes of type {} have no {missing} in dataset {}", t.name, self.part().meta().dataset);
            return Err(SampleError::NoSuchNode { what });
        }
        let bytes_per_node = wanted.bytes_per_node(t);
        Ok(Shape {
            node_type,
            wanted,
            feature_dim: if wanted.features { t.feature_dim } else { 0 },
            target_dim: t.targets.filter(|_| wanted.labels).map_or(0, |targets| targets.dim),
            dtype: t.feature_dtype,
            bytes_per_node,
        })
    }
}

/// The nodes whose rows a reply has.
enum Place {
    /// The nodes that were requested from a part, from the one at `start` on.
    Piece { part: usize, start: usize, placement: Option<Arc<Placement>> },
    /// Some rows of a reply to another batch: pairs of a position and a row.
    Rows(Vec<(u32, u32)>),
}

impl Place {
    /// Returns the bytes of a reply that are not in the batch yet.
    fn bytes_left(&self, reply: &Bytes) -> usize {
        match self {
            Self::Piece { placement: Some(placement), .. } => placement.bytes_left(),
            _ => reply.len(),
        }
    }
}
