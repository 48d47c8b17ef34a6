//! A server with the interface of S3: moto, in Python.

use crate::{Need, skip};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// The program of the server, which ends with its standard input.
const PROGRAM: &str = "
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address='127.0.0.1', port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
server.stop()
";

/// The bucket that every server has.
pub const BUCKET: &str = "graphs";

/// A server with the interface of S3 on this machine, with the bucket [`BUCKET`]. It ends when it is dropped.
pub struct S3Server {
    process: Child,
    port: u16,
    is_killed: AtomicBool,
}

impl S3Server {
    /// Starts a server that accepts all credentials. Without moto, reports that the test is skipped.
    ///
    /// # Panics
    /// If the server does not start.
    pub fn start(test: &str) -> Option<Self> {
        Self::start_with(test, &[])
    }

    /// Starts a server that refuses all credentials. Without moto, reports that the test is skipped.
    ///
    /// # Panics
    /// If the server does not start.
    pub fn start_closed(test: &str) -> Option<Self> {
        // The first request creates the bucket.
        Self::start_with(test, &[("INITIAL_NO_AUTH_ACTION_COUNT", "1")])
    }

    fn start_with(test: &str, env: &[(&str, &str)]) -> Option<Self> {
        let python = std::env::var("EDGECUT_S3_PYTHON").unwrap_or_else(|_| "python3".to_owned());
        let found = Command::new(&python).args(["-c", "import moto.server"]).output();
        if !found.is_ok_and(|output| output.status.success()) {
            skip(Need::S3, test, format!("{python} cannot import moto.server: python3 -m pip install 'moto[server]'"));
            return None;
        }
        let mut command = Command::new(&python);
        command.args(["-c", PROGRAM]).envs(env.iter().copied()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.stderr(Stdio::null()).spawn().expect("start the server");
        let mut line = String::new();
        let output = process.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut line).expect("the port of the server");
        let port = line.trim().parse().expect("the port of the server");
        let server = Self { process, port, is_killed: AtomicBool::new(false) };
        server.request("PUT", BUCKET, b"");
        Some(server)
    }

    /// Returns the variables by which programs find the server.
    pub fn env(&self) -> [(&'static str, String); 5] {
        [
            ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", self.port)),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", "key-of-the-test".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "secret-of-the-test".to_owned()),
            ("AWS_SESSION_TOKEN", "token-of-the-test".to_owned()),
        ]
    }

    /// Writes an object of the bucket.
    ///
    /// # Panics
    /// If the server refuses it.
    pub fn put(&self, key: &str, content: &[u8]) {
        let (status, _) = self.request("PUT", &format!("{BUCKET}/{key}"), content);
        assert_eq!(status, 200, "write {key}");
    }

    /// Writes the files below a folder.
    ///
    /// # Panics
    /// If a file cannot be read, or the server refuses it.
    pub fn put_folder(&self, key: &str, dir: &Path) {
        for entry in std::fs::read_dir(dir).expect("a folder") {
            let path = entry.expect("an entry").path();
            let key = format!("{key}/{}", path.file_name().expect("a name").display());
            if path.is_dir() {
                self.put_folder(&key, &path);
            } else {
                self.put(&key, &std::fs::read(&path).expect("a file"));
            }
        }
    }

    /// Returns an object of the bucket, unless it does not exist.
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        let (status, content) = self.request("GET", &format!("{BUCKET}/{key}"), b"");
        (status == 200).then_some(content)
    }

    /// Removes an object of the bucket.
    pub fn delete(&self, key: &str) {
        self.request("DELETE", &format!("{BUCKET}/{key}"), b"");
    }

    /// Returns the keys of all objects in the bucket.
    pub fn keys(&self) -> Vec<String> {
        let (_, listing) = self.request("GET", &format!("{BUCKET}?list-type=2"), b"");
        let listing = String::from_utf8_lossy(&listing).into_owned();
        let keys = listing.split("<Key>").skip(1).filter_map(|rest| rest.split("</Key>").next());
        keys.map(str::to_owned).collect()
    }

    /// Ends the server, whose port then refuses connections.
    ///
    /// # Panics
    /// If the process cannot be ended.
    pub fn kill(&mut self) {
        if !self.is_killed.swap(true, Ordering::Relaxed) {
            self.process.kill().expect("end the server");
            self.process.wait().expect("wait for the server");
        }
    }

    /// Returns the status and the content of an answer.
    fn request(&self, method: &str, path: &str, content: &[u8]) -> (u16, Vec<u8>) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("connect to the server");
        // The server reads no objects for a request without a signature, and does not verify the signature.
        let signature =
            "AWS4-HMAC-SHA256 Credential=k/20200101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";
        let head = format!(
            "{method} /{path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Length: {}\r\nConnection: close\r\n\
             Authorization: {signature}\r\n\r\n",
            self.port,
            content.len()
        );
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(content)).expect("send a request");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("read the answer");
        let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("the end of the head");
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        (status, answer.split_off(end + 4))
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        self.kill();
    }
}
