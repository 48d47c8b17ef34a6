//! Runs that continue with another number of processes, or with other parts.

use super::training::{Outcome, Training, graphs, kill_all, links, typed_nodes, wait_until};
use crate::programs::*;
use edgecut_testing::assert_has;
use std::path::Path;

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        std::fs::copy(&path, to.join(path.file_name().expect("a name"))).expect("a copy");
    }
}

impl Training {
    /// The same training with a checkpoint of this one, and its metrics.
    fn with_checkpoint(&self, steps: u64) -> Self {
        let copy = self.again();
        copy_folder(&self.folder(steps), &copy.folder(steps));
        std::fs::copy(self.path("metrics"), copy.path("metrics")).expect("a copy");
        copy
    }

    /// The number of steps of an unfinished epoch before a checkpoint; 0 between two epochs.
    fn step_of(&self, steps: u64) -> u64 {
        self.position(steps, "step")
    }

    fn resumed(&self, nproc: &str, more: &[&str]) -> Outcome {
        let output = run(&mut self.stored(&[&["--nproc-per-node", nproc, "--resume"][..], more].concat()));
        assert_has(stderr(&output), &["resuming after "]);
        self.outcome(&output)
    }

    /// The number of seeds, or of graphs, of each epoch.
    fn seeds(&self) -> Vec<u64> {
        let lines = metrics_lines(&self.path("metrics")).into_iter();
        let epochs = lines.filter(|line| line["event"] == "epoch");
        epochs.map(|line| line["seeds"].as_u64().or(line["graphs"].as_u64()).expect("a number of seeds")).collect()
    }
}

/// Continues a training from within an epoch with other numbers of processes. Each epoch then still has the same number of
/// seeds, and an interruption after the change of the number changes no bit.
fn check_resized(training: &Training, within: u64, sizes: &[&str]) {
    let every = ["--checkpoint-every", "1steps", "--keep", "1000"];
    let whole = training.outcome(&run(&mut training.stored(&every)));
    assert!(training.complete().contains(&within));
    for size in sizes {
        let resized = training.with_checkpoint(within);
        let outcome = resized.resumed(size, &every);
        assert_eq!(resized.seeds(), training.seeds(), "with {size} processes");
        assert_eq!(outcome.epochs.len(), whole.epochs.len());

        // Killed after it has continued, within the same epoch or a later one.
        let flags = [&["--nproc-per-node", size, "--resume"][..], &every].concat();
        let killed = std::iter::repeat_with(|| {
            let killed = training.with_checkpoint(within);
            let mut child = Process::start(&mut killed.stored(&flags));
            (wait_until(&mut child, || killed.newest() > within) && kill_all(child)).then_some(killed)
        });
        // On a busy machine, a run may end before it is killed.
        let killed = killed.take(10).flatten().next().expect("a killed run");
        assert_eq!(killed.resumed(size, &every), outcome, "with {size} processes");

        // With a third number after some more steps.
        let mut others = resized.complete();
        others.retain(|&steps| steps > within);
        let again = resized.with_checkpoint(others[0]);
        again.resumed("1", &every);
        assert_eq!(again.seeds(), training.seeds(), "with {size} processes and then one");
    }
}

#[test]
fn typed_nodes_with_embeddings_continue_with_other_numbers_of_processes() {
    let (_parts, training) = typed_nodes("2");
    check_resized(&training, 3, &["1", "3"]);
}

#[test]
fn links_continue_with_other_numbers_of_processes() {
    let (_parts, training) = links("2");
    check_resized(&training, 4, &["4"]);
}

#[test]
fn graphs_continue_with_other_numbers_of_processes() {
    check_resized(&graphs("3"), 4, &["2", "4"]);
}

#[test]
fn other_parts_continue_after_an_epoch() {
    let (_parts, training) = typed_nodes("2");
    let every = ["--checkpoint-every", "1steps", "--keep", "1000"];
    let whole = training.outcome(&run(&mut training.stored(&every)));
    let finished = *training.complete().last().expect("a checkpoint");
    let parts = typed_parts(3);
    let other = ["--dataset-root-dir", parts.path.to_str().expect("UTF-8")];
    for size in ["1", "3", "2"] {
        // A finished run only tests its best model again, to which embeddings belong.
        let resized = training.with_checkpoint(finished);
        assert_eq!(resized.resumed(size, &other).result, whole.result, "on {size} processes");
    }
    let within = training.with_checkpoint(3);
    let flags = [&["--nproc-per-node", "2", "--resume"][..], &other].concat();
    let output = run(&mut within.stored(&flags));
    assert_eq!(output.status.code(), Some(1));
    assert_has(stderr(&output), &["within an epoch of a run with other parts"]);
    assert_eq!(within.complete(), [3], "nothing is removed");

    // An older checkpoint could be used, but a newer one would be lost. The error names both.
    let steps = training.complete();
    let mut pairs = steps.iter().zip(&steps[1..]);
    let (&older, &newer) =
        pairs.find(|(older, newer)| training.step_of(**older) == 0 && training.step_of(**newer) > 0).expect("an epoch");
    let both = training.with_checkpoint(older);
    copy_folder(&training.folder(newer), &both.folder(newer));
    let output = run(&mut both.stored(&flags));
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(text.contains(&format!("{} is within an epoch", both.folder(newer).display())), "{text}");
    assert!(text.contains(&format!("older checkpoint {}", both.folder(older).display())), "{text}");
    assert_eq!(both.complete(), [older, newer], "nothing is removed");
    std::fs::remove_dir_all(both.folder(newer)).expect("remove");
    both.resumed("2", &other);
}
