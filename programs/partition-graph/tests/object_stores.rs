//! Tables and parts in an object store: the results equal the results of local files, nobody sees half of a set, and faults are
//! named without credentials.

use crate::graphs::{contents, text};
use edgecut_testing::{BUCKET, Process, S3Server, assert_has, succeeded};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

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
        let output = succeeded(self.run(words));
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
    succeeded(shop.partition(shop.path("graph.json").to_str().unwrap(), local.to_str().unwrap(), &[]));
    let expected = contents(&local);
    // A configuration in the store, one that names tables of the store, and a URL of a file.
    let file_url = format!("file://{}", shop.path("other.json").display());
    let relative =
        CONF.replace("\"users.csv\"", "\"../users.csv\"").replace("\"purchases\"", "\"./x/../../purchases\"");
    shop.write("conf/graph.json", &relative.replace("ITEMS", "\"../items-*.csv\""));
    let confs = [url("shop/graph.json"), url("shop/other.json"), file_url, url("shop/conf/graph.json")];
    for (number, conf) in confs.iter().enumerate() {
        let key = format!("parts/{number}");
        let made = succeeded(shop.partition(conf, &url(&key), &["--json"]));
        let result: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap();
        assert_eq!(result["path"], url(&key));
        assert_eq!(shop.objects(&key), expected, "{conf}");
    }
    let parts = url("parts/0");
    assert!(shop.succeeds(&["verify", &parts]).contains("all valid"));
    assert!(shop.succeeds(&["info", &parts]).contains("shop"));
    // Only a copy of the parts stays, and no output.
    let cache = shop.path("cache/s3").join(BUCKET).join("parts");
    let kept: Vec<String> = edgecut_testing::names(&cache);
    assert!(kept.iter().all(|name| !name.ends_with("+out")), "{kept:?}");
    // Existing parts are replaced on request only, and what does not belong to them stays.
    assert_has(
        error_of(&shop.partition(&url("shop/graph.json"), &parts, &[]), 1),
        &[&format!("{parts} holds parts: choose another --output-dir, or add --overwrite")],
    );
    shop.server.put("parts/0/part_7/nodes/user/labels.npy", b"1");
    for name in ["notes.txt", "part_7/notes.txt"] {
        shop.server.put(&format!("parts/0/{name}"), b"mine");
    }
    succeeded(shop.partition(&url("shop/graph.json"), &parts, &["--overwrite"]));
    let mut objects = shop.objects("parts/0");
    for name in ["notes.txt", "part_7/notes.txt"] {
        assert_eq!(objects.remove(name).as_deref(), Some(b"mine".as_slice()));
    }
    assert_eq!(objects, expected);
    // The last value of a repeated flag counts.
    for last in [url("last"), shop.path("last").to_str().unwrap().to_owned()] {
        succeeded(shop.partition(&url("shop/graph.json"), &url("first"), &["--output-dir", &last]));
    }
    assert_eq!((shop.objects("last"), contents(&shop.path("last"))), (expected.clone(), expected));
    assert!(shop.objects("first").is_empty());
}

/// Objects of other programs, with names that parts have too.
#[test]
fn foreign_objects_stay() {
    let Some(shop) = Shop::new("foreign_objects_stay") else { return };
    let local = shop.path("local");
    let local = local.to_str().unwrap();
    assert!(shop.partition(shop.path("graph.json").to_str().unwrap(), local, &[]).status.success());
    let parts = contents(Path::new(local));
    let foreign = ["transforms.json", "part_0/keep.csv", "part_7/keep.csv", "x.csv"];
    for name in foreign {
        shop.server.put(&format!("data/{name}"), b"mine");
    }
    let before = shop.objects("data");
    for refused in
        [shop.partition(&url("shop/graph.json"), &url("data"), &[]), shop.run(&["upload", local, &url("data")])]
    {
        assert_has(
            error_of(&refused, 1),
            &[&format!("{} is not empty, it has part_0/keep.csv: choose another", url("data"))],
        );
        assert_eq!(shop.objects("data"), before);
    }
    shop.succeeds(&["upload", local, &url("data"), "--overwrite"]);
    let mut after = shop.objects("data");
    for name in &foreign[1..] {
        assert_eq!(after.remove(*name).as_deref(), Some(b"mine".as_slice()), "{name}");
    }
    assert_eq!(after, parts);
}

/// The user may have a label whose name has a special meaning in URLs.
#[test]
fn names_of_labels_may_have_question_marks() {
    let Some(shop) = Shop::new("names_of_labels_may_have_question_marks") else { return };
    let users: Vec<&str> = USERS.lines().collect();
    let users = format!("{},new?\n{},1\n{},0\n{},1\n{},0\n", users[0], users[1], users[2], users[3], users[4]);
    let label = r#""labels": [{"task_type": "classification", "label_col": "segment", "split_pct": [0.5, 0.25, 0.25]}"#;
    assert!(CONF.contains(label));
    let second = r#", {"task_type": "classification", "label_col": "new?", "split_pct": [0.5, 0.25, 0.25]}"#;
    shop.write("users.csv", &users);
    shop.write("two.json", &CONF.replace("ITEMS", "\"items-*.csv\"").replace(label, &format!("{label}{second}")));
    succeeded(shop.partition(&url("shop/two.json"), &url("parts"), &[]));
    assert!(shop.server.keys().iter().any(|key| key.contains("new?") || key.contains("new%3F")));
    assert!(shop.succeeds(&["verify", &url("parts")]).contains("all valid"));
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
    assert_has(error_of(&output, 1), &[&format!("list {}: the store denies access", url("parts"))]);
}

/// Starts to partition a generated graph, and waits for the first line, which is printed long before the upload.
fn start_partitioning(env: &[(&str, String)], cache: &Path, more: &[&str]) -> (Process, BufReader<ChildStderr>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_partition-graph"));
    command.args(["--dataset", "fake", "--avg-num-nodes", "100000", "--num-partitions", "2", "--output-dir"]);
    command.arg(url("parts")).args(more).envs(env.iter().cloned()).env("EDGECUT_CACHE_DIR", cache);
    let mut process = Process::start(command.stderr(Stdio::piped()).stdout(Stdio::piped()));
    let mut stderr = BufReader::new(process.stderr.take().unwrap());
    stderr.read_line(&mut String::new()).unwrap();
    (process, stderr)
}

/// Waits for a process that was started by [`start_partitioning`].
fn end(mut process: Process, mut stderr: BufReader<ChildStderr>) -> Output {
    let [mut errors, mut stdout] = [Vec::new(), Vec::new()];
    stderr.read_to_end(&mut errors).unwrap();
    process.stdout.take().unwrap().read_to_end(&mut stdout).unwrap();
    Output { status: process.wait().unwrap(), stdout, stderr: errors }
}

/// Another run has put parts at the URL between the check and the upload.
#[test]
fn parts_of_another_run_are_not_replaced_by_an_upload() {
    let Some(server) = S3Server::start("parts_of_another_run_are_not_replaced_by_an_upload") else { return };
    let cache = tempfile::tempdir().unwrap();
    let (process, stderr) = start_partitioning(&server.env(), cache.path(), &[]);
    server.put("parts/META.json", b"of another run");
    let error = error_of(&end(process, stderr), 1);
    let left = cache.path().join("s3").join(BUCKET).join("parts+out/parts");
    let remedy = format!("`partition-graph upload {} {}` tries again", left.display(), url("parts"));
    assert!(error.contains(&remedy), "{error}");
    assert!(error.contains(&format!("{} exists: choose another URL", url("parts/META.json"))), "{error}");
    assert_eq!(server.keys(), ["parts/META.json"]);
    assert_eq!(server.get("parts/META.json").as_deref(), Some(b"of another run".as_slice()));
}

/// Starts a server with an empty bucket that does not answer when an object is written. Sends the first line of that request.
fn start_hanging_store() -> (u16, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (writes, received) = channel();
    std::thread::spawn(move || {
        let mut hanging = Vec::new();
        for stream in listener.incoming().flatten() {
            let line = read_request(&stream);
            let content = match line.split_once(' ') {
                Some(("GET", _)) => "<ListBucketResult></ListBucketResult>",
                Some(("POST", _)) => {
                    "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>"
                }
                Some(("PUT", path)) if !path.contains("partNumber=") => {
                    let _ = writes.send(line);
                    hanging.push(stream);
                    continue;
                }
                _ => "",
            };
            let head =
                format!("HTTP/1.1 200 OK\r\nETag: \"1\"\r\nConnection: close\r\nContent-Length: {}", content.len());
            let _ = (&stream).write_all(format!("{head}\r\n\r\n{content}").as_bytes());
        }
    });
    (port, received)
}

/// Reads a request with its content, and returns its first line.
fn read_request(stream: &TcpStream) -> String {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).is_ok_and(|bytes| bytes > 0) {}
    let head = head.to_lowercase().replace("get /", "GET /").replace("post /", "POST /").replace("put /", "PUT /");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<u64>().ok());
    let _ = std::io::copy(&mut reader.take(length.unwrap_or(0)), &mut std::io::sink());
    head.lines().next().unwrap_or_default().replace("partnumber=", "partNumber=")
}

#[test]
fn an_interrupt_ends_an_upload_and_keeps_the_parts() {
    let (port, writes) = start_hanging_store();
    let env = [
        ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{port}")),
        ("AWS_REGION", "us-east-1".to_owned()),
        ("AWS_ACCESS_KEY_ID", "key-of-the-test".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "secret-of-the-test".to_owned()),
    ];
    let cache = tempfile::tempdir().unwrap();
    let (process, stderr) = start_partitioning(&env, cache.path(), &[]);
    writes.recv_timeout(Duration::from_secs(120)).expect("an upload");
    process.signal(Signal::TERM);
    let error = error_of(&end(process, stderr), 130);
    let left = cache.path().join("s3").join(BUCKET).join("parts+out/parts");
    let remedy = format!("`partition-graph upload {} {} --overwrite` uploads them", left.display(), url("parts"));
    assert!(error.contains(&format!("interrupted: the parts are complete in {}", left.display())), "{error}");
    assert!(error.contains(&remedy), "{error}");
    assert!(left.join("META.json").exists());
}

/// The parts are complete on this machine when the server is gone, and another server gets them.
#[test]
fn a_server_that_ends_in_the_middle_leaves_parts_that_can_be_uploaded() {
    let test = "a_server_that_ends_in_the_middle_leaves_parts_that_can_be_uploaded";
    let Some(mut server) = S3Server::start(test) else { return };
    let cache = tempfile::tempdir().unwrap();
    let (process, stderr) = start_partitioning(&server.env(), cache.path(), &[]);
    server.kill();
    let error = error_of(&end(process, stderr), 1);
    let left = cache.path().join("s3").join(BUCKET).join("parts+out/parts");
    let remedy = format!("`partition-graph upload {} {} --overwrite`", left.display(), url("parts"));
    assert!(error.contains(&remedy) && error.contains("Connection refused"), "{error}");
    let Some(other) = S3Server::start(test) else { return };
    // Another run keeps the parts that are not uploaded.
    let words = ["--dataset", "fake", "--num-partitions", "2", "--output-dir", &url("parts")];
    let error = error_of(&command(&other, cache.path(), &words).output().unwrap(), 1);
    assert!(error.contains(&format!("{} is complete, but was not uploaded", left.display())), "{error}");
    assert!(error.contains(&format!("{remedy} uploads the parts of an earlier run")), "{error}");
    // An upload that was begun has left an object.
    other.put("parts/part_0/nodes/v0/train.npy", b"1");
    let words = ["upload", left.to_str().unwrap(), &url("parts"), "--overwrite"];
    succeeded(command(&other, cache.path(), &words).output().unwrap());
    assert!(!left.parent().unwrap().exists(), "the parts are uploaded");
    succeeded(command(&other, cache.path(), &["verify", &url("parts")]).output().unwrap());
    // A damaged object of the right size is found by its checksum.
    let key = other.keys().into_iter().find(|key| key.ends_with("/indices.npy")).unwrap();
    let mut content = other.get(&key).unwrap();
    *content.last_mut().unwrap() ^= 1;
    other.put(&key, &content);
    let damaged = command(&other, cache.path(), &["verify", &url("parts")]).output().unwrap();
    assert!(error_of(&damaged, 1).contains("indices.npy"));
}
