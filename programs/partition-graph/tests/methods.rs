//! The quality of the methods, and the inputs that they must accept.

use crate::graphs;

use edgecut_graph::{Dataset, EdgeData, NodeTypeId, Splits};
use edgecut_partition::{Balance, Balances, Method, PartitionError, PartitionOptions, assign, partition};
use edgecut_testing::assert_has;
use graphs::{METHODS, bare, bare_nodes, two_cliques};
use std::sync::OnceLock;

fn options(method: Method, num_parts: u32) -> PartitionOptions {
    PartitionOptions { method, ..PartitionOptions::new(num_parts) }
}

fn sizes(dataset: &Dataset, options: &PartitionOptions) -> Vec<usize> {
    let assignment = assign(dataset, options).unwrap();
    let mut sizes = vec![0; options.num_parts as usize];
    assignment.parts.iter().flatten().for_each(|&part| sizes[part as usize] += 1);
    sizes
}

#[test]
fn metis_finds_the_obvious_cut() {
    for recursive in [false, true] {
        let root = graphs::tempdir();
        let options = options(Method::Metis { recursive }, 2);
        let meta = partition(&two_cliques(30), &options, &root.path().join("parts"), &()).unwrap();
        assert_eq!(meta.report.cut_edges, 2);
        assert_eq!(meta.report.parts.iter().map(|p| p.nodes).collect::<Vec<_>>(), [30, 30]);
        assert_eq!(meta.provenance.balance, ["nodes", "edges"], "there are no training nodes to balance");
    }
}

#[test]
fn ldg_cuts_far_less_than_random() {
    let edges: Vec<(u32, u32)> = (0..2000_u32).flat_map(|n| [1, 2, 3].map(|d| (n, (n + d) % 2000))).collect();
    let ring = bare(2000, &edges);
    let root = graphs::tempdir();
    let cut = |method: Method| {
        let dir = root.path().join(method.to_string());
        partition(&ring, &options(method, 4), &dir, &()).unwrap().report.cut_fraction
    };
    let metis = cut(Method::default());
    let ldg = cut(Method::Ldg);
    let random = cut(Method::Random);
    assert!(metis < 0.02 && metis < ldg && ldg < 0.45 && (0.7..0.8).contains(&random), "{metis} {ldg} {random}");
}

/// Counts the edges between different parts, of a homogeneous graph.
fn cut(dataset: &Dataset, parts: &[u32]) -> u64 {
    let edges = &dataset.edge_types[0];
    edges.src.iter().zip(&edges.dst[..]).filter(|&(&src, &dst)| parts[src as usize] != parts[dst as usize]).count()
        as u64
}

/// Communities with more neighbor entries than the semi-external method gives to METIS directly. Several tests share them.
fn large() -> &'static Dataset {
    static LARGE: OnceLock<Dataset> = OnceLock::new();
    LARGE.get_or_init(|| graphs::communities(16_000, 80, 70, 0.8))
}

#[test]
fn the_cut_of_every_method_is_that_of_the_edge_list_and_semi_external_is_close_to_metis() {
    let dataset = large();
    let root = graphs::tempdir();
    let mut cuts = Vec::new();
    for method in METHODS {
        let options = options(method, 8);
        let assignment = assign(dataset, &options).unwrap();
        let meta = partition(dataset, &options, &root.path().join(cuts.len().to_string()), &()).unwrap();
        assert_eq!(meta.report.cut_edges, cut(dataset, &assignment.parts[0]), "{method}");
        let balances = Balances::new(&meta.report);
        let bound = if method == Method::Random { 1.2 } else { 1.1 };
        let most = balances.nodes.max(balances.edges).max(balances.train_nodes);
        assert!(most < bound, "{method}: {balances:?}");
        cuts.push(meta.report.cut_fraction);
    }
    let [metis, recursive, semi_external, ldg, random] = cuts[..] else { panic!("five methods") };
    assert!(semi_external < 1.5 * metis.min(recursive), "{cuts:?}");
    assert!(semi_external < ldg && ldg < random, "{cuts:?}");
}

#[test]
fn every_method_gives_the_same_parts_on_any_number_of_threads() {
    let dataset = large();
    for method in METHODS {
        let with = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| assign(dataset, &options(method, 5)).unwrap())
        };
        assert_eq!(with(1), with(3), "{method}");
    }
}

#[test]
fn large_heterogeneous_graphs_are_split_type_by_type() {
    // Papers and their authors: the communities of papers, and an author for every two papers of a community.
    let mut dataset = large().clone();
    dataset.node_types.push(bare_nodes("author", 8000));
    let papers: Vec<u32> = (0..16_000).collect();
    let authors: Vec<u32> = papers.iter().map(|paper| paper / 160 * 80 + paper % 80).collect();
    let writes = EdgeData::new(NodeTypeId(1), "writes", NodeTypeId(0), authors.clone().into(), papers.clone().into());
    dataset.edge_types.push(writes);
    let metis = assign(&dataset, &options(Method::default(), 4)).unwrap();
    let found = assign(&dataset, &options(Method::SemiExternal, 4)).unwrap();
    let between = |parts: &[Vec<u32>]| {
        let of_writes = authors.iter().zip(&papers);
        let cut_writes = of_writes.filter(|&(&a, &p)| parts[1][a as usize] != parts[0][p as usize]).count() as u64;
        cut(&dataset, &parts[0]) + cut_writes
    };
    assert!(between(&found.parts) as f64 <= 1.5 * between(&metis.parts) as f64);
    for of_type in &found.parts {
        let most = (0..4).map(|part| of_type.iter().filter(|&&p| p == part).count()).max().unwrap();
        assert!(most * 4 <= of_type.len() * 105 / 100, "{most} of {}", of_type.len());
    }
}

#[test]
fn metis_gives_the_same_parts_with_files_and_leaves_none() {
    let root = graphs::tempdir();
    let dataset = large();
    let in_memory = options(Method::default(), 4);
    let scratch_dir = Some(root.path().join("scratch"));
    let on_disk = PartitionOptions { scratch_dir: scratch_dir.clone(), ..in_memory.clone() };
    assert_eq!(assign(dataset, &in_memory).unwrap(), assign(dataset, &on_disk).unwrap());
    assert_eq!(edgecut_testing::names(scratch_dir.as_deref().unwrap()), Vec::<String>::new());
}

#[test]
fn a_graph_without_edges_and_a_disconnected_one_are_split_evenly() {
    let pairs: Vec<(u32, u32)> = (0..50).map(|n| (2 * n, 2 * n + 1)).collect();
    for dataset in [bare(100, &[]), bare(100, &[(3, 3), (3, 3)]), bare(100, &pairs)] {
        for method in METHODS {
            let sizes = sizes(&dataset, &options(method, 4));
            assert!(sizes.iter().all(|&size| (20..=30).contains(&size)), "{method}: {sizes:?}");
        }
    }
}

#[test]
fn training_nodes_are_balanced_where_they_are_all_in_one_corner() {
    let mut dataset = two_cliques(40);
    dataset.node_types[0].splits = Splits { train: (0..40).collect::<Vec<u32>>().into(), ..Splits::default() };
    let root = graphs::tempdir();
    for method in [Method::default(), Method::SemiExternal, Method::Ldg] {
        let dir = root.path().join(method.to_string());
        let meta = partition(&dataset, &options(method, 2), &dir, &()).unwrap();
        let balances = Balances::new(&meta.report);
        assert!(balances.train_nodes < 1.11 && balances.nodes < 1.11, "{method}: {:?}", meta.report);
        let nodes_only = PartitionOptions { balance: vec![Balance::Nodes], ..options(method, 2) };
        let meta = partition(&dataset, &nodes_only, &root.path().join(format!("{method}-nodes")), &()).unwrap();
        assert_eq!(meta.provenance.balance, ["nodes"]);
    }
}

#[test]
fn node_types_are_balanced_one_by_one() {
    let mut dataset = bare(400, &[]);
    dataset.node_types.push(bare_nodes("other", 200));
    for method in METHODS {
        let assignment = assign(&dataset, &options(method, 2)).unwrap();
        for parts in &assignment.parts {
            let first = parts.iter().filter(|&&part| part == 0).count() as f64 / parts.len() as f64;
            assert!((0.45..0.55).contains(&first), "{method}: {first}");
        }
    }
}

#[test]
fn every_part_gets_a_node_even_of_a_star_or_a_handful() {
    let star: Vec<(u32, u32)> = (1..60).map(|n| (n, 0)).collect();
    for dataset in [bare(60, &star), bare(7, &[(0, 1), (1, 2)])] {
        for method in METHODS {
            for num_parts in 1..=7 {
                let sizes = sizes(&dataset, &options(method, num_parts));
                assert!(sizes.iter().all(|&size| size > 0), "{method} {num_parts}: {sizes:?}");
            }
        }
    }
}

#[test]
fn seeds_matter_and_repeat() {
    let edges: Vec<(u32, u32)> = (0..3000_u32).map(|i| (i * 37 % 500, i * 101 % 499)).collect();
    let dataset = bare(500, &edges);
    for method in METHODS {
        let with = |seed: u64| assign(&dataset, &PartitionOptions { seed, ..options(method, 3) }).unwrap();
        assert_eq!(with(1), with(1), "{method}");
        assert_ne!(with(1), with(0), "{method}");
    }
}

#[test]
fn rejects_no_parts_more_parts_than_nodes_and_no_nodes() {
    for method in METHODS {
        assert!(matches!(assign(&bare(3, &[]), &options(method, 0)), Err(PartitionError::NoParts)));
        let error = assign(&bare(3, &[]), &options(method, 4)).unwrap_err().to_string();
        assert_eq!(error, "cannot split a graph of 3 nodes into 4 parts: each part needs at least one node");
        assert_has(assign(&bare(0, &[]), &options(method, 1)).unwrap_err().to_string(), &["no nodes"]);
    }
}

#[test]
fn rejects_features_that_are_not_finite_or_have_no_column() {
    let with = |values: Vec<f32>, dim| {
        let mut dataset = bare(2, &[]);
        dataset.node_types[0].features = Some(edgecut_graph::Features::F32 { values: values.into(), dim });
        assign(&dataset, &PartitionOptions::new(1)).unwrap_err().to_string()
    };
    assert!(with(vec![0.0, f32::NAN], 1).contains("feature 0 of node 1 is NaN"));
    assert!(with(vec![], 0).contains("no column"));
}
