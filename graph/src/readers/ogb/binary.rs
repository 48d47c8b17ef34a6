//! The binary layout of OGB's largest node dataset, ogbn-papers100M.

use super::files::{check_splits, read_splits, split_scheme};
use super::master::OgbProperties;
use crate::GraphError;
use crate::dataset::Dataset;
use crate::memory::Workspace;
use crate::readers::GraphShape;
use crate::readers::npy_folder::{npy_folder_shape, read_npy_folder_in};
use crate::readers::row_count::RowCount;
use edgecut_output::{OwnEntries, TemporaryFolder};
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::Path;
use zip::ZipArchive;

/// The file that identifies this layout, in `raw/`.
pub(in crate::readers) const DATA_FILE: &str = "data.npz";
/// The file of labels, in `raw/`.
const LABEL_FILE: &str = "node-label.npz";
/// The array of [`LABEL_FILE`], and its name in a folder of arrays.
const LABELS: (&str, &str) = ("node_label", "y");
/// The arrays of [`DATA_FILE`], and their names in a folder of arrays.
const DATA: [(&str, &str); 5] = [
    ("edge_index", "edge_index"),
    ("node_feat", "x"),
    ("edge_feat", "edge_attr"),
    ("node_year", "node_time"),
    ("num_nodes_list", "num_nodes"),
];
/// The bytes at the start of an array that hold its header, and the whole of an array with a single number.
const HEADER_BYTES: u64 = 1 << 16;
/// The number of bytes that are copied at a time.
const COPY_BYTES: usize = 1 << 20;

/// Reads a homogeneous graph from `folder` in OGB's binary layout.
///
/// | file | content |
/// |---|---|
/// | `raw/data.npz` | `edge_index`, `num_nodes_list`, and optionally `node_feat`, `edge_feat` and `node_year` |
/// | `raw/node-label.npz` | `node_label`, a class per node, NaN if unlabeled; optional |
/// | `split/SCHEME/{train,valid,test}` | a node id per line, as in [`read_ogb`](super::read_ogb); optional |
///
/// The arrays are unpacked to the folder for temporary files (`TMPDIR`), mapped and removed, so that features need no
/// memory. The folder needs the space of the unpacked arrays.
///
/// # Errors
/// As [`read_npy_folder`](crate::readers::read_npy_folder), and for damaged files.
pub fn read_ogb_binary(name: &str, folder: &Path, split: Option<&str>) -> Result<Dataset, GraphError> {
    read_ogb_binary_in(&Workspace::default(), name, folder, split)
}

/// Like [`read_ogb_binary`], with the arrays of edges in `space`. If that has a folder of scratch files, the arrays are
/// unpacked there.
pub(in crate::readers) fn read_ogb_binary_in(
    space: &Workspace,
    name: &str,
    folder: &Path,
    split: Option<&str>,
) -> Result<Dataset, GraphError> {
    let raw = folder.join("raw");
    let data = raw.join(DATA_FILE);
    let scheme = split_scheme(folder, split)?;
    let properties = OgbProperties::find(name, folder)?;
    let temporary = space.get().map_or_else(std::env::temp_dir, |scratch| scratch.dir().to_path_buf());
    let unpacked = create_folder(&temporary)?;
    unpack(&data, &DATA, unpacked.dir(), u64::MAX)?;
    let labels = raw.join(LABEL_FILE);
    if labels.exists() {
        unpack(&labels, &[LABELS], unpacked.dir(), u64::MAX)?;
    }
    let mut dataset =
        read_npy_folder_in(space, name, unpacked.dir()).map_err(|error| GraphError::in_file(&data, error))?;
    let nodes = &mut dataset.node_types[0];
    let splits = scheme.map(|dir| read_splits(&dir, RowCount::nodes(nodes.num_nodes))).transpose()?;
    nodes.splits = check_splits(splits)?;
    if properties.adds_inverse_edges {
        dataset.add_inverse_edges_in(space)?;
    }
    Ok(dataset)
}

/// Returns the sizes of the graph in `folder`, from the headers of the packed arrays.
pub(in crate::readers) fn ogb_binary_shape(name: &str, folder: &Path) -> Result<GraphShape, GraphError> {
    let data = folder.join("raw").join(DATA_FILE);
    let temporary = std::env::temp_dir();
    let headers = create_folder(&temporary)?;
    unpack(&data, &DATA, headers.dir(), HEADER_BYTES)?;
    let mut shape = npy_folder_shape(headers.dir()).map_err(|error| GraphError::in_file(&data, error))?;
    for entry in std::fs::read_dir(headers.dir()).map_err(|error| GraphError::io(headers.dir(), error))?.flatten() {
        shape.unpacked_bytes += entry.metadata().map_or(0, |metadata| metadata.len());
    }
    let nodes = &mut shape.node_types[0];
    nodes.has_labels = folder.join("raw").join(LABEL_FILE).exists();
    nodes.num_in_splits = nodes.num_nodes;
    if OgbProperties::find(name, folder)?.adds_inverse_edges {
        shape = shape.undirected();
    }
    Ok(shape)
}

/// Creates a temporary folder for unpacked arrays.
fn create_folder(parent: &Path) -> Result<TemporaryFolder, GraphError> {
    let names = DATA.into_iter().chain([LABELS]).map(|(_, stem)| format!("{stem}.npy"));
    TemporaryFolder::create(parent, "edgecut-unpacked", 0o700, OwnEntries::default().with_paths(names))
        .map_err(|error| GraphError::io(parent, error))
}

/// Unpacks arrays of the file `npz` to `dir`. Arrays that are absent, and those that hold Python's `None`, are skipped. Of
/// each array, `most` bytes are unpacked, and the file is extended to the size of the array without taking space.
fn unpack(npz: &Path, arrays: &[(&str, &str)], dir: &Path, most: u64) -> Result<(), GraphError> {
    let file = File::open(npz).map_err(|error| GraphError::io(npz, error))?;
    let damaged = |error: zip::result::ZipError| GraphError::io(npz, error.into());
    let mut archive = ZipArchive::new(BufReader::with_capacity(COPY_BYTES, file)).map_err(damaged)?;
    for (entry, stem) in arrays {
        let Some(position) = archive.index_for_name(&format!("{entry}.npy")) else { continue };
        let mut array = archive.by_index(position).map_err(damaged)?;
        let mut buffer = vec![0; COPY_BYTES];
        let path = dir.join(stem).with_extension("npy");
        let num_bytes = array.size();
        let mut copy = || -> std::io::Result<()> {
            let mut out = File::create(&path)?;
            let mut is_first = true;
            let mut start = array.by_ref().take(most);
            loop {
                let count = start.read(&mut buffer)?;
                if is_first && is_object(&buffer[..count]) {
                    drop(out);
                    return std::fs::remove_file(&path);
                }
                is_first = false;
                if count == 0 {
                    return if most < num_bytes { out.set_len(num_bytes) } else { Ok(()) };
                }
                out.write_all(&buffer[..count])?;
            }
        };
        copy().map_err(|error| GraphError::format(npz, format!("unpack {entry} to {}: {error}", path.display())))?;
    }
    Ok(())
}

/// Returns true for the start of an array of Python objects.
fn is_object(start: &[u8]) -> bool {
    const DESCRIPTION: &[u8] = b"'|O'";
    start[..start.len().min(128)].windows(DESCRIPTION.len()).any(|window| window == DESCRIPTION)
}
