//! Trainings that are killed while they write checkpoints.

use crate::Rounds;
use crate::moments::Moments;
use crate::programs::{Process, program, write_parts};
use crate::table::{Outcome, Table};
use anyhow::{Context, bail, ensure};
use edgecut_cli::message;
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The longest time between the start of an attempt and its end by force.
const WITHIN: Duration = Duration::from_millis(2500);
/// The number of kills after which an attempt must have continued from a checkpoint.
const SOME_KILLS: u64 = 5;
/// The limit of an attempt that is not killed.
const ENDS_WITHIN: Duration = Duration::from_secs(300);

/// A training that is killed and resumed.
struct Training {
    name: &'static str,
    dir: PathBuf,
    flags: Vec<String>,
}

pub(crate) fn run(rounds: &Rounds) -> anyhow::Result<Table> {
    let dir = tempfile::tempdir().context("make a temporary folder")?;
    let trainings = trainings(dir.path())?;
    let mut table = Table::default();
    let wholes = trainings.iter().map(Training::whole).collect::<anyhow::Result<Vec<_>>>()?;
    // The number of kills since the training was last started anew.
    let mut kills = vec![0; trainings.len()];
    // The attempts that were killed, and those that continued from a checkpoint.
    let mut all_kills = vec![0; trainings.len()];
    let mut resumed = vec![0; trainings.len()];
    for number in rounds.numbers() {
        let mut moments = Moments::of_round(rounds.seed, number);
        let at = (number % trainings.len() as u64) as usize;
        let training = &trainings[at];
        let moment = moments.before(WITHIN);
        let start = Instant::now();
        let killed = training.attempt(Some(moment));
        let result = killed.and_then(|was_killed| {
            kills[at] += u64::from(was_killed);
            all_kills[at] += u64::from(was_killed);
            resumed[at] += u64::from(training.has_resumed()?);
            if !was_killed {
                training.check(&wholes[at])?;
                training.start_anew()?;
                kills[at] = 0;
            }
            Ok((Outcome::WentOn, start.elapsed()))
        });
        table.note(
            number,
            &format!("{} killed after {:.3} s", training.name, moment.as_secs_f64()),
            training.name,
            result,
        );
    }
    for (at, training) in trainings.iter().enumerate().filter(|(at, _)| kills[*at] > 0) {
        let result = training.attempt(None).and_then(|_| {
            resumed[at] += u64::from(training.has_resumed()?);
            training.check(&wholes[at])
        });
        let what = format!("{}, resumed after {} kills", training.name, kills[at]);
        table.note(rounds.rounds + at as u64, &what, training.name, result.map(|()| (Outcome::WentOn, Duration::ZERO)));
    }
    for ((training, all_kills), resumed) in trainings.iter().zip(all_kills).zip(resumed) {
        message!("{}: {all_kills} kills, {resumed} attempts continued from a checkpoint", training.name);
        // The first kills may come before the first checkpoint.
        ensure!(all_kills < SOME_KILLS || resumed > 0, "no attempt of {} has continued", training.name);
    }
    Ok(table)
}

fn trainings(dir: &Path) -> anyhow::Result<Vec<Training>> {
    let typed = write_parts(dir, "fake-hetero", 2, &["--avg-num-nodes", "2000"])?;
    let links = ["--avg-num-nodes", "2000", "--hold-out-edges", "0.05,0.1"];
    let links = write_parts(dir, "fake", 3, &links)?;
    let training = |name, words: &[&str], parts: Option<&PathBuf>| {
        let mut flags: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        flags.extend(parts.iter().flat_map(|parts| ["--dataset-root-dir".to_owned(), parts.display().to_string()]));
        Training { name, dir: dir.join(name.replace(' ', "-")), flags }
    };
    let small = "--num-neighbors 5,5 --hidden-channels 16 --batch-size 16";
    let words = |text: &'static str| -> Vec<&'static str> { text.split(' ').chain(small.split(' ')).collect() };
    Ok(vec![
        training("nodes with embeddings on 2 ranks", &words("node --nproc-per-node 2 --num-epochs 10"), Some(&typed)),
        training("nodes with embeddings on 1 rank", &words("node --nproc-per-node 1 --num-epochs 10"), Some(&typed)),
        training(
            "links on 3 ranks",
            &words("link --nproc-per-node 3 --num-epochs 2 --eval-negatives 20"),
            Some(&links),
        ),
        training(
            "graphs on 3 ranks",
            &"graph --nproc-per-node 3 --dataset fake-graphs --num-graphs 600 --num-epochs 6 --batch-size 4"
                .split(' ')
                .collect::<Vec<_>>(),
            None,
        ),
    ])
}

impl Training {
    fn command(&self) -> anyhow::Result<Command> {
        std::fs::create_dir_all(&self.dir).with_context(|| format!("make {}", self.dir.display()))?;
        let mut command = Command::new(program("train")?);
        command.args(&self.flags).args(["--num-threads", "1", "--num-workers", "1"]);
        command.arg("--save-model").arg(self.dir.join("model"));
        command.arg("--metrics").arg(self.dir.join("metrics"));
        command.process_group(0);
        Ok(command)
    }

    /// Trains without interruptions and checkpoints, and returns the files.
    fn whole(&self) -> anyhow::Result<BTreeMap<String, Vec<u8>>> {
        let mut process = Process::start(&mut self.command()?, self.dir.join("log"))?;
        crate::programs::wait_until(Instant::now() + ENDS_WITHIN, || process.status().is_some());
        ensure!(process.status().is_some_and(|status| status.success()), "{}: {}", self.name, process.output());
        let files = self.files()?;
        self.start_anew()?;
        Ok(files)
    }

    /// Continues the training, and kills it at a moment. Returns false if it had ended.
    fn attempt(&self, moment: Option<Duration>) -> anyhow::Result<bool> {
        let mut command = self.command()?;
        command.arg("--checkpoint-dir").arg(self.dir.join("checkpoints")).args(["--checkpoint-every", "1steps"]);
        let mut process = Process::start(command.arg("--resume"), self.dir.join("log"))?;
        let limit = moment.unwrap_or(ENDS_WITHIN);
        if crate::programs::wait_until(Instant::now() + limit, || process.status().is_some()) {
            let status = process.status();
            ensure!(status.is_some_and(|status| status.success()), "{}: {}", self.name, process.output());
            return Ok(false);
        }
        let group = i32::try_from(process.id()).ok().and_then(Pid::from_raw).context("a process id")?;
        kill_process_group(group, Signal::KILL).context("kill a process group")?;
        process.kill();
        if moment.is_none() {
            bail!("{} has not ended: {}", self.name, process.output());
        }
        Ok(true)
    }

    /// Returns true if the last attempt continued from a checkpoint.
    fn has_resumed(&self) -> anyhow::Result<bool> {
        let log = self.dir.join("log");
        let text = std::fs::read(&log).with_context(|| format!("read {}", log.display()))?;
        Ok(String::from_utf8_lossy(&text).contains("resuming after "))
    }

    /// Compares the files with the files of a training without interruptions.
    fn check(&self, whole: &BTreeMap<String, Vec<u8>>) -> anyhow::Result<()> {
        let files = self.files()?;
        let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
        ensure!(names(&files) == names(whole), "the files are {:?}, not {:?}", names(&files), names(whole));
        for (name, bytes) in whole {
            ensure!(files.get(name) == Some(bytes), "{name} differs from that of a training without interruptions");
        }
        Ok(())
    }

    /// Returns the model, its embeddings, and the losses and scores of all epochs.
    fn files(&self) -> anyhow::Result<BTreeMap<String, Vec<u8>>> {
        let read = |path: &Path| std::fs::read(path).with_context(|| format!("read {}", path.display()));
        let model = self.dir.join("model");
        let mut files = BTreeMap::new();
        let embeddings = self.dir.join("model.embeddings");
        match std::fs::read_dir(&embeddings) {
            Ok(entries) => {
                for entry in entries {
                    let path = entry.context("read a folder")?.path();
                    let rank = path.to_string_lossy().rsplit(".rank_").next().unwrap_or_default().to_owned();
                    files.insert(format!("embeddings {rank}"), tensors(read(&path)?)?);
                }
                files.insert("model".to_owned(), tensors(read(&model)?)?);
            }
            Err(_) => drop(files.insert("model".to_owned(), read(&model)?)),
        }
        let text = String::from_utf8_lossy(&read(&self.dir.join("metrics"))?).into_owned();
        let mut scores = Vec::new();
        for line in text.lines() {
            let line: serde_json::Value = serde_json::from_str(line).context("read the metrics")?;
            if line["event"] == "epoch" {
                scores.push(["epoch", "loss", "train_acc", "valid_metric"].map(|name| line[name].clone()));
            }
        }
        files.insert("metrics".to_owned(), serde_json::to_vec(&scores)?);
        Ok(files)
    }

    #[expect(clippy::disallowed_methods, reason = "the folder is in the temporary folder of the campaign")]
    fn start_anew(&self) -> anyhow::Result<()> {
        std::fs::remove_dir_all(&self.dir).with_context(|| format!("remove {}", self.dir.display()))
    }
}

/// Returns the tensors of a file in the format safetensors without its header, in which saved embeddings have a random
/// name.
fn tensors(file: Vec<u8>) -> anyhow::Result<Vec<u8>> {
    let length = file.get(..8).and_then(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?)));
    let tensors = length.and_then(|length| file.get(8 + length as usize..));
    Ok(tensors.context("a file that is not in the format safetensors")?.to_vec())
}
