//! Rows of all nodes of a type, such as the output of a layer.

use crate::arrays::bytes_of;
use crate::dist_graph::routing::Elsewhere;
use crate::dist_graph::{DistGraph, SeedShare};
use crate::embedding::dist_embedding::floats;
use crate::error::SampleError;
use crate::part::requests::PullRequest;
use crate::part::row_table::RowTable;
use crate::shared_dataset::space::check_space;
use crate::shared_dataset::temporary_folder::{self, ROWS_FILE};
use edgecut_cluster::with_causes;
use edgecut_graph::{
    FeatureDtype, GatheredRows, GlobalNodeId, GraphError, NodeTypeId, PartitionBook, PartitionId, map_features,
    npy_header,
};
use edgecut_output::TemporaryFolder;
use futures::future::{BoxFuture, try_join_all};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A row of numbers for each node of a type. Each process holds the rows of its seeds, in the order in which an
/// unshuffled loader of all nodes makes them, in a mapped file. All processes can read all rows.
///
/// ```
/// # let graph = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/example_node.rs"));
/// use edgecut_dist_sampler::RowsWriter;
/// use edgecut_graph::NodeTypeId;
/// let mut writer = RowsWriter::create(&graph, NodeTypeId(0), 2, &std::env::temp_dir())?;
/// for row in 0..100 {
///     writer.push(&[row as f32, 0.5])?;
/// }
/// let rows = writer.finish()?;
/// // In a job of several ranks, a collective lies here.
/// assert_eq!(graph.handle().block_on(rows.pull(&[7, 3]))?, [7.0, 0.5, 3.0, 0.5]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct DistRows {
    graph: Arc<DistGraph>,
    node_type: NodeTypeId,
    dim: usize,
    table: u32,
    own: Arc<RowTable>,
    owners: Owners,
}

/// The division of rows over the ranks, which is that of the seeds.
///
/// The owner of a row and its position follow from the node's id and the division of the seeds, so no map is stored.
struct Owners {
    book: PartitionBook,
    /// For each part, its first holder and their number. A single entry if all ranks share the seeds of all parts.
    holders: Vec<(usize, usize)>,
}

impl Owners {
    fn new(graph: &DistGraph, node_type: NodeTypeId) -> Self {
        let meta = graph.part().meta();
        let book = meta.node_types[node_type.index()].book.clone();
        let holders = if graph.is_even() {
            let of_part = |part: usize| {
                let processes = graph.holders_of(part);
                (processes.start, processes.len())
            };
            (0..meta.num_parts as usize).map(of_part).collect()
        } else {
            vec![(0, graph.cluster().world_size())]
        };
        Self { book, holders }
    }

    /// Returns the rank that holds the row of a node, and the position of the row there.
    fn find(&self, node: u32) -> (usize, u32) {
        let (first_id, (first_rank, sharers)) = match &self.holders[..] {
            [all] => (0, *all),
            of_parts => {
                let part = self.book.owner(GlobalNodeId(node));
                (self.book.range(part).start, of_parts[part.index()])
            }
        };
        let position = node - first_id;
        (first_rank + position as usize % sharers, position / sharers as u32)
    }
}

impl DistRows {
    /// Returns the type of the nodes.
    pub fn node_type(&self) -> NodeTypeId {
        self.node_type
    }

    /// Returns the number of values per row.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Returns the global ids of the nodes whose rows this process holds.
    pub fn own_nodes(&self) -> impl ExactSizeIterator<Item = u32> + use<> {
        let SeedShare { parts, sharers, mine } = self.graph.seed_share();
        let first = self.owners.book.range(PartitionId(parts.start)).start;
        let end = self.owners.book.range(PartitionId(parts.end - 1)).end;
        (first.saturating_add(mine as u32)..end).step_by(sharers)
    }

    /// Returns true if this process holds the row of a node, which is a global id.
    pub fn holds(&self, node: u32) -> bool {
        self.owners.find(node).0 == self.graph.cluster().rank()
    }

    /// Returns the graph to which the nodes belong.
    pub fn node(&self) -> &Arc<DistGraph> {
        &self.graph
    }

    /// Returns the rows of nodes, which are global ids, in their order. No rank may call this before all ranks have
    /// finished writing.
    ///
    /// # Shapes
    /// - output: `[nodes.len(), dim]`, row-major
    ///
    /// # Errors
    /// An error of a peer.
    pub fn pull<'a>(&'a self, nodes: &'a [u32]) -> BoxFuture<'a, Result<Vec<f32>, SampleError>> {
        Box::pin(async move {
            let peers = self.graph.rank_peers()?;
            let Asked { own, others } = self.locate(nodes);
            let per_piece = (self.graph.config.fetch_chunk_bytes / (self.dim * size_of::<f32>())).max(1);
            let mut pieces = Vec::new();
            for (peer, Elsewhere { rows, positions }) in peers.iter().zip(&others) {
                let Some(peer) = peer else { continue };
                for (rows, positions) in rows.chunks(per_piece).zip(positions.chunks(per_piece)) {
                    pieces.push(async move {
                        let reply_bytes = rows.len() * self.dim * size_of::<f32>();
                        let request = PullRequest { table: self.table, version: 0, rows: bytes_of(rows.to_vec()) };
                        Ok::<_, SampleError>((positions, peer.ask(request, Some(reply_bytes)).await?))
                    });
                }
            }
            let table = self.own.clone();
            let gather_own = self.graph.run_on_workers(move || table.gather(&own));
            let (replies, rows) = futures::try_join!(try_join_all(pieces), gather_own)?;
            for (positions, data) in replies {
                rows.place(positions, FeatureDtype::F32, bytemuck::cast_slice(&floats(&data)));
            }
            Ok(rows.finish())
        })
    }

    /// Finds the holders of the rows of nodes.
    fn locate(&self, nodes: &[u32]) -> Asked {
        let this = self.graph.cluster().rank();
        let mut own = vec![GatheredRows::ELSEWHERE; nodes.len()];
        let mut others = vec![Elsewhere::default(); self.graph.cluster().world_size()];
        for (position, &node) in nodes.iter().enumerate() {
            let (rank, row) = self.owners.find(node);
            if rank == this {
                own[position] = row;
            } else {
                others[rank].rows.push(row);
                others[rank].positions.push(position as u32);
            }
        }
        Asked { own, others }
    }
}

/// The places of rows.
struct Asked {
    /// For each node, its row in this process, or [`GatheredRows::ELSEWHERE`].
    own: Vec<u32>,
    /// For each rank, the rows to request from it. Empty for this process.
    others: Vec<Elsewhere>,
}

impl Drop for DistRows {
    fn drop(&mut self) {
        self.graph.shards.remove(self.table);
    }
}

/// A writer of the rows that one process holds. Every rank makes its writers in the same order.
pub struct RowsWriter {
    graph: Arc<DistGraph>,
    node_type: NodeTypeId,
    dim: usize,
    expected: usize,
    written: usize,
    path: PathBuf,
    file: BufWriter<File>,
    /// Removed once the file is mapped.
    folder: TemporaryFolder,
}

impl RowsWriter {
    /// Creates the file of this process's rows, `dim` values each, below `scratch_dir`.
    ///
    /// # Errors
    /// [`SampleError::Layout`] for rows without values and for a client of servers; [`SampleError::Dataset`] if the file
    /// cannot be created, or the folder lacks the space.
    pub fn create(
        graph: &Arc<DistGraph>,
        node_type: NodeTypeId,
        dim: usize,
        scratch_dir: &Path,
    ) -> Result<Self, SampleError> {
        if dim == 0 || graph.is_client() {
            let what = if dim == 0 { "rows need at least one value" } else { "a client of servers holds no rows" };
            return Err(SampleError::Layout { what: what.into() });
        }
        let SeedShare { parts, sharers, mine } = graph.seed_share();
        let book = &graph.part().meta().node_types[node_type.index()].book;
        let len = (book.range(PartitionId(parts.end - 1)).end - book.range(PartitionId(parts.start)).start) as usize;
        let expected = len.saturating_sub(mine).div_ceil(sharers);
        let in_folder = |error: std::io::Error| {
            let what = format!(
                "{} (the outputs of layers are written there: free space, or choose another folder, `scratch_dir` or \
                 TMPDIR)",
                with_causes(&GraphError::io(scratch_dir, error))
            );
            SampleError::Dataset { what }
        };
        // The other processes of the machine write as much at the same time.
        let num_processes = graph.cluster().local_world_size().max(1);
        check_space(scratch_dir, (num_processes * expected * dim * size_of::<f32>()) as u64).map_err(in_folder)?;
        let folder = temporary_folder::create(scratch_dir).map_err(in_folder)?;
        let path = folder.dir().join(ROWS_FILE);
        let create = || {
            let mut file = BufWriter::with_capacity(1 << 20, File::create(&path)?);
            file.write_all(&npy_header::<f32>(&[expected, dim])?)?;
            Ok(file)
        };
        let file = create().map_err(|error| failed(GraphError::io(&path, error)))?;
        Ok(Self { graph: graph.clone(), node_type, dim, expected, written: 0, path, file, folder })
    }

    /// Appends rows in the order of this process's seeds.
    ///
    /// # Shapes
    /// - `values`: `[rows, dim]`, row-major
    ///
    /// # Errors
    /// [`SampleError::Dataset`] if the file cannot be written. [`SampleError::Layout`] for values that are not whole
    /// rows, or more rows than this process holds.
    pub fn push(&mut self, values: &[f32]) -> Result<(), SampleError> {
        self.written += values.len() / self.dim;
        if !values.len().is_multiple_of(self.dim) || self.written > self.expected {
            let what = format!("{} values of {} rows of {}", values.len(), self.expected, self.dim);
            return Err(SampleError::Layout { what });
        }
        let written = self.file.write_all(bytemuck::cast_slice(values));
        written.map_err(|error| failed(GraphError::io(&self.path, error)))
    }

    /// Maps the rows and offers them to the other ranks. A collective must follow before any rank reads.
    ///
    /// # Errors
    /// [`SampleError::Layout`] if rows are missing, [`SampleError::Dataset`] if the file cannot be written or mapped.
    pub fn finish(mut self) -> Result<DistRows, SampleError> {
        if self.written != self.expected {
            let what = format!("{} of {} rows were written", self.written, self.expected);
            return Err(SampleError::Layout { what });
        }
        self.file.flush().map_err(|error| failed(GraphError::io(&self.path, error)))?;
        let rows = map_features(&self.path, [self.expected, self.dim], FeatureDtype::F32).map_err(failed)?;
        drop(self.folder);
        let own = Arc::new(RowTable::new(rows));
        let table = self.graph.shards.add_rows(own.clone());
        let owners = Owners::new(&self.graph, self.node_type);
        let Self { graph, node_type, dim, .. } = self;
        Ok(DistRows { graph, node_type, dim, table, own, owners })
    }
}

fn failed(error: GraphError) -> SampleError {
    SampleError::Dataset { what: with_causes(&error) }
}
