//! The loading of embeddings from tables and saved models.

use super::{EmbeddingSource, Embeddings};
use crate::error::TrainError;
use crate::model_file::{
    EmbeddingSize, EmbeddingTable, FreshTable, MatchedRows, NewEmbeddings, SavedEmbeddings, WantedRows,
    WarmStartReport, positions_by_id,
};
use edgecut_cluster::{ProcessGroup, ReduceOp};
use edgecut_dist_sampler::DistEmbedding;

/// The rows of a table that were loaded.
#[derive(Default)]
struct Loaded {
    num_known: u64,
    /// The numbers of the rows of new nodes.
    new: Vec<usize>,
}

impl Embeddings {
    /// Loads the rows that this process holds. Saved rows find their nodes by the ids of the table, or by row numbers if
    /// these are the ids. All ranks must call this, with collectives before and after.
    ///
    /// # Errors
    /// [`TrainError::Config`] if a table is missing or has another size; [`TrainError::Model`] if a file is missing or
    /// corrupt, or if the rows belong to other nodes.
    pub fn load<'a>(
        &mut self,
        source: impl Into<EmbeddingSource<'a>>,
        world: &mut ProcessGroup,
    ) -> Result<(), TrainError> {
        let saved = match source.into() {
            EmbeddingSource::Tables(tables) => return self.load_tables(tables),
            EmbeddingSource::Saved(saved) => saved,
        };
        self.check_effect(saved)?;
        let all = self.names.clone();
        for matched in self.load_tables_of(saved, &all, NewEmbeddings::Mean, world)? {
            if matched.known == 0 && matched.new > 0 && saved.new_embeddings().is_none() {
                return Err(saved.no_known_nodes(&matched.node_type).into());
            }
            if world.rank() == 0 {
                saved.tell(&matched);
            }
        }
        Ok(())
    }

    /// Loads the rows that this process holds of each table that has rows of the same width in a saved model, and adds to
    /// the report what was loaded. All ranks must call this, with collectives before and after.
    ///
    /// # Errors
    /// [`TrainError::Model`] if a file is missing or corrupt.
    pub(crate) fn load_matching(
        &mut self,
        saved: &SavedEmbeddings,
        report: &mut WarmStartReport,
        world: &mut ProcessGroup,
    ) -> Result<(), TrainError> {
        self.check_effect(saved)?;
        let sizes = saved.sizes();
        let meta = self.graph.as_ref().map(|graph| graph.part().meta().clone());
        report.other_data = meta.as_ref().and_then(|meta| saved.other_data(meta));
        let mut fitting = Vec::new();
        for (table, name) in self.tables.iter().zip(&self.names) {
            let in_model = [table.num_nodes(), table.dim()];
            let in_file = sizes.iter().find(|size| size.node_type == *name);
            let in_file = in_file.map(|size| [size.num_nodes, size.dim]);
            let mut has_other_nodes = false;
            let mut is_fitting = in_file.is_some_and(|[_, dim]| dim == table.dim());
            if let Some(meta) = &meta {
                match saved.is_matched_by_ids(meta, name) {
                    Err(_) => has_other_nodes = true,
                    Ok(true) => {}
                    Ok(false) => is_fitting &= in_file == Some(in_model) || saved.may_differ(meta, name),
                }
            }
            if is_fitting && !has_other_nodes {
                fitting.push(name.clone());
            } else {
                report.fresh_tables.push(FreshTable { node_type: name.clone(), in_file, in_model, has_other_nodes });
            }
        }
        if fitting.is_empty() && saved.new_embeddings().is_some() {
            let what = "no embeddings of the saved model fit this model: leave out the start of new rows \
                        (`new_embeddings`), or give the embeddings the width of the saved ones"
                .into();
            return Err(TrainError::Config { what });
        }
        let unused = sizes.iter().filter(|size| !self.names.contains(&size.node_type));
        report.unused.extend(unused.map(|size| format!("embeddings.{}", size.node_type)));
        for matched in self.load_tables_of(saved, &fitting, NewEmbeddings::Random, world)? {
            if matched.known > 0 || saved.new_embeddings().is_some() {
                report.taken_tables.push(matched.node_type.clone());
                report.matched_tables.push(matched);
                continue;
            }
            // The rows keep their initial values.
            let size = sizes.iter().find(|size| size.node_type == matched.node_type);
            report.fresh_tables.push(FreshTable {
                in_file: size.map(|size| [size.num_nodes, size.dim]),
                in_model: size.map_or([0, 0], |size| [matched.new as usize, size.dim]),
                node_type: matched.node_type,
                has_other_nodes: true,
            });
        }
        Ok(())
    }

    /// Checks that the start of new embeddings, if it was chosen, has an effect.
    fn check_effect(&self, saved: &SavedEmbeddings) -> Result<(), TrainError> {
        if self.is_empty() && saved.new_embeddings().is_some() {
            let what = "the model has no embeddings of nodes: leave out their start (`new_embeddings`)";
            return Err(TrainError::config(what));
        }
        Ok(())
    }

    /// Loads the tables of some node types. Returns the matches over all ranks. New nodes have the start that was chosen for
    /// `saved`, or `default`.
    fn load_tables_of(
        &mut self,
        saved: &SavedEmbeddings,
        node_types: &[String],
        default: NewEmbeddings,
        world: &mut ProcessGroup,
    ) -> Result<Vec<MatchedRows>, TrainError> {
        let Some(graph) = self.graph.clone() else { return Ok(Vec::new()) };
        let meta = graph.part().meta();
        let start = saved.new_embeddings().unwrap_or(default);
        let mut matches = Vec::new();
        let mut counts = Vec::new();
        let mut failure = None;
        let mut new_rows = Vec::new();
        for (table, name) in self.tables.iter_mut().zip(&self.names).filter(|(_, name)| node_types.contains(name)) {
            let by_ids = saved.is_matched_by_ids(meta, name)?;
            match load_table(table, name, saved, by_ids, start) {
                Ok(loaded) => {
                    counts.extend([loaded.num_known, loaded.new.len() as u64]);
                    new_rows.push(loaded.new);
                }
                Err(error) => {
                    counts.extend([0; 2]);
                    failure.get_or_insert(error);
                }
            }
            let has_other_content = !by_ids && saved.has_other_content(meta, name);
            let node_type = name.clone();
            matches.push(MatchedRows {
                node_type,
                by_ids,
                known: 0,
                new: 0,
                gone: 0,
                start,
                lonely: 0,
                has_other_content,
            });
        }
        if matches.is_empty() {
            return Ok(matches);
        }
        // A rank without its rows meets the others too, which may have theirs.
        world.all_reduce(&mut counts, ReduceOp::Sum)?;
        if let Some(error) = failure {
            return Err(error);
        }
        let sizes = saved.sizes();
        for (matched, count) in matches.iter_mut().zip(counts.chunks_exact(2)) {
            let size = sizes.iter().find(|size| size.node_type == matched.node_type);
            matched.known = count[0];
            matched.new = count[1];
            matched.gone = size.map_or(0, |size| (size.num_nodes as u64).saturating_sub(matched.known));
        }
        if start == NewEmbeddings::Neighbors && matches.iter().any(|matched| matched.new > 0) {
            let lonely = self.start_from_neighbors(saved, &matches, &new_rows, world)?;
            matches.iter_mut().zip(lonely).for_each(|(matched, lonely)| matched.lonely = lonely);
        }
        Ok(matches)
    }

    fn load_tables(&mut self, given: &[EmbeddingTable]) -> Result<(), TrainError> {
        for (table, name) in self.tables.iter_mut().zip(&self.names) {
            let Some(values) = given.iter().find(|given| given.node_type == *name) else {
                return Err(TrainError::config(format!("the model has no embedding of node type {name}")));
            };
            let wrong = |source| TrainError::SavedEmbedding { node_type: name.clone(), source: Box::new(source) };
            table.load(&values.values).map_err(wrong)?;
        }
        Ok(())
    }
}

/// Loads the rows of a table that this process holds. The rows of new nodes that start from their neighbors are NaN.
fn load_table(
    table: &mut DistEmbedding,
    name: &str,
    saved: &SavedEmbeddings,
    by_ids: bool,
    start: NewEmbeddings,
) -> Result<Loaded, TrainError> {
    let graph = table.graph().clone();
    let part = graph.part();
    let mut ids = None;
    if by_ids && table.own_nodes().is_some() {
        ids = Some(positions_by_id(&graph, table.node_type())?.ok_or_else(|| saved.unreadable_ids(name))?);
    }
    let nodes = part.nodes(table.node_type()).ascending_ids();
    let size = EmbeddingSize::of(name, table);
    let wanted = WantedRows {
        node_type: name,
        dim: size.dim,
        num_nodes: size.num_nodes,
        nodes: &nodes,
        first_shard: part.id().index(),
        ids,
        may_differ: saved.may_differ(part.meta(), name),
    };
    let mut loaded = Loaded::default();
    table.fill_rows(|set| -> Result<(), TrainError> {
        let new = saved.read_rows(&wanted, &mut *set)?;
        if !new.is_empty()
            && let Some(mut values) = saved.first_values(&size, start)?
        {
            if start == NewEmbeddings::Neighbors {
                values.fill(f32::NAN);
            }
            new.iter().for_each(|&position| set(position, &values));
        }
        loaded = Loaded { num_known: (nodes.len() - new.len()) as u64, new };
        Ok(())
    })?;
    Ok(loaded)
}
