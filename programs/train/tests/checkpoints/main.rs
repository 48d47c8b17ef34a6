//! Checkpoints with real processes: a run that is interrupted and resumed gives the same bits as one that is not.
#![allow(clippy::disallowed_methods, reason = "the folders belong to the tests")]

mod resized;
pub(crate) mod training;

use crate::programs::*;
use edgecut_graph::readers::{FakeOptions, fake};
use edgecut_graph::{Dataset, Features, HoldOut};
use edgecut_output::testing::ForeignEntries;
use edgecut_testing::{assert_has, free_port};
use rustix::process::Signal;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use training::{ENDLESS, Training, edges, graphs, kill_all, links, tensors, typed_nodes, wait_until};

/// The exit status of a run that SIGTERM has ended, as `train --help` documents it.
const STOPPED: i32 = 75;

/// Kills a training while it writes checkpoints and after it has written some, resumes it each time, and compares the
/// outcome with a training without interruptions and without checkpoints.
fn check_killed(training: &Training) {
    const FLAGS: [&str; 3] = ["--checkpoint-every", "7steps", "--resume"];
    let again = training.again();
    for while_writing in [true, false, true] {
        let before = again.newest();
        let mut child = Process::start(&mut again.stored(&[&FLAGS[..], &ENDLESS].concat()));
        let is_time = || {
            let newest = again.newest();
            // A busy machine may hide the short time of writing.
            newest > before && (!while_writing || again.is_writing() || newest > before + 50 * 7)
        };
        assert!(wait_until(&mut child, is_time) && kill_all(child), "it has ended before it was killed");
    }
    assert_has(again.completes_like(training, &FLAGS), &["resuming after "]);
    assert_eq!(again.complete().len(), 2, "--keep is 2 by default");
    let folders = std::fs::read_dir(again.checkpoints()).expect("a folder").count();
    assert_eq!(folders, 2, "the remains of the killed runs were removed");
}

#[test]
fn killed_runs_on_typed_nodes_with_embeddings_continue_with_the_same_bits() {
    let (_parts, training) = typed_nodes("2");
    check_killed(&training);
}

#[test]
fn killed_runs_on_links_continue_with_the_same_bits() {
    let (_parts, training) = links("1");
    check_killed(&training);
}

#[test]
fn killed_runs_on_edges_continue_with_the_same_bits() {
    let (_parts, training) = edges("2");
    check_killed(&training);
}

#[test]
fn killed_runs_on_graphs_continue_with_the_same_bits() {
    check_killed(&graphs("2"));
}

#[test]
fn sigterm_writes_a_checkpoint_and_ends_with_a_status_of_its_own() {
    let (_parts, nodes) = typed_nodes("1");
    for training in [nodes, graphs("2")] {
        let again = training.again();
        for _ in 0..2 {
            let before = again.newest();
            let mut child = Process::start(&mut again.stored(&[&["--resume"][..], &ENDLESS].concat()));
            // The first checkpoint of an epoch shows that the training runs.
            assert!(wait_until(&mut child, || again.newest() > before), "it was to be ended");
            let steps = again.newest();
            send(Signal::TERM, child.id());
            let output = end(child);
            assert_eq!(output.status.code(), Some(STOPPED), "{}", stderr(&output));
            assert!(stderr(&output).contains("continue from ") && stderr(&output).contains("--resume"));
            assert!(!stderr(&output).contains("error: "), "{}", stderr(&output));
            assert!(again.newest() >= steps);
        }
        again.completes_like(&training, &["--resume"]);
        // A model without embeddings has the same bytes as in a run without interruptions.
        if !training.path("model.embeddings").exists() {
            let bytes = |training: &Training| std::fs::read(training.path("model")).expect("a model");
            assert!(bytes(&again) == bytes(&training), "the files differ in their metadata");
        }
    }
}

#[test]
fn without_checkpoints_sigterm_ends_a_run_as_always() {
    use std::os::unix::process::ExitStatusExt;
    let training = graphs("1");
    let mut child = Process::start(&mut training.command(&ENDLESS));
    let metrics = training.path("metrics");
    assert!(wait_until(&mut child, || std::fs::metadata(&metrics).is_ok_and(|file| file.len() > 0)));
    send(Signal::TERM, child.id());
    assert_eq!(end(child).status.signal(), Some(Signal::TERM.as_raw()));
}

#[test]
fn more_epochs_continue_a_finished_run_and_a_restarted_attempt_resumes() {
    let parts = fake_parts(1);
    let flags = ["--num-neighbors", "4,3", "--hidden-channels", "8", "--batch-size", "64"];
    let training = Training::new(&["node"], Some(&parts.path), &flags);
    let whole = training.outcome(&run(&mut training.command(&["--num-epochs", "4"])));
    let again = training.again();
    let resume = |epochs| ["--num-epochs", epochs, "--resume"];
    again.outcome(&run(&mut again.stored(&resume("2"))));
    // As `launch --max-restarts` starts it again.
    let mut restarted = again.stored(&resume("4"));
    restarted.env("EDGECUT_RESTART_COUNT", "1").env("EDGECUT_RUN_ID", "a-run");
    let output = run(&mut restarted);
    assert_eq!(again.outcome(&output), whole);
    let metrics = std::fs::read_to_string(again.path("metrics")).expect("metrics");
    assert!(metrics.lines().all(|line| line.contains("\"attempt\":1,")), "{metrics}");
    let is_run: Vec<bool> = metrics.lines().map(|line| line.contains("\"event\":\"run\"")).collect();
    assert_eq!(is_run[..4], [true, false, false, true], "{metrics}");
    // The table has the epochs of both processes.
    let table =
        stderr(&output).lines().skip_while(|line| !line.contains("epoch    loss")).collect::<Vec<_>>().join("\n");
    for epoch in 1..=4 {
        assert!(table.contains(&format!(" {epoch}  ")), "{epoch}: {table}");
    }
    assert_eq!(table.matches("\nbest ").count(), 1, "{table}");
    // A finished run only tests its best model again.
    assert_eq!(again.outcome(&run(&mut again.stored(&resume("4")))), whole);
}

/// Edges of a source that is connected to all nodes have no negatives. A run that continues within an epoch also counts the
/// edges that the batches before the checkpoint have left out.
#[test]
fn edges_without_negatives_are_counted_over_an_interruption() {
    let mut graph = random_graph(6);
    let types = graph.edge_type_ids();
    graph.hold_out_edges(&types, &HoldOut::random(0.05, 0.05, 0)).expect("held-out edges");
    let num_nodes = graph.node_types[0].num_nodes as u32;
    let edges = &mut graph.edge_types[0];
    let mut src = edges.src.to_vec();
    let mut dst = edges.dst.to_vec();
    // The last node has no edges before.
    src.extend(std::iter::repeat_n(num_nodes - 1, num_nodes as usize));
    dst.extend(0..num_nodes);
    edges.src = src.into();
    edges.dst = dst.into();
    let parts = written_by(&graph, 1);
    let flags = "--num-neighbors 3 --hidden-channels 8 --batch-size 500 --num-epochs 1 --exclude-positives";
    let flags: Vec<&str> = flags.split(' ').collect();
    let training = Training::new(&["link"], Some(&parts.path), &flags);
    assert_eq!(left_out_of(&training), u64::from(num_nodes));
    let complete = training.complete();
    assert!(complete.len() > 4, "{complete:?}");
    for steps in &complete[2..] {
        std::fs::remove_dir_all(training.folder(*steps)).expect("a checkpoint");
    }
    assert_eq!(left_out_of(&training), u64::from(num_nodes));
}

/// Runs or continues a training of one epoch with a checkpoint per step, and returns the number of edges that it has left out.
fn left_out_of(training: &Training) -> u64 {
    succeeded(run(&mut training.stored(&["--checkpoint-every", "1steps", "--keep", "100", "--resume"])));
    let lines = metrics_lines(&training.path("metrics"));
    let epochs: Vec<&Value> = lines.iter().filter(|line| line["event"] == "epoch").collect();
    assert_eq!(epochs.len(), 1);
    epochs[0]["left_out"].as_u64().expect("a number")
}

#[test]
fn a_continuation_without_the_metrics_file_has_a_note_later() {
    let parts = fake_parts(1);
    let flags = ["--num-neighbors", "4,3", "--hidden-channels", "8", "--batch-size", "64"];
    let training = Training::new(&["node"], Some(&parts.path), &flags);
    let metrics = training.path("metrics");
    let elsewhere = training.path("elsewhere");
    // Of a flag that is given twice, the last one counts.
    for (epochs, file, noted) in [
        ("1", &metrics, None),
        ("2", &metrics, None),
        ("3", &elsewhere, Some("elsewhere has lines of 0 of the 2 epochs before the checkpoint")),
        ("4", &metrics, Some("metrics has lines of 0 of the 3 epochs before the checkpoint")),
        ("5", &metrics, Some("metrics has lines of 1 of the 4 epochs before the checkpoint")),
    ] {
        let output = run(training.stored(&["--num-epochs", epochs, "--resume"]).arg("--metrics").arg(file));
        let text = stderr(&output);
        assert!(output.status.success(), "{text}");
        let notes: Vec<&str> = text.lines().filter(|line| line.contains(" has lines of ")).collect();
        assert_eq!(notes.len(), usize::from(noted.is_some()), "{text}");
        assert!(noted.is_none_or(|noted| notes[0].contains(noted)), "{text}");
    }
}

#[test]
fn another_run_and_damaged_files_are_refused() {
    let parts_1 = fake_parts(1);
    let flags = ["--num-neighbors", "4,3", "--hidden-channels", "8", "--batch-size", "64", "--keep", "3"];
    let training = Training::new(&["node"], Some(&parts_1.path), &flags);
    let epochs = |number| ["--num-epochs", number, "--resume"];
    let whole = training.outcome(&run(&mut training.stored(&epochs("3"))));
    let [first, second, third] = training.complete()[..] else { panic!("{:?}", training.complete()) };
    let metrics = || std::fs::read(training.path("metrics")).expect("metrics");
    let written = metrics();
    let refused = |flags: &[&str]| {
        let error = error_of(&run(&mut training.stored(&[&epochs("4")[..], flags].concat())));
        assert!(metrics() == written, "a refused run changes nothing");
        error
    };
    for (flags, name) in [
        (["--lr", "0.5"], "--lr is 0.5, but it is 0.003"),
        (["--seed", "7"], "--seed is 7"),
        (["--optimizer", "sgd"], "--optimizer is \"sgd\""),
        (["--batch-size", "32"], "--batch-size is 32"),
        (["--num-neighbors", "3,3"], "--num-neighbors is \"3,3\""),
        (["--hidden-channels", "16"], "--hidden-channels is 16"),
        (["--feature-dtype", "int8"], "--feature-dtype is \"int8\", but it is not set"),
    ] {
        assert_has(refused(&flags), &[name, "another --checkpoint-dir"]);
    }
    assert_has(refused(&["--num-epochs", "2"]), &["--num-epochs is 2, but the checkpoint has 3 epochs"]);
    let other = parts(1, 3);
    let error = refused(&["--dataset-root-dir", other.path.to_str().expect("UTF-8")]);
    assert!(error.contains("the data of this run is not that of the checkpoint"), "{error}");
    assert_error(&run(&mut training.stored(&["--num-epochs", "3"])), &["add --resume to continue it"]);

    let state = training.folder(third).join("rank-00000.state");
    let bytes = std::fs::read(&state).expect("a state");
    std::fs::write(&state, &bytes[..bytes.len() / 2]).expect("a truncated file");
    let error = refused(&[]);
    let older = training.folder(second);
    for part in [state.to_str(), older.to_str(), Some("bytes, but"), Some("remove the folder")] {
        assert!(error.contains(part.expect("UTF-8")), "{error}");
    }
    let mut wrong = bytes.clone();
    wrong[bytes.len() / 2] ^= 1;
    std::fs::write(&state, &wrong).expect("a damaged file");
    assert!(refused(&[]).contains("the checksum of the file is"));

    // As the error advises. The remains of a killed run disappear as well.
    std::fs::remove_dir_all(training.folder(third)).expect("removed");
    let remains = training.folder(999);
    std::fs::create_dir(&remains).expect("a folder");
    std::fs::write(remains.join(".rank-00000.state.0123456789abcdef.partial"), "half").expect("a file");
    // Files of the user stay, in a folder of checkpoints and in those with similar names.
    let mixed = training.folder(998);
    let similar = training.checkpoints().join("step-7");
    for folder in [&mixed, &similar] {
        std::fs::create_dir(folder).expect("a folder");
    }
    std::fs::write(mixed.join("rank-00000.state"), "half").expect("a file");
    let foreign = [&mixed, &similar].map(|folder| ForeignEntries::plant(folder).expect("foreign entries"));
    assert_eq!(training.outcome(&run(&mut training.stored(&epochs("3")))), whole);
    assert!(!remains.exists() && !mixed.join("rank-00000.state").exists());
    for (folder, foreign) in [mixed, similar].iter().zip(foreign) {
        assert_eq!(foreign.lost(), [] as [&Path; 0]);
        std::fs::remove_dir_all(folder).expect("removed");
    }
    assert_eq!(training.complete(), [first, second, third]);
    std::fs::write(training.folder(third).join("node-00000.json"), "{").expect("a damaged manifest");
    assert_error(&run(&mut training.stored(&epochs("3"))), &["node-00000.json is damaged"]);
}

/// The numbers of nodes and edges, the labels and the in-degrees are the same.
#[test]
fn other_edges_features_weights_and_times_are_other_data() {
    let options = FakeOptions { avg_num_nodes: 120, num_channels: 4, ..FakeOptions::default() };
    let mut graph = fake(&options).expect("a graph");
    let num_edges = graph.num_edges();
    graph.edge_types[0].attributes.weights = Some(vec![1.0; num_edges].into());
    graph.edge_types[0].attributes.times = Some((0..num_edges as i64).collect::<Vec<_>>().into());
    let parts = written_by(&graph, 1);
    let flags = ["--num-neighbors", "4,3", "--hidden-channels", "8", "--batch-size", "64", "--num-epochs", "1"];
    let training = Training::new(&["node"], Some(&parts.path), &flags);
    training.outcome(&run(&mut training.stored(&["--resume"])));
    let resumed = |graph: &Dataset, num_parts: u32| {
        let parts = written_by(graph, num_parts);
        let folder = parts.path.to_str().expect("UTF-8").to_owned();
        run(&mut training.stored(&["--resume", "--dataset-root-dir", &folder]))
    };
    for change in ["source", "feature", "weight", "time"] {
        let mut other = graph.clone();
        let edges = &mut other.edge_types[0];
        match change {
            "source" => {
                let mut src = edges.src.to_vec();
                let with_other = (1..src.len()).find(|&at| src[at] != src[0]).expect("another source");
                src.swap(0, with_other);
                edges.src = src.into();
            }
            "feature" => {
                let Some(Features::F32 { values, dim }) = &other.node_types[0].features else { panic!("features") };
                let mut values = values.to_vec();
                values[0] += 1.0;
                let features = Features::F32 { values: values.into(), dim: *dim };
                other.node_types[0].features = Some(features);
            }
            "weight" => {
                let mut weights = vec![1.0; num_edges];
                weights[num_edges - 1] = 2.0;
                edges.attributes.weights = Some(weights.into());
            }
            _ => edges.attributes.times = Some(vec![7; num_edges].into()),
        }
        // The same data in other parts has the same digest, which the last line shows.
        let error = error_of(&resumed(&other, 1));
        assert!(error.contains("the data of this run is not that of the checkpoint"), "{change}: {error}");
    }
    training.outcome(&resumed(&graph, 2));
}

#[test]
fn nodes_without_a_shared_file_system_agree_on_a_checkpoint() {
    let parts = typed_parts(2);
    let flags = ["--num-neighbors", "4,3", "--hidden-channels", "8", "--batch-size", "16", "--num-nodes", "2"];
    let nodes = [0, 1].map(|_| Training::new(&["node"], Some(&parts.path), &flags));
    let job = |nodes: &[Training; 2], epochs: &str| {
        let port = free_port().to_string();
        let start = |rank: usize| {
            let flags = ["--node-rank", &rank.to_string(), "--master-port", &port, "--num-epochs", epochs, "--resume"];
            Process::start(&mut nodes[rank].stored(&flags))
        };
        let [first, second] = [0, 1].map(start);
        let outputs = [end(first), end(second)];
        assert!(outputs[1].status.success(), "{}", stderr(&outputs[1]));
        // Rank 0 writes the metrics and the model file, and each node its embeddings.
        let [output, _] = outputs;
        let mut outcome = nodes[0].outcome(&output);
        let of_second = std::fs::read_dir(nodes[1].path("model.embeddings")).expect("embeddings");
        of_second.for_each(|shard| outcome.model.extend(tensors(&shard.expect("a file").path(), "second ")));
        (outcome, stderr(&output))
    };
    let others = [nodes[0].again(), nodes[1].again()];
    let (whole, _) = job(&others, "4");
    job(&nodes, "3");
    let complete = nodes[0].complete();
    // The second node was lost before it had completed the newest checkpoint.
    let newest = nodes[1].folder(complete[1]);
    std::fs::remove_file(newest.join("node-00001.json")).expect("its manifest");
    let (outcome, text) = job(&nodes, "4");
    assert!(text.contains(nodes[0].folder(complete[0]).to_str().expect("UTF-8")), "{text}");
    assert_eq!(outcome, whole);
    // The second node has lost all of its files, as if the rank ran on another one.
    std::fs::remove_dir_all(nodes[1].checkpoints()).expect("removed");
    let port = free_port().to_string();
    let flags = |rank: usize| ["--node-rank".to_owned(), rank.to_string(), "--master-port".to_owned(), port.clone()];
    let start = |rank: usize| {
        let mut command = nodes[rank].stored(&["--num-epochs", "4", "--resume"]);
        Process::start(command.args(flags(rank)))
    };
    for output in [0, 1].map(start).map(end) {
        assert!(stderr(&output).contains("rank 1 cannot read its file in the checkpoint"), "{}", stderr(&output));
    }
    // One process can only continue with the files of both.
    let output = run(&mut nodes[0].stored(&["--num-nodes", "1", "--num-epochs", "4", "--resume"]));
    assert_error(&output, &["rank 0 cannot read the file of rank 1: to continue with 1 processes"]);
    assert!(!nodes[0].complete().is_empty(), "nothing is removed");
}

#[test]
fn flags_that_contradict_checkpoints_are_refused() {
    let folder = ["--checkpoint-dir", "somewhere"];
    for (words, reason) in [
        (["graph", "--dataset", "fake-graphs", "--resume"].as_slice(), "--checkpoint-dir"),
        (&["graph", "--dataset", "fake-graphs", "--keep", "3"], "--checkpoint-dir"),
        (&["graph", "--dataset", "fake-graphs", "--checkpoint-every", "2epochs"], "--checkpoint-dir"),
        (&[&["graph", "--dataset", "fake-graphs", "--folds", "3"], &folder[..]].concat(), "--folds"),
        (&[&["graph", "--dataset", "fake-graphs", "--load-model", "file"], &folder[..]].concat(), "--load-model"),
        (&[&["graph", "--dataset", "fake-graphs", "--checkpoint-every", "5"], &folder[..]].concat(), "with a unit"),
        (&[&["graph", "--dataset", "fake-graphs", "--checkpoint-every", "0steps"], &folder[..]].concat(), "at least 1"),
    ] {
        let mut command = Command::new(TRAIN);
        unplace(&mut command);
        let output = run(command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped()));
        assert_refused(&output, 2, &[reason]);
    }
}
