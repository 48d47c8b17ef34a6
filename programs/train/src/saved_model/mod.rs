//! Saved models: reading, checks against the flags and the data, and the form in which tasks open them.

mod chosen_targets;
mod open_model;

pub(crate) use chosen_targets::positions;
pub(crate) use open_model::{Items, OpenModel, Predictor};

use crate::exit::UsageError;
use crate::settings::given_flags::GivenFlags;
use anyhow::bail;
use edgecut_cli::message;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::{NumNeighbors, SamplerConfig};
use edgecut_gnn::ops::Precision;
use edgecut_graph::{GraphDataset, Meta};
use edgecut_trainer::loss::{AnyLoss, LossSettings, OutputKind};
use edgecut_trainer::metrics::Decision;
use edgecut_trainer::model_file::{
    ModelFileError, NewEmbeddings, ReadData, SavedEmbeddings, SavedTask, TrainedOn, read_network,
};
use edgecut_trainer::models::NetworkConfig;
use std::path::Path;

/// Reads the network of a model file on rank 0 and broadcasts it, so that all ranks have the same one. Embeddings stay
/// in their files.
pub(crate) fn read_on_rank_0(path: &Path, world: &mut ProcessGroup) -> anyhow::Result<Vec<u8>> {
    let mut bytes = match world.rank() {
        0 => read_network(path)?,
        _ => Vec::new(),
    };
    world.broadcast_bytes(&mut bytes, 0)?;
    Ok(bytes)
}

/// The file of a saved model, which all ranks have read.
pub(crate) struct SavedModel<'a> {
    pub(crate) path: &'a Path,
    pub(crate) bytes: Vec<u8>,
    pub(crate) task: SavedTask,
    /// The data of the training. Files of earlier versions do not describe it.
    pub(crate) trained_on: Option<TrainedOn>,
    /// The precision of products.
    pub(crate) precision: Precision,
    /// The start of the embeddings of nodes that the model has no rows for.
    pub(crate) new_embeddings: Option<NewEmbeddings>,
    /// The random seed of these embeddings in predictions.
    pub(crate) seed: u64,
    /// The targets of a prediction that flags name, if the model has several.
    pub(crate) targets: &'a [String],
}

impl<'a> SavedModel<'a> {
    /// Reads a file on rank 0 for all ranks. Every rank must call this.
    pub(crate) fn read(
        path: &'a Path,
        precision: Precision,
        new_embeddings: Option<NewEmbeddings>,
        world: &mut ProcessGroup,
    ) -> anyhow::Result<Self> {
        let bytes = read_on_rank_0(path, world)?;
        let task = SavedTask::of_file(&bytes, path)?;
        let trained_on = TrainedOn::of_file(&bytes, path)?;
        Ok(Self { path, bytes, task, trained_on, precision, new_embeddings, seed: 0, targets: &[] })
    }

    /// Returns embeddings that tell how many nodes have saved rows when they are loaded, with the start of the others.
    pub(crate) fn matched(&self, embeddings: SavedEmbeddings) -> SavedEmbeddings {
        embeddings.with_new_embeddings(self.new_embeddings).with_seed(self.seed).on_match(|matched| {
            if let Some(line) = matched.line() {
                message!("note: {line}");
            }
        })
    }

    /// Returns the loss of the training, by which the model is evaluated; `given` by the flags must not be another. Files
    /// of earlier versions do not name it.
    ///
    /// # Errors
    /// [`UsageError`] for another loss; a loss of a later version.
    pub(crate) fn loss(&self, given: Option<AnyLoss>) -> anyhow::Result<Option<AnyLoss>> {
        let Some(saved) = &self.task.loss else { return Ok(given) };
        match given {
            Some(given) if given.name() != saved => bail!(UsageError(format!(
                "--loss {}: the model {} was trained with the loss {saved}: leave the flag out, or load another model",
                given.name(),
                self.path.display()
            ))),
            Some(given) => Ok(Some(given)),
            None => match AnyLoss::new(LossSettings::named(saved)) {
                Ok(loss) => Ok(Some(loss)),
                Err(why) => bail!("{}: {why}", self.path.display()),
            },
        }
    }

    /// Returns the thresholds and the temperature that the training has chosen for a model of one target.
    pub(crate) fn decision(&self) -> Decision {
        self.task.decision.clone().unwrap_or_default()
    }

    /// Returns the decision of a prediction of nodes, also of the only target that is predicted out of several. `outputs` are its
    /// outputs.
    ///
    /// # Errors
    /// A decision of other outputs in a damaged file.
    pub(crate) fn decision_of_nodes(&self, outputs: Option<OutputKind>) -> anyhow::Result<Decision> {
        let Some(outputs) = outputs.filter(|_| !self.task.target_decisions.is_empty()) else {
            return Ok(self.decision());
        };
        let names = self.trained_on.as_ref().map_or(&[][..], |trained_on| &trained_on.labels);
        match positions(self.targets, names, self.path)?[..] {
            [only] => self.decision_of(&names[only], outputs),
            _ => Ok(self.decision()),
        }
    }

    /// Returns the decision of one of several targets.
    ///
    /// # Errors
    /// As [`decision_of_nodes`](Self::decision_of_nodes).
    pub(crate) fn decision_of(&self, target: &str, outputs: OutputKind) -> anyhow::Result<Decision> {
        let Some(decision) = self.task.target_decisions.get(target) else { return Ok(Decision::default()) };
        match decision.check(outputs) {
            Ok(()) => Ok(decision.clone()),
            Err(why) => bail!("{}: the decision of the target {target}: {why}", self.path.display()),
        }
    }

    /// Returns the sampler by which the model is evaluated: `own`, which the flags describe, with the settings of the
    /// training in place of flags that are not given.
    pub(crate) fn sampler(&self, given: &GivenFlags, mut own: SamplerConfig) -> SamplerConfig {
        let Some(saved) = self.trained_on.as_ref().and_then(|trained_on| trained_on.sampler.clone()) else {
            return own;
        };
        // A model without layers ignores fan-outs.
        let has_layers = saved.num_neighbors.num_hops() > 0;
        if !has_layers || (!given.is_given("num_neighbors") && !given.is_given("eval_num_neighbors")) {
            own.num_neighbors = saved.num_neighbors;
        }
        if !given.is_given("time_attr") {
            own.temporal = saved.temporal;
        } else if let (Some(times), Some(saved)) = (&mut own.temporal, saved.temporal)
            && !given.is_given("temporal_strategy")
        {
            times.strategy = saved.strategy;
        }
        if !given.is_given("weighted") {
            own.weighted = saved.weighted;
        }
        if !given.is_given("sampler") && !given.is_given("batch_dependency") {
            own.labor = saved.labor;
        }
        if !given.is_given("replace") {
            own.replace = saved.replace;
        }
        if !given.is_given("disjoint") {
            own.disjoint = saved.disjoint;
        }
        own
    }

    /// Checks that a graph is like the one that the model was trained on, and tells on rank 0 what is not compared and
    /// what is not the same as in the training. `reads` is what the model reads of the data beyond what all models read.
    /// Without `sampler`, all neighbors are read. Every rank calls this.
    ///
    /// # Errors
    /// Other transforms of features, or other classes, than in the training.
    pub(crate) fn check_graph(
        &self,
        meta: &Meta,
        reads: ReadData,
        sampler: Option<&SamplerConfig>,
        world: &ProcessGroup,
    ) -> anyhow::Result<()> {
        if let Some(what) = self.trained_on.as_ref().and_then(|trained| trained.difference(meta, reads)) {
            bail!(ModelFileError::content(self.path, what));
        }
        if world.rank() == 0 {
            for note in notes(self.trained_on.as_ref(), self.path, meta, sampler) {
                message!("note: {note}");
            }
        }
        Ok(())
    }

    /// Checks that a set of graphs has the columns and the classes that the model was trained on, and tells on rank 0 what is
    /// not the same as in the training. `train` are the training graphs, if the set is split. A set with another number of
    /// classes, such as one without known classes, has none in common with the model. Every rank calls this.
    ///
    /// # Errors
    /// Other columns than in the training, or as many classes, but others.
    pub(crate) fn check_graphs(
        &self,
        graphs: &GraphDataset,
        train: Option<&[u32]>,
        model: &NetworkConfig,
        world: &ProcessGroup,
    ) -> anyhow::Result<()> {
        let reads = ReadData {
            classes: graphs.classes().len() == model.num_outputs(),
            edge_features: model.graph.has_edge_features(),
            ..ReadData::default()
        };
        let Some(trained_on) = &self.trained_on else { return Ok(()) };
        if let Some(what) = trained_on.difference_of_graphs(graphs, reads) {
            bail!(ModelFileError::content(self.path, what));
        }
        // Graphs without labels are neither validation nor test data.
        let is_labeled = reads.classes || graphs.targets().is_some();
        if !is_labeled || world.rank() > 0 {
            return Ok(());
        }
        if let Some(other) = trained_on.other_graphs(graphs, train) {
            let path = self.path.display();
            if other.is_other_split() {
                message!(
                    "note: the model of {path} was trained on other graphs, so that validation and test graphs may be among \
                     the training graphs of the model: give the --split and the --split-seed of the training"
                );
            } else {
                message!("note: {}", other.note(path));
            }
        }
        Ok(())
    }
}

/// Returns what a user must know of the data of the training.
fn notes(trained_on: Option<&TrainedOn>, path: &Path, meta: &Meta, sampler: Option<&SamplerConfig>) -> Vec<String> {
    let path = path.display();
    let Some(trained_on) = trained_on else {
        return vec![format!(
            "{path} does not say which nodes, features and classes it was trained on, so that they are not compared with \
             the graph"
        )];
    };
    let mut notes = Vec::new();
    if !TrainedOn::is_told_by(meta) {
        notes.push(format!(
            "an earlier version made the parts, which do not say whether their nodes, features and classes are those of the \
             training of {path}: partition the graph again to compare them"
        ));
    }
    notes.extend(trained_on.other_data(meta).map(|other| other.note(&path)));
    let time_attr = sampler.and_then(|sampler| sampler.temporal).map(|temporal| temporal.attr.to_string());
    if let Some(attr) = &trained_on.time_attr
        && time_attr.as_ref() != Some(attr)
    {
        notes.push(format!(
            "{path} was trained with --time-attr {attr}, but neighbors of all times are read here, so that results differ \
             from the results of its evaluation"
        ));
    }
    if trained_on.weighted && !sampler.is_some_and(|sampler| sampler.weighted) {
        notes.push(format!(
            "{path} was trained with --weighted, but the weights of edges are not used here, so that results differ from \
             the results of its evaluation"
        ));
    }
    let fanouts = trained_on.sampler.as_ref().map(|sampler| &sampler.num_neighbors);
    if sampler.is_none() && fanouts.is_some_and(NumNeighbors::skips_hops) {
        notes.push(format!(
            "{path} was evaluated with fan-outs of 0 in some hops only, but layers are computed for all nodes here, so that \
             results differ from the results of its evaluation"
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgecut_dist_sampler::{Fanout, Temporal, TemporalStrategy, TimeAttr};
    use edgecut_graph::part_writer::write_one_part;
    use edgecut_graph::readers::{FakeOptions, fake};

    #[test]
    fn notes_name_what_is_not_compared_and_what_is_not_as_in_the_training() {
        let dir = tempfile::tempdir().expect("a folder");
        let options = FakeOptions { avg_num_nodes: 40, ..FakeOptions::default() };
        write_one_part(fake(&options).expect("a graph"), dir.path()).expect("a part");
        let meta = Meta::read(dir.path()).expect("META.json");
        let notes = |trained: Option<&TrainedOn>, meta: &Meta, sampler: Option<&SamplerConfig>| {
            notes(trained, Path::new("m.safetensors"), meta, sampler)
        };
        let plain = TrainedOn::new(&meta);
        assert_eq!(notes(Some(&plain), &meta, None), [""; 0]);
        assert!(notes(None, &meta, None)[0].contains("m.safetensors does not say which nodes"));
        let mut old = meta.clone();
        old.has_transforms = true;
        for nodes in &mut old.node_types {
            nodes.digests = Default::default();
        }
        for edges in &mut old.edge_types {
            edges.digests = Default::default();
        }
        assert!(notes(Some(&plain), &old, None)[0].contains("partition the graph again"));
        let times = Temporal { attr: TimeAttr::EdgeTime, strategy: TemporalStrategy::Uniform };
        let sampler = SamplerConfig::new(vec![Fanout::All]).with_weights(true).with_times(Some(times));
        let temporal = plain.clone().with_sampler(sampler.clone());
        let [time, weight] = &notes(Some(&temporal), &meta, None)[..] else { panic!("two notes") };
        assert!(time.contains("--time-attr edge_time, but neighbors of all times"), "{time}");
        assert!(weight.contains("--weighted"), "{weight}");
        assert_eq!(notes(Some(&temporal), &meta, Some(&sampler)), [""; 0]);
        let skips_hops = SamplerConfig::new("15,0".parse::<NumNeighbors>().expect("fan-outs"));
        let [hops] = &notes(Some(&plain.with_sampler(skips_hops)), &meta, None)[..] else { panic!("one note") };
        assert!(hops.contains("fan-outs of 0 in some hops only"), "{hops}");
        let text = serde_json::to_string(&temporal).expect("JSON");
        assert_eq!(serde_json::from_str::<TrainedOn>(&text).expect("the description"), temporal);
    }
}
