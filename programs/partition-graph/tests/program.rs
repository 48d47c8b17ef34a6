//! The program: arguments, exit status, output, and the state after an interrupt.

use crate::graphs;

use edgecut_graph::{DiskPartId, EdgeTypeId, FeatureDtype, META_FILE, Meta, NodeTypeId, Part, map_npy, write_npy};
use edgecut_output::host_tag;
use edgecut_partition::{cut_matrix, verify};
use edgecut_testing::{Process, names, succeeded};
use graphs::{contents, json_of, text};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_partition-graph"));
    command.args(arguments);
    command
}

fn run(arguments: &[&str]) -> Output {
    program(arguments).output().unwrap()
}

fn fails(arguments: &[&str], status: i32, why: &str) {
    let output = run(arguments);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{stderr}");
    assert!(stderr.contains(why), "{stderr}, expected {why}");
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
}

/// Verifies the parts in a folder.
#[track_caller]
fn assert_valid(dir: &Path) {
    let verified = succeeded(run(&["verify", dir.to_str().unwrap()]));
    assert!(text(&verified.stdout).contains("all valid"));
}

#[test]
fn partitions_a_graph_of_several_types_with_reverse_edges() {
    let root = tempfile::tempdir().unwrap();
    let at = root.path().to_str().unwrap();
    let flags = ["--dataset", "fake-hetero", "--avg-num-nodes", "400", "--root-dir", at, "--num-partitions", "3"];
    let made = json_of(run(&[flags.as_slice(), &["--add_reverse_edges", "--json"]].concat()));
    assert_eq!(made["provenance"]["add_reverse_edges"], true);
    let relations = made["edge_types"].as_array().unwrap().iter().map(|e| e["relation"].as_str().unwrap());
    assert_eq!(relations.collect::<Vec<_>>()[4..8], ["e4", "e5", "rev_e0", "rev_e1"]);
    // Nodes of each type are spread evenly over the parts.
    for node_type in made["node_types"].as_array().unwrap() {
        let book: Vec<i64> = node_type["book"].as_array().unwrap().iter().map(|n| n.as_i64().unwrap()).collect();
        assert_eq!(book[3], 400);
        assert!(book.windows(2).all(|w| (100..=170).contains(&(w[1] - w[0]))), "{node_type}");
    }
    let dir = root.path().join("partitions/fake-hetero/3-parts");
    assert_valid(&dir);
}

/// The parts by a method are those by its assignment, which the program reads in each format.
#[test]
fn an_assignment_by_another_program_is_used_as_it_is() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name).to_str().unwrap().to_owned();
    let fake = ["--dataset", "fake", "--avg-num-nodes", "300"];
    let hetero = ["--dataset", "fake-hetero", "--avg-num-nodes", "90"];
    for (name, graph) in [("fake", fake), ("hetero", hetero)] {
        let flags = [&graph[..], &["--num-partitions", "3", "--json", "--output-dir"]].concat();
        let by_method = at(&format!("{name}-method"));
        assert!(run(&[&flags[..], &[&by_method, "--method", "random"]].concat()).status.success());
        let meta = Meta::read(Path::new(&by_method)).unwrap();
        // Both formats at the same time, for the types in turn.
        let folder = root.path().join(format!("{name}-assignment"));
        std::fs::create_dir(&folder).unwrap();
        for (t, nodes) in meta.node_types.iter().enumerate() {
            let mut parts = vec![0_i64; nodes.book.num_nodes()];
            for part in 0..3 {
                let part_ids = Path::new(&by_method).join(format!("part_{part}/nodes/{}/original_ids.npy", nodes.name));
                let (_, ids) = map_npy::<u32>(&part_ids).unwrap();
                ids.iter().for_each(|&id| parts[id as usize] = part);
            }
            if t % 2 == 0 {
                let lines: Vec<String> = parts.iter().map(i64::to_string).collect();
                std::fs::write(folder.join(format!("{}.txt", nodes.name)), lines.join("\n")).unwrap();
            } else {
                write_npy(&folder.join(format!("{}.npy", nodes.name)), &[parts.len()], &parts).unwrap();
            }
        }
        let given = at(&format!("{name}-given"));
        let made = json_of(run(&[&flags[..], &[&given, "--assignment", folder.to_str().unwrap()]].concat()));
        assert_eq!(made["provenance"]["method"], "given");
        assert_eq!(made["provenance"]["balance"], serde_json::json!([]));
        assert_valid(Path::new(&given));
        let files = |dir: &str| {
            let mut files = contents(Path::new(dir));
            files.retain(|name, _| !name.ends_with(META_FILE));
            files
        };
        assert_eq!(files(&given), files(&by_method));
    }
    let flags = [&hetero[..], &["--num-partitions", "3", "--output-dir"]].concat();
    let out = at("none");
    let missing = at("missing");
    let file = at("hetero-assignment/v0.txt");
    fails(&[&flags[..], &[&out, "--assignment", &missing]].concat(), 1, &format!("--assignment: {missing}"));
    fails(&[&flags[..], &[&out, "--assignment", &file]].concat(), 1, "give a folder with a file TYPE.txt or TYPE.npy");
    std::fs::write(&file, "0\n7\n").unwrap();
    let folder = at("hetero-assignment");
    fails(
        &[&flags[..], &[&out, "--assignment", &folder]].concat(),
        1,
        "v0.txt: line 2: part 7 is not one of the 3 parts",
    );
    fails(&[&flags[..], &[&out, "--assignment", &folder, "--method", "ldg"]].concat(), 2, "--assignment");
    assert!(!Path::new(&out).exists());
}

#[test]
fn reports_show_the_edges_between_parts() {
    let root = tempfile::tempdir().unwrap();
    let at = root.path().to_str().unwrap();
    let file = |name: &str| root.path().join(name).to_str().unwrap().to_owned();
    let made = file("made.html");
    let flags = ["--dataset", "fake-hetero", "--avg-num-nodes", "400", "--root-dir", at, "--num-partitions", "3"];
    let described = json_of(run(&[flags.as_slice(), &["--json", "--report", &made]].concat()));
    let dir = root.path().join("partitions/fake-hetero/3-parts");
    // The report of existing parts is the same.
    let info = file("info.html");
    succeeded(run(&["info", dir.to_str().unwrap(), "--report", &info]));
    let page = std::fs::read_to_string(&made).unwrap();
    assert_eq!(page, std::fs::read_to_string(&info).unwrap());
    let edges = cut_matrix(&dir).unwrap();
    let mut cut = 0;
    for (to, row) in edges.iter().enumerate() {
        assert_eq!(Some(row.iter().sum::<u64>()), described["report"]["parts"][to]["edges"].as_u64());
        for (from, &count) in row.iter().enumerate() {
            let shown = edgecut_report::shown(count as f64);
            let cell = format!("part of the destination {to}, part of the source {from}: {shown}\"");
            assert!(page.contains(&cell), "{cell}: {page}");
            cut += if to == from { 0 } else { count };
        }
    }
    assert_eq!(Some(cut), described["report"]["cut_edges"].as_u64());
    assert!(page.contains("training nodes, largest part over the mean") && !page.contains("<script"), "{page}");
    let absent = file("absent/report.html");
    fails(&["info", dir.to_str().unwrap(), "--report", &absent], 1, "--report: write");
    fails(&[&flags[..], &["--overwrite", "--report", &absent]].concat(), 1, "--report: write");
}

#[test]
fn ranks_the_nodes_of_other_parts() {
    let root = tempfile::tempdir().unwrap();
    let at = root.path().to_str().unwrap();
    let flags = ["--dataset", "fake", "--avg-num-nodes", "500", "--root-dir", at, "--num-partitions", "2", "--json"];
    let made = json_of(run(&[flags.as_slice(), &["--hotness", "presample", "--num-neighbors", "5,-1"]].concat()));
    let rule = serde_json::json!({ "ranking": "presample", "num_neighbors": [5, -1], "batch_size": 1024 });
    assert_eq!((&made["provenance"]["hotness"], &made["node_types"][0]["has_hotness"]), (&rule, &true.into()));
    let dir = root.path().join("partitions/fake/2-parts");
    assert_valid(&dir);
    let part = Part::open(&dir, DiskPartId(1), true).unwrap();
    let hot = part.nodes(NodeTypeId(0)).hot.as_ref().unwrap();
    let owned = part.owned(NodeTypeId(0));
    // Two hops from half of the nodes reach most nodes of the other part.
    assert!(hot.nodes.len() > 100 && hot.nodes.iter().all(|node| !owned.contains(node)), "{} nodes", hot.nodes.len());
    // With one batch of all seeds, a node is in at most one batch of each of the 1000 epochs.
    assert!(hot.counts.iter().all(|count| (1..=1000).contains(count)));

    let again = [flags.as_slice(), &["--overwrite"]].concat();
    fails(&[again.as_slice(), &["--hotness", "presample", "--num-neighbors", "5,-2"]].concat(), 2, "--num-neighbors");
    fails(&[again.as_slice(), &["--num-neighbors", "5"]].concat(), 2, "--hotness");
    let given = ["--dataset", "cora", "--num-partitions", "2", "--avg-degree", "10"];
    fails(&given, 2, "--avg-degree is for --dataset fake and fake-hetero, which are generated");
    fails(&[again.as_slice(), &["--hotness", "in-degree", "--num-channels", "0"]].concat(), 1, "no node features");
    assert!(Meta::read(&dir).unwrap().provenance.hotness.is_some(), "failed runs replaced the parts");
}

#[test]
fn holds_out_edges_of_a_generated_graph_whose_edges_carry_something() {
    let root = tempfile::tempdir().unwrap();
    let at = root.path().to_str().unwrap();
    let flags = ["--dataset", "fake", "--avg-num-nodes", "500", "--root-dir", at, "--num-partitions", "2", "--json"];
    let more = ["--hold-out-edges", "0.1,0.2", "--edge-attributes", "--add-reverse-edges"];
    let made = json_of(run(&[flags.as_slice(), &more].concat()));
    assert_eq!(made["provenance"]["hold_out_edges"], serde_json::json!([0.1, 0.2]));
    let [edges, reverse] = &made["edge_types"].as_array().unwrap()[..] else { panic!("{made}") };
    let held_out: Vec<u64> = edges["held_out"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
    assert_eq!(edges["num_edges"].as_u64().unwrap() + held_out.iter().sum::<u64>(), 5000);
    assert!((300..700).contains(&held_out[0]) && (700..1300).contains(&held_out[1]), "{held_out:?}");
    assert_eq!(edges["held_out"], reverse["held_out"]);
    assert_eq!(
        (&edges["has_weights"], &edges["has_times"], &edges["feature_dim"]),
        (&true.into(), &true.into(), &4.into())
    );
    assert_eq!(made["node_types"][0]["has_times"], true);
    let dir = root.path().join("partitions/fake/2-parts");
    assert_valid(&dir);
    fails(&[flags.as_slice(), &["--hold-out-edges", "0.5,0.6"]].concat(), 2, "leaves none to train on");
}

/// Writes a dataset whose validation edges and nodes are training edges and nodes as well.
fn with_overlaps(dir: &Path) {
    std::fs::create_dir_all(dir).unwrap();
    let put = |name: &str, shape: &[usize], values: &[i64]| {
        write_npy(&dir.join(format!("{name}.npy")), shape, values).unwrap();
    };
    put("edge_index", &[2, 6], &[0, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 0]);
    put("valid_edge_index", &[2, 2], &[0, 2, 1, 5]);
    put("train_idx", &[2], &[0, 1]);
    put("test_idx", &[2], &[1, 2]);
}

#[test]
fn overlapping_splits_fail_unless_they_are_removed_or_allowed() {
    let root = tempfile::tempdir().unwrap();
    with_overlaps(&root.path().join("mine"));
    let at = root.path().to_str().unwrap();
    let flags = ["--dataset", "mine", "--root-dir", at, "--num-partitions", "2", "--method", "random"];
    let leaks = "node type node: 1 training nodes are test nodes; edge type node__to__node: 1 of 2 validation edges are \
                 training edges";
    fails(&flags, 1, leaks);
    fails(&flags, 1, "--overlap remove");
    let dir = root.path().join("partitions/mine/2-parts");
    assert!(!dir.exists());
    let output = run(&[flags.as_slice(), &["--overlap", "remove"]].concat());
    let stderr = text(&output.stderr);
    assert!(
        output.status.success() && stderr.contains("warning: removed overlaps: node type node: 1 training"),
        "{stderr}"
    );
    let meta = Meta::read(&dir).unwrap();
    assert_eq!((meta.edge_types[0].num_edges, meta.node_types[0].split_sizes), (5, [1, 0, 2]));
    assert_valid(&dir);

    let output = run(&[flags.as_slice(), &["--overlap", "allow", "--overwrite", "--json"]].concat());
    let stderr = text(&output.stderr);
    assert!(output.status.success() && stderr.contains("warning: allowed overlaps"), "{stderr}");
    let made: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(made["provenance"]["overlap"], "allow");
    let report = json_of(run(&["verify", dir.to_str().unwrap(), "--json"]));
    assert_eq!(report["overlaps"]["edge_types"][0]["in_train"], serde_json::json!([1, 0]));
    assert!(text(&run(&["info", dir.to_str().unwrap()]).stdout).contains("overlaps of splits are allowed"));
    // Parts of version 1, which has no digest, may be older than the check of overlaps and then do not allow any.
    let path = dir.join(META_FILE);
    let mut meta: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    meta["provenance"].as_object_mut().unwrap().remove("overlap").unwrap();
    meta.as_object_mut().unwrap().remove("digest").unwrap();
    meta["version"] = 1.into();
    std::fs::write(&path, serde_json::to_vec(&meta).unwrap()).unwrap();
    fails(&["verify", dir.to_str().unwrap()], 1, leaks);
    fails(&[flags.as_slice(), &["--overlap", "ignore"]].concat(), 2, "expected error, remove or allow");
}

#[test]
fn the_latest_edges_are_held_out_with_their_times() {
    let root = tempfile::tempdir().unwrap();
    let at = root.path().to_str().unwrap();
    let flags = ["--dataset", "fake", "--avg-num-nodes", "300", "--root-dir", at, "--num-partitions", "2", "--json"];
    let latest = ["--hold-out-edges", "latest:0.1,0.1"];
    fails(&[flags.as_slice(), &latest].concat(), 1, "edge type node__to__node has no times");
    let made = json_of(run(&[flags.as_slice(), &latest, &["--edge-attributes"]].concat()));
    assert_eq!(made["provenance"]["hold_out_choice"], "latest");
    assert_eq!(made["edge_types"][0]["held_out_has_times"], true);
    let dir = root.path().join("partitions/fake/2-parts");
    let parts = [0, 1].map(|part| Part::open(&dir, DiskPartId(part), true).unwrap());
    let edges = parts.each_ref().map(|part| part.edges(EdgeTypeId(0)));
    let bounds = |times: Vec<&[i64]>| {
        let times = times.concat();
        (*times.iter().min().unwrap(), *times.iter().max().unwrap())
    };
    let train = bounds(edges.map(|edges| &edges.attributes.times.as_ref().unwrap()[..]).to_vec());
    let valid = bounds(edges.map(|edges| &edges.held_out.valid.times.as_ref().unwrap()[..]).to_vec());
    let test = bounds(edges.map(|edges| &edges.held_out.test.times.as_ref().unwrap()[..]).to_vec());
    assert!(train.1 <= valid.0 && valid.1 <= test.0, "{train:?} {valid:?} {test:?}");
}

#[test]
fn partitions_a_generated_graph_and_describes_it() {
    let root = tempfile::tempdir().unwrap();
    let at = root.path().to_str().unwrap();
    let output =
        succeeded(run(&["--dataset", "fake", "--root-dir", at, "--num-partitions", "3", "--to-undirected", "--json"]));
    let made: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(made["provenance"]["to_undirected"], true);
    assert_eq!(made["num_parts"], 3);
    assert_eq!(made["provenance"]["method"], "metis");
    assert_eq!(made["report"]["parts"].as_array().unwrap().len(), 3);
    for phase in ["reading", "preparing", "assigning", "writing"] {
        assert!(made["seconds"][phase].is_number(), "{made}");
    }
    assert!(made["peak_memory_bytes"].as_u64().unwrap() > 0);
    let stderr = text(&output.stderr);
    assert!(stderr.contains("METIS") && stderr.contains("peak memory"), "{stderr}");

    let dir = root.path().join("partitions/fake/3-parts");
    let dir = dir.to_str().unwrap();
    let verified = json_of(run(&["verify", dir, "--json"]));
    assert_eq!(verified["bytes"], made["bytes"]);
    assert_valid(Path::new(dir));

    let mut told = json_of(run(&["info", dir, "--json"]));
    told["seconds"] = made["seconds"].clone();
    told["peak_memory_bytes"] = made["peak_memory_bytes"].clone();
    told["peak_anonymous_bytes"] = made["peak_anonymous_bytes"].clone();
    assert_eq!(told, made);
    let table = text(&run(&["info", dir]).stdout);
    for word in ["max/mean", "halo nodes", "cut edges", "fake in 3 parts by metis, seed 0"] {
        assert!(table.contains(word), "{table}");
    }
}

#[test]
fn features_are_stored_in_the_type_that_is_asked_for() {
    let root = tempfile::tempdir().unwrap();
    let at = root.path().to_str().unwrap();
    let hetero = ["--dataset", "fake-hetero", "--root-dir", at, "--num-partitions", "2", "--avg-num-nodes", "200"];
    succeeded(run(&[&hetero[..], &["--feature_dtype", "f16,v1=int8"]].concat()));
    let dir = root.path().join("partitions/fake-hetero/2-parts");
    let meta = Meta::read(&dir).unwrap();
    let dtypes: Vec<FeatureDtype> = meta.node_types.iter().map(|t| t.feature_dtype).collect();
    assert_eq!(dtypes, [FeatureDtype::F16, FeatureDtype::Int8, FeatureDtype::F32]);
    assert_valid(&dir);
    let (shape, _) = map_npy::<u8>(&dir.join("part_0/nodes/v1/features.npy")).unwrap();
    assert_eq!(shape[1], 4 + meta.node_types[1].feature_dim);
    for (dtypes, status, why) in [
        ("f64", 2, "expected f32, f16, bf16 or int8"),
        ("paper=f16", 1, "error: --feature-dtype names node type paper, which does not exist or has no features."),
    ] {
        fails(&[&hetero[..], &["--overwrite", "--feature-dtype", dtypes]].concat(), status, why);
    }
    // A value beyond the range of the type.
    let folder = root.path().join("large");
    std::fs::create_dir(&folder).unwrap();
    write_npy(&folder.join("edge_index.npy"), &[2, 1], &[0_i64, 1]).unwrap();
    write_npy(&folder.join("x.npy"), &[2, 2], &[1.0_f32, 2.0, 3.0, 1e6]).unwrap();
    let large = ["--dataset", "large", "--root-dir", at, "--num-partitions", "1", "--feature-dtype", "f16"];
    fails(&large, 1, "error: node type node: feature 1 of row 1 is 1000000, which f16 cannot represent");
    assert!(!root.path().join("partitions/large/1-parts").exists());
}

#[test]
fn the_spelling_of_pyg_and_any_number_of_threads_give_the_same_bytes() {
    let root = tempfile::tempdir().unwrap();
    for method in ["metis", "semi-external", "ldg", "random"] {
        let ours = root.path().join(format!("{method}-ours"));
        let pyg = root.path().join(format!("{method}-pyg"));
        let ours = ours.to_str().unwrap();
        let pyg = pyg.to_str().unwrap();
        let sizes = ["--avg-num-nodes", "3000", "--num-channels", "5", "--method", method, "--seed", "3"];
        let first = ["--dataset", "fake", "--root-dir", ours, "--num-partitions", "4"];
        succeeded(program(&[&first[..], &sizes].concat()).env("RAYON_NUM_THREADS", "1").output().unwrap());
        let sizes = ["--avg_num_nodes", "3000", "--num_channels", "5", "--method", method, "--seed", "3"];
        let second = ["--dataset", "fake", "--root_dir", pyg, "--num_partitions", "4"];
        succeeded(program(&[&second[..], &sizes].concat()).env("RAYON_NUM_THREADS", "4").output().unwrap());
        assert!(contents(Path::new(ours)) == contents(Path::new(pyg)), "{method}");
    }
}

#[test]
fn a_wrong_command_line_ends_with_status_2() {
    fails(&[], 2, "--dataset");
    fails(&["--dataset", "fake"], 2, "--num-partitions");
    fails(&["--dataset", "fake", "--num-partitions", "0"], 2, "0 is not in");
    fails(&["--dataset", "fake", "--num-partitions", "two"], 2, "two");
    fails(&["--dataset", "fake", "--num-partitions", "2", "--method", "magic"], 2, "metis, semi-external, ldg, random");
    fails(&["--dataset", "fake", "--num-partitions", "2", "--balance", "time"], 2, "nodes, edges or train");
    fails(&["--dataset", "fake", "--num-partitions", "2", "--method", "ldg", "--recursive"], 2, "--recursive needs");
    fails(&["--dataset", "../fake", "--num-partitions", "2"], 2, "--dataset-dir");
    fails(&["verify"], 2, "DIR");
}

#[test]
fn what_cannot_be_done_ends_with_status_1_and_an_error() {
    let root = tempfile::tempdir().unwrap();
    let at = root.path().to_str().unwrap();
    let few = ["--dataset", "fake", "--root-dir", at, "--num-partitions", "9", "--avg-num-nodes", "5"];
    fails(&few, 1, "error: cannot split a graph of 5 nodes into 9 parts");
    fails(
        &["--dataset", "nowhere", "--root-dir", at, "--num-partitions", "2"],
        1,
        "error: dataset nowhere: no dataset",
    );
    let split = ["--dataset", "fake", "--root-dir", at, "--num-partitions", "2", "--split", "time"];
    fails(&split, 1, "error: dataset fake: split scheme time was requested");
    fails(&["verify", at], 1, "META.json is missing");
    fails(&["info", at], 1, "META.json is missing");
    assert!(names(root.path()).is_empty());
    let twice = ["--dataset", "fake", "--root-dir", at, "--num-partitions", "2"];
    assert!(run(&twice).status.success());
    fails(&twice, 1, "exists already: --overwrite");
    assert!(run(&[&twice[..], &["--overwrite", "--method", "random"]].concat()).status.success());
    assert_eq!(Meta::read(&root.path().join("partitions/fake/2-parts")).unwrap().provenance.method, "random");
}

#[test]
fn help_shows_defaults_and_examples() {
    let help = text(&run(&["--help"]).stdout);
    for part in ["Examples:", "[default: data]", "[default: metis]", "[default: nodes,edges,train]", "verify", "info"] {
        assert!(help.contains(part), "{help}, expected {part}");
    }
}

#[test]
fn a_closed_pipe_is_no_error() {
    let root = tempfile::tempdir().unwrap();
    let at = root.path().to_str().unwrap();
    let mut command = program(&["--dataset", "fake", "--root-dir", at, "--num-partitions", "2"]);
    let mut child = Process::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    drop((child.stdout.take(), child.stderr.take()));
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_result_that_cannot_be_printed_is_an_error() {
    let root = tempfile::tempdir().unwrap();
    let at = root.path().to_str().unwrap();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let arguments = ["--dataset", "fake", "--root-dir", at, "--num-partitions", "2"];
    let output = program(&arguments).stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("No space left on device"), "{}", text(&output.stderr));
}

/// A run that writes about 300 MB, and its hidden folder.
struct Running {
    root: tempfile::TempDir,
    child: Process,
    partial: PathBuf,
}

fn large(root: &Path) -> Command {
    let at = root.to_str().unwrap();
    let output = root.join("2-parts");
    let sizes = ["--avg-num-nodes", "300000", "--avg-degree", "4", "--num-channels", "256", "--method", "random"];
    let arguments =
        ["--dataset", "fake", "--root-dir", at, "--num-partitions", "2", "--output-dir", output.to_str().unwrap()];
    let mut command = program(&[&arguments[..], &sizes].concat());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// The number of runs that may be done before they are stopped, as on a machine that is busy with other things.
const ATTEMPTS: usize = 20;

fn start_and_wait_for_files() -> Running {
    let root = tempfile::tempdir().unwrap();
    let child = Process::start(&mut large(root.path()));
    let partial = root.path().join(format!(".2-parts.partial-{}-{}-0", host_tag(), child.id()));
    let since = Instant::now();
    while !partial.join("part_1/nodes/node/original_ids.npy").exists() && !root.path().join("2-parts").exists() {
        assert!(since.elapsed() < Duration::from_secs(120), "it writes nothing");
        std::thread::sleep(Duration::from_millis(2));
    }
    Running { root, child, partial }
}

#[test]
fn a_killed_run_leaves_nothing_that_loads_and_the_next_one_cleans_up() {
    let killed = std::iter::repeat_with(|| {
        let mut run = start_and_wait_for_files();
        run.child.kill().unwrap();
        run.child.wait().unwrap();
        run
    });
    // The description is the last file.
    let is_incomplete = |run: &Running| run.partial.exists() && !run.partial.join(META_FILE).exists();
    let run = killed.take(ATTEMPTS).find(is_incomplete).expect("a run that was killed while it wrote");
    assert!(!run.root.path().join("2-parts").exists());
    assert!(Meta::read(&run.partial).is_err());
    assert!(large(run.root.path()).status().unwrap().success());
    assert_eq!(names(run.root.path()), ["2-parts"]);
    verify(&run.root.path().join("2-parts")).unwrap();
}

#[test]
fn a_signal_ends_a_run_without_leftovers() {
    for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM] {
        let was_interrupted = (0..ATTEMPTS).any(|_| {
            let mut run = start_and_wait_for_files();
            run.child.signal(signal);
            let status = run.child.wait().unwrap();
            let left = names(run.root.path());
            // The run was done.
            if status.success() && left == ["2-parts"] {
                return false;
            }
            assert_eq!((status.code(), left), (Some(130), Vec::new()));
            true
        });
        assert!(was_interrupted, "no run was interrupted by {signal:?}");
    }
}

/// Returns true if the process has a handler for SIGTERM, which only METIS installs.
fn traps_term(child: &Child) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let mask =
        status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("/proc/PID/status has the line SigCgt");
    u64::from_str_radix(mask.trim(), 16).unwrap() & (1 << (rustix::process::Signal::TERM.as_raw() - 1)) != 0
}

#[test]
fn a_signal_during_metis_ends_a_run_like_any_other() {
    let root = tempfile::tempdir().unwrap();
    let at = root.path().to_str().unwrap();
    let arguments = ["--dataset", "fake", "--root-dir", at, "--num-partitions", "8", "--num-channels", "1"];
    let sizes = ["--avg-num-nodes", "150000", "--avg-degree", "20"];
    let mut command = program(&[&arguments[..], &sizes].concat());
    let mut child = Process::start(command.stdout(Stdio::null()).stderr(Stdio::piped()));
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    // A phase is printed when it ends, and METIS runs right after preparing.
    while !line.starts_with("preparing") {
        line.clear();
        assert!(stderr.read_line(&mut line).unwrap() > 0, "it ended before METIS");
    }
    let since = Instant::now();
    while !traps_term(&child) {
        assert!(since.elapsed() < Duration::from_secs(120), "METIS does not trap SIGTERM");
        std::thread::sleep(Duration::from_millis(2));
    }
    child.signal(rustix::process::Signal::TERM);
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest}");
    assert!(rest.contains("interrupted") && !rest.contains("METIS"), "{rest}");
    assert!(names(root.path()).is_empty(), "{:?}", names(root.path()));
}

#[test]
fn the_command_of_pygs_tutorial_partitions_a_download_of_ogb() {
    let root = tempfile::tempdir().unwrap();
    // PyG keeps the files of OGB in this folder.
    let folder = root.path().join("dataset/ogbn-products/ogbn_products");
    for (name, text) in [
        ("raw/num-node-list.csv", "4\n"),
        ("raw/num-edge-list.csv", "3\n"),
        ("raw/edge.csv", "0,1\n1,2\n2,3\n"),
        ("raw/node-feat.csv", "1,2\n3,4\n5,6\n7,8\n"),
        ("raw/node-label.csv", "0\n1\n0\n1\n"),
        ("split/sales_ranking/train.csv", "0\n1\n"),
        ("split/sales_ranking/valid.csv", "2\n"),
        ("split/sales_ranking/test.csv", "3\n"),
    ] {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let at = format!("--root_dir={}", root.path().display());
    let output = run(&["--dataset=ogbn-products", &at, "--num_partitions=2", "--use_sparse_tensor", "--recursive"]);
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains("note: --use-sparse-tensor has no effect"), "{stderr}");
    let dir = root.path().join("partitions/ogbn-products/2-parts");
    let meta = Meta::read(&dir).unwrap();
    // The files hold each edge once; OGB's loader adds the other direction.
    assert_eq!(meta.edge_types[0].num_edges, 6);
}
