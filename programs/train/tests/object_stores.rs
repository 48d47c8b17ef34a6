//! Training on parts in an object store: results and models equal the results of local files, each machine fetches its own part, and
//! a run continues elsewhere.
#![allow(clippy::disallowed_methods, reason = "the folders belong to the tests")]

use crate::edges::payment_parts;
use crate::predict_tables::{NUM_USERS, partition_tables, user, write_tables_of};
use crate::programs::*;

use edgecut_testing::{BUCKET, S3Server, assert_has, free_port};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn url(key: &str) -> String {
    format!("s3://{BUCKET}/{key}")
}

/// Returns `train` with the credentials of the store and with local copies in `cache`.
fn train(server: &S3Server, cache: &Path, words: &[&str]) -> Command {
    let mut command = program();
    command.args(words).envs(server.env()).arg("--cache-dir").arg(cache);
    command
}

/// Runs a job on two machines, with a folder of local copies for each.
fn on_two_nodes(server: &S3Server, caches: [&Path; 2], words: &[&str]) -> [Output; 2] {
    let port = free_port().to_string();
    let place = ["--num-nodes", "2", "--master-addr", "127.0.0.1", "--master-port", &port, "--node-rank"];
    let nodes = [("0", caches[0]), ("1", caches[1])]
        .map(|(node, cache)| Process::start(train(server, cache, words).args(place).arg(node)));
    nodes.map(end)
}

/// Checks that both nodes have succeeded, and returns the result of the first one.
#[track_caller]
fn json_of_both(nodes: &[Output; 2]) -> Value {
    assert!(nodes[1].status.success(), "{}", stderr(&nodes[1]));
    json_of(&nodes[0])
}

/// Returns the names of the objects of a folder.
fn names_below(server: &S3Server, folder: &str) -> Vec<String> {
    server.keys().iter().filter_map(|key| key.strip_prefix(folder)?.strip_prefix('/').map(str::to_owned)).collect()
}

/// Returns the steps of the complete checkpoints of a folder, ascending.
fn complete_steps(server: &S3Server, folder: &str) -> Vec<u64> {
    let names = names_below(server, folder).into_iter();
    names.filter_map(|name| name.strip_prefix("step-")?.strip_suffix("/node-00000.json")?.parse().ok()).collect()
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
    assert_error(&refused, &[&format!("{checkpoints} holds checkpoints of an earlier run: add --resume")]);
    let elsewhere = folder.join("cache of another machine");
    let resumed =
        run(&mut train(&server, &elsewhere, &training(&parts_url, "4", &[&stored[..], &["--resume"]].concat())));
    assert_has(stderr(&resumed), &["resuming after 2 epochs", &format!(" from {checkpoints}/step-")]);
    assert_same(&json_of(&resumed), &expected, &["test_acc", "valid_acc", "best_epoch"]);
    let last = steps(&server);
    assert!(last.len() == 1 && last != first, "{first:?} {last:?}");
    // The flags of the run name URLs.
    let config = server.get("run/m.safetensors.config.yaml").expect("the flags of the run");
    assert_has(String::from_utf8(config).expect("UTF-8"), &[&format!("dataset-root-dir: \"{parts_url}\"")]);
    // Predictions of the saved model, with its embeddings, of all processes.
    let mut words = vec!["predict", "--dataset-root-dir", &parts_url, "--nproc-per-node", "2", "--format", "csv"];
    let stored_out = url("run/out");
    words.extend(["--load-model", &stored_model, "--out", &stored_out]);
    let made = succeeded(run(&mut train(&server, &folder.join("third cache"), &words)));
    assert_has(String::from_utf8(made.stdout).expect("UTF-8"), &[&format!(" nodes in {stored_out}, computed in")]);
    let out = folder.text("out");
    let of_files =
        ["predict", "--dataset-root-dir", local_parts, "--nproc-per-node", "2", "--format", "csv", "--load-model"];
    succeeded(run(program().args(of_files).args([&model, "--out", &out])));
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
    let replaced = json_of(run(train(&server, &cache, &words).args(["--overwrite", "--json"])));
    assert_eq!(replaced["out"], stored_out);
    assert!(server.get("run/out/predictions-00007-of-00008.csv").is_none());
    assert_eq!(server.get("run/out/notes.txt").as_deref(), Some(b"mine".as_slice()));
    // The shards of the first model are gone with it.
    let shards = server.keys().into_iter().filter(|key| key.starts_with("run/m.safetensors.embeddings/"));
    assert_eq!(shards.count(), 2);
}

#[test]
fn a_sweep_continues_on_the_same_objects_only() {
    let Some(server) = S3Server::start("a_sweep_continues_on_the_same_objects_only") else { return };
    let parts = fake_parts(1);
    server.put_folder("parts", &parts.path);
    let folder = Folder::new();
    let out = folder.text("runs");
    let parts_url = url("parts");
    // Outputs of runs beside the parts are no data.
    let model_url = url("parts/models/m.safetensors");
    let mut words = vec!["sweep", "--out", &out, "--set", "seed=0 1", "--", "node", "--dataset-root-dir", &parts_url];
    words.extend("--num-epochs 1 --num-neighbors 5,3 --hidden-channels 16".split(' '));
    words.extend(["--save-model", &model_url]);
    let cache = folder.join("cache");
    succeeded(run(&mut train(&server, &cache, &words)));
    assert!(server.get("parts/models/m-run-2.safetensors").is_some());
    let said = stderr(&succeeded(run(&mut train(&server, &cache, &words))));
    assert_eq!(said.matches(": kept, validation").count(), 2, "{said}");
    let meta = server.get("parts/META.json").expect("META.json");
    server.put("parts/META.json", &[&meta[..], b"\n"].concat());
    let error = error_of(&run(&mut train(&server, &cache, &words)));
    assert!(error.contains("holds metrics of an earlier run"), "{error}");
    // A store that cannot be read tells nothing of the data.
    let unread = folder.text("unread");
    words[2] = &unread;
    let at = words.iter().position(|word| *word == parts_url).expect("the parts");
    words[at] = "s3://nowhere/parts";
    let error = error_of(&run(&mut train(&server, &cache, &words)));
    assert!(error.contains("compare the data of the sweep: ") && error.contains("no bucket nowhere"), "{error}");
    assert!(!folder.join("unread").exists());
}

/// The local folders of jobs on two machines do not tell of each other.
#[test]
fn a_job_does_not_replace_checkpoints_of_another_job_in_the_store() {
    let Some(server) = S3Server::start("a_job_does_not_replace_checkpoints_of_another_job_in_the_store") else {
        return;
    };
    let parts = fake_parts(2);
    let folder = Folder::new();
    let checkpoints = url("run/checkpoints");
    let flags = ["--checkpoint-dir", &checkpoints, "--keep", "1000"];
    let job = Process::start(&mut train(&server, &folder.join("cache"), &training(text(&parts.path), "1000", &flags)));
    wait_until(
        || !complete_steps(&server, "run/checkpoints").is_empty(),
        || "the training has written no checkpoint".to_owned(),
    );
    let per_epoch = complete_steps(&server, "run/checkpoints")[0];
    // The other job is ahead.
    let theirs: Vec<String> =
        (20..60).rev().map(|epoch| format!("run/checkpoints/step-{:08}/node-00000.json", epoch * per_epoch)).collect();
    for key in &theirs {
        if server.get(key).is_none() {
            server.put(key, b"of another job");
        }
    }
    let error = error_of(&end(job));
    assert!(error.contains(&format!("another job has written {checkpoints}/step-")), "{error}");
    assert!(error.contains("give each run a --checkpoint-dir of its own"), "{error}");
    assert_eq!(server.get(&theirs[0]).as_deref(), Some(b"of another job".as_slice()));
}

#[test]
fn each_machine_fetches_its_own_part() {
    let Some(server) = S3Server::start("each_machine_fetches_its_own_part") else { return };
    let parts = fake_parts(2);
    server.put_folder("parts", &parts.path);
    let folder = Folder::new();
    let parts_url = url("parts");
    let mut words = vec!["node", "--dataset-root-dir", &parts_url, "--num-epochs", "1"];
    words.extend(TRAINING.split(' '));
    let result = json_of_both(&on_two_nodes(&server, [&folder.join("0"), &folder.join("1")], &words));
    assert!(result["test_acc"].is_number(), "{result}");
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
    server.put("damaged/META.json", b"{}");
    let damaged = url("damaged");
    assert_error(&run(&mut train(&server, &folder.join("0"), &training(&damaged, "1", &[]))), &["META.json"]);
    let none = url("none");
    let missing = error_of(&run(&mut train(&server, &folder.join("0"), &training(&none, "1", &[]))));
    assert!(missing.contains(&format!("read {none}: there is no object below it: correct the URL")), "{missing}");
}

/// A finished model is worth more than any other file of a run, so a wrong URL is found before the training, and nothing removes
/// the model before it is uploaded.
#[test]
fn a_model_is_kept_until_it_is_uploaded() {
    let test = "a_model_is_kept_until_it_is_uploaded";
    let Some(mut server) = S3Server::start(test) else { return };
    let parts = fake_parts(2);
    let parts = text(&parts.path);
    let folder = Folder::new();
    let cache = folder.join("cache");
    for (flag, at) in [("--save-model", "s3://nowhere/m.st"), ("--checkpoint-dir", "s3://nowhere/checkpoints")] {
        let refused = run(&mut train(&server, &cache, &training(parts, "2", &[flag, at])));
        assert_error(&refused, &[&format!("write {at}"), "there is no bucket nowhere"]);
        assert!(refused.stdout.is_empty() && !stderr(&refused).contains("epoch"), "{}", stderr(&refused));
    }
    let no_key = url("");
    let error = error_of(&run(&mut train(&server, &cache, &training(parts, "2", &["--save-model", &no_key]))));
    assert!(error.contains("add the key of the object"), "{error}");
    // The server ends in the middle of the training.
    let metrics = folder.join("metrics");
    let model = url("run/m.st");
    let flags = ["--save-model", &model, "--metrics", text(&metrics)];
    let job = Process::start(&mut train(&server, &cache, &training(parts, "100", &flags)));
    wait_until(
        || std::fs::read_to_string(&metrics).is_ok_and(|text| text.contains("\"event\":\"epoch\"")),
        || "the training did not start".to_owned(),
    );
    server.kill();
    let left = cache.join(format!("s3/{BUCKET}/run/m.st+out/m.st"));
    let error = error_of(&end(job));
    assert!(error.contains(&format!("{} is complete, but not uploaded", left.display())), "{error}");
    assert!(error.contains(&model) && error.contains("Connection refused"), "{error}");
    let content = std::fs::read(&left).expect("a model");
    // The next run does not remove it, whatever its other flags are.
    let Some(server) = S3Server::start(test) else { return };
    for more in [&[][..], &["--target", "nolabel"]] {
        let flags = [&["--save-model", &model], more].concat();
        let refused = run(&mut train(&server, &cache, &training(parts, "2", &flags)));
        assert_error(&refused, &[&format!("{} is complete, but was not uploaded to {model}", left.display())]);
        assert_eq!(std::fs::read(&left).ok().as_deref(), Some(&content[..]));
    }
    assert!(server.keys().is_empty());
}

/// A job on another machine has no lock in common with this one.
#[test]
fn a_job_does_not_replace_outputs_of_another_job_in_the_store() {
    let Some(server) = S3Server::start("a_job_does_not_replace_outputs_of_another_job_in_the_store") else { return };
    let parts = fake_parts(2);
    let folder = Folder::new();
    let cache = folder.join("cache");
    let model = url("run/m.st");
    for before in [None, Some(b"of an earlier job")] {
        if let Some(before) = before {
            server.put("run/m.st", before);
        }
        let metrics = folder.join("metrics");
        let flags = ["--save-model", &model, "--metrics", text(&metrics)];
        let mut command = train(&server, &cache, &training(text(&parts.path), "100", &flags));
        let job = Process::start(command.env("EDGECUT_RUN_ID", "a"));
        wait_until(
            || std::fs::read_to_string(&metrics).is_ok_and(|text| text.contains("\"event\":\"epoch\"")),
            || "the training did not start".to_owned(),
        );
        server.put("run/m.st", b"of another job");
        let error = error_of(&end(job));
        assert_has(
            error,
            &[&format!("another job has written to {model} since this one began"), "run/m.st+out/m.st is"],
        );
        // Nor does the launcher's next attempt replace them.
        let error = error_of(&run(command.env("EDGECUT_RESTART_COUNT", "1")));
        assert!(error.contains(&format!("m.st is complete, but was not uploaded to {model}")), "{error}");
        assert_eq!(server.get("run/m.st").as_deref(), Some(b"of another job".as_slice()));
        let left = cache.join(format!("s3/{BUCKET}/run/m.st+out"));
        assert!(left.join("m.st").is_file());
        std::fs::remove_dir_all(left).expect("remove the model");
        std::fs::remove_file(metrics).expect("remove the metrics");
        server.delete("run/m.st");
    }
}

/// The home folders of many clusters are on a shared file system.
#[test]
fn machines_may_share_the_folder_of_local_copies() {
    let Some(server) = S3Server::start("machines_may_share_the_folder_of_local_copies") else { return };
    let parts = typed_parts(2);
    server.put_folder("parts", &parts.path);
    let folder = Folder::new();
    let cache = folder.join("cache");
    let [parts_url, model, out] = ["parts", "run/m.st", "run/out"].map(url);
    let mut words = vec!["node", "--dataset-root-dir", &parts_url, "--num-epochs", "1", "--save-model", &model];
    words.extend(TRAINING.split(' '));
    server.put("run/m.st.embeddings/notes.safetensors", b"mine");
    let mut before = Vec::new();
    for _ in 0..2 {
        let result = json_of_both(&on_two_nodes(&server, [&cache, &cache], &words));
        assert!(result["test_acc"].is_number(), "{result}");
        // The embeddings of an earlier model are gone, and the object of another program stays.
        let names = names_below(&server, "run/m.st.embeddings").into_iter();
        let shards: Vec<String> = names.filter(|name| name.contains(".rank_")).collect();
        assert!(shards.len() == 2 && shards.iter().all(|name| !before.contains(name)), "{before:?} {shards:?}");
        before = shards;
    }
    assert_eq!(server.get("run/m.st.embeddings/notes.safetensors").as_deref(), Some(b"mine".as_slice()));
    let words = format!("predict --dataset-root-dir {parts_url} --load-model {model} --out {out} --format csv --json");
    let words: Vec<&str> = words.split(' ').collect();
    let result = json_of_both(&on_two_nodes(&server, [&cache, &cache], &words));
    assert_eq!(result["out"], out);
    let files = names_below(&server, "run/out");
    assert_eq!(files, ["predictions-00000-of-00002.csv", "predictions-00001-of-00002.csv"]);
    // Only the files of the model were fetched, and no outputs are left.
    let copies = std::fs::read_dir(cache.join(format!("s3/{BUCKET}/run"))).expect("the copies").flatten();
    let mut fetched = Vec::new();
    for copy in copies.filter(|copy| copy.path().is_dir()) {
        let name = copy.file_name().into_string().expect("UTF-8");
        assert!(!name.contains("+out"), "{name}");
        fetched.extend(std::fs::read_dir(copy.path().join("m.st.embeddings")).expect("embeddings").flatten());
    }
    assert_eq!(fetched.len(), 2, "{fetched:?}");
}

/// The ids of the ends of edges, and of all nodes for one file, are in all parts.
#[test]
fn machines_fetch_the_ids_of_all_parts_where_they_write_them() {
    let Some(server) = S3Server::start("machines_fetch_the_ids_of_all_parts_where_they_write_them") else { return };
    let folder = Folder::new();
    let dirs = ["payments", "shop"].map(|name| folder.join(name));
    for dir in &dirs {
        std::fs::create_dir(dir).expect("a folder");
    }
    let label = serde_json::json!({"task_type": "classification", "label_col": "kind"});
    payment_parts(&dirs[0], 2, &label);
    write_tables_of(&dirs[1], &(0..NUM_USERS).collect::<Vec<_>>(), user, ["red", "green", "blue"]);
    partition_tables(&dirs[1], 2, None, &dirs[1].join("parts"));
    let caches = ["0", "1"].map(|node| folder.join(node));
    for (name, task, flags, files, row) in [
        ("payments", "edge", &["--edges", "test", "--num-neighbors", "5,3"][..], 2, ",user "),
        ("shop", "node", &["--gather"], 1, "0,0,"),
    ] {
        let parts = folder.join(name).join("parts");
        let model = folder.join(name).join("model");
        trained(task, &parts, &model, &["--num-epochs", "1"]);
        server.put_folder(name, &parts);
        let [parts, out] = [url(name), url(&format!("out/{name}"))];
        let words = ["predict", "--dataset-root-dir", &parts, "--load-model", text(&model), "--out", &out, "--json"];
        let words = [&words[..], &["--format", "csv"], flags].concat();
        json_of_both(&on_two_nodes(&server, [&caches[0], &caches[1]], &words));
        let written = names_below(&server, &format!("out/{name}"));
        assert_eq!(written.len(), files, "{written:?}");
        for file in written {
            let table = server.get(&format!("out/{name}/{file}")).expect("a table");
            let table = String::from_utf8(table).expect("UTF-8");
            assert!(table.lines().nth(1).is_some_and(|first| first.contains(row)), "{name}: {table}");
        }
    }
}

/// The upload of predictions may fail, or the job may be restarted after it.
#[test]
fn a_restarted_prediction_uploads_the_files_that_are_complete() {
    let Some(server) = S3Server::start("a_restarted_prediction_uploads_the_files_that_are_complete") else { return };
    let parts = fake_parts(2);
    let parts = text(&parts.path);
    let folder = Folder::new();
    let cache = folder.join("cache");
    let model = folder.join("model");
    trained("node", Path::new(parts), &model, &["--num-epochs", "1"]);
    let words = ["predict", "--dataset-root-dir", parts, "--load-model", text(&model), "--nproc-per-node", "2"];
    let words = [&words[..], &["--format", "csv"]].concat();
    let out = url("run/out");
    for (restarts, name, is_refused) in [("0", "a", false), ("1", "a", false), ("1", "b", true), ("0", "a", true)] {
        let mut command = train(&server, &cache, &[&words[..], &["--out", &out]].concat());
        let output = run(command.env("EDGECUT_RUN_ID", name).env("EDGECUT_RESTART_COUNT", restarts));
        assert_eq!(!output.status.success(), is_refused, "{restarts} {name}: {}", stderr(&output));
        let is_done =
            stderr(&output).contains("has the files of an earlier attempt at this run: nothing is left to do");
        assert_eq!(is_done, restarts == "1" && name == "a", "{}", stderr(&output));
    }
    let files = names_below(&server, "run/out");
    assert_eq!(files.len(), 2, "{files:?}");
    // As if the store had failed after the first file.
    let other = url("run/other");
    let left = cache.join(format!("s3/{BUCKET}/run/other+out"));
    std::fs::create_dir_all(left.join("other")).expect("a folder");
    for name in &files {
        std::fs::write(left.join("other").join(name), "complete").expect("a file");
    }
    std::fs::write(left.join("other+complete"), format!("{other}\na")).expect("the mark");
    server.put(&format!("run/other/{}", files[0]), b"cut");
    let mut command = train(&server, &cache, &[&words[..], &["--out", &other]].concat());
    let output = run(command.env("EDGECUT_RUN_ID", "a").env("EDGECUT_RESTART_COUNT", "2"));
    assert!(output.status.success(), "{}", stderr(&output));
    for name in &files {
        assert_eq!(server.get(&format!("run/other/{name}")).as_deref(), Some(b"complete".as_slice()));
    }
    assert!(!left.join("other").exists());
}
