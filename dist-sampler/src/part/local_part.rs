//! The part that this process holds, and the state that answers requests about it.

use crate::part::directory::Directory;
use crate::part::disk_waits::DiskWaits;
use crate::part::hub_index::{HubBudget, HubIndex};
use crate::part::requests::Refusal;
use crate::part::source_ids::SourceIds;
use edgecut_graph::{EdgeTypeId, HopKernel, NodeTypeId, Part, PartEdges};
use rustc_hash::FxHashSet;
use std::sync::{Arc, OnceLock};

/// Pairs of source and destination, as global ids.
pub(crate) type Pairs = FxHashSet<(u32, u32)>;

/// The part that this process holds.
#[derive(Clone)]
pub(crate) struct LocalPart {
    pub(crate) part: Arc<Part>,
    /// By edge type, the held-out edges as (source, destination). Built on first use.
    pub(crate) held_out: Arc<Vec<OnceLock<Pairs>>>,
    /// By edge type.
    pub(crate) hubs: Arc<Vec<HubIndex>>,
    /// The kernel that draws plain hops instead of the CPU, for the edge types that it accepts.
    pub(crate) kernel: Arc<OnceLock<Arc<dyn HopKernel>>>,
    /// By node type.
    pub(crate) directories: Arc<Vec<Directory>>,
    /// The original ids of the sources of all edges. Set once they are needed.
    pub(crate) source_ids: Arc<OnceLock<SourceIds>>,
    /// Counted by the reads of nodes' attributes in mapped files.
    pub(crate) disk_waits: Arc<DiskWaits>,
}

impl LocalPart {
    /// Serves `part`. Sorted copies of the in-neighbors of hubs take up to `max_hub_index_bytes`.
    pub(crate) fn new(part: Arc<Part>, max_hub_index_bytes: usize) -> Self {
        let held_out = part.edge_type_ids().map(|_| OnceLock::new()).collect();
        let budget = Arc::new(HubBudget::new(max_hub_index_bytes));
        let hubs = part.edge_type_ids().map(|_| HubIndex::new(budget.clone())).collect();
        let directories = part.meta().node_types.iter().map(|_| Directory::default()).collect();
        Self {
            part,
            held_out: Arc::new(held_out),
            hubs: Arc::new(hubs),
            kernel: Arc::default(),
            directories: Arc::new(directories),
            source_ids: Arc::default(),
            disk_waits: Arc::default(),
        }
    }

    /// Sets the kernel that draws the plain hops it accepts. Returns false if a kernel is already set.
    pub(crate) fn draw_with(&self, kernel: Arc<dyn HopKernel>) -> bool {
        self.kernel.set(kernel).is_ok()
    }

    /// Returns the edges of a type, which a peer may have chosen wrongly.
    pub(crate) fn edges(&self, edge_type: EdgeTypeId) -> Result<&PartEdges, Refusal> {
        match self.part.meta().edge_types.len() {
            types if edge_type.index() < types => Ok(self.part.edges(edge_type)),
            types => Err(Refusal::Invalid(format!("there is no edge type {}, the graph has {types}", edge_type.0))),
        }
    }

    /// Returns this part's share of the directory of a node type.
    pub(crate) fn directory(&self, node_type: NodeTypeId) -> &Directory {
        &self.directories[node_type.index()]
    }

    /// Refuses a node type that the graph does not have.
    pub(crate) fn check_node_type(&self, node_type: NodeTypeId) -> Result<(), Refusal> {
        match self.part.meta().node_types.len() {
            types if node_type.index() < types => Ok(()),
            types => Err(Refusal::Invalid(format!("there is no node type {}, the graph has {types}", node_type.0))),
        }
    }
}

/// Refuses rows that the part does not have.
pub(crate) fn check_rows<'a>(mut rows: impl Iterator<Item = &'a u32>, bound: usize) -> Result<(), Refusal> {
    match rows.find(|&&row| row as usize >= bound) {
        Some(row) => Err(Refusal::Invalid(format!("row {row} was requested, but the part has {bound} rows"))),
        None => Ok(()),
    }
}
