//! Problems of a cluster are listed by node before anything starts, and missing files can be copied.
#![allow(clippy::disallowed_methods, reason = "the folders belong to the tests")]

mod support;

use edgecut_testing::assert_has;
use std::fs;
use std::path::Path;
use support::{Lab, arg, read, run, skip, write_script};
use xxhash_rust::xxh3::xxh3_64;

/// Runs a job that must not start, and returns its error output.
fn refused(lab: &Lab, flags: &[&str]) -> String {
    let run = lab.run(flags);
    assert_eq!(run.status.code(), Some(1), "{run:#?}");
    assert!(!run.out.contains("started"), "{run:#?}");
    run.err
}

/// Writes a folder that looks like a partitioned graph. The files of each part name it.
fn write_parts(dir: &Path, num_parts: usize) {
    let mut files = Vec::new();
    for part in 0..num_parts {
        for (name, size) in [("nodes/node/features.npy", 3_000_000), ("edges/node__to__node/indices.npy", 0)] {
            let content = format!("{name} of part {part} ").into_bytes().repeat(size / 30);
            let path = dir.join(format!("part_{part}/{name}"));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, &content).unwrap();
            let checksum = xxh3_64(&content);
            files.push(format!(
                "\"part_{part}/{name}\": {{\"bytes\": {}, \"xxh3\": \"{checksum:016x}\"}}",
                content.len()
            ));
        }
    }
    let meta = format!(
        "{{\"format\": \"edgecut-partition\", \"num_parts\": {num_parts}, \"files\": {{{}}}}}",
        files.join(", ")
    );
    fs::write(dir.join("META.json"), meta).unwrap();
}

#[test]
fn hosts_that_cannot_be_logged_in_to_are_listed_with_what_to_do() {
    let Some(mut lab) = Lab::namespaces_for("hosts without a way in", 3) else { return };
    lab.script("start", "echo started");
    // One host key is unknown, one host rejects a login without a password, and one host does not exist.
    let known = read(lab.path("known_hosts"));
    lab.write_known_hosts(
        &known
            .lines()
            .filter(|line| !line.starts_with("10.99.0.1 "))
            .fold(String::new(), |all, line| all + line + "\n"),
    );
    lab.stop_sshd(1);
    lab.start_sshd(1, "PasswordAuthentication yes\nAuthorizedKeysFile none").unwrap();
    let text =
        "hosts:\n- address: 10.99.0.1\n- address: 10.99.0.2\n- address: no-such-host.invalid\n- address: 10.99.0.3\n";
    let config = arg(&lab.write_ip_config(text));
    assert_has(
        refused(&lab, &["--ip-config", &config, "./start"]),
        &[
            "nothing was started: 3 of 4 nodes are not ready",
            "10.99.0.1 (node 0): its host key is not known: connect once by hand and compare it",
            "10.99.0.2 (node 1): it rejects a login without a password",
            "no-such-host.invalid (node 2): unknown host",
        ],
    );

    lab.write_known_hosts(&known);
    lab.replace_host_key(0);
    let config = arg(&lab.write_ip_config("10.99.0.1\n"));
    let said = refused(&lab, &["--ip-config", &config, "./start"]);
    assert!(said.contains("its host key has changed") && said.contains("ssh-keygen -R '10.99.0.1'"), "{said}");

    lab.trust_all().unwrap();
    lab.stop_sshd(0);
    assert_has(refused(&lab, &["--ip-config", &config, "./start"]), &["Connection refused: is the machine up"]);
}

#[test]
fn programs_and_folders_that_are_missing_or_differ_are_named() {
    let Some(lab) = Lab::namespaces_for("missing programs", 3) else { return };
    for (number, host) in lab.hosts.iter().enumerate() {
        write_script(&host.files.join("differs"), &format!("echo started on {}", number / 2));
    }
    write_script(&lab.hosts[0].files.join("here"), "echo started");
    let config = arg(&lab.ip_config(1));
    let said = refused(&lab, &["--ip-config", &config, "./here"]);
    assert!(said.contains("2 of 3 nodes") && said.contains("10.99.0.3 (node 2): there is no program"), "{said}");
    assert!(said.contains("give --sync-binary"), "{said}");
    let said = refused(&lab, &["--ip-config", &config, "no-such-program"]);
    assert!(said.contains("there is no program no-such-program in PATH"), "{said}");
    assert_has(
        refused(&lab, &["--ip-config", &config, "./differs"]),
        &["1 of 3 nodes", "10.99.0.3 (node 2): its program is not the same as node 0's"],
    );

    // `edgecut` is the same on all nodes, but the program that it starts is not.
    lab.script("bin/edgecut", "echo started");
    for (number, host) in lab.hosts.iter().enumerate() {
        write_script(&host.files.join("lib/edgecut/train"), &format!("echo started on {}", number / 2));
    }
    assert_has(
        refused(&lab, &["--ip-config", &config, "--", "bin/edgecut", "train", "node"]),
        &["1 of 3 nodes", "10.99.0.3 (node 2): its program is not the same as node 0's"],
    );

    fs::write(lab.hosts[1].files.join("here"), "not executable").unwrap();
    assert_has(refused(&lab, &["--ip-config", &config, "./here"]), &["10.99.0.2 (node 1): there is no program"]);
}

#[test]
fn a_program_and_parts_are_copied_to_bare_nodes() {
    let Some(lab) = Lab::namespaces_for("copies to bare nodes", 3) else { return };
    write_script(&lab.path("bin/prog"), "echo started with \"$(find data -type f | sort | tr '\\n' ' ')\"");
    write_parts(&lab.path("data/3-parts"), 3);
    let config = arg(&lab.ip_config(2));
    let words = format!("--ip-config {config} --copy-parts --sync-binary -- bin/prog --dataset-root-dir data/3-parts");
    let flags: Vec<&str> = words.split(' ').collect();
    let run = lab.run(&flags);
    assert!(run.status.success(), "{run:#?}");
    for (number, host) in lab.hosts.iter().enumerate() {
        let files = format!(
            "data/3-parts/META.json data/3-parts/part_{number}/edges/node__to__node/indices.npy data/3-parts/part_{number}/nodes/node/features.npy"
        );
        for rank in [2 * number, 2 * number + 1] {
            assert!(run.out.contains(&format!("[{}:{rank}] started with {files}", host.addr)), "{run:#?}");
        }
        assert!(run.err.contains(&format!("{}: part_{number}: copied 3 files, ", host.addr)), "{run:#?}");
    }

    // Existing files are not copied again, and damaged ones are.
    let damaged = lab.hosts[1].files.join("data/3-parts/part_1/nodes/node/features.npy");
    let mut bytes = fs::read(&damaged).unwrap();
    bytes[77] ^= 1;
    fs::write(&damaged, &bytes).unwrap();
    let run = lab.run(&flags);
    assert!(run.status.success(), "{run:#?}");
    assert!(run.err.contains("10.99.0.1: part_0: copied 0 files, 0.0 MB,"), "{run:#?}");
    assert!(run.err.contains("10.99.0.2: part_1: copied 1 file, "), "{run:#?}");
    bytes[77] ^= 1;
    assert!(fs::read(&damaged).unwrap() == bytes, "it is as it was");
    let left = run_find(&lab, "*unfinished*");
    assert!(left.is_empty(), "{left}");

    // A source whose files differ from its metadata is detected before the copy or at the node.
    let source = lab.path("data/3-parts/part_2/nodes/node/features.npy");
    let mut bytes = fs::read(&source).unwrap();
    bytes[0] ^= 1;
    fs::write(&source, &bytes).unwrap();
    fs::remove_dir_all(lab.hosts[2].files.join("data")).unwrap();
    assert_has(refused(&lab, &flags), &["10.99.0.3 (node 2)", "arrived with checksum"]);
    assert!(!lab.hosts[2].files.join("data/3-parts/META.json").exists());
    let left = run_find(&lab, "*unfinished*");
    assert!(left.is_empty(), "{left}");

    // Metadata of another program at the destination stays.
    let foreign = lab.hosts[2].files.join("data/3-parts/META.json");
    fs::write(&foreign, "{\"format\": \"an archive\"}").unwrap();
    assert_has(refused(&lab, &flags), &["META.json is not the metadata of a partitioned graph: move it away"]);
    assert_eq!(fs::read_to_string(&foreign).unwrap(), "{\"format\": \"an archive\"}");
}

#[test]
fn nodes_may_share_their_home_directory() {
    let Some(mut lab) = Lab::namespaces_for("a shared home directory", 3) else { return };
    lab.share_home();
    // A program that takes a while to copy, so that all nodes copy it at the same time.
    let filler = "# 0123456789012345678901234567890123456789\n".repeat(400_000);
    write_script(&lab.path("bin/prog"), &format!("echo started\nexit 0\n{filler}"));
    let config = arg(&lab.ip_config(1));
    let cache = lab.path("cache-0/edgecut");
    let aged = |name: &str| {
        std::fs::write(cache.join(name), "of an earlier version").unwrap();
        run("touch", &["-d", "100 days ago", &arg(&cache.join(name))]).unwrap();
    };
    for attempt in 0..2 {
        if attempt == 1 {
            // Old files are removed, except for those that are in use.
            aged("launch-0123");
            aged(".program-0123.node.77");
            for name in std::fs::read_dir(&cache).unwrap() {
                run("touch", &["-d", "100 days ago", &arg(&name.unwrap().path())]).unwrap();
            }
            let other = cache.join("notes");
            std::fs::write(&other, "of the user").unwrap();
            run("touch", &["-d", "100 days ago", &arg(&other)]).unwrap();
        }
        let run = lab.run(&["--ip-config", &config, "--sync-binary", "--", "bin/prog"]);
        assert!(run.status.success(), "{run:#?}");
        assert_eq!(run.out.matches("started").count(), 3, "{run:#?}");
    }
    let names = run("ls", &["-A", &arg(&lab.path("cache-0/edgecut"))]).unwrap();
    let names: Vec<&str> = names.lines().collect();
    assert!(
        names.len() == 3 && names[0].starts_with("launch-") && names[1..].iter().any(|n| n.starts_with("program-")),
        "{names:?}"
    );
    assert!(names.contains(&"notes"), "{names:?}");
}

fn run_find(lab: &Lab, name: &str) -> String {
    run("find", &[&arg(&lab.path("")), "-name", name]).unwrap()
}

#[test]
fn parts_that_are_missing_mixed_up_or_too_few_are_named() {
    let Some(lab) = Lab::namespaces_for("wrong parts", 3) else { return };
    lab.script("prog", "echo started");
    for (number, host) in lab.hosts.iter().enumerate() {
        write_parts(&host.files.join("3-parts"), 3);
        write_parts(&host.files.join("2-parts"), 2);
        write_parts(&host.files.join("mixed"), 3 + 3 * usize::from(number == 2));
    }
    let config = arg(&lab.ip_config(2));
    let job = |dir: &str| refused(&lab, &["--ip-config", &config, "--", "./prog", "--dataset_root_dir", dir]);
    fs::remove_dir_all(lab.hosts[1].files.join("3-parts/part_1/nodes")).unwrap();
    assert_has(job("3-parts"), &["1 of 3 nodes", "10.99.0.2 (node 1): part_1 is not complete here"]);
    assert_has(job("mixed"), &["10.99.0.3 (node 2): its parts are of another partitioning"]);
    assert!(job("none").contains("none/META.json"));
    // Fewer and more processes than parts: each node needs the parts of its processes.
    fs::remove_dir_all(lab.hosts[0].files.join("2-parts/part_1/nodes")).unwrap();
    for (nodes, processes) in [("2", "1"), ("3", "1"), ("2", "2")] {
        let flags = ["--ip-config", &config, "--num-training-procs", processes, "--num-nodes", nodes];
        let run = lab.run(&[flags.as_slice(), &["--", "./prog", "--dataset_root_dir=2-parts"]].concat());
        assert!(run.status.success(), "{nodes} nodes, {processes} processes: {run:#?}");
    }
    let one = ["--ip-config", &config, "--num-nodes", "1", "--num-training-procs", "1"];
    let said = refused(&lab, &[one.as_slice(), &["--", "./prog", "--dataset-root-dir", "2-parts"]].concat());
    assert!(said.contains("part_1 is not complete here"), "{said}");
}

#[test]
fn the_commands_of_the_tutorials_start_jobs() {
    let Some(lab) = Lab::namespaces_for("the tutorials' commands", 2) else { return };
    lab.script("prog", "echo \"$PWD $RANK/$WORLD_SIZE $*\"");
    lab.hosts.iter().for_each(|host| write_parts(&host.files.join("2-parts"), 2));
    let config = arg(&lab.ip_config(1));
    // PyG: the command comes last, and flags of training before it are added to it.
    let pyg = "--num_nodes 2 --dataset_root_dir 2-parts --dataset ogbn-mag --batch_size 1024 --learning_rate 0.0004 \
               --part_config 2-parts/META.json";
    let pyg: Vec<&str> = pyg.split_whitespace().chain(["--ip_config", &config]).collect();
    let done = lab.run(&[&pyg[..], &["cd 2-parts; ../prog --dataset=ogbn-mag --logging --ddp_port=11111"]].concat());
    assert!(done.status.success(), "{done:#?}");
    let given = "--dataset=ogbn-mag --logging --ddp_port=11111 --dataset-root-dir=2-parts --dataset=ogbn-mag \
                 --batch-size=1024 --learning-rate=0.0004";
    for rank in ["0/2", "1/2"] {
        assert!(done.out.contains(&format!("/2-parts {rank} {given}")), "{done:#?}");
    }
    assert!(done.err.contains("--part-config has no effect"), "{done:#?}");
    // DGL: the number of processes, and flags after the command as well.
    let dgl = ["--num_trainers", "2", "--num_samplers", "0", "--num_servers", "1"];
    let line = "./prog --graph_name ogb-product --num_epochs 30";
    let done = lab.run(&[&dgl[..], &[line, "--ip_config", &config]].concat());
    assert!(done.status.success(), "{done:#?}");
    assert!((0..4).all(|rank| done.out.contains(&format!("{rank}/4 --graph_name ogb-product"))), "{done:#?}");
}

#[test]
fn a_master_port_that_is_taken_or_closed_is_named() {
    let Some(lab) = Lab::namespaces_for("the master's port", 2) else { return };
    lab.script("prog", "echo started");
    let config = arg(&lab.ip_config(1));
    // The port of the SSH server itself.
    assert_has(
        refused(&lab, &["--ip-config", &config, "--master-port", "22", "./prog"]),
        &["10.99.0.1 (node 0): listen on 10.99.0.1:22: port in use; choose another --master-port"],
    );
    let said = refused(&lab, &["--ip-config", &config, "--master-addr", "10.99.0.2", "./prog"]);
    assert!(said.contains("10.99.0.2 is no address of this node"), "{said}");
    // Like a firewall that drops packets from that port: connections get no answer.
    if let Err(why) = lab.on_host(0, "ip rule add ipproto tcp sport 11111 blackhole") {
        return skip("a closed master port", &why);
    }
    let said = refused(&lab, &["--ip-config", &config, "./prog"]);
    assert!(said.contains("10.99.0.2 (node 1): cannot reach the master's port, 10.99.0.1:11111"), "{said}");
    assert!(said.contains("open it in the firewall"), "{said}");
    let run = lab.run(&["--ip-config", &config, "--master-port", "11112", "./prog"]);
    assert!(run.status.success(), "{run:#?}");
}

#[test]
fn interfaces_and_addresses_to_listen_on_are_looked_up() {
    let Some(lab) = Lab::namespaces_for("interfaces", 2) else { return };
    lab.script("prog", "echo \"listens on $EDGECUT_LISTEN_ADDR\"");
    let hosts = "hosts:\n- {address: 10.99.0.1, interface: eth0}\n- {address: 10.99.0.2, listen_addr: 127.0.0.1}\n";
    let config = arg(&lab.write_ip_config(hosts));
    let run = lab.run(&["--ip-config", &config, "./prog"]);
    assert!(run.out.contains("[10.99.0.1:0] listens on 10.99.0.1\n"), "{run:#?}");
    assert!(run.out.contains("[10.99.0.2:1] listens on 127.0.0.1\n"), "{run:#?}");
    // Rank 0 is reached at the address on which it listens, not at the address of the SSH login.
    lab.on_host(0, "ip addr add 10.99.0.50/24 dev eth0").unwrap();
    lab.script("master", "echo \"the master is $MASTER_ADDR\"");
    let config =
        arg(&lab.write_ip_config("hosts:\n- {address: 10.99.0.1, listen_addr: 10.99.0.50}\n- {address: 10.99.0.2}\n"));
    let run = lab.run(&["--ip-config", &config, "./master"]);
    assert!(run.out.contains("[10.99.0.2:1] the master is 10.99.0.50\n"), "{run:#?}");
    let hosts = "hosts:\n- {address: 10.99.0.1, interface: eth7}\n- {address: 10.99.0.2, listen_addr: 10.0.0.9}\n";
    let config = arg(&lab.write_ip_config(hosts));
    let said = refused(&lab, &["--ip-config", &config, "./prog"]);
    assert!(said.contains("the interface eth7 has no address; this node has"), "{said}");
    assert!(said.contains("10.0.0.9 is no address of this node"), "{said}");
}

#[test]
fn wrong_files_and_flags_are_errors_before_anything_is_connected_to() {
    let lab = match Lab::loopback(1) {
        Ok(lab) => lab,
        Err(why) => return skip("wrong files and flags", &why),
    };
    let bad = arg(&lab.write_ip_config("hosts:\n  - address: a\n    ssh_port: x\n"));
    let run = lab.run(&["--ip-config", &bad, "prog"]);
    assert_eq!(run.status.code(), Some(2));
    assert!(run.err.contains("ip_config.yaml:3:15: "), "{run:#?}");
    assert_eq!(lab.run(&["--ip-config", &bad]).status.code(), Some(2), "no command");
    assert_eq!(lab.run(&["--ip-config", &bad, "--num-nodes", "0", "prog"]).status.code(), Some(2));
    let good = arg(&lab.ip_config(1));
    let run = lab.run(&["--ip-config", &good, "--copy-parts", "--", "prog"]);
    assert!(run.err.contains("--copy-parts needs --dataset-root-dir in the command"), "{run:#?}");
    let in_store = ["--copy-parts", "--", "prog", "--dataset-root-dir", "s3://graphs/2-parts"];
    let run = lab.run(&[&["--ip-config", good.as_str()][..], &in_store].concat());
    assert!(run.err.contains("--copy-parts: s3://graphs/2-parts is in an object store"), "{run:#?}");
    let run = lab.run(&["--ip-config", &good, "--sync-binary", "--", "./no-such-program"]);
    assert!(run.err.contains("--sync-binary: there is no program ./no-such-program on this machine"), "{run:#?}");
}
