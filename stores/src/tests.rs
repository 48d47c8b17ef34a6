//! Downloads and uploads with a server, and with servers that fail.

use crate::limits::{BLOCK_BYTES, RANGE_BYTES};
use crate::{OutputRole, StoreUrl, Stores};
use edgecut_testing::{BUCKET, S3Server, assert_has};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// The variable with the name of the test whose body a process runs. Credentials are variables of the environment, which
/// tests of one process share, so each test with a server has a process of its own.
const INNER: &str = "EDGECUT_STORES_TEST";

/// Runs a test in a process with the variables `env`. Returns a folder in that process, and `None` in the outer one.
fn in_process(test: &str, env: &[(&str, String)]) -> Option<TempDir> {
    if std::env::var(INNER).is_ok_and(|inner| inner == test) {
        return Some(tempfile::tempdir().unwrap());
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("tests::{test}"), "--nocapture"]).env(INNER, test);
    command.envs(env.iter().map(|(name, value)| (name, value)));
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&text));
    None
}

/// Starts a server and runs a test with it, like [`in_process`].
fn with_server(test: &str, start: fn(&str) -> Option<S3Server>) -> Option<TempDir> {
    if std::env::var_os(INNER).is_some() {
        return in_process(test, &[]);
    }
    start(test).and_then(|server| in_process(test, &server.env()))
}

/// Returns the variables for a server at a port of this machine.
fn env_of(port: u16) -> [(&'static str, String); 4] {
    [
        ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{port}")),
        ("AWS_REGION", "us-east-1".to_owned()),
        ("AWS_ACCESS_KEY_ID", "key-of-the-test".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "secret-of-the-test".to_owned()),
    ]
}

fn url(text: &str) -> StoreUrl {
    StoreUrl::parse(text).unwrap()
}

fn stores(cache: &Path) -> Stores {
    Stores::new(Some(cache), |_| {}).unwrap()
}

fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let names = crate::files::files_below(dir).unwrap();
    names.into_iter().map(|name| (name.clone(), fs::read(dir.join(name)).unwrap())).collect()
}

/// Bytes without a period that divides the size of a request.
fn bytes(count: u64) -> Vec<u8> {
    (0..count).map(|at| (at % 251) as u8).collect()
}

fn write(dir: &Path, name: &str, content: &[u8]) {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

#[test]
fn a_folder_survives_a_round_trip() {
    let Some(dir) = with_server("a_folder_survives_a_round_trip", S3Server::start) else { return };
    let from = dir.path().join("from");
    let large = bytes(2 * BLOCK_BYTES + 5);
    let content = [
        ("META.json", b"{\"num_parts\": 3}".as_slice()),
        ("part_0/x.npy", large.as_slice()),
        ("part_1/year=2020/a b+c%20.csv", b"1"),
        ("part_11/empty", b""),
        ("part_11/nodes/x/labels/fraud?/labels.npy", b"2"),
        ("transforms.json", b"{}"),
    ];
    for (name, content) in content {
        write(&from, name, content);
    }
    let mut stores = stores(&dir.path().join("cache"));
    let to = url(&format!("s3://{BUCKET}/a/graph"));
    stores.upload_folder(&from, &to, Some("META.json"), None).unwrap();
    let snapshot = stores.folder(&to).unwrap();
    assert_eq!(snapshot.names().count(), content.len());
    let copy = stores.fetch(&snapshot, |_| true).unwrap();
    assert_eq!(files(&copy), files(&from));
    assert!(copy.ends_with("graph"), "{}", copy.display());
    // Chosen parts, with the files of none.
    let mut others = self::stores(&dir.path().join("other"));
    let chosen = others
        .fetch_parts(
            &to,
            |num_parts| {
                assert_eq!(num_parts, 3);
                vec![1]
            },
            |name| name.ends_with("/empty"),
        )
        .unwrap();
    let names: Vec<String> = files(&chosen).into_keys().collect();
    assert_eq!(names, ["META.json", "part_1/year=2020/a b+c%20.csv", "part_11/empty", "transforms.json"]);
    // The same state is not fetched again, and another state is another copy.
    let before = copy.join("META.json").metadata().unwrap().modified().unwrap();
    let snapshot = stores.folder(&to).unwrap();
    let again = stores.fetch(&snapshot, |_| true).unwrap();
    assert_eq!(again.join("META.json").metadata().unwrap().modified().unwrap(), before);
    write(&from, "META.json", b"{\"num_parts\": 13}");
    fs::remove_file(from.join("transforms.json")).unwrap();
    for name in ["part_11/empty", "part_11/nodes/x/labels/fraud?/labels.npy"] {
        fs::remove_file(from.join(name)).unwrap();
    }
    // Nothing is replaced or removed unless that is asked for.
    let error = stores.upload_folder(&from, &to, Some("META.json"), None).unwrap_err();
    assert!(error.is_existing_object(), "{error}");
    assert_eq!(error.to_string(), format!("{to}/META.json exists: choose another URL, or add --overwrite"));
    assert_eq!(stores.folder(&to).unwrap().names().count(), content.len());
    stores.upload_folder(&from, &to, Some("META.json"), Some(&|name| name.starts_with("part_"))).unwrap();
    let snapshot = stores.folder(&to).unwrap();
    let names: Vec<&str> = snapshot.names().collect();
    assert_eq!(names, ["META.json", "part_0/x.npy", "part_1/year=2020/a b+c%20.csv", "transforms.json"]);
    let newer = stores.fetch(&snapshot, |name| name == "META.json").unwrap();
    assert_eq!(fs::read(newer.join("META.json")).unwrap(), b"{\"num_parts\": 13}");
    assert!(copy.exists() && newer != copy, "this process still uses the older copy");
    // An older copy that no process uses is removed.
    drop(stores);
    let mut stores = self::stores(&dir.path().join("cache"));
    stores.fetch(&snapshot, |name| name == "META.json").unwrap();
    assert!(!copy.exists() && newer.exists());
    // A model with its embeddings, beside another object of a similar name.
    let model = dir.path().join("m.safetensors");
    fs::write(&model, "weights").unwrap();
    let to = url(&format!("s3://{BUCKET}/m.safetensors"));
    stores.upload_file(&model, &to).unwrap();
    stores.upload_file(&model, &url(&format!("s3://{BUCKET}/m.safetensors.embeddings/rows"))).unwrap();
    stores.upload_file(&model, &url(&format!("s3://{BUCKET}/m.safetensors.old"))).unwrap();
    let snapshot = stores.file(&to, &[".embeddings"]).unwrap();
    let copy = stores.fetch(&snapshot, |_| true).unwrap();
    assert_eq!(fs::read(&copy).unwrap(), b"weights");
    let names: Vec<String> = files(copy.parent().unwrap()).into_keys().collect();
    assert_eq!(names, ["m.safetensors", "m.safetensors.embeddings/rows"]);
}

#[test]
fn a_mirror_has_the_files_of_the_store_only() {
    let Some(dir) = with_server("a_mirror_has_the_files_of_the_store_only", S3Server::start) else { return };
    let mut stores = stores(&dir.path().join("cache"));
    let to = url(&format!("s3://{BUCKET}/checkpoints"));
    let local = stores.mirror(&to, OutputRole::Continuing).unwrap();
    assert!(files(&local).is_empty(), "the store has none");
    write(dir.path(), "state", b"1");
    stores.upload_file(&dir.path().join("state"), &to.join("step-1/rank-0.state").unwrap()).unwrap();
    write(&local, "step-0/rank-0.state", b"of an interrupted run");
    write(&local, "step-1/rank-0.state", b"2");
    // Another process of the machine changes nothing: a job that still runs may write there.
    let mut others = self::stores(&dir.path().join("cache"));
    others.lock_timeout = Duration::ZERO;
    let error = others.mirror(&to, OutputRole::Other).unwrap_err().to_string();
    assert!(error.contains(&format!("the first process of this machine has not fetched {to}")), "{error}");
    assert_eq!(files(&local).len(), 2);
    drop(stores);
    let mut stores = self::stores(&dir.path().join("cache"));
    assert_eq!(stores.mirror(&to, OutputRole::Continuing).unwrap(), local);
    assert_eq!(files(&local), [("step-1/rank-0.state".to_owned(), b"1".to_vec())].into());
    // It finds the files of the first one.
    let before = local.join("step-1/rank-0.state").metadata().unwrap().modified().unwrap();
    assert_eq!(others.mirror(&to, OutputRole::Other).unwrap(), local);
    assert_eq!(local.join("step-1/rank-0.state").metadata().unwrap().modified().unwrap(), before);
    assert!(stores.has(&to.join("step-1/rank-0.state").unwrap()).unwrap());
    assert!(!stores.has(&to.join("step-1/none").unwrap()).unwrap());
    stores.remove(&to, &["step-1/rank-0.state".to_owned(), "step-1/none".to_owned()]).unwrap();
    assert!(stores.folder_if_any(&to).unwrap().is_none());
    assert!(stores.output(&to, OutputRole::Other).unwrap().exists());
    stores.remove_output(&to).unwrap();
    assert!(!local.exists());
    // Names that the folder of local copies might use itself.
    for name in ["state", "lock", "out"] {
        let local = stores.mirror(&url(&format!("s3://{BUCKET}/runs/{name}")), OutputRole::Continuing).unwrap();
        assert!(files(&local).is_empty(), "{name}");
    }
}

#[test]
fn complete_outputs_stay_until_they_are_uploaded() {
    let dir = tempfile::tempdir().unwrap();
    let to = url("s3://b/models/m.st");
    let mut stores = stores(dir.path());
    let path = stores.output(&to, OutputRole::First).unwrap();
    write(path.parent().unwrap(), "m.st", b"of an interrupted run");
    write(path.parent().unwrap(), "m.st.embeddings/rows", b"of an interrupted run");
    // Another process of the job, another machine of the job, and another job.
    assert_eq!(self::stores(dir.path()).output(&to, OutputRole::Other).unwrap(), path);
    let of_node = self::stores(dir.path()).on_node(Some(8)).output(&to, OutputRole::First).unwrap();
    assert_ne!(of_node.parent(), path.parent());
    let mut others = self::stores(dir.path());
    others.outputs_timeout = Duration::ZERO;
    let error = others.output(&to, OutputRole::First).unwrap_err().to_string();
    let lock = dir.path().join("s3/b/models/m.st+out.lock");
    assert!(error.starts_with(&format!("{}: another process, which has this lock, writes", lock.display())), "{error}");
    assert!(error.contains("s3://b/models/m.st"), "{error}");
    drop(stores);
    others.output(&to, OutputRole::First).unwrap();
    assert!(files(path.parent().unwrap()).is_empty(), "outputs that are not complete are removed");
    write(path.parent().unwrap(), "m.st", b"weights");
    others.mark_complete(&to).unwrap();
    drop(others);
    let mut stores = self::stores(dir.path());
    let error = stores.output(&to, OutputRole::First).unwrap_err();
    assert_eq!(error.left_output(), Some(&*path));
    let text = error.to_string();
    assert!(text.starts_with(&format!("{} is complete, but was not uploaded to {to}", path.display())), "{text}");
    drop(stores);
    // A restarted attempt continues the outputs of its own run only.
    for (completed, continuing, is_own) in
        [(None, None, false), (Some("a"), Some("b"), false), (Some("a"), Some("a"), true)]
    {
        self::stores(dir.path()).of_run(completed.map(str::to_owned)).mark_complete(&to).unwrap();
        let mut stores = self::stores(dir.path()).of_run(continuing.map(str::to_owned));
        let found = stores.output(&to, OutputRole::Continuing);
        assert_eq!(found.is_ok_and(|found| found == path), is_own, "{completed:?} {continuing:?}");
        assert_eq!(fs::read(&path).unwrap(), b"weights");
    }
    let mut restarted = self::stores(dir.path()).of_run(Some("a".to_owned()));
    restarted.keep_from_restarts(&to).unwrap();
    assert!(restarted.output(&to, OutputRole::Continuing).is_err() && !restarted.are_complete_of_run(&to));
    drop(restarted);
    let stores = self::stores(dir.path());
    // A command that uploads them removes them, and no other folder.
    fs::remove_file(&path).unwrap();
    write(&path, "META.json", b"{}");
    write(dir.path(), "mine/META.json", b"{}");
    for (dir, url) in [(&path, url("s3://b/models/other")), (&dir.path().join("mine"), to.clone())] {
        stores.remove_if_output(dir, &url).unwrap();
        assert!(dir.join("META.json").exists());
    }
    // A user has moved the outputs, with the mark, beside other files, and into a folder of the same name.
    for folder in ["data", "data/m.st+out"] {
        let moved = dir.path().join(folder);
        write(&moved, "m.st/META.json", b"{}");
        write(&moved, "m.st+complete", to.to_string().as_bytes());
        write(&moved, "thesis.txt", b"mine");
        stores.remove_if_output(&moved.join("m.st"), &to).unwrap();
        assert!(moved.join("thesis.txt").exists() && moved.join("m.st/META.json").exists(), "{folder}");
    }
    stores.remove_if_output(&path, &to).unwrap();
    assert!(!path.parent().unwrap().exists());
}

#[test]
fn a_wait_for_a_process_without_progress_ends() {
    let Some(dir) = with_server("a_wait_for_a_process_without_progress_ends", S3Server::start) else { return };
    let mut stores = stores(&dir.path().join("cache"));
    let to = url(&format!("s3://{BUCKET}/x"));
    write(dir.path(), "x", b"1");
    stores.upload_file(&dir.path().join("x"), &to).unwrap();
    let snapshot = stores.file(&to, &[]).unwrap();
    stores.fetch(&snapshot, |_| true).unwrap();
    let lock = dir.path().join("cache/s3").join(BUCKET).join("x.lock");
    let held = fs::File::open(&lock).unwrap();
    held.lock().unwrap();
    stores.lock_timeout = Duration::ZERO;
    let error = stores.fetch(&snapshot, |_| true).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{}: another process has this lock", lock.display())), "{error}");
    // A process that waits again does not say so again.
    static NUM_SAID: AtomicUsize = AtomicUsize::new(0);
    stores.say = |_| _ = NUM_SAID.fetch_add(1, Ordering::Relaxed);
    let copies = stores.copies(&to);
    let mut says = true;
    for _ in 0..3 {
        stores.lock_saying_once(&copies, &to, &mut says).unwrap_err();
    }
    assert_eq!(NUM_SAID.load(Ordering::Relaxed), 1);
    drop(held);
    stores.fetch(&snapshot, |_| true).unwrap();
}

#[test]
fn damaged_metadata_of_parts_is_an_error_and_no_panic() {
    let Some(dir) = with_server("damaged_metadata_of_parts_is_an_error_and_no_panic", S3Server::start) else { return };
    let mut stores = stores(&dir.path().join("cache"));
    let to = url(&format!("s3://{BUCKET}/parts"));
    for (meta, fault) in [
        ("{}", None),
        ("{\"num_parts\": 0}", None),
        ("{\"num_parts\": -1}", None),
        ("no JSON", None),
        ("{\"num_parts\": 900000000000}", Some("its META.json describes 900000000000 parts, but it has 1")),
    ] {
        let from = dir.path().join("from");
        write(&from, "META.json", meta.as_bytes());
        write(&from, "part_0/x", b"1");
        stores.upload_folder(&from, &to, Some("META.json"), Some(&|_| true)).unwrap();
        let fetched = stores.fetch_parts(&to, |number| panic!("{number} parts"), |_| false);
        match (fetched, fault) {
            // The reader of the parts finds the fault.
            (Ok(copy), None) => assert_eq!(files(&copy).into_keys().collect::<Vec<_>>(), ["META.json"]),
            (Err(error), Some(fault)) => {
                assert_eq!(error.to_string(), format!("read {to}: {fault}: upload the parts again"))
            }
            (fetched, _) => panic!("{meta}: {fetched:?}"),
        }
    }
}

#[test]
fn missing_objects_and_buckets_are_named() {
    let Some(dir) = with_server("missing_objects_and_buckets_are_named", S3Server::start) else { return };
    let mut stores = stores(&dir.path().join("cache"));
    let error = stores.folder(&url("s3://nowhere/a")).unwrap_err().to_string();
    assert_eq!(error, "list s3://nowhere/a: there is no bucket nowhere: create it, or correct the URL");
    let error = stores.folder(&url(&format!("s3://{BUCKET}/none"))).unwrap_err().to_string();
    assert_eq!(error, format!("read s3://{BUCKET}/none: there is no object below it: correct the URL"));
    let error = stores.file_or_folder(&url(&format!("s3://{BUCKET}/none"))).unwrap_err().to_string();
    assert_eq!(error, format!("read s3://{BUCKET}/none: there is no such object: correct the URL"));
    let path = dir.path().join("x");
    fs::write(&path, "x").unwrap();
    let nowhere = url("s3://nowhere/a");
    let error = stores.upload_file(&path, &nowhere).unwrap_err().to_string();
    assert!(error.starts_with("write s3://nowhere/a: there is no bucket nowhere"), "{error}");
    let error = stores.check_file(&nowhere).unwrap_err().to_string();
    assert!(error.starts_with("write s3://nowhere/a: there is no bucket nowhere"), "{error}");
    assert_has(stores.check_file(&url("s3://nowhere")).unwrap_err().to_string(), &["add the key of the object"]);
    // A check writes nothing.
    for to in [BUCKET.to_owned(), format!("{BUCKET}/a")] {
        stores.check_folder(&url(&format!("s3://{to}"))).unwrap();
    }
    stores.check_file(&url(&format!("s3://{BUCKET}/a"))).unwrap();
    assert!(stores.folder_if_any(&url(&format!("s3://{BUCKET}"))).unwrap().is_none());
}

#[test]
fn a_changed_object_is_not_taken_for_the_listed_one() {
    let Some(dir) = with_server("a_changed_object_is_not_taken_for_the_listed_one", S3Server::start) else { return };
    let mut stores = stores(&dir.path().join("cache"));
    let to = url(&format!("s3://{BUCKET}/table.csv"));
    let path = dir.path().join("table.csv");
    for (number, (second, is_ok)) in
        [("a\n1\n", true), ("a\n2\n", false), ("a\n", false), ("a\n1\n2\n", false)].into_iter().enumerate()
    {
        fs::write(&path, "a\n1\n").unwrap();
        stores.upload_file(&path, &to).unwrap();
        let snapshot = stores.file(&to, &[]).unwrap();
        fs::write(&path, second).unwrap();
        stores.upload_file(&path, &to).unwrap();
        let cache = dir.path().join(format!("cache {number}"));
        let fetched = self::stores(&cache).fetch(&snapshot, |_| true);
        assert_eq!(fetched.is_ok(), is_ok, "{second}");
        if let Err(error) = fetched {
            let text = error.to_string();
            assert!(text.starts_with(&format!("read {to}: ")) && text.contains("changed while it was read"), "{text}");
            let left = crate::files::files_below(&cache).unwrap();
            assert!(left.iter().all(|name| !name.ends_with("/table.csv")), "{left:?}");
        }
    }
}

#[test]
fn refused_credentials_are_not_repeated() {
    let Some(dir) = with_server("refused_credentials_are_not_repeated", S3Server::start_closed) else { return };
    let mut stores = stores(dir.path());
    let path = dir.path().join("x");
    fs::write(&path, "x").unwrap();
    let to = url(&format!("s3://{BUCKET}/a"));
    let refused = [
        stores.folder(&to).unwrap_err(),
        stores.upload_file(&path, &to).unwrap_err(),
        stores.check_file(&to).unwrap_err(),
    ];
    for error in refused {
        let text = format!("{error} {error:?}");
        assert!(text.contains("the store denies access") && text.contains("AWS_SECRET_ACCESS_KEY"), "{text}");
        for secret in ["key-of-the-test", "secret-of-the-test", "token-of-the-test"] {
            assert!(!text.contains(secret), "{text}");
        }
    }
}

/// Answers requests on connections of its own with the results of `answer`, which gets the first line of each request. An
/// answer that is not complete ends the connection.
fn answer_requests(answer: fn(&str) -> Vec<u8>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let line = first_line(&stream);
            let _ = (&stream).write_all(&answer(&line));
            let _ = stream.shutdown(Shutdown::Both);
        }
    });
    port
}

/// Reads the head of a request without content.
fn first_line(stream: &TcpStream) -> String {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let first = lines.next().unwrap_or_default();
    lines.find(String::is_empty);
    first
}

const LENGTH: u64 = RANGE_BYTES + 1000;

/// Returns a listing of one object, or the beginning of its content.
fn truncated(line: &str) -> Vec<u8> {
    let (head, content) = if line.contains("list-type=2") {
        let content = format!(
            "<ListBucketResult><Contents><Key>a/x</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>\
             <ETag>\"e\"</ETag><Size>{LENGTH}</Size></Contents></ListBucketResult>"
        );
        (format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n", content.len()), content.into_bytes())
    } else {
        let last = RANGE_BYTES - 1;
        let head = format!(
            "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-{last}/{LENGTH}\r\nContent-Length: {RANGE_BYTES}\r\n"
        );
        (head, bytes(1000))
    };
    let rest = "ETag: \"e\"\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\nConnection: close\r\n\r\n";
    [head.into_bytes(), rest.as_bytes().to_vec(), content].concat()
}

#[test]
fn a_truncated_answer_leaves_no_file() {
    let port = answer_requests(truncated);
    let Some(dir) = in_process("a_truncated_answer_leaves_no_file", &env_of(port)) else { return };
    let mut stores = stores(dir.path());
    let snapshot = stores.folder(&url("s3://b/a")).unwrap();
    let error = stores.fetch(&snapshot, |_| true).unwrap_err().to_string();
    assert!(error.starts_with("read s3://b/a/x: "), "{error}");
    let left = crate::files::files_below(dir.path()).unwrap();
    assert!(left.iter().all(|name| name.ends_with(".partial") || name.ends_with(".lock")), "{left:?}");
}

/// Returns the listing of [`truncated`], whose end is missing at the first time.
fn cut_once(line: &str) -> Vec<u8> {
    static LISTINGS: AtomicUsize = AtomicUsize::new(0);
    let mut answer = truncated(line);
    if LISTINGS.fetch_add(1, Ordering::Relaxed) == 0 {
        answer.truncate(answer.len() - 20);
    }
    answer
}

#[test]
fn a_listing_that_is_cut_is_read_again() {
    let port = answer_requests(cut_once);
    let Some(dir) = in_process("a_listing_that_is_cut_is_read_again", &env_of(port)) else { return };
    let snapshot = stores(dir.path()).folder(&url("s3://b/a")).unwrap();
    assert_eq!(snapshot.names().collect::<Vec<_>>(), ["x"]);
}

#[test]
fn a_server_that_is_gone_ends_the_wait() {
    let env = env_of(edgecut_testing::free_port());
    let Some(dir) = in_process("a_server_that_is_gone_ends_the_wait", &env) else { return };
    let error = stores(dir.path()).folder(&url("s3://b/a")).unwrap_err().to_string();
    assert!(error.starts_with("list s3://b/a: ") && error.contains("Connection refused"), "{error}");
    assert!(error.contains("AWS_ENDPOINT_URL") && !error.contains("-of-the-test"), "{error}");
}

#[test]
fn stores_without_credentials_name_their_variables() {
    let env = [("GOOGLE_APPLICATION_CREDENTIALS", "/nonexistent/key.json".to_owned())];
    let Some(dir) = in_process("stores_without_credentials_name_their_variables", &env) else { return };
    let mut stores = stores(dir.path());
    let error = stores.folder(&url("gs://b/a")).unwrap_err().to_string();
    assert!(error.starts_with("connect to gs://b/a: ") && error.contains("GOOGLE_APPLICATION_CREDENTIALS"), "{error}");
    let error = stores.folder(&url("az://b/a")).unwrap_err().to_string();
    assert!(error.starts_with("connect to az://b/a: ") && error.contains("AZURE_STORAGE_ACCOUNT_NAME"), "{error}");
}
