//! Estimates of the work for a request.

use crate::config::fan_out::Fanout;
use crate::config::node_fields::NodeFields;
use crate::part::local_part::LocalPart;
use crate::part::node_attributes::Degrees;
use crate::part::requests::{FetchEdgesRequest, HopRequest, HopSection, LookUpRequest};
use crate::workers::{LINE_BYTES, ON_POOL};
use edgecut_graph::{Buffer, EdgeTypeId, Features, NodeTypeId};

impl LocalPart {
    /// Estimates the cache lines that a hop reads. Neighbor lists and the drawn entries are at random addresses, so
    /// each counts as a line of its own.
    pub(crate) fn lines_of_hop(&self, request: &HopRequest) -> usize {
        let lines = |section: &HopSection| match section.fanout {
            _ if section.num_rows == 0 => 0,
            _ if self.hop_may_wait_for_disk(section.edge_type) => ON_POOL,
            // Weighted and temporal draws read the attributes of all neighbors.
            _ if !request.is_plain() => ON_POOL,
            // The kernel waits for a device.
            _ if self.kernel_for(request, section).is_some() => ON_POOL,
            Fanout::All => ON_POOL,
            Fanout::Count(count) => (section.num_rows as usize).saturating_mul(2 + count as usize),
        };
        request.sections.iter().map(lines).fold(0, usize::saturating_add)
    }

    /// Returns whether the plain kernel reads a mapped file for an edge type: the edges, or the original ids that key
    /// its draws.
    fn hop_may_wait_for_disk(&self, edge_type: EdgeTypeId) -> bool {
        if edge_type.index() >= self.part.meta().edge_types.len() {
            return false;
        }
        let edges = self.part.edges(edge_type);
        edges.csc.is_mapped() || self.part.nodes(edges.dst_type).original_ids.is_mapped()
    }

    /// Estimates the cache lines that the attributes of rows take. Returns [`ON_POOL`] if reading them may wait for the
    /// disk, unless the latest reads have not waited.
    pub(crate) fn lines_of_fetch(&self, node_type: NodeTypeId, wanted: NodeFields, num_rows: usize) -> usize {
        let Some(t) = self.part.meta().node_types.get(node_type.index()) else { return 0 };
        if num_rows > 0 && !self.disk_waits.are_rare() && self.fetch_may_wait_for_disk(node_type, wanted) {
            return ON_POOL;
        }
        let row_lines = wanted.bytes_per_node(t).div_ceil(LINE_BYTES);
        num_rows.saturating_mul(row_lines)
    }

    /// Runs a read of attributes of rows, which counts for [`LocalPart::lines_of_fetch`] if it may wait for the disk.
    pub(crate) fn watch_fetch<T>(
        &self,
        node_type: NodeTypeId,
        wanted: NodeFields,
        num_rows: usize,
        read: impl FnOnce() -> T,
    ) -> T {
        let exists = node_type.index() < self.part.meta().node_types.len();
        if exists && num_rows > 0 && self.fetch_may_wait_for_disk(node_type, wanted) {
            return self.disk_waits.watch(read);
        }
        read()
    }

    /// Returns true if attributes are read from a mapped file.
    pub(crate) fn fetch_may_wait_for_disk(&self, node_type: NodeTypeId, wanted: NodeFields) -> bool {
        let nodes = self.part.nodes(node_type);
        let has_mapped_labels = nodes.labels.as_ref().is_some_and(Buffer::is_mapped)
            || nodes.targets.as_ref().is_some_and(Buffer::is_mapped);
        (wanted.labels && has_mapped_labels)
            || (wanted.times && nodes.times.as_ref().is_some_and(Buffer::is_mapped))
            || (wanted.original_ids && nodes.original_ids.is_mapped())
            || (wanted.degrees && Degrees::new(&self.part, node_type).is_mapped())
            || (wanted.in_weights && Degrees::new(&self.part, node_type).has_mapped_weights())
            || (wanted.features && nodes.features.as_ref().is_some_and(Features::is_mapped))
    }

    /// Estimates the cache lines that a search for original ids reads. Returns [`ON_POOL`] if reading them may wait for
    /// the disk.
    pub(crate) fn lines_of_find(&self, node_type: NodeTypeId, num_ids: usize) -> usize {
        let is_node_type = node_type.index() < self.part.meta().node_types.len();
        if is_node_type && self.part.nodes(node_type).original_ids.is_mapped() {
            return ON_POOL;
        }
        // A binary search reads about one line per step.
        num_ids.saturating_mul(u32::BITS as usize)
    }

    /// Estimates the cache lines that a lookup of keys reads. Returns [`ON_POOL`] if reading them may wait for the
    /// disk. An only part in the original order has no directory in memory and reads mapped files.
    pub(crate) fn lines_of_look_up(&self, request: &LookUpRequest) -> usize {
        let is_node_type = request.node_type.index() < self.part.meta().node_types.len();
        if is_node_type && self.part.has_original_order(request.node_type) {
            return ON_POOL;
        }
        // A binary search reads about one line per step.
        (request.keys.len() / size_of::<u32>()).saturating_mul(u32::BITS as usize)
    }

    /// Estimates the cache lines that attributes of edges take. Returns [`ON_POOL`] if reading them may wait for the
    /// disk.
    pub(crate) fn lines_of_fetch_edges(&self, request: &FetchEdgesRequest) -> usize {
        let types = &self.part.meta().edge_types;
        let Some(t) = types.get(request.edge_type.index()) else { return 0 };
        if self.fetch_edges_may_wait_for_disk(request) {
            return ON_POOL;
        }
        let dim = t.feature_bytes();
        (request.edges.len() / (2 * size_of::<u32>())).saturating_mul(2 + dim.div_ceil(LINE_BYTES))
    }

    fn fetch_edges_may_wait_for_disk(&self, request: &FetchEdgesRequest) -> bool {
        let edges = self.part.edges(request.edge_type);
        let attributes = &edges.attributes;
        edges.csc.is_mapped()
            || (request.wanted.times && attributes.times.as_ref().is_some_and(Buffer::is_mapped))
            || (request.wanted.weights && attributes.weights.as_ref().is_some_and(Buffer::is_mapped))
            || (request.wanted.labels && attributes.labels.is_some())
            || (request.wanted.features && attributes.features.as_ref().is_some_and(Features::is_mapped))
            || (request.wanted.ids && attributes.ids.is_some())
    }
}

#[cfg(test)]
mod tests;
