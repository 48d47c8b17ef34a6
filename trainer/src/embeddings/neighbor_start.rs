//! The start of the rows of new nodes from the rows of their neighbors.

use super::Embeddings;
use crate::error::TrainError;
use crate::model_file::{EmbeddingSize, MatchedRows, NewEmbeddings, SavedEmbeddings};
use edgecut_cluster::{ProcessGroup, ReduceOp};
use edgecut_dist_sampler::DistEmbedding;
use edgecut_graph::EdgeTypeId;
use std::collections::BTreeSet;

/// The number of new nodes whose neighbors are read at once.
const NEW_NODES_AT_ONCE: usize = 1024;

/// The values of new nodes, row by row, and the number of new nodes without known neighbors.
#[derive(Default)]
struct Starts {
    values: Vec<f32>,
    num_lonely: u64,
}

impl Embeddings {
    /// Sets the rows of new nodes, which are not numbers yet, to the mean of the saved rows of their neighbors, or to the mean
    /// of the table. Returns the numbers of new nodes without known neighbors by table. All ranks must call this.
    pub(super) fn start_from_neighbors(
        &mut self,
        saved: &SavedEmbeddings,
        matches: &[MatchedRows],
        new_rows: &[Vec<usize>],
        world: &mut ProcessGroup,
    ) -> Result<Vec<u64>, TrainError> {
        let mut starts = Vec::with_capacity(matches.len());
        for matched in matches.iter().filter(|matched| matched.new > 0) {
            if self.neighbor_tables(&matched.node_type, matches).is_empty() {
                return Err(TrainError::config(format!(
                    "no edges lead to nodes of type {} from nodes with saved embeddings of the same width, so that new nodes \
                     have no start: choose another one (`new_embeddings=mean`)",
                    matched.node_type
                )));
            }
        }
        for (matched, rows) in matches.iter().zip(new_rows) {
            starts.push(self.means_of_neighbors(saved, matches, &matched.node_type, rows));
        }
        // No rank changes rows before all ranks have read the rows of their neighbors.
        world.barrier()?;
        let mut lonely = Vec::with_capacity(matches.len());
        for ((matched, rows), start) in matches.iter().zip(new_rows).zip(starts) {
            let Starts { values, num_lonely } = start?;
            lonely.push(num_lonely);
            let of_type = self.names.iter().position(|name| *name == matched.node_type);
            let Some(table) = of_type.map(|number| &mut self.tables[number]) else { continue };
            let dim = table.dim();
            table.fill_rows(|set| -> Result<(), TrainError> {
                rows.iter().zip(values.chunks_exact(dim)).for_each(|(&row, values)| set(row, values));
                Ok(())
            })?;
        }
        world.all_reduce(&mut lonely, ReduceOp::Sum)?;
        Ok(lonely)
    }

    /// Returns the edge types into a node type whose sources have loaded rows of the same width, with the tables of these.
    fn neighbor_tables(&self, node_type: &str, loaded: &[MatchedRows]) -> Vec<(EdgeTypeId, &DistEmbedding)> {
        let Some(table) = self.table_of(node_type) else { return Vec::new() };
        let part = table.graph().part();
        let mut found = Vec::new();
        for edge_type in part.edge_type_ids().filter(|&e| part.edges(e).dst_type == table.node_type()) {
            let src_type = part.edges(edge_type).src_type;
            for (other, name) in self.tables.iter().zip(&self.names) {
                let is_of_sources = other.node_type() == src_type && other.dim() == table.dim();
                if is_of_sources && loaded.iter().any(|matched| matched.node_type == *name) {
                    found.push((edge_type, other));
                }
            }
        }
        found
    }

    fn table_of(&self, node_type: &str) -> Option<&DistEmbedding> {
        let number = self.names.iter().position(|name| name == node_type)?;
        self.tables.get(number)
    }

    /// Computes the starts of new nodes of a type, which are given by the numbers of their rows.
    fn means_of_neighbors(
        &self,
        saved: &SavedEmbeddings,
        loaded: &[MatchedRows],
        node_type: &str,
        rows: &[usize],
    ) -> Result<Starts, TrainError> {
        let mut starts = Starts::default();
        let Some(table) = self.table_of(node_type).filter(|_| !rows.is_empty()) else { return Ok(starts) };
        let dim = table.dim();
        let size = EmbeddingSize::of(node_type, table);
        let mean = saved.first_values(&size, NewEmbeddings::Mean)?.unwrap_or_default();
        let part = table.graph().part();
        let nodes = part.nodes(table.node_type());
        let tables = self.neighbor_tables(node_type, loaded);
        for rows in rows.chunks(NEW_NODES_AT_ONCE) {
            let mut sums = vec![0.0_f64; rows.len() * dim];
            let mut counts = vec![0_u64; rows.len()];
            for (edge_type, of_sources) in &tables {
                let csc = &part.edges(*edge_type).csc;
                let all = rows.iter().flat_map(|&row| csc.neighbors(nodes.row_at(row)));
                let sources: Vec<u32> = all.copied().collect::<BTreeSet<u32>>().into_iter().collect();
                let values = self.wait(of_sources.pull(&sources))?;
                for (at, &row) in rows.iter().enumerate() {
                    for source in csc.neighbors(nodes.row_at(row)) {
                        let position = sources.partition_point(|other| other < source);
                        let values = &values[position * dim..][..dim];
                        // A new node has no values yet.
                        if values.iter().any(|value| value.is_nan()) {
                            continue;
                        }
                        counts[at] += 1;
                        let sum = &mut sums[at * dim..][..dim];
                        sum.iter_mut().zip(values).for_each(|(sum, &value)| *sum += f64::from(value));
                    }
                }
            }
            for (sum, count) in sums.chunks_exact(dim).zip(counts) {
                if count == 0 {
                    starts.num_lonely += 1;
                    starts.values.extend_from_slice(&mean);
                } else {
                    starts.values.extend(sum.iter().map(|sum| (sum / count as f64) as f32));
                }
            }
        }
        Ok(starts)
    }
}
