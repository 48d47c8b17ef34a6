//! The written parts against the slow and obvious answer, computed from the original edge list.

use crate::graphs::{self, METHODS};

use edgecut_graph::{
    Buffer, Dataset, DiskPartId, EdgeIds, EdgeLabels, EdgeList, EdgeTypeId, Features, Meta, NodeTypeId, Part, Split,
};
use edgecut_partition::{PartitionOptions, partition, verify};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The place of each node: (part, row) by node type and original id.
type Places = Vec<BTreeMap<u32, (u32, usize)>>;

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn parts_hold_the_graph(dataset in graphs::any_graph(), method in 0..METHODS.len(), num_parts in 1..6_u32, seed in 0..9_u64) {
        let options = PartitionOptions { method: METHODS[method], seed, ..PartitionOptions::new(num_parts) };
        let root = graphs::tempdir();
        let dir = root.path().join("parts");
        let num_nodes: usize = dataset.node_types.iter().map(|t| t.num_nodes).sum();
        let result = partition(&dataset, &options, &dir, &());
        if num_parts as usize > num_nodes {
            prop_assert!(result.unwrap_err().to_string().contains("each part needs at least one node"));
            prop_assert!(!dir.exists());
        } else {
            check(&dataset, &dir, &result.unwrap());
        }
    }

    #[test]
    fn reruns_are_identical_to_the_byte(dataset in graphs::any_graph(), method in 0..METHODS.len(), seed in 0..9_u64) {
        let options = PartitionOptions { method: METHODS[method], seed, ..PartitionOptions::new(2) };
        let root = graphs::tempdir();
        let write = |name: &str, threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let dir = root.path().join(name);
            let result = pool.install(|| partition(&dataset, &options, &dir, &()));
            result.is_ok().then(|| graphs::contents(&dir))
        };
        prop_assert_eq!(write("one", 1), write("four", 4));
    }
}

fn check(dataset: &Dataset, dir: &Path, meta: &Meta) {
    let parts: Vec<Part> = (0..meta.num_parts).map(|p| Part::open(dir, DiskPartId(p), true).unwrap()).collect();
    assert_eq!(Meta::read(dir).unwrap().fingerprint(), meta.fingerprint());
    let places = check_nodes(dataset, &parts);
    check_edges(dataset, &parts, &places);
    check_held_out(dataset, &parts);
    let in_memory: Vec<Part> = parts.into_iter().map(Part::with_edges_in_memory).collect();
    check_edges(dataset, &in_memory, &places);
    check_report(dataset, meta, &places);
    let verified = verify(dir).unwrap();
    assert_eq!(verified.files, meta.files.len());
    assert_eq!(verified.overlaps, dataset.overlaps());
    assert!(meta.report.parts.iter().all(|p| p.nodes > 0), "an empty part");
}

/// Checks that every node is there once, with its own features, label and splits.
fn check_nodes(dataset: &Dataset, parts: &[Part]) -> Places {
    let mut places = Places::new();
    for (t, original) in dataset.node_types.iter().enumerate() {
        let mut place = BTreeMap::new();
        let mut splits: [BTreeSet<u32>; 3] = Default::default();
        for (p, part) in parts.iter().enumerate() {
            let nodes = part.nodes(NodeTypeId(t as u16));
            assert!(nodes.original_ids.is_sorted());
            for (row, &id) in nodes.original_ids.iter().enumerate() {
                assert!(place.insert(id, (p as u32, row)).is_none(), "node {id} twice");
                let stored = nodes.features.as_ref().map(|f| f.row_bytes(row));
                assert_eq!(stored, original.features.as_ref().map(|f| f.row_bytes(id as usize)));
                let time = nodes.times.as_ref().map(|times| times[row]);
                assert_eq!(time, original.times.as_ref().map(|times| times[id as usize]));
                let label = nodes.labels.as_ref().map(|l| l[row]);
                assert_eq!(label, original.labels.as_ref().map(|l| l[id as usize]));
                let targets = original.targets.as_ref().map(|targets| (targets.dim, targets.row(id as usize)));
                let stored =
                    nodes.targets.as_deref().zip(targets).map(|(values, (dim, _))| &values[row * dim..][..dim]);
                // NaN equals itself here.
                let bits = |row: &[f32]| row.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
                assert_eq!(stored.map(bits), targets.map(|(_, row)| bits(row)));
            }
            for (split, ids) in Split::ALL.iter().zip(&mut splits) {
                ids.extend(nodes.splits.get(*split).iter().map(|&row| nodes.original_ids[row as usize]));
            }
        }
        assert_eq!(place.len(), original.num_nodes);
        for (split, ids) in Split::ALL.iter().zip(&splits) {
            assert!(ids.iter().eq(original.splits.get(*split).iter()), "{split:?}");
        }
        places.push(place);
    }
    places
}

/// Returns the original id of each global id of a type.
fn originals(parts: &[Part], node_type: NodeTypeId) -> Vec<u32> {
    parts.iter().flat_map(|part| part.nodes(node_type).original_ids.to_vec()).collect()
}

/// Checks that each node's in-edges, mapped back, are in the order of the edge list, with their attributes.
fn check_edges(dataset: &Dataset, parts: &[Part], places: &Places) {
    for (e, original) in dataset.edge_types.iter().enumerate() {
        let sources = originals(parts, original.src_type);
        let src_times = dataset.nodes(original.src_type).times.as_ref();
        for (&id, &(part, row)) in &places[original.dst_type.index()] {
            let edges = parts[part as usize].edges(EdgeTypeId(e as u16));
            let stored: Vec<u32> = edges.csc.neighbors(row).iter().map(|&global| sources[global as usize]).collect();
            let into: Vec<usize> = (0..original.dst.len()).filter(|&edge| original.dst[edge] == id).collect();
            let expected: Vec<u32> = into.iter().map(|&edge| original.src[edge]).collect();
            assert_eq!(stored, expected, "in-neighbors of {id}");
            let first = edges.csc.indptr()[row] as usize;
            for (at, &edge) in (first..).zip(&into) {
                let stored = &edges.attributes;
                let expected = &original.attributes;
                let row = |f: &Option<Features>, row| f.as_ref().map(|f| (f.dtype(), f.row_bytes(row).to_vec()));
                assert_eq!(row(&stored.features, at), row(&expected.features, edge), "features of edge {edge}");
                let weight = |w: &Option<Buffer<f32>>, edge: usize| w.as_ref().map(|w| w[edge]);
                assert_eq!(weight(&stored.weights, at), weight(&expected.weights, edge), "weight of edge {edge}");
                let time = |t: &Option<Buffer<i64>>, edge: usize| t.as_ref().map(|t| t[edge]);
                assert_eq!(time(&stored.times, at), time(&expected.times, edge), "time of edge {edge}");
                let label = |labels: &Option<EdgeLabels>, edge: usize| labels.as_ref().map(|l| label_of(l, edge));
                assert_eq!(label(&stored.labels, at), label(&expected.labels, edge), "label of edge {edge}");
                assert_eq!(id_of(&stored.ids, at), id_of(&expected.ids, edge), "id of edge {edge}");
                let src_time = src_times.map(|times| times[original.src[edge] as usize]);
                assert_eq!(time(&edges.src_times, at), src_time, "time of the source of edge {edge}");
            }
        }
    }
}

fn id_of(ids: &Option<EdgeIds>, edge: usize) -> Option<String> {
    ids.as_ref().map(|ids| ids.get(edge).to_string())
}

/// Returns the class, the targets and the split of an edge.
fn label_of(labels: &EdgeLabels, edge: usize) -> (Option<i64>, Option<Vec<u32>>, u8) {
    let targets =
        labels.values.targets().map(|targets| targets.row(edge).iter().map(|value| value.to_bits()).collect());
    (labels.values.classes().map(|classes| classes[edge]), targets, labels.splits[edge])
}

/// Checks that each held-out edge is at its destination, in the order of the original list.
fn check_held_out(dataset: &Dataset, parts: &[Part]) {
    for (e, original) in dataset.edge_types.iter().enumerate() {
        let sources = originals(parts, original.src_type);
        let destinations = originals(parts, original.dst_type);
        for part in parts {
            let held_out = &part.edges(EdgeTypeId(e as u16)).held_out;
            let owned = &part.nodes(original.dst_type).original_ids;
            for ((name, stored), (_, original)) in held_out.lists().into_iter().zip(original.held_out.lists()) {
                let time = |list: &EdgeList, at: usize| list.times.as_ref().map(|times| times[at]);
                let ends = stored.src.iter().zip(&stored.dst[..]).enumerate();
                let stored: Vec<(u32, u32, Option<i64>)> = ends
                    .map(|(at, (&src, &dst))| (sources[src as usize], destinations[dst as usize], time(stored, at)))
                    .collect();
                let all = original.src.iter().copied().zip(original.dst.iter().copied()).enumerate();
                let all = all.map(|(at, (src, dst))| (src, dst, time(original, at)));
                let expected: Vec<(u32, u32, Option<i64>)> =
                    all.filter(|(_, dst, _)| owned.binary_search(dst).is_ok()).collect();
                assert_eq!(stored, expected, "{name} edges");
            }
        }
    }
}

fn check_report(dataset: &Dataset, meta: &Meta, places: &Places) {
    let report = &meta.report;
    let mut cut = 0;
    let mut total = 0;
    let mut halo = vec![BTreeSet::new(); meta.num_parts as usize];
    let mut edges = vec![0; meta.num_parts as usize];
    let mut degrees: BTreeMap<(usize, u32), (u32, u32)> = BTreeMap::new();
    for e in &dataset.edge_types {
        let src_type = e.src_type.index();
        let dst_type = e.dst_type.index();
        for (src, dst) in e.src.iter().zip(e.dst.iter()) {
            let from = places[src_type][src].0;
            let to = places[dst_type][dst].0;
            let degree = degrees.entry((dst_type, *dst)).or_default();
            degree.0 += 1;
            total += 1;
            edges[to as usize] += 1;
            if from != to {
                cut += 1;
                degree.1 += 1;
                halo[to as usize].insert((src_type, *src));
            }
        }
    }
    assert_eq!(report.cut_edges, cut);
    assert!((report.cut_fraction - f64::from(cut as u32) / f64::from(total.max(1))).abs() < 1e-8);
    let shares: f64 = degrees.values().map(|&(all, remote)| f64::from(remote) / f64::from(all)).sum();
    assert!((report.remote_neighbor_fraction - shares / (degrees.len().max(1) as f64)).abs() < 1e-8);
    for (p, part) in report.parts.iter().enumerate() {
        let here = |place: &&(u32, usize)| place.0 as usize == p;
        assert_eq!(part.nodes as usize, places.iter().map(|t| t.values().filter(here).count()).sum::<usize>());
        assert_eq!((part.edges, part.halo_nodes), (edges[p], halo[p].len() as u64));
        let train =
            dataset.node_types.iter().zip(places).flat_map(|(t, places)| t.splits.train.iter().map(|n| &places[n]));
        assert_eq!(part.train_nodes as usize, train.filter(here).count());
    }
}
