//! Jobs that continue from checkpoints after failures: with the same bits on the same nodes, and with fewer nodes.

use crate::support::{signal, wait_until};
use crate::{Ready, TRAIN_FLAGS, accuracy, ready};
use rustix::process::Signal;
use std::path::PathBuf;

/// More epochs than a busy machine takes until all interruptions have come.
const LONG: [&str; 5] = ["--num-epochs", "40", "--eval-every", "10", "--json"];

impl Ready {
    /// The folder of checkpoints, which all hosts share.
    fn checkpoints(&self) -> PathBuf {
        self.lab.path("checkpoints")
    }

    /// The number of steps of the newest checkpoint that all hosts have completed.
    fn newest(&self) -> u64 {
        let folders = std::fs::read_dir(self.checkpoints()).into_iter().flatten().flatten();
        let manifests = ["node-00000.json", "node-00002.json", "node-00004.json"];
        let complete = folders.filter(|folder| manifests.iter().all(|name| folder.path().join(name).exists()));
        let steps = complete.filter_map(|folder| folder.file_name().to_str()?.strip_prefix("step-")?.parse().ok());
        steps.max().unwrap_or(0)
    }

    /// Returns the flags of `launch` and of a training with checkpoints.
    fn resuming<'a>(&'a self, launch: &[&'a str], checkpoints: &'a str) -> Vec<&'a str> {
        let stored = ["--checkpoint-dir", checkpoints, "--checkpoint-every", "5steps", "--resume"];
        [launch, &self.flags("node"), &TRAIN_FLAGS, &LONG, &stored].concat()
    }
}

#[test]
fn a_restarted_job_has_the_same_result_as_one_without_failures() {
    let Some(ready) = ready("restarts from checkpoints", "3000") else { return };
    let whole = ready.lab.run(&[&ready.flags("node")[..], &TRAIN_FLAGS, &LONG].concat());
    assert!(whole.status.success(), "{whole:#?}");
    let checkpoints = ready.checkpoints().display().to_string();
    let flags = ready.resuming(&["--max-restarts", "2", "--grace", "60"], &checkpoints);

    // Two ranks are killed, after which the job restarts by itself.
    let job = ready.lab.spawn(&flags);
    for (number, killed) in [(1, 3), (2, 0)] {
        let before = ready.newest();
        assert!(wait_until(|| ready.newest() > before), "the job writes checkpoints");
        signal(ready.lab.rank(killed), Signal::KILL);
        job.wait_for(&format!("restarting the whole job ({number} of 2)"), 1);
        job.wait_for("resuming after ", number);
    }
    // It is interrupted during the training, and started again by hand.
    let before = ready.newest();
    assert!(wait_until(|| ready.newest() > before), "the job goes on");
    job.signal(Signal::INT);
    let run = job.finish();
    assert_eq!(run.status.code(), Some(130), "{run:#?}");
    assert!(run.err.contains("SIGTERM: stopped after "), "it had time to write a checkpoint: {run:#?}");
    let run = ready.lab.run(&flags);
    assert!(run.status.success(), "{run:#?}");
    assert!(run.err.contains("resuming after "), "{run:#?}");
    assert_eq!(run.out, whole.out);
}

#[test]
fn a_job_goes_on_without_a_node_that_is_lost() {
    let Some(ready) = ready("restarts with fewer nodes", "3000") else { return };
    let checkpoints = ready.checkpoints().display().to_string();
    let launch = ["--max-restarts", "1", "--allow-fewer-nodes"];
    // A job that has lost a node waits for it, so that few epochs suffice.
    let flags = [&ready.resuming(&launch, &checkpoints)[..], &["--num-epochs", "20"]].concat();
    let job = ready.lab.spawn(&flags);
    assert!(wait_until(|| ready.newest() > 0), "the job writes checkpoints");
    // The node of rank 0, so that another one becomes the master.
    ready.lab.cut(0, true);
    let run = job.finish();
    assert!(run.status.success(), "{run:#?}");
    for said in [
        "10.99.0.1 (node 0) is lost",
        "going on with 2 of 3 nodes and 4 processes: 10.99.0.1 cannot be reached",
        "which 6 processes wrote",
        "[10.99.0.2:0] epoch 20/20",
    ] {
        assert!(run.err.contains(said), "{said}: {run:#?}");
    }
    assert!(accuracy(&run.out) > 0.8, "{run:#?}");
}
