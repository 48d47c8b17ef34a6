//! The output folder is complete or absent.

use crate::graphs;

use edgecut_graph::{Dataset, EdgeData, EdgeList, Meta};
use edgecut_partition::{
    Assignment, Inputs, PartitionError, PartitionOptions, Phase, Progress, assign, partition, partition_loaded, verify,
    write_parts,
};
use edgecut_testing::{assert_has, names};
use graphs::{bare, contents, rich};
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn what_exists_is_kept_unless_overwriting_is_asked_for() {
    let root = graphs::tempdir();
    let dir = root.path().join("a/b/2-parts");
    let options = PartitionOptions::new(2);
    partition(&rich(), &options, &dir, &()).unwrap();
    let before = contents(&dir);
    let error = partition(&bare(5, &[]), &options, &dir, &()).unwrap_err();
    assert!(error.to_string().contains("2-parts exists already: `overwrite`"), "{error}");
    assert_eq!(contents(&dir), before);
    let overwrite = PartitionOptions { overwrite: true, ..options };
    partition(&bare(5, &[]), &overwrite, &dir, &()).unwrap();
    assert_eq!(verify(&dir).unwrap().meta.dataset, "test");
    assert_eq!(names(&root.path().join("a/b")), ["2-parts"]);
}

#[test]
fn an_empty_folder_is_filled_and_another_one_is_refused() {
    let root = graphs::tempdir();
    let dir = root.path().join("out");
    std::fs::create_dir(&dir).unwrap();
    partition(&rich(), &PartitionOptions::new(2), &dir, &()).unwrap();
    let home = root.path().join("home");
    std::fs::create_dir(&home).unwrap();
    std::fs::write(home.join("letter.txt"), "dear").unwrap();
    let overwrite = PartitionOptions { overwrite: true, ..PartitionOptions::new(2) };
    let error = partition(&rich(), &overwrite, &home, &()).unwrap_err();
    assert!(matches!(error, PartitionError::NotAPartition { .. }), "{error}");
    assert_eq!(names(&home), ["letter.txt"]);
}

/// A progress that asks to stop at the `stop_at`-th question.
struct Impatient {
    stop_at: usize,
    asked: AtomicUsize,
}

impl Progress for Impatient {
    fn cancelled(&self) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed) + 1 >= self.stop_at
    }
}

#[test]
fn a_cancelled_run_leaves_nothing_and_keeps_what_was_there() {
    let root = graphs::tempdir();
    let dir = root.path().join("2-parts");
    let overwrite = PartitionOptions { overwrite: true, ..PartitionOptions::new(2) };
    let mut stopped = 0;
    for stop_at in 1.. {
        let impatient = Impatient { stop_at, asked: AtomicUsize::new(0) };
        match partition(&rich(), &overwrite, &dir, &impatient) {
            Err(PartitionError::Cancelled) => assert!(names(root.path()).is_empty(), "at {stop_at}"),
            result => {
                result.unwrap();
                break;
            }
        }
        stopped = stop_at;
    }
    assert!(stopped > 10, "{stopped}");
    let before = contents(&dir);
    let impatient = Impatient { stop_at: stopped, asked: AtomicUsize::new(0) };
    partition(&bare(9, &[]), &overwrite, &dir, &Impatient { stop_at: 1, ..impatient }).unwrap_err();
    assert_eq!(contents(&dir), before);
    assert_eq!(names(root.path()), ["2-parts"]);
}

#[test]
fn a_parent_that_is_a_file_is_an_error_that_names_it() {
    let root = graphs::tempdir();
    std::fs::write(root.path().join("file"), "").unwrap();
    let error = partition(&rich(), &PartitionOptions::new(2), &root.path().join("file/2-parts"), &()).unwrap_err();
    assert!(error.to_string().contains("file"), "{error}");
}

#[test]
fn phases_come_in_order_and_bytes_add_up() {
    #[derive(Default)]
    struct Watch(std::sync::Mutex<(Vec<Phase>, u64, u64)>);
    impl Progress for Watch {
        fn phase(&self, phase: Phase) {
            self.0.lock().unwrap().0.push(phase);
        }
        fn written(&self, done: u64, total: u64) {
            let mut state = self.0.lock().unwrap();
            (state.1, state.2) = (state.1.max(done), total);
        }
    }
    let root = graphs::tempdir();
    let watch = Watch::default();
    partition(&rich(), &PartitionOptions::new(3), &root.path().join("parts"), &watch).unwrap();
    let (phases, done, total) = watch.0.into_inner().unwrap();
    assert_eq!(phases, [Phase::Preparing, Phase::Assigning, Phase::Writing]);
    assert!(done == total && total > 0, "{done} of {total}");
}

#[test]
fn an_own_assignment_is_written_as_it_is_or_rejected() {
    let root = graphs::tempdir();
    let options = PartitionOptions::new(3);
    let dataset = bare(4, &[(0, 1), (1, 2), (2, 3)]);
    let own = Assignment { parts: vec![vec![2, 0, 0, 2]] };
    let meta = write_parts(&dataset, &own, &options, &root.path().join("own")).unwrap();
    assert_eq!(meta.report.parts.iter().map(|p| p.nodes).collect::<Vec<_>>(), [2, 0, 2]);
    assert_eq!(meta.report.cut_edges, 2);
    verify(&root.path().join("own")).unwrap();
    for (parts, why) in [
        (vec![vec![0; 3]], "3 nodes of type node, expected 4"),
        (vec![vec![0, 0, 0, 3]], "node 3 of type node is assigned to part 3"),
        (vec![vec![0; 4], vec![]], "2 node types"),
    ] {
        let error = write_parts(&dataset, &Assignment { parts }, &options, &root.path().join("bad")).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
    assert_eq!(names(root.path()), ["own"]);
}

#[test]
fn a_dataset_that_is_given_away_makes_the_same_parts() {
    let root = graphs::tempdir();
    let lent = root.path().join("lent");
    let given = root.path().join("given");
    let options = PartitionOptions::new(3);
    partition(&rich(), &options, &lent, &()).unwrap();
    partition_loaded(rich(), Inputs::default(), &options, &given, &()).unwrap();
    assert_eq!(contents(&lent), contents(&given));
}

#[test]
fn a_dataset_that_is_given_away_is_checked_all_the_same() {
    let root = graphs::tempdir();
    let dir = root.path().join("parts");
    let [two, four] = [2, 4].map(PartitionOptions::new);
    let error = partition_loaded(bare(3, &[(0, 1), (1, 3)]), Inputs::default(), &two, &dir, &()).unwrap_err();
    assert!(error.to_string().contains("the destination of edge 1 is node 3"), "{error}");
    let error = partition_loaded(bare(3, &[]), Inputs::default(), &four, &dir, &()).unwrap_err();
    assert!(matches!(error, PartitionError::TooManyParts { .. }), "{error}");
    assert!(names(root.path()).is_empty());
}

#[test]
fn rejects_names_that_are_no_folders_or_collide() {
    let root = graphs::tempdir();
    let fails = |dataset, why: &str| {
        let assignment = assign(&dataset, &PartitionOptions::new(1)).unwrap();
        for result in [
            partition(&dataset, &PartitionOptions::new(1), &root.path().join("out"), &()),
            write_parts(&dataset, &assignment, &PartitionOptions::new(1), &root.path().join("out")),
        ] {
            assert_has(result.unwrap_err().to_string(), &[why]);
        }
    };
    for name in ["", ".", "..", "a/b", "a\\b", "a\0b"] {
        let mut dataset = rich();
        dataset.node_types[1].name = name.into();
        fails(dataset, "cannot be a folder");
        let mut dataset = rich();
        dataset.edge_types[0].relation = name.into();
        fails(dataset, "cannot be a folder");
    }
    let mut dataset = rich();
    dataset.node_types[1].name = "paper".into();
    fails(dataset, "two node types have the name paper");
    let mut dataset = rich();
    let twin: EdgeData = dataset.edge_types[0].clone();
    dataset.edge_types.push(twin);
    fails(dataset, "two edge types have the folder edges/paper__cites__paper");
    let mut dataset = rich();
    dataset.node_types[0].name = "a__b".into();
    dataset.node_types[1].name = "a".into();
    dataset.edge_types[0].relation = "c".into();
    dataset.edge_types[1].relation = "b__c".into();
    fails(dataset, "two edge types have the folder");
}

#[test]
fn the_description_is_the_one_on_disk() {
    let root = graphs::tempdir();
    let dir = root.path().join("parts");
    let meta = partition(&rich(), &PartitionOptions::new(3), &dir, &()).unwrap();
    assert_eq!(Meta::read(&dir).unwrap().fingerprint(), meta.fingerprint());
    let text = std::fs::read_to_string(dir.join("META.json")).unwrap();
    assert!(!text.contains(root.path().to_str().unwrap()), "it tells where it was made");
}

#[test]
fn a_description_from_before_edges_carried_anything_is_read() {
    let root = graphs::tempdir();
    let dir = root.path().join("parts");
    partition(&bare(5, &[(0, 1), (3, 4)]), &PartitionOptions::new(2), &dir, &()).unwrap();
    let text = std::fs::read(dir.join("META.json")).unwrap();
    let mut meta: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let mut remove = |place: &str, fields: &[&str]| {
        let object = meta.pointer_mut(place).unwrap().as_object_mut().unwrap();
        fields.iter().for_each(|field| assert!(object.remove(*field).is_some(), "{field}"));
    };
    remove("", &["digest"]);
    remove("/provenance", &["hold_out_edges"]);
    remove("/node_types/0", &["has_times"]);
    remove("/edge_types/0", &["feature_dim", "feature_dtype", "has_weights", "has_times", "held_out"]);
    meta["version"] = 1.into();
    std::fs::write(dir.join("META.json"), serde_json::to_vec(&meta).unwrap()).unwrap();
    verify(&dir).unwrap();
}

#[test]
fn held_out_edges_have_no_say_in_where_nodes_go() {
    let root = graphs::tempdir();
    let mut dataset = graphs::two_cliques(12);
    let write = |dataset: &Dataset, name: &str| {
        let dir = root.path().join(name);
        (partition(dataset, &PartitionOptions::new(2), &dir, &()).unwrap(), contents(&dir.join("part_0/nodes")))
    };
    let (plain, plain_nodes) = write(&dataset, "plain");
    // There are as many edges between the cliques as within both of them.
    let across =
        |from: u32, to: u32| (0..264).map(|i| (from + i % 12, to + i / 12 % 12)).unzip::<_, _, Vec<_>, Vec<_>>();
    for (list, (src, dst)) in [(0, across(0, 12)), (1, across(12, 0))] {
        let held_out = &mut dataset.edge_types[0].held_out;
        let list = if list == 0 { &mut held_out.valid } else { &mut held_out.test };
        *list = EdgeList::new(src.into(), dst.into());
    }
    let (held_out, nodes) = write(&dataset, "held-out");
    assert_eq!(held_out.edge_types[0].held_out, [264, 264]);
    assert_eq!((held_out.report, nodes), (plain.report, plain_nodes));
    verify(&root.path().join("held-out")).unwrap();
}
