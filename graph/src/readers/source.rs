//! Lookup of datasets by name.

use super::fake::{FAKE_HETERO_NAME, FAKE_NAME, FakeOptions, fake_hetero, fake_in};
use super::layout::Layout;
use super::npy_folder::{EDGE_INDEX_FILE, EDGES_FOLDER, NODES_FOLDER, near_array};
use crate::GraphError;
use crate::dataset::{
    Dataset, FewReceivers, HoldOut, KeptDuplicate, KnownPairs, NodeKeys, NodeSplit, OriginalIds, OverlapPolicy,
    Reciprocity, SettledOverlaps,
};
use crate::edge_type_names::may_name_reverse;
use crate::memory::Workspace;
use edgecut_settings::near_path;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The description of a dataset to load.
///
/// ```
/// use edgecut_graph::HoldOut;
/// use edgecut_graph::readers::{DatasetSource, load_with_warnings};
/// let mut source = DatasetSource::new("fake", "data");
/// source.hold_out_edges = Some(HoldOut::random(0.1, 0.1, 7));
/// let loaded = load_with_warnings(&source)?;
/// assert!(!loaded.dataset.edge_types[0].held_out.is_empty() && loaded.warnings.is_empty());
/// # Ok::<(), edgecut_graph::GraphError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct DatasetSource {
    /// The name of the dataset, under which its parts are stored. `fake` generates a dataset.
    pub name: String,
    /// The folder that contains datasets by name.
    pub root_dir: PathBuf,
    /// The dataset's own folder, instead of a search in `root_dir`. If it is set, `fake` has no special meaning.
    pub folder: Option<PathBuf>,
    /// The split scheme, if an OGB folder has several.
    pub split: Option<String>,
    /// True to add the reverse of every edge, see [`Dataset::to_undirected`]. Ignored for generated graphs: a
    /// homogeneous one already has both directions.
    pub to_undirected: bool,
    /// True to add a reverse type for each edge type, see [`Dataset::add_reverse_edges`].
    pub add_reverse_edges: bool,
    /// The division of labeled nodes into splits, for datasets without these, see [`Dataset::split_nodes`].
    pub split_nodes: Option<NodeSplit>,
    /// The edges of all types to hold out, if any, see [`Dataset::hold_out_edges`].
    pub hold_out_edges: Option<HoldOut>,
    /// The treatment of held-out edges that are also training edges, and of nodes in two splits. With `to_undirected`,
    /// an edge and its reverse are the same edge.
    pub overlap: OverlapPolicy,
    /// Pairs of edge types, by full names or relations, that are each other's reverse, in addition to those named with
    /// `rev_`. Held-out edges of one are compared with training edges of the other.
    pub reverse_types: Vec<(String, String)>,
    /// True to give each edge an id, its position in the dataset, before edges are held out and reverses are added, see
    /// [`Dataset::number_edges_in`]. An added reverse has the id of its edge.
    pub edge_ids: bool,
    /// The options for generating `fake` and `fake-hetero`.
    pub fake: FakeOptions,
    /// The place for arrays with a row per edge, and for arrays of a type that is converted.
    pub space: Workspace,
}

impl DatasetSource {
    /// Describes the dataset `name` in `root_dir`, without changes to it.
    pub fn new(name: impl Into<String>, root_dir: impl Into<PathBuf>) -> Self {
        Self { name: name.into(), root_dir: root_dir.into(), ..Self::default() }
    }

    /// Describes the dataset in `folder`, named after the folder, without changes to it.
    pub fn of_folder(folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        let name = folder.file_name().map_or_else(|| "dataset".into(), |name| name.to_string_lossy().into_owned());
        Self { folder: Some(folder.clone()), ..Self::new(name, folder) }
    }

    /// Returns true if the dataset is generated, and false if it is read.
    pub fn is_generated(&self) -> bool {
        self.folder.is_none() && matches!(self.name.as_str(), FAKE_NAME | FAKE_HETERO_NAME)
    }

    /// Returns the folder of the dataset, and the layout of its files.
    pub(super) fn find(&self) -> Result<(PathBuf, &'static Layout), GraphError> {
        let candidates = self.candidates();
        let found = candidates.iter().find_map(|folder| Some((folder.clone(), Layout::of(folder)?)));
        found.ok_or_else(|| GraphError::Dataset { dataset: self.name.clone(), why: why_not_found(&candidates) })
    }

    /// Returns the folders to search, in order. OGB's own downloads have underscores in their folder names, and PyG
    /// stores them in `dataset/NAME`.
    fn candidates(&self) -> Vec<PathBuf> {
        if let Some(folder) = &self.folder {
            return vec![folder.clone()];
        }
        let name = self.name.as_str();
        let underscored = name.replace('-', "_");
        let mut candidates = Vec::new();
        for base in [self.root_dir.clone(), self.root_dir.join("dataset")] {
            candidates.push(base.join(name));
            if underscored != name {
                candidates.push(base.join(&underscored));
                candidates.push(base.join(name).join(&underscored));
            }
        }
        candidates
    }
}

/// A loaded dataset with warnings for its user.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The dataset.
    pub dataset: Dataset,
    /// One sentence each about overlaps of training and held-out data that were removed, were allowed, or may be
    /// intended, about edges without reverses, about merged edges with values, and about files that are not read.
    pub warnings: Vec<String>,
}

/// Loads or generates a dataset. Same as [`load_with_warnings`], but without the warnings.
///
/// # Errors
/// As [`load_with_warnings`].
pub fn load(source: &DatasetSource) -> Result<Dataset, GraphError> {
    load_with_warnings(source).map(|loaded| loaded.dataset)
}

/// Loads or generates a dataset.
///
/// If `folder` is not given, the dataset is searched for in `{root_dir}/{name}`, then in `{root_dir}/dataset/{name}`,
/// which is PyG's convention. Both are also tried with OGB's underscores in place of hyphens. The first folder with
/// files of a known layout is read. Then [`DatasetSource::edge_ids`], `to_undirected`, `overlap`, `hold_out_edges` and
/// `add_reverse_edges` are applied, in this order.
///
/// # Errors
/// * [`GraphError::Dataset`] with the searched folders if there is no dataset.
/// * [`GraphError::Dataset`] with counts if held-out edges are also training edges or nodes are in two splits, unless
///   `overlap` allows or removes them.
/// * An error for a split scheme of a dataset without a choice of schemes.
/// * The errors of the reader of the layout, of [`fake`](fn@super::fake) and of [`fake_hetero`](fn@super::fake_hetero).
pub fn load_with_warnings(source: &DatasetSource) -> Result<Loaded, GraphError> {
    let generated = match source.name.as_str() {
        FAKE_NAME if source.folder.is_none() => fake_in(&source.space, fake_options(source)?)?,
        FAKE_HETERO_NAME if source.folder.is_none() && source.space.is_scratch() => {
            let why = "a generated heterogeneous graph is made in memory".into();
            return Err(GraphError::MemoryLimit { why });
        }
        FAKE_HETERO_NAME if source.folder.is_none() => fake_hetero(fake_options(source)?)?,
        _ => {
            let mut warnings = Vec::new();
            let dataset = read(source, &mut warnings)?;
            return prepare(Loaded { dataset, warnings }, source, &OriginalIds);
        }
    };
    let mut generated = generated;
    if source.edge_ids {
        generated.number_edges_in(&source.space)?;
    }
    if let Some(split) = &source.split_nodes {
        generated.split_nodes(split)?;
    }
    choose_edges(Loaded { dataset: generated, warnings: Vec::new() }, source, &OriginalIds)
}

/// Applies the options of `source` to a dataset that was read elsewhere: [`DatasetSource::edge_ids`], `split_nodes`,
/// `to_undirected`, `overlap`, `hold_out_edges` and `add_reverse_edges`, in this order. Adds its warnings to `loaded`. Held-out edges are
/// drawn by the `keys` of nodes.
///
/// # Errors
/// [`GraphError::Dataset`] with counts if held-out edges are also training edges or nodes are in two splits, unless
/// `overlap` allows or removes them, and for edges that cannot be held out.
pub fn prepare(loaded: Loaded, source: &DatasetSource, keys: &dyn NodeKeys) -> Result<Loaded, GraphError> {
    let Loaded { mut dataset, mut warnings } = loaded;
    if source.edge_ids {
        dataset.number_edges_in(&source.space)?;
    }
    if let Some(split) = &source.split_nodes {
        dataset.split_nodes(split)?;
    }
    warnings.extend(dataset.leave_out_unlabeled());
    if source.to_undirected {
        let choice = source.hold_out_edges.map(|hold_out| hold_out.choice);
        warnings.extend(dataset.to_undirected_in(&source.space, KeptDuplicate::before(choice))?);
    }
    warnings.extend(settle_overlaps(&mut dataset, source)?);
    let is_asked = !source.add_reverse_edges && !source.to_undirected;
    if is_asked {
        warnings.extend(one_way_warning(&dataset, source.hold_out_edges.is_some()));
    }
    choose_edges(Loaded { dataset, warnings }, source, keys)
}

/// Returns a warning about a graph in which messages flow in one direction only. Models predict `links` or labels.
fn one_way_warning(dataset: &Dataset, links: bool) -> Option<String> {
    if let [edges] = &dataset.edge_types[..]
        && edges.src_type == edges.dst_type
    {
        let Reciprocity { num_sampled, num_reciprocal } = dataset.reciprocity().filter(|found| found.is_one_way())?;
        return Some(format!(
            "{num_reciprocal} of {num_sampled} sampled edges have their reverses, so most messages flow in one direction \
             only: set `to_undirected` if the graph is undirected"
        ));
    }
    let mut types = Vec::new();
    for FewReceivers { node_type, num_sampled, num_without } in dataset.few_receivers(links) {
        types.push(format!("{num_without} of {num_sampled} nodes of type {node_type}"));
    }
    (!types.is_empty()).then(|| {
        format!(
            "no edge leads to {}, so they receive no messages: add the reverses of all edges by `add_reverse_edges`",
            types.join(" and to ")
        )
    })
}

/// Holds out edges, adds reverse edges, and checks the reverse types among all types.
fn choose_edges(mut loaded: Loaded, source: &DatasetSource, keys: &dyn NodeKeys) -> Result<Loaded, GraphError> {
    let dataset = &mut loaded.dataset;
    // Held-out edges are chosen before reverse edges are added, so that the reverses of held-out edges are held out as
    // well.
    if let Some(hold_out) = &source.hold_out_edges {
        let edge_types = dataset.edge_type_ids();
        dataset.hold_out_edges_in(&source.space, &edge_types, hold_out, keys, &KnownPairs::default())?;
    }
    if source.add_reverse_edges {
        dataset.add_reverse_edges();
    }
    // The types of reverse edges and of generated datasets were not checked before.
    let checked = dataset.check_reverse_types(&source.reverse_types, |_| false);
    checked.map_err(|why| GraphError::Dataset { dataset: dataset.name.clone(), why })?;
    Ok(loaded)
}

/// Applies the overlap policy of `source`, and returns warnings about overlaps.
fn settle_overlaps(dataset: &mut Dataset, source: &DatasetSource) -> Result<Vec<String>, GraphError> {
    let pairs = &source.reverse_types;
    // Types of reverse edges may be added later.
    let checked = dataset.check_reverse_types(pairs, |name| source.add_reverse_edges && may_name_reverse(name));
    let settled = checked.and_then(|()| source.overlap.settle(&dataset.overlaps_with(pairs), source.to_undirected));
    let SettledOverlaps { removes, warnings } =
        settled.map_err(|why| GraphError::Dataset { dataset: dataset.name.clone(), why })?;
    if removes {
        dataset.remove_overlaps(&source.space, source.to_undirected, pairs)?;
    }
    Ok(warnings)
}

/// Returns true if `folder` has files of a layout that [`load`] reads. Does not check their contents.
///
/// ```
/// use edgecut_graph::readers::is_dataset;
/// # let dir = tempfile::tempdir()?;
/// # let folder = dir.path();
/// assert!(!is_dataset(folder));
/// std::fs::write(folder.join("edge_index.npy"), "")?;
/// assert!(is_dataset(folder));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn is_dataset(folder: &Path) -> bool {
    Layout::of(folder).is_some()
}

/// Returns the options of a generated graph, which has only one split scheme.
pub(super) fn fake_options(source: &DatasetSource) -> Result<&FakeOptions, GraphError> {
    if let Some(split) = &source.split {
        let why = format!("split scheme {split} was requested, but a generated graph has only one split");
        return Err(GraphError::Dataset { dataset: source.name.clone(), why });
    }
    Ok(&source.fake)
}

fn read(source: &DatasetSource, warnings: &mut Vec<String>) -> Result<Dataset, GraphError> {
    let (folder, layout) = source.find()?;
    let folder = folder.as_path();
    check_entries(folder, DEEPEST_FOLDER)?;
    let what = layout.what;
    if let Some(split) = source.split.as_ref().filter(|_| !layout.has_split_schemes) {
        let why = format!("split scheme {split} was requested, but a folder of {what} has only one split");
        return Err(GraphError::format(folder, why));
    }
    if source.space.is_scratch() && layout.shape.is_none() {
        let folder = folder.display();
        let why = format!(
            "{folder} holds {what}, which are read whole: save the graph as .npy arrays, which are read in pieces"
        );
        return Err(GraphError::MemoryLimit { why });
    }
    // Arrays that no reader takes may be misspelled.
    for path in (layout.strays)(folder)? {
        let near = near_array(&path).map_or_else(String::new, |near| format!(" (did you mean {near}.npy?)"));
        warnings.push(format!("{} is not read, because its name has no meaning{near}", path.display()));
    }
    warnings.extend((layout.note)(&source.name, folder)?);
    (layout.read)(source, folder, warnings)
}

/// The levels of folders below a dataset's own that may hold its files.
const DEEPEST_FOLDER: usize = 4;

/// Checks that all entries of a folder can be looked at, down to a number of levels. Optional files of other entries, such
/// as links to files that do not exist, would count as absent.
fn check_entries(folder: &Path, levels: usize) -> Result<(), GraphError> {
    for entry in std::fs::read_dir(folder).map_err(|error| GraphError::io(folder, error))? {
        let path = entry.map_err(|error| GraphError::io(folder, error))?.path();
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if is_hidden {
            continue;
        }
        match std::fs::metadata(&path) {
            Ok(found) if found.is_dir() && levels > 0 => check_entries(&path, levels - 1)?,
            Ok(_) => (),
            Err(error) if error.kind() == ErrorKind::NotFound && path.is_symlink() => {
                let why = "it is a link to a file that does not exist: repair the link or remove it";
                return Err(GraphError::format(&path, why));
            }
            Err(error) => return Err(GraphError::io(&path, error)),
        }
    }
    Ok(())
}

/// Returns why none of the folders is a dataset.
fn why_not_found(candidates: &[PathBuf]) -> String {
    let looked: Vec<String> = candidates.iter().map(|c| c.display().to_string()).collect();
    let absent = || format!("there is none of these folders: {}", looked.join(", "));
    let unreadable = candidates.iter().find(|folder| why_unreadable(folder).is_some());
    let found = unreadable.or_else(|| candidates.iter().find(|folder| folder.is_dir()));
    let why = found.map_or_else(absent, |folder| why_no_dataset(folder));
    if unreadable.is_some() { why } else { format!("no dataset found: {why}") }
}

/// Returns the error of the system if this user may not list `folder` or open its files. Files in it then seem to be
/// absent.
pub fn why_unreadable(folder: &Path) -> Option<String> {
    // The metadata of an entry, even of the folder itself, need the permission to search the folder.
    let readable = std::fs::metadata(folder.join(".")).and_then(|_| std::fs::read_dir(folder).map(drop));
    let error = readable.err().filter(|error| error.kind() == ErrorKind::PermissionDenied)?;
    Some(format!("{}: {error}: give this user the permission to read and to search the folder", folder.display()))
}

/// Returns why `folder` is not a dataset, and how to make it one.
pub fn why_no_dataset(folder: &Path) -> String {
    let shown = folder.display();
    if let Some(why) = why_unreadable(folder) {
        return why;
    }
    if folder.is_file() {
        return format!("{shown} is a file, but the graph is a folder. `partition-graph --conf` reads tables");
    }
    if !folder.is_dir() {
        let near = near_path(folder).map(|near| format!(" (did you mean {}?)", near.display()));
        return format!("there is no folder {shown}{}", near.unwrap_or_default());
    }
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    let with_ending =
        |endings: &[&str]| names.iter().find(|name| endings.iter().any(|ending| name.ends_with(ending))).cloned();
    if let Some(name) = with_ending(&[".npz"]) {
        return format!(
            "{shown} holds {name}, which is read after a conversion in Python: import numpy as np; arrays = \
             np.load(\"{name}\"); np.save(\"edge_index.npy\", arrays[\"edge_index\"]), and the same for x, y and the masks"
        );
    }
    if let Some(name) = with_ending(&[".pt", ".pth"]) {
        return format!(
            "{shown} holds {name}, which is read after a conversion in Python: import numpy as np, torch; data = \
             torch.load(\"{name}\", weights_only=False); np.save(\"edge_index.npy\", data.edge_index.numpy()), and the same for \
             x, y and the masks"
        );
    }
    if let Some(name) = with_ending(&[".npy"]) {
        return format!("{shown} holds {name}, but not {EDGE_INDEX_FILE}: save the edges there, [2, E]");
    }
    format!(
        "{shown} is not a dataset; it has neither {EDGE_INDEX_FILE} nor {NODES_FOLDER}/ and {EDGES_FOLDER}/ (.npy \
         arrays), nor raw/ (OGB's CSV files), nor train.tsv (triples of a knowledge graph)"
    )
}
