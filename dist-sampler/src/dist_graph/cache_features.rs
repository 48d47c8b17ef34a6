//! Filling a machine's cache of the features of other parts' nodes.

use crate::cache::cached_features::{CacheContents, CachedFeatures, CachedTable};
use crate::cache::hotness::Hotness;
use crate::cache::node_set::NodeSet;
use crate::config::cache_size::CacheSize;
use crate::config::node_fields::NodeFields;
use crate::dist_graph::DistGraph;
use crate::error::SampleError;
use crate::shared_dataset::temporary_folder;
use edgecut_cluster::{ProcessGroup, ReduceOp, with_causes};
use edgecut_graph::{Features, GraphError, NodeTypeId, map_features, map_npy, write_features, write_npy};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The bytes of features that are fetched at once, as `f32`. Bounds the memory while the cache is filled.
const BYTES_AT_ONCE: usize = 64 << 20;
/// The number of nodes whose in-degrees are requested at once.
const DEGREES_AT_ONCE: u32 = 1 << 20;

impl DistGraph {
    /// Keeps the rows of other parts' nodes with the highest counts in memory, as many as `size` allows. From now on
    /// [`DistGraph::fetch`] copies their features from there. Returns the contents of the cache.
    ///
    /// All processes of this machine must call this, before any of them leaves the job, and each with the counts of its
    /// own batches. They add up their counts and have one copy of the rows: a mapped file in the system's temporary
    /// folder (set `TMPDIR` to choose another), which is removed once all have mapped it. A process that is alone on its
    /// machine has the rows in its own memory. If the processes have different parts or sizes, the largest limit
    /// applies. Must not be called from async code.
    ///
    /// # Errors
    /// [`SampleError::Layout`] if this process has a cache already, [`SampleError::Dataset`] if the files cannot be
    /// written or mapped, or an error of a peer.
    pub fn cache_features(
        self: &Arc<Self>,
        mut hotness: Hotness,
        size: CacheSize,
    ) -> Result<CacheContents, SampleError> {
        if self.look_ahead.get().is_some() {
            return Err(SampleError::Layout { what: "this process already has a cache that looks ahead".into() });
        }
        let meta = self.part().meta();
        hotness.retain(|t, node| meta.node_types[t].feature_dim > 0 && !self.part().owned(type_id(t)).contains(&node));
        let mut local = self.cluster().local_group()?;
        let mut limit = [size.bytes(self.remote_feature_bytes())];
        local.all_reduce(&mut limit, ReduceOp::Max)?;
        let filled = match local.size() {
            1 => self.fetch_tables(&hotness, limit[0])?,
            _ => self.share_tables(&hotness, limit[0], &mut local)?,
        };
        let contents = filled.size();
        match self.cached.set(filled) {
            Ok(()) => Ok(contents),
            Err(_) => Err(SampleError::Layout { what: "this process already has a cache of features".into() }),
        }
    }

    /// Counts the in-edges of all nodes of other parts that have features, as a prediction of how often they are
    /// sampled that needs no sampling. Takes about 16 bytes of memory per node. Must not be called from async code.
    ///
    /// # Errors
    /// An error of a peer.
    pub fn in_degrees_elsewhere(self: &Arc<Self>) -> Result<Hotness, SampleError> {
        let node_types = &self.part().meta().node_types;
        let mut hotness = Hotness::new(node_types.len());
        let wanted = NodeFields { degrees: true, ..NodeFields::default() };
        for (t, of_type) in node_types.iter().enumerate().filter(|(_, of_type)| of_type.feature_dim > 0) {
            let owned = self.part().owned(type_id(t));
            let num_nodes = of_type.book.num_nodes() as u32;
            for others in [0..owned.start, owned.end..num_nodes] {
                for start in others.clone().step_by(DEGREES_AT_ONCE as usize) {
                    let nodes: Vec<u32> = (start..others.end.min(start.saturating_add(DEGREES_AT_ONCE))).collect();
                    let fetched = self.handle().block_on(self.fetch(type_id(t), nodes.clone(), wanted))?;
                    nodes.iter().zip(&fetched.degrees).for_each(|(&node, &degree)| hotness.add(t, node, degree));
                }
            }
        }
        Ok(hotness)
    }

    /// Returns the counts of the nodes of other parts that were ranked when the parts were written, or `None` if this
    /// process holds no ranking.
    pub fn stored_hotness(&self) -> Option<Hotness> {
        let num_types = self.part().meta().node_types.len();
        let ranked: Vec<_> = (0..num_types).map(|t| self.part().nodes(type_id(t)).hot.as_ref()).collect();
        if ranked.iter().all(Option::is_none) {
            return None;
        }
        let mut hotness = Hotness::new(num_types);
        for (t, hot) in ranked.into_iter().enumerate() {
            let Some(hot) = hot else { continue };
            hot.nodes.iter().zip(&hot.counts[..]).for_each(|(&node, &count)| hotness.add(t, node, count));
        }
        Some(hotness)
    }

    /// Returns the bytes of the feature rows that other parts own.
    pub(crate) fn remote_feature_bytes(&self) -> u64 {
        let mut bytes = 0;
        for (t, of_type) in self.part().meta().node_types.iter().enumerate() {
            let elsewhere = of_type.book.num_nodes() - self.part().owned(type_id(t)).len();
            bytes += (elsewhere * of_type.feature_bytes()) as u64;
        }
        bytes
    }

    /// Fetches the rows with the highest counts that fit into `limit` bytes.
    fn fetch_tables(self: &Arc<Self>, hotness: &Hotness, limit: u64) -> Result<CachedFeatures, SampleError> {
        let mut tables = Vec::new();
        for (t, nodes) in self.hottest(hotness, limit).into_iter().enumerate() {
            let table = if nodes.is_empty() { None } else { Some(self.fetch_table(type_id(t), &nodes)?) };
            tables.push(table);
        }
        Ok(CachedFeatures { tables })
    }

    /// Returns the nodes by type, ascending.
    fn hottest(&self, hotness: &Hotness, limit: u64) -> Vec<Vec<u32>> {
        let node_types = self.part().meta().node_types.iter();
        let row_bytes: Vec<u64> = node_types.map(|t| t.feature_bytes() as u64).collect();
        let mut nodes = hotness.hottest(&row_bytes, limit);
        nodes.iter_mut().for_each(|nodes| nodes.sort_unstable());
        nodes
    }

    fn fetch_table(self: &Arc<Self>, node_type: NodeTypeId, nodes: &[u32]) -> Result<CachedTable, SampleError> {
        let of_type = &self.part().meta().node_types[node_type.index()];
        let dim = of_type.feature_dim;
        let mut pieces = Vec::new();
        let wanted = NodeFields::FEATURES;
        for nodes in nodes.chunks((BYTES_AT_ONCE / (dim * size_of::<f32>())).max(1)) {
            let fetched = self.handle().block_on(self.fetch(node_type, nodes.to_vec(), wanted))?;
            // The rows had this type before, so the conversion is exact.
            let rows = Features::F32 { values: fetched.features.into(), dim }.to_dtype(of_type.feature_dtype);
            pieces.push(rows.map_err(|error| SampleError::Dataset { what: with_causes(&error) })?);
        }
        let rows = Features::concat(dim, of_type.feature_dtype, pieces);
        Ok(CachedTable { nodes: NodeSet::new(nodes, of_type.book.num_nodes()), rows })
    }

    /// Adds up the counts of all processes of this machine, of which the first fetches the rows and writes them to files
    /// that all of them map.
    fn share_tables(
        self: &Arc<Self>,
        hotness: &Hotness,
        limit: u64,
        local: &mut ProcessGroup,
    ) -> Result<CachedFeatures, SampleError> {
        let num_types = self.part().meta().node_types.len();
        let parent = std::env::temp_dir();
        let first = local.rank() == 0;
        let folder = if first {
            let folder = temporary_folder::create(&parent);
            Some(folder.map_err(|error| unshared(GraphError::io(&parent, error), &parent))?)
        } else {
            None
        };
        let mut dir = folder.as_ref().map(|folder| folder.dir().as_os_str().as_bytes().to_vec()).unwrap_or_default();
        local.broadcast_bytes(&mut dir, 0)?;
        let files = CacheFiles { dir: Path::new(OsStr::from_bytes(&dir)).to_owned() };
        for t in 0..num_types {
            files.write_counts(local.rank(), t, hotness).map_err(|error| unshared(error, &parent))?;
        }
        local.barrier()?;
        if first {
            let mut all = Hotness::new(num_types);
            for rank in 0..local.size() {
                for t in 0..num_types {
                    files.add_counts(rank, t, &mut all).map_err(|error| unshared(error, &parent))?;
                }
            }
            for (t, nodes) in self.hottest(&all, limit).into_iter().enumerate().filter(|(_, nodes)| !nodes.is_empty()) {
                let table = self.fetch_table(type_id(t), &nodes)?;
                files.write_table(t, &nodes, &table.rows).map_err(|error| unshared(error, &parent))?;
            }
        }
        local.barrier()?;
        let mut tables = Vec::with_capacity(num_types);
        for (t, of_type) in self.part().meta().node_types.iter().enumerate() {
            tables.push(files.map_table(t, of_type).map_err(|error| unshared(error, &parent))?);
        }
        // Once all processes have mapped the files, dropping `folder` may remove their names.
        local.barrier()?;
        Ok(CachedFeatures { tables })
    }
}

fn type_id(node_type: usize) -> NodeTypeId {
    NodeTypeId(node_type as u16)
}

fn unshared(error: GraphError, parent: &Path) -> SampleError {
    let why = with_causes(&error);
    let parent = parent.display();
    let what = format!(
        "{why} (the processes of this machine share the cached features through {parent}; set TMPDIR to choose another \
         folder)"
    );
    SampleError::Dataset { what }
}

/// The files through which the processes of a machine share a cache.
struct CacheFiles {
    dir: PathBuf,
}

impl CacheFiles {
    fn path(&self, name: &str, node_type: usize) -> PathBuf {
        self.dir.join(format!("{name}-{node_type}.npy"))
    }

    /// Writes the counts of a process: pairs of a node and its count.
    fn write_counts(&self, rank: usize, node_type: usize, hotness: &Hotness) -> Result<(), GraphError> {
        let pairs: Vec<u32> = hotness.of_type(node_type).flat_map(|(node, count)| [node, count]).collect();
        write_npy(&self.path(&format!("counts-{rank}"), node_type), &[pairs.len() / 2, 2], &pairs)
    }

    fn add_counts(&self, rank: usize, node_type: usize, hotness: &mut Hotness) -> Result<(), GraphError> {
        let (_, pairs) = map_npy::<u32>(&self.path(&format!("counts-{rank}"), node_type))?;
        pairs.chunks_exact(2).for_each(|pair| hotness.add(node_type, pair[0], pair[1]));
        Ok(())
    }

    fn write_table(&self, node_type: usize, nodes: &[u32], rows: &Features) -> Result<(), GraphError> {
        write_features(&self.path("rows", node_type), rows)?;
        write_npy(&self.path("nodes", node_type), &[nodes.len()], nodes)
    }

    /// Maps the rows of a type; `None` if there are none.
    fn map_table(
        &self,
        node_type: usize,
        of_type: &edgecut_graph::NodeTypeMeta,
    ) -> Result<Option<CachedTable>, GraphError> {
        let path = self.path("nodes", node_type);
        match path.try_exists() {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(error) => return Err(GraphError::io(&path, error)),
        }
        let (_, nodes) = map_npy::<u32>(&path)?;
        let path = self.path("rows", node_type);
        let rows = map_features(&path, [nodes.len(), of_type.feature_dim], of_type.feature_dtype)?;
        Ok(Some(CachedTable { nodes: NodeSet::new(&nodes, of_type.book.num_nodes()), rows }))
    }
}
