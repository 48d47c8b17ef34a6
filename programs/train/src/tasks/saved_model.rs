//! Checks of a saved model against the flags and the graph.

use crate::exit::UsageError;
use crate::settings::given_flags::GivenFlags;
use anyhow::bail;
use edgecut_cli::message;
use edgecut_cluster::ProcessGroup;
use edgecut_dist_sampler::SamplerConfig;
use edgecut_graph::{GraphDataset, Meta};
use edgecut_trainer::loss::{AnyLoss, LossSettings, OutputKind};
use edgecut_trainer::model_file::{ModelFileError, ModelTask, NewEmbeddings, SavedEmbeddings, SavedTask, TrainedOn};
use std::path::Path;

/// A setting of a model: the id of its flag, the value that the flags give it, and the saved value.
pub(crate) struct Setting {
    pub(crate) flag: &'static str,
    pub(crate) own: String,
    pub(crate) saved: String,
}

impl Setting {
    pub(crate) fn new(flag: &'static str, own: impl ToString, saved: impl ToString) -> Self {
        Self { flag, own: own.to_string(), saved: saved.to_string() }
    }
}

/// Checks that no flag that is given contradicts a saved model, which has settings of its own.
///
/// # Errors
/// [`UsageError`] for the first such flag.
pub(crate) fn check_flags(given: &GivenFlags, path: &Path, settings: &[Setting]) -> anyhow::Result<()> {
    match settings.iter().find(|setting| given.is_given(setting.flag) && setting.own != setting.saved) {
        Some(Setting { flag, saved, .. }) => {
            // A flag without a value has the text `true`.
            let value = given.text(flag).filter(|text| *text != "true").map(|text| format!(" {text}"));
            bail!(UsageError(format!(
                "--{}{}: the model {} was saved with {saved}: leave the flag out, or load another model",
                flag.replace('_', "-"),
                value.unwrap_or_default(),
                path.display()
            )))
        }
        None => Ok(()),
    }
}

/// Returns the loss of the training of a saved model, by which it is evaluated; `given` by the flags must not be another.
/// Files of earlier versions do not name it.
///
/// # Errors
/// [`UsageError`] for another loss; a loss of a later version.
pub(crate) fn loss_of_model(bytes: &[u8], path: &Path, given: Option<AnyLoss>) -> anyhow::Result<Option<AnyLoss>> {
    let Some(saved) = SavedTask::of_file(bytes, path)?.loss else { return Ok(given) };
    match given {
        Some(given) if given.name() != saved => bail!(UsageError(format!(
            "--loss {}: the model {} was trained with the loss {saved}: leave the flag out, or load another model",
            given.name(),
            path.display()
        ))),
        Some(given) => Ok(Some(given)),
        None => match AnyLoss::new(LossSettings::named(&saved)) {
            Ok(loss) => Ok(Some(loss)),
            Err(why) => bail!("{}: {why}", path.display()),
        },
    }
}

/// Returns the sampler by which a saved model is evaluated: `own`, which the flags describe, with the settings of its
/// training in place of flags that are not given. `bytes` is the content of the model file `path`.
pub(crate) fn sampler_of_model(
    given: &GivenFlags,
    bytes: &[u8],
    path: &Path,
    mut own: SamplerConfig,
) -> anyhow::Result<SamplerConfig> {
    let Some(saved) = TrainedOn::of_file(bytes, path)?.and_then(|trained_on| trained_on.sampler) else {
        return Ok(own);
    };
    if !given.is_given("num_neighbors") && !given.is_given("eval_num_neighbors") {
        own.num_neighbors = saved.num_neighbors;
    }
    if !given.is_given("time_attr") {
        own.temporal = saved.temporal;
    }
    if !given.is_given("weighted") {
        own.weighted = saved.weighted;
    }
    if !given.is_given("replace") {
        own.replace = saved.replace;
    }
    if !given.is_given("disjoint") {
        own.disjoint = saved.disjoint;
    }
    Ok(own)
}

/// Checks that a graph is like the one that a saved model was trained on, and tells on rank 0 what is not compared and
/// what is not the same as in the training. `bytes` is the content of the model file `path`. Without `sampler`, all neighbors are
/// read. Every rank calls this.
///
/// # Errors
/// Other transforms of features, or other classes, than those of the training.
pub(crate) fn check_data(
    bytes: &[u8],
    path: &Path,
    meta: &Meta,
    sampler: Option<&SamplerConfig>,
    world: &ProcessGroup,
) -> anyhow::Result<()> {
    let trained_on = TrainedOn::of_file(bytes, path)?;
    let task = SavedTask::of_file(bytes, path)?;
    let has_outputs = matches!(task.task, ModelTask::Node | ModelTask::Edge);
    let is_classifier = has_outputs && matches!(task.outputs_or_classes(0), OutputKind::Classes(_));
    if let Some(what) = trained_on.as_ref().and_then(|trained| trained.difference(meta, is_classifier)) {
        bail!(ModelFileError::OtherData { path: path.to_owned(), what });
    }
    if world.rank() == 0 {
        notes(trained_on.as_ref(), path, meta, sampler).iter().for_each(|note| message!("note: {note}"));
    }
    Ok(())
}

/// Returns embeddings that tell how many nodes have saved rows when they are loaded, with the start of the others.
pub(crate) fn matched(embeddings: SavedEmbeddings, start: Option<NewEmbeddings>) -> SavedEmbeddings {
    embeddings.with_new_embeddings(start).on_match(|matched| {
        if let Some(line) = matched.line() {
            message!("note: {line}");
        }
    })
}

/// Checks that the columns of nodes and the classes of a set of graphs are those that a saved model was trained on. A set
/// with another number of classes, such as one without known classes, has none in common with the model.
///
/// # Errors
/// Other columns than in the training, or as many classes, but others.
pub(crate) fn check_graphs(bytes: &[u8], path: &Path, graphs: &GraphDataset, num_classes: usize) -> anyhow::Result<()> {
    let trained_on = TrainedOn::of_file(bytes, path)?;
    let reads_classes = graphs.classes().len() == num_classes;
    match trained_on.as_ref().and_then(|trained| trained.difference_of_graphs(graphs, reads_classes)) {
        Some(what) => bail!(ModelFileError::OtherData { path: path.to_owned(), what }),
        None => Ok(()),
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
        assert!(notes(Some(&plain), &old, None)[0].contains("partition the graph again"));
        let times = Temporal { attr: TimeAttr::EdgeTime, strategy: TemporalStrategy::Uniform };
        let sampler = SamplerConfig::new(vec![Fanout::All]).with_weights(true).with_times(Some(times));
        let temporal = plain.with_sampler(sampler.clone());
        let [time, weight] = &notes(Some(&temporal), &meta, None)[..] else { panic!("two notes") };
        assert!(time.contains("--time-attr edge_time, but neighbors of all times"), "{time}");
        assert!(weight.contains("--weighted"), "{weight}");
        assert_eq!(notes(Some(&temporal), &meta, Some(&sampler)), [""; 0]);
        let text = serde_json::to_string(&temporal).expect("JSON");
        assert_eq!(serde_json::from_str::<TrainedOn>(&text).expect("the description"), temporal);
    }
}
