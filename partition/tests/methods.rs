//! The quality of the methods, and the inputs that they must accept.

mod graphs;

use edgecut_graph::{Dataset, Splits};
use edgecut_partition::{Balance, Balances, Method, PartitionError, PartitionOptions, assign, partition};
use graphs::{bare, bare_nodes, two_cliques};

const METHODS: [Method; 5] = [
    Method::Metis { recursive: false },
    Method::Metis { recursive: true },
    Method::SemiExternal,
    Method::Ldg,
    Method::Random,
];

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
        let error = assign(&bare(0, &[]), &options(method, 1)).unwrap_err().to_string();
        assert!(error.contains("no nodes"), "{error}");
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
