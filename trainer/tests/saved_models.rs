//! Tests of saved models whose embeddings are spread over several ranks.
#![allow(clippy::disallowed_methods, reason = "the folders belong to the tests")]

use crate::support;

use burn_ndarray::NdArray;
use edgecut_cluster::{Attempt, ProcessGroup};
use edgecut_dist_sampler::{DistGraph, DistGraphConfig, NumNeighbors, SamplerConfig};
use edgecut_gnn::nn::Aggregation;
use edgecut_graph::readers::{FakeOptions, fake_hetero};
use edgecut_output::FolderLock;
use edgecut_partition::Method;
use edgecut_trainer::model_file::{
    ModelFileError, ModelOrigin, ModelSaver, ModelView, TrainedOn, load_model, open_model, read_network, save_model,
};
use edgecut_trainer::models::{ConvKind, GraphSchema, Network, NetworkConfig, SageSettings};
use edgecut_trainer::{
    BestModel, EmbeddingTable, Embeddings, NodeTrainingConfig, Selection, TrainError, TrainingConfig, model_config,
};
use safetensors::SafeTensors;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use support::{on_ranks, write_parts};

type Cpu = NdArray<f32>;
const DIM: usize = 6;

/// A temporary folder with a graph in any number of parts, in which one node type has no features, and with a saved
/// model.
struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    fn parts(&self, num_parts: u32) -> PathBuf {
        let path = self.0.path().join(format!("{num_parts}-parts"));
        if !path.exists() {
            let options =
                FakeOptions { avg_num_nodes: 200, avg_degree: 3.0, num_channels: 4, ..FakeOptions::default() };
            write_parts(&fake_hetero(&options).expect("a fake graph"), num_parts, Method::Random, &path);
        }
        path
    }

    fn model(&self) -> PathBuf {
        self.0.path().join("model.safetensors")
    }

    /// Returns the files with embeddings in the order of the ranks.
    fn shards(&self) -> Vec<PathBuf> {
        let folder = std::fs::read_dir(self.0.path().join("model.safetensors.embeddings")).expect("a folder");
        let mut shards: Vec<PathBuf> = folder.map(|entry| entry.expect("a file").path()).collect();
        // Names begin with a random number; the rank follows.
        shards.sort_by_key(|path| path.to_string_lossy().split_once(".rank_").map(|(_, rank)| rank.to_owned()));
        shards
    }

    fn save(&self, num_parts: u32, ranks: usize, save: &Save) -> Vec<(Option<ModelOrigin>, Vec<EmbeddingTable>)> {
        let saved = on_ranks(&self.parts(num_parts), ranks, &DistGraphConfig::default(), |graph, world| {
            save.run(&graph, &self.model(), world)
        });
        saved.into_iter().map(|saved| saved.expect("a saved model")).collect()
    }

    /// Returns what a restarted attempt of the run "a" on two ranks tells of the model of an earlier attempt.
    fn notes_of_restart(&self) -> Vec<Option<String>> {
        let attempt = Attempt { number: 1, run: Some("a".to_owned()) };
        on_ranks(&self.parts(2), 2, &DistGraphConfig::default(), |_, world| {
            let saver = ModelSaver::new(&self.model(), attempt.clone(), true, world).expect("a saver");
            saver.why_not_kept().map(str::to_owned)
        })
    }

    /// Loads the model on all ranks and returns the tables that each rank reads.
    fn load(&self, num_parts: u32, ranks: usize) -> Vec<Result<Vec<EmbeddingTable>, TrainError>> {
        on_ranks(&self.parts(num_parts), ranks, &DistGraphConfig::default(), |graph, world| {
            let path = self.model();
            let bytes = read_network(&path).expect("a model");
            let (_, _, saved) = open_model::<Cpu, NetworkConfig>(&bytes, &path, &Default::default()).expect("a model");
            let schema = GraphSchema::new(graph.part().meta()).expect("a graph");
            let mut embeddings = Embeddings::new(&graph, &schema, DIM, 999).expect("embeddings");
            world.barrier().expect("all have embeddings");
            let loaded = embeddings.load(&saved, world);
            world.barrier().expect("all have loaded");
            let tables = embeddings.tables();
            world.barrier().expect("all have seen all");
            loaded.and(tables)
        })
    }
}

/// The values that are saved.
struct Save {
    attempt: Attempt,
    epoch: u64,
    valid_metric: f64,
    /// The description of the data, as in a run.
    trained_on: Option<TrainedOn>,
    /// The digest of the settings, as in a run.
    settings: Option<String>,
    /// True to save settings that do not match the model, which fails.
    is_wrong: bool,
}

impl Save {
    fn of(attempt: u64, run: &str, epoch: u64, valid_metric: f64) -> Self {
        let attempt = Attempt { number: attempt, run: Some(run.to_owned()) };
        Self { attempt, epoch, valid_metric, trained_on: None, settings: None, is_wrong: false }
    }

    fn run(
        &self,
        graph: &Arc<DistGraph>,
        path: &Path,
        world: &mut ProcessGroup,
    ) -> Result<(Option<ModelOrigin>, Vec<EmbeddingTable>), TrainError> {
        let (model, mut config) = model_of(graph);
        let schema = GraphSchema::new(graph.part().meta()).expect("a graph");
        let embeddings = Embeddings::new(graph, &schema, DIM, self.epoch)?;
        world.barrier()?;
        if self.is_wrong {
            let kind = ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean });
            config = NetworkConfig::stack(kind, 1, 1, 2, 1);
        }
        let improved = BestModel {
            epoch: self.epoch,
            selection: Selection { metric: "accuracy".into(), higher_is_better: true },
            loss: None,
            decision: None,
            target_decisions: Default::default(),
            valid_metric: Some(self.valid_metric),
            model: ModelView::new(&model, &config),
            embeddings: embeddings.named_tables(),
        };
        let mut saver = ModelSaver::new(path, self.attempt.clone(), true, world)?;
        if let Some(trained_on) = &self.trained_on {
            saver.describe_data(trained_on.clone());
        }
        if let Some(settings) = &self.settings {
            saver.describe_settings(settings.clone());
        }
        let kept = saver.save(&improved, world)?.cloned();
        let tables = embeddings.tables()?;
        world.barrier()?;
        Ok((kept, tables))
    }
}

fn model_of(graph: &DistGraph) -> (Network<Cpu>, NetworkConfig) {
    let sampler = SamplerConfig::new("2,2".parse::<NumNeighbors>().expect("fan-outs"));
    let kind = ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean });
    let training = TrainingConfig { hidden_channels: DIM, ..TrainingConfig::new(kind, sampler) };
    let config =
        model_config(graph, &NodeTrainingConfig { training, ..NodeTrainingConfig::default() }).expect("a model");
    (config.init(3, &Default::default()).expect("a model"), config)
}

#[test]
fn each_rank_writes_its_rows_and_any_number_of_ranks_reads_them() {
    let scratch = Scratch::new();
    for (num_parts, ranks, epoch) in [(2, 2, 1), (3, 3, 2), (2, 4, 3), (1, 1, 4)] {
        let saved = scratch.save(num_parts, ranks, &Save::of(0, "a", epoch, 0.5));
        let tables = &saved[0].1;
        assert_eq!((tables.len(), tables[0].values.len()), (1, 200 * DIM));
        let shards = scratch.shards();
        assert_eq!(shards.len(), num_parts as usize, "those of earlier saves are removed: {shards:?}");
        let mut nodes = Vec::new();
        for shard in &shards {
            let bytes = std::fs::read(shard).expect("a shard");
            let file = SafeTensors::deserialize(&bytes).expect("safetensors");
            let view = file.tensor("original_ids.v2").expect("the nodes");
            let (ids, _) = view.data().as_chunks::<4>();
            nodes.extend(ids.iter().map(|id| u32::from_le_bytes(*id)));
            assert_eq!(file.tensor("embeddings.v2").expect("their rows").shape(), [ids.len(), DIM]);
        }
        nodes.sort_unstable();
        assert_eq!(nodes, (0..200).collect::<Vec<u32>>(), "each row is in one file");
        for (num_parts, ranks) in [(1, 1), (2, 2), (3, 3), (2, 4)] {
            for loaded in scratch.load(num_parts, ranks) {
                assert!(loaded.expect("the embeddings") == *tables, "{num_parts} parts on {ranks} ranks");
            }
        }
        let (_, _, whole) = load_model::<Cpu, NetworkConfig>(&scratch.model(), &Default::default()).expect("a model");
        assert!(whole == *tables);
    }
}

#[test]
fn a_model_that_is_one_file_is_read_by_all_ranks() {
    let scratch = Scratch::new();
    let (_, tables) = scratch.save(1, 1, &Save::of(0, "a", 1, 0.5)).remove(0);
    on_ranks(&scratch.parts(1), 1, &DistGraphConfig::default(), |graph, _| {
        let (model, config) = model_of(&graph);
        save_model(&scratch.model(), &model, &config, &tables).expect("a file");
    });
    std::fs::remove_dir_all(scratch.0.path().join("model.safetensors.embeddings")).expect("the shards");
    for loaded in scratch.load(2, 2) {
        assert!(loaded.expect("the embeddings") == tables);
    }
}

#[test]
fn ranks_that_lack_files_name_them_and_those_that_do_not_need_them_load() {
    let scratch = Scratch::new();
    let tables = scratch.save(2, 2, &Save::of(0, "a", 1, 0.5)).remove(0).1;
    let missing = scratch.shards().remove(1);
    let kept = std::fs::read(&missing).expect("the shard");
    std::fs::remove_file(&missing).expect("the shard");
    // As on nodes without a shared file system: rank 0 has all the files that it needs.
    let loaded = scratch.load(2, 2);
    assert!(loaded[0].is_ok(), "{:?}", loaded[0].as_ref().err());
    let error = loaded[1].as_ref().expect_err("half of the rows are missing").to_string();
    assert!(error.contains(missing.to_str().expect("a path")) && error.contains("copy them"), "{error}");
    assert!(scratch.load(3, 3).iter().all(Result::is_err));
    std::fs::write(&missing, kept).expect("the shard");
    assert!(scratch.load(3, 3).into_iter().all(|loaded| loaded.expect("the embeddings") == tables));
}

#[test]
fn damaged_files_are_named() {
    let scratch = Scratch::new();
    scratch.save(1, 1, &Save::of(0, "a", 1, 0.5));
    let shard = scratch.shards().remove(0);
    let whole = std::fs::read(&shard).expect("the shard");
    let error_of = |bytes: &[u8]| {
        std::fs::write(&shard, bytes).expect("the shard");
        let error = scratch.load(1, 1).remove(0).expect_err("a damaged file").to_string();
        assert!(error.contains(shard.to_str().expect("a path")), "{error} names no file");
        error
    };
    assert!(error_of(&whole[..whole.len() - 1]).contains("not a valid safetensors file"));
    let mut infinite = whole.clone();
    let end = infinite.len();
    infinite[end - 4..].copy_from_slice(&f32::INFINITY.to_le_bytes());
    assert!(error_of(&infinite).contains("the file was changed, copy it again"));
    let mut other_id = whole.clone();
    let start = 8 + u64::from_le_bytes(whole[..8].try_into().expect("8 bytes")) as usize;
    other_id[start] ^= 1;
    assert!(error_of(&other_id).contains("the file was changed, copy it again"));
    // A file of an earlier version has no checksums.
    let model = scratch.0.path().join("model.safetensors");
    let listed = std::fs::read(&model).expect("the model");
    let at = listed.windows(4).position(|word| word == b"xxh3").expect("a checksum");
    std::fs::write(&model, [&listed[..at], b"none", &listed[at + 4..]].concat()).expect("the model");
    assert!(error_of(&infinite).contains("row 199 of its embeddings holds inf"));
    std::fs::write(&shard, &whole).expect("the shard");
    assert!(scratch.load(1, 1).remove(0).is_ok());
    std::fs::write(&model, listed).expect("the model");
    // The shard of another save under the name of this save's shard.
    scratch.save(1, 1, &Save::of(0, "a", 2, 0.5));
    let other = std::fs::read(scratch.shards().remove(0)).expect("the shard");
    let shard = scratch.shards().remove(0);
    std::fs::write(&shard, &whole).expect("the shard");
    let error = scratch.load(1, 1).remove(0).expect_err("another save's file").to_string();
    assert!(error.contains("it does not hold embeddings of this model"), "{error}");
    std::fs::write(&shard, other).expect("the shard");
    assert!(scratch.load(1, 1).remove(0).is_ok());
}

#[test]
fn rows_that_are_in_two_files_or_in_none_are_errors() {
    let scratch = Scratch::new();
    scratch.save(2, 2, &Save::of(0, "a", 1, 0.5));
    let model = scratch.model();
    // A file of an earlier version has no checksums.
    let text = std::fs::read(&model).expect("the model");
    let mut without = text.clone();
    for at in 0..text.len() - 4 {
        if &text[at..at + 4] == b"xxh3" {
            without[at..at + 4].copy_from_slice(b"none");
        }
    }
    std::fs::write(&model, without).expect("the model");
    let shard = scratch.shards().remove(1);
    let whole = std::fs::read(&shard).expect("a shard");
    let file = SafeTensors::deserialize(&whole).expect("safetensors");
    let view = file.tensor("original_ids.v2").expect("the nodes");
    let first = view.data().as_ptr() as usize - whole.as_ptr() as usize;
    let (words, _) = view.data().as_chunks::<4>();
    let ids: Vec<u32> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
    let gap = ids.windows(2).position(|pair| pair[1] > pair[0] + 1).expect("nodes of the other part");
    // The row of a node becomes a second one of the node before it, which the other file has.
    let mut damaged = whole.clone();
    damaged[first + 4 * (gap + 1)..][..4].copy_from_slice(&(ids[gap + 1] - 1).to_le_bytes());
    std::fs::write(&shard, damaged).expect("a shard");
    let load = || load_model::<Cpu, NetworkConfig>(&model, &Default::default()).map(|_| ());
    let error = load().expect_err("a row in two files").to_string();
    let expected = format!("the row of node {} of type v2, which another file holds as well", ids[gap + 1] - 1);
    assert!(error.contains(shard.to_str().expect("a path")) && error.contains(&expected), "{error}");
    // The last row of all becomes one of a node that does not exist, so its node has none.
    let last = scratch.shards().into_iter().find(|path| {
        let bytes = std::fs::read(path).expect("a shard");
        let file = SafeTensors::deserialize(&bytes).expect("safetensors");
        file.tensor("original_ids.v2").expect("the nodes").data().ends_with(&199_u32.to_le_bytes())
    });
    std::fs::write(&shard, &whole).expect("a shard");
    let shard = last.unwrap_or(shard);
    let mut damaged = std::fs::read(&shard).expect("a shard");
    let at = damaged.windows(4).rposition(|word| word == 199_u32.to_le_bytes()).expect("the last node");
    damaged[at..at + 4].copy_from_slice(&200_u32.to_le_bytes());
    std::fs::write(&shard, damaged).expect("a shard");
    let error = load().expect_err("a node without a row").to_string();
    assert!(error.contains("its files lack the row of node 199 of type v2"), "{error}");
}

#[test]
fn a_failed_save_leaves_the_old_model_whole() {
    let scratch = Scratch::new();
    let tables = scratch.save(1, 1, &Save::of(0, "a", 1, 0.5)).remove(0).1;
    let wrong = Save { is_wrong: true, ..Save::of(0, "a", 2, 0.6) };
    let failed = on_ranks(&scratch.parts(1), 1, &DistGraphConfig::default(), |graph, world| {
        wrong.run(&graph, &scratch.model(), world).map(drop)
    });
    let is_foreign = |error: &TrainError| matches!(error, TrainError::Model(source) if matches!(**source, ModelFileError::ForeignConfig { .. }));
    assert!(failed[0].as_ref().is_err_and(is_foreign), "{:?}", failed[0]);
    assert!(scratch.load(1, 1).remove(0).expect("the old model") == tables);
    // The next save removes the files that the failed one left behind.
    assert_eq!(scratch.shards().len(), 2);
    scratch.save(1, 1, &Save::of(0, "a", 3, 0.7));
    assert_eq!(scratch.shards().len(), 1);
}

#[test]
fn a_restarted_attempt_replaces_the_model_of_its_run_only_by_a_better_one() {
    let scratch = Scratch::new();
    let epoch = || ModelOrigin::read(&scratch.model()).expect("a model").expect("its origin").epoch;
    let save = |attempt: u64, run: &str, epoch: u64, metric: f64| -> Option<u64> {
        let kept = scratch.save(2, 2, &Save::of(attempt, run, epoch, metric));
        assert_eq!(kept[0].0, kept[1].0, "all ranks decide alike");
        kept[0].0.as_ref().map(|kept| kept.epoch)
    };
    assert_eq!(save(1, "a", 1, 0.5), None, "the first attempt has left nothing");
    assert_eq!(save(1, "a", 2, 0.4), Some(1));
    assert_eq!(save(2, "a", 3, 0.5), Some(1));
    assert_eq!(epoch(), 1);
    assert_eq!(save(2, "a", 4, 0.6), None);
    assert_eq!(epoch(), 4);
    assert_eq!(save(1, "b", 5, 0.1), None, "the model of another run");
    assert_eq!(save(0, "b", 6, 0.05), None, "a fresh start");
    assert_eq!(epoch(), 6);
    // Two runs of the same name on other data.
    let data = TrainedOn::default();
    let other = data.clone().with_sampler(SamplerConfig::new("2,2".parse::<NumNeighbors>().expect("fan-outs")));
    for (trained_on, is_kept) in [(&data, false), (&data, true), (&other, false), (&other, true)] {
        let save = Save { trained_on: Some(trained_on.clone()), ..Save::of(1, "b", 7, 0.05) };
        for (kept, _) in scratch.save(2, 2, &save) {
            assert_eq!(kept.is_some(), is_kept, "{trained_on:?}");
        }
    }
    // Two runs of the same name with other settings, such as another learning rate.
    for (settings, is_kept) in [("lr 0.1", false), ("lr 0.1", true), ("lr 0.2", false)] {
        let save = Save { settings: Some(settings.to_owned()), ..Save::of(1, "b", 7, 0.05) };
        for (kept, _) in scratch.save(2, 2, &save) {
            assert_eq!(kept.is_some(), is_kept, "{settings}");
        }
    }
    assert!(scratch.load(2, 2).iter().all(Result::is_ok));
    // A file that is not a model belongs to no run and is replaced.
    std::fs::write(scratch.model(), "no model").expect("a file");
    assert_eq!(save(3, "b", 7, 0.01), None);
}

/// Each node has the embeddings of its own ranks, so a model is not complete without the nodes of its attempt.
#[test]
fn a_model_whose_embeddings_are_lost_with_a_node_is_not_kept() {
    let scratch = Scratch::new();
    scratch.save(2, 2, &Save::of(0, "a", 1, 0.9));
    assert_eq!(scratch.notes_of_restart(), [None, None]);
    std::fs::remove_file(&scratch.shards()[1]).expect("a file");
    for note in scratch.notes_of_restart() {
        let note = note.expect("a note");
        assert!(
            note.starts_with("1 of the 2 files with the embeddings of the model of attempt 0 are on no node"),
            "{note}"
        );
    }
    for (kept, _) in scratch.save(2, 2, &Save::of(1, "a", 2, 0.1)) {
        assert_eq!(kept, None);
    }
    assert!(scratch.load(2, 2).iter().all(Result::is_ok));
}

/// Of two jobs, the model of one would be lost, or the files of its embeddings.
#[test]
fn a_second_job_with_the_path_of_a_model_is_refused() {
    let scratch = Scratch::new();
    let _first = FolderLock::take_file(&scratch.model()).expect("a lock");
    let refused = on_ranks(&scratch.parts(1), 1, &DistGraphConfig::default(), |_, world| {
        ModelSaver::new(&scratch.model(), Attempt::default(), false, world).map(drop)
    });
    let error = refused.into_iter().next().expect("a rank").expect_err("the path is taken");
    let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
    assert!(source.contains("another job writes model.safetensors to the folder"), "{error}: {source}");
}

#[test]
fn outputs_that_are_no_files_are_refused_before_the_training() {
    let scratch = Scratch::new();
    for (path, why) in [
        ("/dev/full", "it is a device"),
        ("/tmp", "it is a directory"),
        ("absent/model", "absent does not exist: create it"),
    ] {
        let path = scratch.0.path().join(path);
        let refused = on_ranks(&scratch.parts(1), 1, &DistGraphConfig::default(), |_, world| {
            ModelSaver::new(&path, Attempt::default(), false, world).map(drop)
        });
        let error = refused.into_iter().next().expect("a rank").expect_err("no file");
        let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        assert!(source.contains(why), "{error}: {source}");
    }
}
