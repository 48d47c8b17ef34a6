//! Tables and parts in an object store: the results equal the results of local files, nobody sees half of a set, and faults are
//! named without credentials.

use crate::graphs::contents;
use edgecut_testing::{BUCKET, Process, S3Server};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const USERS: &str = "name,age,segment\nada,36,new\ngrace,45,old\nlinus,28,new\nmargaret,61,old\n";
const ITEMS: &str = "sku,price\np1,1.5\np2,80\n";
const CONF: &str = r#"{
  "nodes": [
    {"node_type": "user", "files": "users.csv", "node_id_col": "name",
     "features": [{"feature_col": "age", "transform": {"name": "max_min_norm"}}],
     "labels": [{"task_type": "classification", "label_col": "segment", "split_pct": [0.5, 0.25, 0.25]}]},
    {"node_type": "item", "files": ITEMS, "node_id_col": "sku", "features": [{"feature_col": "price"}]}
  ],
  "edges": [
    {"relation": ["user", "buys", "item"], "files": "purchases", "source_id_col": "who", "dest_id_col": "what",
     "time_col": {"name": "year", "epoch": "s"}}
  ]
}"#;
const PURCHASES: [(&str, &str); 3] = [
    ("purchases/year=2020/part-0.csv", "who,what\nada,p1\ngrace,p1\n"),
    ("purchases/year=2021/part-0.csv", "who,what\nlinus,p2\n"),
    ("purchases/year=2021/part-1.csv", "who,what\nmargaret,p2\nmargaret,p1\n"),
];

/// A server with the tables of a shop, and the same tables in a folder.
struct Shop {
    server: S3Server,
    folder: tempfile::TempDir,
}

impl Shop {
    fn new(test: &str) -> Option<Self> {
        let shop = Self { server: S3Server::start(test)?, folder: tempfile::tempdir().unwrap() };
        let items = [
            ("graph.json", "\"items-*.csv\"".to_owned()),
            ("other.json", format!("\"s3://{BUCKET}/shop/items-?.csv\"")),
        ];
        for (name, items) in items {
            shop.write(name, &CONF.replace("ITEMS", &items));
        }
        for (name, content) in [("users.csv", USERS), ("items-0.csv", ITEMS)].into_iter().chain(PURCHASES) {
            shop.write(name, content);
        }
        // Neither the pattern nor the folder has this.
        shop.server.put("shop/items-old.txt", b"sku\n");
        Some(shop)
    }

    fn write(&self, name: &str, content: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        self.server.put(&format!("shop/{name}"), content.as_bytes());
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        command(&self.server, &self.path("cache"), words)
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    #[track_caller]
    fn succeeds(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    }

    /// Partitions the tables of a configuration.
    fn partition(&self, conf: &str, out: &str, more: &[&str]) -> Output {
        let words =
            ["--dataset", "shop", "--num-partitions", "2", "--method", "random", "--conf", conf, "--output-dir", out];
        self.run(&[&words[..], more].concat())
    }

    /// Returns the objects of a folder, by their names below it.
    fn objects(&self, folder: &str) -> BTreeMap<String, Vec<u8>> {
        let mut objects = BTreeMap::new();
        for key in self.server.keys() {
            if let Some(name) = key.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/')) {
                objects.insert(name.to_owned(), self.server.get(&key).unwrap());
            }
        }
        objects
    }
}

fn command(server: &S3Server, cache: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_partition-graph"));
    command.args(words).envs(server.env()).env("EDGECUT_CACHE_DIR", cache);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Returns the error of a program that must have failed with this status, without output and without credentials.
#[track_caller]
fn error_of(output: &Output, status: i32) -> String {
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{stderr}");
    assert!(output.stdout.is_empty());
    for secret in ["key-of-the-test", "secret-of-the-test", "token-of-the-test"] {
        assert!(!stderr.contains(secret), "{stderr}");
    }
    stderr
}

fn url(key: &str) -> String {
    format!("s3://{BUCKET}/{key}")
}

#[test]
fn tables_and_parts_in_a_store_are_those_of_files() {
    let Some(shop) = Shop::new("tables_and_parts_in_a_store_are_those_of_files") else { return };
    let local = shop.path("local");
    let made = shop.partition(shop.path("graph.json").to_str().unwrap(), local.to_str().unwrap(), &[]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let expected = contents(&local);
    // A configuration in the store, one that names tables of the store, and a URL of a file.
    let file_url = format!("file://{}", shop.path("other.json").display());
    for (number, conf) in [url("shop/graph.json"), url("shop/other.json"), file_url].iter().enumerate() {
        let key = format!("parts/{number}");
        let made = shop.partition(conf, &url(&key), &["--json"]);
        assert!(made.status.success(), "{}", text(&made.stderr));
        let result: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap();
        assert_eq!(result["path"], url(&key));
        assert_eq!(shop.objects(&key), expected, "{conf}");
    }
    let parts = url("parts/0");
    assert!(shop.succeeds(&["verify", &parts]).contains("all valid"));
    assert!(shop.succeeds(&["info", &parts]).contains("shop"));
    // Only a copy of the parts stays, and no output.
    let cache = shop.path("cache/s3").join(BUCKET).join("parts");
    let kept: Vec<String> = crate::graphs::names(&cache);
    assert!(kept.iter().all(|name| !name.ends_with("+out")), "{kept:?}");
    // Existing parts are replaced on request only, and what does not belong to them stays.
    let error = error_of(&shop.partition(&url("shop/graph.json"), &parts, &[]), 1);
    assert!(
        error.contains(&format!("{parts} holds parts: choose another --output-dir, or add --overwrite")),
        "{error}"
    );
    shop.server.put("parts/0/part_7/old.npy", b"1");
    shop.server.put("parts/0/notes.txt", b"mine");
    let made = shop.partition(&url("shop/graph.json"), &parts, &["--overwrite"]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let mut objects = shop.objects("parts/0");
    assert_eq!(objects.remove("notes.txt").as_deref(), Some(b"mine".as_slice()));
    assert_eq!(objects, expected);
}

#[test]
fn updates_and_uploads_of_parts_in_a_store() {
    let Some(shop) = Shop::new("updates_and_uploads_of_parts_in_a_store") else { return };
    let parts = url("parts");
    assert!(shop.partition(&url("shop/graph.json"), &parts, &[]).status.success());
    shop.write("day/purchases.csv", "who,what,year\nada,p2,2022\n");
    let day = r#"{"edges": [{"relation": ["user", "buys", "item"], "files": "purchases.csv", "source_id_col": "who",
                             "dest_id_col": "what", "time_col": {"name": "year", "epoch": "s"}}]}"#;
    shop.write("day/day.json", day);
    let error = error_of(&shop.run(&["update", &parts, "--conf", &url("shop/day/day.json")]), 1);
    assert!(error.contains("cannot be replaced in one step: give --output-dir"), "{error}");
    shop.succeeds(&["update", &parts, "--conf", &url("shop/day/day.json"), "--output-dir", &url("tuesday")]);
    let local = shop.path("local");
    shop.succeeds(&["update", &parts, "--conf", &url("shop/day/day.json"), "--output-dir", local.to_str().unwrap()]);
    assert_eq!(shop.objects("tuesday"), contents(&local));
    // A local folder of parts is uploaded as it is.
    shop.succeeds(&["upload", local.to_str().unwrap(), &url("uploaded")]);
    assert_eq!(shop.objects("uploaded"), contents(&local));
    let again = shop.run(&["upload", local.to_str().unwrap(), &url("uploaded")]);
    assert!(error_of(&again, 1).contains("add --overwrite"));
    let none = shop.run(&["upload", shop.path("day").to_str().unwrap(), &url("none")]);
    assert!(error_of(&none, 1).contains("has no META.json"));
    assert!(shop.objects("none").is_empty());
}

#[test]
fn wrong_urls_are_refused_before_anything_is_written() {
    let Some(shop) = Shop::new("wrong_urls_are_refused_before_anything_is_written") else { return };
    let out = shop.path("out");
    let out = out.to_str().unwrap();
    let missing = shop.partition(&url("shop/none.json"), out, &[]);
    assert!(error_of(&missing, 1).contains(&format!("read {}: there is no such object", url("shop/none.json"))));
    let bucket = shop.partition(&url("shop/graph.json"), "s3://nowhere/parts", &[]);
    assert!(error_of(&bucket, 1).contains("s3://nowhere/parts: there is no bucket nowhere"));
    shop.write("wrong.json", &CONF.replace("ITEMS", &format!("\"{}\"", url("shop/none-*.csv"))));
    let pattern = error_of(&shop.partition(&url("shop/wrong.json"), out, &[]), 1);
    assert!(pattern.contains(&format!("{}: there is no object of this pattern", url("shop/none-*.csv"))), "{pattern}");
    let secret = error_of(&shop.run(&["verify", "s3://key:hidden@b/parts"]), 1);
    assert!(secret.contains("AWS_SECRET_ACCESS_KEY") && !secret.contains("hidden"), "{secret}");
    let report = shop.run(&["info", &url("parts"), "--report", &url("report.html")]);
    assert!(error_of(&report, 2).contains("--report takes no URL of an object store: give a local path"));
    assert!(!Path::new(out).exists());
    assert!(shop.server.keys().iter().all(|key| key.starts_with("shop/")));
}

#[test]
fn refused_credentials_are_named_and_not_repeated() {
    let Some(server) = S3Server::start_closed("refused_credentials_are_named_and_not_repeated") else { return };
    let cache = tempfile::tempdir().unwrap();
    let output = command(&server, cache.path(), &["verify", &url("parts")]).output().unwrap();
    let error = error_of(&output, 1);
    assert!(error.contains(&format!("list {}: the store denies access", url("parts"))), "{error}");
}

/// The parts are complete on this machine when the server is gone, and another server gets them.
#[test]
fn a_server_that_ends_in_the_middle_leaves_parts_that_can_be_uploaded() {
    let test = "a_server_that_ends_in_the_middle_leaves_parts_that_can_be_uploaded";
    let Some(mut server) = S3Server::start(test) else { return };
    let cache = tempfile::tempdir().unwrap();
    let words =
        ["--dataset", "fake", "--avg-num-nodes", "100000", "--num-partitions", "2", "--output-dir", &url("parts")];
    let mut command_line = command(&server, cache.path(), &words);
    let mut process = Process::start(command_line.stderr(Stdio::piped()).stdout(Stdio::piped()));
    let mut stderr = BufReader::new(process.stderr.take().unwrap());
    // The first line is printed before the nodes are assigned, long before the upload.
    let mut first = String::new();
    stderr.read_line(&mut first).unwrap();
    server.kill();
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    let output = process.output().unwrap();
    let output = Output { stderr: rest.into_bytes(), ..output };
    let error = error_of(&output, 1);
    let left = cache.path().join("s3").join(BUCKET).join("parts+out/parts");
    let remedy = format!("`partition-graph upload {} {}`", left.display(), url("parts"));
    assert!(error.contains(&remedy) && error.contains("Connection refused"), "{first}{error}");
    let Some(other) = S3Server::start(test) else { return };
    let again = command(&other, cache.path(), &["upload", left.to_str().unwrap(), &url("parts")]).output().unwrap();
    assert!(again.status.success(), "{}", text(&again.stderr));
    let verified = command(&other, cache.path(), &["verify", &url("parts")]).output().unwrap();
    assert!(verified.status.success(), "{}", text(&verified.stderr));
    // A damaged object of the right size is found by its checksum.
    let key = other.keys().into_iter().find(|key| key.ends_with("/indices.npy")).unwrap();
    let mut content = other.get(&key).unwrap();
    *content.last_mut().unwrap() ^= 1;
    other.put(&key, &content);
    let damaged = command(&other, cache.path(), &["verify", &url("parts")]).output().unwrap();
    assert!(error_of(&damaged, 1).contains("indices.npy"));
}
