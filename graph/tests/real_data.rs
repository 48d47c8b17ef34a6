//! Tests with published graphs in OGB's raw layout, which are in the project's data folder.

use edgecut_graph::readers::{DatasetSource, export_npy, load, read_triples};
use edgecut_graph::{Dataset, EdgeTypeId, NodeTypeId, Split};
use std::path::PathBuf;

/// Returns the folder that contains the dataset `name`, or `None` if the test is skipped.
fn data_root(name: &str) -> Option<PathBuf> {
    edgecut_testing::dataset(name, "real_data").and_then(|folder| folder.parent().map(PathBuf::from))
}

struct Expected {
    name: &'static str,
    split: &'static str,
    nodes: usize,
    edges: usize,
    features: usize,
    classes: usize,
    homophily: f64,
    splits: [usize; 3],
}

fn check(expected: &Expected) {
    let Some(root) = data_root(expected.name) else { return };
    let mut source = DatasetSource::new(expected.name, root);
    source.split = Some(expected.split.into());
    let dataset = load(&source).unwrap();
    dataset.validate().unwrap();
    let nodes = dataset.nodes(NodeTypeId(0));
    assert_eq!(nodes.num_nodes, expected.nodes);
    assert_eq!(dataset.num_edges(), expected.edges);
    assert_eq!(nodes.features.as_ref().map_or(0, |f| f.dim()), expected.features);
    assert_eq!(nodes.num_classes, expected.classes);
    assert_eq!(Split::ALL.map(|split| nodes.splits.get(split).len()), expected.splits);
    let labels = nodes.labels.as_ref().unwrap();
    let edges = dataset.edges(EdgeTypeId(0));
    let same = edges.src.iter().zip(&edges.dst[..]).filter(|&(&a, &b)| labels[a as usize] == labels[b as usize]);
    let homophily = same.count() as f64 / expected.edges as f64;
    assert!((homophily - expected.homophily).abs() < 0.0006, "homophily {homophily}");
    roundtrip(&dataset);
}

/// Checks that a dataset exported to `.npy` files is read back unchanged.
fn roundtrip(dataset: &Dataset) {
    let dir = tempfile::tempdir().unwrap();
    export_npy(dataset, &dir.path().join(&dataset.name)).unwrap();
    let back = load(&DatasetSource::new(dataset.name.clone(), dir.path())).unwrap();
    let one = dataset.nodes(NodeTypeId(0));
    let two = back.nodes(NodeTypeId(0));
    assert_eq!(one.labels.as_deref(), two.labels.as_deref());
    assert_eq!((one.num_nodes, one.num_classes), (two.num_nodes, two.num_classes));
    assert_eq!(dataset.edges(EdgeTypeId(0)).src[..], back.edges(EdgeTypeId(0)).src[..]);
    assert_eq!(dataset.edges(EdgeTypeId(0)).dst[..], back.edges(EdgeTypeId(0)).dst[..]);
    for split in Split::ALL {
        assert_eq!(one.splits.get(split)[..], two.splits.get(split)[..]);
    }
    match (&one.features, &two.features) {
        (Some(one), Some(two)) => assert!((0..one.num_rows()).all(|row| one.row_bytes(row) == two.row_bytes(row))),
        (one, two) => assert!(one.is_none() && two.is_none()),
    }
}

#[test]
fn cora() {
    let splits = [140, 500, 1000];
    let features = 1433;
    let classes = 7;
    let homophily = 0.810;
    check(&Expected {
        name: "cora",
        split: "public",
        nodes: 2708,
        edges: 10_556,
        features,
        classes,
        homophily,
        splits,
    });
}

#[test]
fn citation_dblp() {
    check(&Expected {
        name: "citation-dblp",
        split: "shchur-0",
        nodes: 17_716,
        edges: 105_734,
        features: 1639,
        classes: 4,
        homophily: 0.828,
        splits: [80, 120, 17_516],
    });
}

#[test]
fn amazon_photo() {
    check(&Expected {
        name: "amazon-photo",
        split: "shchur-1",
        nodes: 7650,
        edges: 238_162,
        features: 745,
        classes: 8,
        homophily: 0.827,
        splits: [160, 240, 7250],
    });
}

#[test]
fn tolokers() {
    check(&Expected {
        name: "tolokers",
        split: "official-0",
        nodes: 11_758,
        edges: 1_038_000,
        features: 10,
        classes: 2,
        homophily: 0.595,
        splits: [5879, 2939, 2940],
    });
}

#[test]
fn email_eu_core() {
    check(&Expected {
        name: "email-eu-core",
        split: "random-60-20-20-0",
        nodes: 1005,
        edges: 25_571,
        features: 0,
        classes: 42,
        homophily: 0.363,
        splits: [603, 201, 201],
    });
}

#[test]
fn the_dense_and_the_compressed_features_of_citation_dblp_agree() {
    use edgecut_graph::map_npy;
    let Some(root) = data_root("citation-dblp") else { return };
    let dir = root.join("citation-dblp/raw/node-feat-csr");
    let (_, indptr) = map_npy::<i64>(&dir.join("indptr.npy")).unwrap();
    let (_, indices) = map_npy::<i32>(&dir.join("indices.npy")).unwrap();
    let (_, values) = map_npy::<f32>(&dir.join("values.npy")).unwrap();
    let mut source = DatasetSource::new("citation-dblp", root);
    source.split = Some("shchur-0".into());
    let dataset = load(&source).unwrap();
    let features = dataset.nodes(NodeTypeId(0)).features.as_ref().unwrap();
    let mut row = vec![0.0; features.dim()];
    for node in 0..features.num_rows() {
        features.copy_row(node, &mut row);
        for at in indptr[node] as usize..indptr[node + 1] as usize {
            let expected = values[at.min(values.len() - 1)];
            assert_eq!(std::mem::take(&mut row[indices[at] as usize]), expected, "node {node}");
        }
        assert!(row.iter().all(|&v| v == 0.0), "node {node} has a value that the compressed form lacks");
    }
}

#[test]
fn several_schemes_have_to_be_chosen_from() {
    let Some(root) = data_root("email-eu-core") else { return };
    let error = load(&DatasetSource::new("email-eu-core", root)).unwrap_err().to_string();
    assert!(error.contains("choose one of: random-60-20-20-0, random-60-20-20-1, random-60-20-20-2"), "{error}");
}

#[test]
fn hetero_dblp_has_the_published_types() {
    let Some(root) = data_root("hetero-dblp") else { return };
    let mut source = DatasetSource::new("hetero-dblp", root);
    source.split = Some("random-24-6-70".into());
    let dataset = load(&source).unwrap();
    dataset.validate().unwrap();
    let width = |nodes: &edgecut_graph::NodeData| nodes.features.as_ref().map_or(0, |f| f.dim());
    let types: Vec<_> = dataset.node_types.iter().map(|n| (n.name.as_str(), n.num_nodes, width(n))).collect();
    assert_eq!(types, [("author", 4057, 334), ("paper", 14_328, 4231), ("conference", 20, 0), ("term", 7723, 0)]);
    let sizes: Vec<usize> = dataset.edge_types.iter().map(|e| e.src.len()).collect();
    assert_eq!(sizes, [19_645, 19_645, 14_328, 14_328, 85_810, 85_810]);
    let author = &dataset.node_types[0];
    assert_eq!(author.num_classes, 4);
    assert_eq!(Split::ALL.map(|split| author.splits.get(split).len()).iter().sum::<usize>(), 4057);
}

#[test]
fn rdf_aifb_gets_a_reverse_for_each_of_its_relations() {
    let Some(root) = data_root("rdf-aifb") else { return };
    let mut source = DatasetSource::new("rdf-aifb", root);
    source.split = Some("rgcn".into());
    source.add_reverse_edges = true;
    let dataset = load(&source).unwrap();
    dataset.validate().unwrap();
    assert_eq!((dataset.node_types[0].num_nodes, dataset.edge_types.len()), (8285, 90));
    assert_eq!(dataset.num_edges(), 2 * 29_043);
    assert_eq!(Split::ALL.map(|split| dataset.node_types[0].splits.get(split).len()), [140, 0, 36]);
}

#[test]
fn wn18rr_is_the_same_by_number_and_by_name() {
    let Some(root) = data_root("kg-wn18rr") else { return };
    let dataset = load(&DatasetSource::new("kg-wn18rr", &root)).unwrap();
    dataset.validate().unwrap();
    assert_eq!((dataset.node_types[0].num_nodes, dataset.num_edges()), (40_943, 86_835));
    let held_out = |dataset: &Dataset| {
        let sizes = dataset.edge_types.iter().map(|e| [e.held_out.valid.len(), e.held_out.test.len()]);
        sizes.fold([0, 0], |[valid, test], [v, t]| [valid + v, test + t])
    };
    assert_eq!(held_out(&dataset), [3034, 3134]);
    let relations: Vec<&str> = dataset.edge_types.iter().map(|e| e.relation.as_str()).collect();
    assert_eq!((relations.len(), relations[3]), (11, "_hypernym"));
    // The same graph from the names alone, with numbers from the lists of entities and relations.
    let by_name = tempfile::tempdir().unwrap();
    for file in ["train", "valid", "test", "entities", "relations"].map(|stem| format!("{stem}.tsv.gz")) {
        std::fs::copy(root.join("kg-wn18rr").join(&file), by_name.path().join(&file)).unwrap();
    }
    let named = read_triples("kg-wn18rr", by_name.path()).unwrap();
    for (one, other) in dataset.edge_types.iter().zip(&named.edge_types) {
        assert!(one.relation == other.relation && one.src[..] == other.src[..] && one.dst[..] == other.dst[..]);
        for ((_, one), (_, other)) in one.held_out.lists().into_iter().zip(other.held_out.lists()) {
            assert!(one.src[..] == other.src[..] && one.dst[..] == other.dst[..]);
        }
    }
    // Without those lists there are as many entities and relations, in another order.
    std::fs::remove_file(by_name.path().join("entities.tsv.gz")).unwrap();
    let met = read_triples("kg-wn18rr", by_name.path()).unwrap();
    assert_eq!((met.node_types[0].num_nodes, held_out(&met)), (40_943, [3034, 3134]));
}
