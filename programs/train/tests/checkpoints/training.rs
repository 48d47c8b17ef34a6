//! Trainings whose files are in folders of their own.

use crate::programs::*;
use rustix::process::{Pid, Signal, kill_process};
use safetensors::SafeTensors;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The flags of a run that is interrupted, and does not end before, however late the interruption comes.
pub(crate) const ENDLESS: [&str; 2] = ["--num-epochs", "1000000"];

/// A training whose files are in a folder of its own.
pub(crate) struct Training {
    dir: Folder,
    words: Vec<String>,
}

/// The outcome of a training. Times are left out.
#[derive(Debug, PartialEq)]
pub(crate) struct Outcome {
    /// The epoch, the loss, the training accuracy and the metric of each epoch.
    pub(crate) epochs: Vec<[Value; 4]>,
    pub(crate) result: Value,
    /// The bytes of the saved model's tensors by name, with those of the embeddings of each rank, and its task.
    pub(crate) model: BTreeMap<String, Vec<u8>>,
}

impl Training {
    pub(crate) fn new(words: &[&str], parts: Option<&Path>, flags: &[&str]) -> Self {
        let mut words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        if let Some(parts) = parts {
            words.extend(["--dataset-root-dir".to_owned(), parts.to_str().expect("UTF-8").to_owned()]);
        }
        words.extend(flags.iter().map(|word| (*word).to_owned()));
        Self { dir: Folder::new(), words }
    }

    /// The same training, with files of its own.
    pub(crate) fn again(&self) -> Self {
        Self { dir: Folder::new(), words: self.words.clone() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub(crate) fn command(&self, flags: &[&str]) -> Command {
        let mut command = Command::new(TRAIN);
        command.args(&self.words).arg("--json");
        command.arg("--metrics").arg(self.path("metrics")).arg("--save-model").arg(self.path("model"));
        command.args(flags);
        unplace(&mut command);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Returns the command with checkpoints.
    pub(crate) fn stored(&self, flags: &[&str]) -> Command {
        let mut command = self.command(flags);
        command.arg("--checkpoint-dir").arg(self.checkpoints());
        command
    }

    pub(crate) fn checkpoints(&self) -> PathBuf {
        self.path("checkpoints")
    }

    pub(crate) fn outcome(&self, output: &Output) -> Outcome {
        assert!(output.status.success(), "{}", stderr(output));
        let text = std::fs::read_to_string(self.path("metrics")).expect("metrics");
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let of = |event: &'static str| lines.iter().filter(move |line| line["event"] == event);
        assert_eq!(of("result").count(), 1, "{text}");
        let values = |line: &Value| ["epoch", "loss", "train_acc", "valid_metric"].map(|name| line[name].clone());
        assert!(of("epoch").all(|line| line["checkpoint_seconds"].as_f64().is_some_and(|time| time >= 0.0)));
        Outcome {
            epochs: of("epoch").map(values).collect(),
            result: serde_json::from_slice(&output.stdout).expect("a result"),
            model: self.model(),
        }
    }

    pub(crate) fn model(&self) -> BTreeMap<String, Vec<u8>> {
        let mut all = tensors(&self.path("model"), "");
        let bytes = std::fs::read(self.path("model")).expect("a model");
        let (_, header) = SafeTensors::read_metadata(&bytes).expect("safetensors");
        // With the thresholds and the temperature.
        let task = header.metadata().as_ref().and_then(|metadata| metadata.get("task")).expect("a task");
        all.insert("task".to_owned(), task.clone().into_bytes());
        let Ok(shards) = std::fs::read_dir(self.path("model.embeddings")) else { return all };
        for shard in shards {
            let path = shard.expect("a file").path();
            let rank = path.to_str().and_then(|name| name.split_once(".rank_")).expect("a shard").1.to_owned();
            all.extend(tensors(&path, &rank));
        }
        all
    }

    /// Returns the number of steps of each complete checkpoint of the first node.
    pub(crate) fn complete(&self) -> Vec<u64> {
        let Ok(folders) = std::fs::read_dir(self.checkpoints()) else { return Vec::new() };
        let mut steps: Vec<u64> = folders
            .filter_map(|folder| Some(folder.ok()?.path()))
            .filter(|folder| folder.join("node-00000.json").exists())
            .filter_map(|folder| folder.to_str()?.rsplit_once("step-")?.1.parse().ok())
            .collect();
        steps.sort_unstable();
        steps
    }

    pub(crate) fn folder(&self, steps: u64) -> PathBuf {
        self.checkpoints().join(format!("step-{steps:08}"))
    }

    /// Returns true while a rank writes its file.
    pub(crate) fn is_writing(&self) -> bool {
        let Ok(folders) = std::fs::read_dir(self.checkpoints()) else { return false };
        folders.flatten().any(|folder| {
            let files = std::fs::read_dir(folder.path()).into_iter().flatten().flatten();
            files.into_iter().any(|file| file.file_name().to_string_lossy().ends_with(".partial"))
        })
    }

    pub(crate) fn newest(&self) -> u64 {
        self.complete().last().copied().unwrap_or(0)
    }

    /// Returns a value of the manifest of a checkpoint.
    pub(crate) fn position(&self, steps: u64, name: &str) -> u64 {
        let manifest = std::fs::read(self.folder(steps).join("node-00000.json")).expect("a manifest");
        let manifest: Value = serde_json::from_slice(&manifest).expect("JSON");
        manifest[name].as_u64().expect("a number")
    }

    /// Completes an interrupted run one epoch after the epoch of its newest checkpoint. The outcome must equal the outcome
    /// of `uninterrupted` after as many epochs. Returns the standard error.
    pub(crate) fn completes_like(&self, uninterrupted: &Self, flags: &[&str]) -> String {
        let num_epochs = (self.position(self.newest(), "epoch") + 2).to_string();
        let last = ["--num-epochs", &num_epochs];
        let whole = uninterrupted.outcome(&run(&mut uninterrupted.command(&last)));
        let output = run(&mut self.stored(&[flags, &last].concat()));
        assert_eq!(self.outcome(&output), whole, "{}", stderr(&output));
        stderr(&output)
    }
}

pub(crate) fn tensors(path: &Path, prefix: &str) -> BTreeMap<String, Vec<u8>> {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let file = SafeTensors::deserialize(&bytes).expect("safetensors");
    file.iter().map(|(name, view)| (format!("{prefix}{name}"), view.data().to_vec())).collect()
}

/// Nodes of several types. Some types have embeddings.
pub(crate) fn typed_nodes(nproc: &str) -> (Parts, Training) {
    let parts = typed_parts(2);
    let flags = ["--num-neighbors", "4,3", "--hidden-channels", "8", "--batch-size", "8", "--num-epochs", "5"];
    // The schedule changes the rate of the embeddings too, and the average counts them.
    let more = ["--nproc-per-node", nproc, "--lr-schedule", "plateau", "--lr-patience", "0", "--warmup-steps", "9"];
    let training = Training::new(&["node"], Some(&parts.path), &[&flags[..], &more, &["--ema", "0.8"]].concat());
    (parts, training)
}

pub(crate) fn links(nproc: &str) -> (Parts, Training) {
    let parts = link_parts(2);
    let flags = ["--num-neighbors", "4,3", "--hidden-channels", "8", "--batch-size", "64", "--num-epochs", "3"];
    let more = ["--nproc-per-node", nproc, "--eval-negatives", "20", "--optimizer", "sgd"];
    let training = Training::new(&["link"], Some(&parts.path), &[&flags[..], &more].concat());
    (parts, training)
}

/// Edges, whose ends have features, embeddings, or both. Batches are normalized over all ranks.
pub(crate) fn edges(nproc: &str) -> (Parts, Training) {
    let parts = edge_parts(2, true);
    let flags = ["--num-neighbors", "4,3", "--hidden-channels", "8", "--batch-size", "8", "--num-epochs", "5"];
    let more =
        ["--nproc-per-node", nproc, "--class-weights", "balanced", "--dropout", "0.2", "--node-embeddings", "v0=3"];
    let chosen = ["--metric", "roc-auc,macro-f1", "--threshold", "best-f1", "--calibrate"];
    let norms = ["--batch-norm", "--sync-batch-norm"];
    let training = Training::new(&["edge"], Some(&parts.path), &[&flags[..], &more, &chosen, &norms].concat());
    (parts, training)
}

/// Graphs, with batch normalization, whose statistics differ between the ranks within an epoch.
pub(crate) fn graphs(nproc: &str) -> Training {
    let data = ["--dataset", "fake-graphs", "--num-graphs", "240", "--num-epochs", "5", "--hidden-channels", "8"];
    let flags = ["--nproc-per-node", nproc, "--batch-size", "4", "--accumulate-steps", "2", "--warmup-steps", "30"];
    let blocks = ["--ema", "0.8", "--drop-edge", "0.2"];
    Training::new(&["graph"], None, &[&data[..], &flags, &blocks].concat())
}

/// Waits until `happens`. Returns false if the process has ended before.
pub(crate) fn wait_until(child: &mut Child, happens: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    loop {
        if happens() {
            return true;
        }
        if child.try_wait().expect("wait for a child").is_some() {
            return false;
        }
        assert!(start.elapsed() < ENDS_WITHIN, "nothing happened in time");
        std::thread::park_timeout(Duration::from_micros(200));
    }
}

/// Kills a process and those that it has started, without a chance to notice. Returns false if they had ended before.
pub(crate) fn kill_all(child: impl Into<Process>) -> bool {
    let child: Process = child.into();
    let ranks = children_of(child.id());
    for pid in ranks.into_iter().chain([child.id()]) {
        let pid = Pid::from_raw(i32::try_from(pid).expect("a process id")).expect("not 0");
        let _ = kill_process(pid, Signal::KILL);
    }
    !end(child).status.success()
}
