//! Numbers of a graph in arrays of all types.

use crate::npy_folder::{Folder, legal};
use edgecut_graph::{EdgeTypeId, NodeTypeId};
use half::f16;

/// A graph does not depend on the types of its arrays, if these hold the same numbers.
#[test]
fn numbers_are_read_from_all_types_that_hold_them() {
    type Put = for<'a> fn(&'a Folder, &str, &[usize], &[u8]) -> &'a Folder;
    let cases: [(&str, Put); 15] = [
        ("int8", |f, stem, shape, v| f.put(stem, shape, &to(v, |v| v as i8))),
        ("uint8", |f, stem, shape, v| f.put(stem, shape, v)),
        ("int16", |f, stem, shape, v| f.put(stem, shape, &to(v, i16::from))),
        ("uint16", |f, stem, shape, v| f.put(stem, shape, &to(v, u16::from))),
        ("int32", |f, stem, shape, v| f.put(stem, shape, &to(v, i32::from))),
        ("uint32", |f, stem, shape, v| f.put(stem, shape, &to(v, u32::from))),
        ("int64", |f, stem, shape, v| f.put(stem, shape, &to(v, i64::from))),
        ("uint64", |f, stem, shape, v| f.put(stem, shape, &to(v, u64::from))),
        ("bool", |f, stem, shape, v| f.put_as(stem, shape, v, "|b1")),
        ("big-endian int16", |f, stem, shape, v| f.put_swapped(stem, shape, &to(v, i16::from), 'i')),
        ("big-endian uint32", |f, stem, shape, v| f.put_swapped(stem, shape, &to(v, u32::from), 'u')),
        ("big-endian int64", |f, stem, shape, v| f.put_swapped(stem, shape, &to(v, i64::from), 'i')),
        ("big-endian float16", |f, stem, shape, v| f.put_swapped(stem, shape, &to(v, f16::from), 'f')),
        ("big-endian float32", |f, stem, shape, v| f.put_swapped(stem, shape, &to(v, f32::from), 'f')),
        ("big-endian float64", |f, stem, shape, v| f.put_swapped(stem, shape, &to(v, f64::from), 'f')),
    ];
    let folder = legal();
    folder.put("x", &[4, 2], &[0.0_f32, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0]);
    folder.put("y", &[4], &[1_i64, 0, 0, 1]);
    folder.put("edge_weight", &[3], &[1.0_f32, 0.0, 1.0]);
    folder.put("edge_time", &[3], &[1_i64, 0, 1]);
    let found = numbers(&folder);
    for (name, put) in cases {
        let folder = legal();
        put(&folder, "x", &[4, 2], &[0, 1, 1, 0, 1, 1, 0, 0]);
        put(&folder, "edge_weight", &[3], &[1, 0, 1]);
        folder.put("edge_time", &[3], &[1_i64, 0, 1]);
        folder.put("y", &[4], &[1_i64, 0, 0, 1]);
        if !name.contains("float16") {
            put(&folder, "y", &[4], &[1, 0, 0, 1]);
        }
        if !name.contains("float") {
            put(&folder, "edge_time", &[3], &[1, 0, 1]);
            put(&folder, "train_idx", &[1], &[0]);
            if name != "bool" {
                put(&folder, "edge_index", &[2, 3], &[0, 1, 3, 1, 0, 3]);
            }
        }
        assert_eq!(numbers(&folder), found, "{name}");
    }
}

/// The features and labels of nodes, weights, times, sources and destinations.
type Numbers = (Vec<[f32; 2]>, Vec<i64>, Vec<f32>, Vec<i64>, Vec<u32>, Vec<u32>);

/// Reads all numbers of a graph.
fn numbers(folder: &Folder) -> Numbers {
    let dataset = folder.read().unwrap();
    let nodes = dataset.nodes(NodeTypeId(0));
    let mut rows = vec![[0.0; 2]; 4];
    let features = nodes.features.as_ref().unwrap();
    rows.iter_mut().enumerate().for_each(|(at, row)| features.copy_row(at, row));
    let edges = dataset.edges(EdgeTypeId(0));
    let attributes = &edges.attributes;
    let weights = attributes.weights.as_ref().unwrap().to_vec();
    let times = attributes.times.as_ref().unwrap().to_vec();
    (rows, nodes.labels.as_ref().unwrap().to_vec(), weights, times, edges.src.to_vec(), edges.dst.to_vec())
}

/// Converts small numbers.
fn to<T>(values: &[u8], convert: fn(u8) -> T) -> Vec<T> {
    values.iter().map(|&value| convert(value)).collect()
}
