//! Training on parts in an object store: results and models equal the results of local files, each machine fetches its own part, and
//! a run continues elsewhere.

use crate::programs;

use edgecut_testing::{BUCKET, S3Server, free_port};
use programs::{Folder, assert_same, end, error_of, fake_parts, json_of, program, run, stderr};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn url(key: &str) -> String {
    format!("s3://{BUCKET}/{key}")
}

/// Returns `train` with the credentials of the store and with local copies in `cache`.
fn train(server: &S3Server, cache: &Path, words: &[&str]) -> Command {
    let mut command = program();
    command.args(words).envs(server.env()).arg("--cache-dir").arg(cache);
    command
}

const TRAINING: &str = "--num-neighbors 5,3 --hidden-channels 16 --batch-size 64 --lr 0.01 --json";

/// Returns the words of a training on two processes, with embeddings in the model.
fn training<'a>(parts: &'a str, epochs: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut words = vec!["node", "--dataset-root-dir", parts, "--num-epochs", epochs, "--nproc-per-node", "2"];
    words.extend(["--node-embeddings", "node=4"]);
    words.extend(TRAINING.split(' '));
    words.extend(more);
    words
}

#[test]
fn trainings_and_predictions_with_a_store_are_those_with_files() {
    let Some(server) = S3Server::start("trainings_and_predictions_with_a_store_are_those_with_files") else { return };
    let parts = fake_parts(2);
    let local_parts = parts.path.to_str().expect("UTF-8");
    server.put_folder("parts", &parts.path);
    let folder = Folder::new();
    let cache = folder.join("cache");
    let [model, local_checkpoints] = ["m.safetensors", "checkpoints"].map(|name| folder.text(name));
    let checkpoints = url("run/checkpoints");
    let flags = ["--checkpoint-dir", &local_checkpoints, "--save-model", &model];
    let expected = json_of(run(program().args(training(local_parts, "4", &flags))));
    // The run ends after two epochs, and another machine continues it.
    let stored_model = url("run/m.safetensors");
    let stored = ["--checkpoint-dir", &checkpoints, "--save-model", &stored_model, "--keep", "1"];
    let parts_url = url("parts");
    json_of(run(&mut train(&server, &cache, &training(&parts_url, "2", &stored))));
    let steps = |server: &S3Server| -> Vec<String> {
        server.keys().into_iter().filter(|key| key.ends_with("/node-00000.json")).collect()
    };
    let first = steps(&server);
    assert_eq!(first.len(), 1, "one checkpoint is kept: {first:?}");
    let refused = run(&mut train(&server, &cache, &training(&parts_url, "4", &stored)));
    let error = error_of(&refused);
    assert!(error.contains(&format!("{checkpoints} holds checkpoints of an earlier run: add --resume")), "{error}");
    let elsewhere = folder.join("cache of another machine");
    let resumed =
        run(&mut train(&server, &elsewhere, &training(&parts_url, "4", &[&stored[..], &["--resume"]].concat())));
    assert!(stderr(&resumed).contains("resuming after 2 epochs"), "{}", stderr(&resumed));
    assert_same(&json_of(&resumed), &expected, &["test_acc", "valid_acc", "best_epoch"]);
    let last = steps(&server);
    assert!(last.len() == 1 && last != first, "{first:?} {last:?}");
    // The flags of the run name URLs.
    let config = server.get("run/m.safetensors.config.yaml").expect("the flags of the run");
    let config = String::from_utf8(config).expect("UTF-8");
    assert!(config.contains(&format!("dataset-root-dir: \"{parts_url}\"")), "{config}");
    // Predictions of the saved model, with its embeddings, of all processes.
    let mut words = vec!["predict", "--dataset-root-dir", &parts_url, "--nproc-per-node", "2", "--format", "csv"];
    let stored_out = url("run/out");
    words.extend(["--load-model", &stored_model, "--out", &stored_out]);
    let made = run(&mut train(&server, &folder.join("third cache"), &words));
    assert!(made.status.success(), "{}", stderr(&made));
    let out = folder.text("out");
    let of_files =
        ["predict", "--dataset-root-dir", local_parts, "--nproc-per-node", "2", "--format", "csv", "--load-model"];
    let made = run(program().args(of_files).args([&model, "--out", &out]));
    assert!(made.status.success(), "{}", stderr(&made));
    let mut number = 0;
    for entry in std::fs::read_dir(&out).expect("the predictions") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_str().expect("UTF-8");
        assert_eq!(server.get(&format!("run/out/{name}")), std::fs::read(&path).ok(), "{name}");
        number += 1;
    }
    assert_eq!(number, 2, "a file per process");
    let again = error_of(&run(&mut train(&server, &cache, &words)));
    assert!(again.contains("holds files of an earlier run: choose another --out, or add --overwrite"), "{again}");
    server.put("run/out/predictions-00007-of-00008.csv", b"of an earlier run");
    server.put("run/out/notes.txt", b"mine");
    let replaced = run(train(&server, &cache, &words).arg("--overwrite"));
    assert!(replaced.status.success(), "{}", stderr(&replaced));
    assert!(server.get("run/out/predictions-00007-of-00008.csv").is_none());
    assert_eq!(server.get("run/out/notes.txt").as_deref(), Some(b"mine".as_slice()));
    // The shards of the first model are gone with it.
    let shards = server.keys().into_iter().filter(|key| key.starts_with("run/m.safetensors.embeddings/"));
    assert_eq!(shards.count(), 2);
}

#[test]
fn each_machine_fetches_its_own_part() {
    let Some(server) = S3Server::start("each_machine_fetches_its_own_part") else { return };
    let parts = fake_parts(2);
    server.put_folder("parts", &parts.path);
    let folder = Folder::new();
    let port = free_port().to_string();
    let parts_url = url("parts");
    let mut ranks = Vec::new();
    for rank in ["0", "1"] {
        let mut words = vec!["node", "--dataset-root-dir", &parts_url, "--num-epochs", "1", "--num-nodes", "2"];
        words.extend(["--node-rank", rank, "--master-addr", "127.0.0.1", "--master-port", &port]);
        words.extend(TRAINING.split(' '));
        ranks.push(train(&server, &folder.join(rank), &words).spawn().expect("start train"));
    }
    let ended: Vec<_> = ranks.into_iter().map(end).collect();
    let result: Value = json_of(&ended[0]);
    assert!(result["test_acc"].is_number() && ended[1].status.success(), "{}", stderr(&ended[1]));
    for rank in 0..2 {
        let copies = folder.join(format!("{rank}/s3/{BUCKET}"));
        let entries = std::fs::read_dir(copies).expect("the copies").flatten();
        let copy = entries.map(|entry| entry.path().join("parts")).find(|copy| copy.is_dir()).expect("a copy");
        assert!(copy.join("META.json").is_file());
        assert!(copy.join(format!("part_{rank}")).is_dir() && !copy.join(format!("part_{}", 1 - rank)).exists());
    }
    // Flags that name files of one machine, and a set that is not there.
    let metrics =
        run(&mut train(&server, &folder.join("0"), &training(&parts_url, "1", &["--metrics", &url("m.jsonl")])));
    assert_eq!(metrics.status.code(), Some(2));
    assert!(stderr(&metrics).contains("--metrics takes no URL of an object store: give a local path"));
    let none = url("none");
    let missing = error_of(&run(&mut train(&server, &folder.join("0"), &training(&none, "1", &[]))));
    assert!(missing.contains(&format!("read {none}: there is no object below it: correct the URL")), "{missing}");
}
