//! Finding a dataset by name.

use super::blocks::find_csv;
use super::fake::{FAKE_NAME, FakeOptions, fake};
use super::fake_hetero::{FAKE_HETERO_NAME, fake_hetero};
use super::npy_edges::EDGE_INDEX_FILE;
use super::npy_folder::{EDGES_FOLDER, NODES_FOLDER, read_npy_folder, read_npy_types};
use super::ogb::read_ogb;
use super::ogb_hetero::{TRIPLETS, read_ogb_hetero};
use super::triples::{find_train_triples, read_triples};
use crate::{Dataset, GraphError, HoldOut, OverlapPolicy};
use std::path::{Path, PathBuf};

/// Which dataset to load, and how.
#[derive(Clone, Debug)]
pub struct DatasetSource {
    /// The dataset's name, under which parts will be stored; `fake` generates one.
    pub name: String,
    /// The folder under which datasets are looked for by name.
    pub root_dir: PathBuf,
    /// The dataset's own folder, in place of a search under `root_dir`. With it, `fake` is a name like any other.
    pub folder: Option<PathBuf>,
    /// The split scheme, where an OGB folder has several.
    pub split: Option<String>,
    /// Whether to add the reverse of every edge, as [`Dataset::to_undirected`] does. A generated graph has both
    /// directions as it is, and keeps its edges.
    pub to_undirected: bool,
    /// Whether each edge type gets a reverse, see [`Dataset::add_reverse_edges`].
    pub add_reverse_edges: bool,
    /// The edges of all types that are held out, if any, see [`Dataset::hold_out_edges`].
    pub hold_out_edges: Option<HoldOut>,
    /// The treatment of held-out edges that are training edges as well, and of nodes in two splits. With
    /// `to_undirected`, an edge and its reverse are the same edge.
    pub overlap: OverlapPolicy,
    /// What is generated under the name `fake`.
    pub fake: FakeOptions,
}

impl DatasetSource {
    /// The dataset `name` under `root_dir`, as it is on disk.
    ///
    /// ```
    /// use edgecut_graph::datasets::{DatasetSource, load};
    /// let mut source = DatasetSource::new("fake", "data");
    /// source.fake.avg_num_nodes = 200;
    /// assert_eq!(load(&source)?.node_types[0].num_nodes, 200);
    /// # Ok::<(), edgecut_graph::GraphError>(())
    /// ```
    pub fn new(name: impl Into<String>, root_dir: impl Into<PathBuf>) -> Self {
        Self {
            name: name.into(),
            root_dir: root_dir.into(),
            folder: None,
            split: None,
            to_undirected: false,
            add_reverse_edges: false,
            hold_out_edges: None,
            overlap: OverlapPolicy::default(),
            fake: FakeOptions::default(),
        }
    }

    /// The dataset in a folder of its own, by whose name it goes, as it is on disk.
    ///
    /// ```
    /// use edgecut_graph::datasets::DatasetSource;
    /// assert_eq!(DatasetSource::of_folder("data/cora/").name, "cora");
    /// ```
    pub fn of_folder(folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        let name = folder.file_name().map_or_else(|| "dataset".into(), |name| name.to_string_lossy().into_owned());
        Self { folder: Some(folder.clone()), ..Self::new(name, folder) }
    }

    /// The folders that are looked at, in order. OGB's own downloads have underscores in their folder names, and PyG
    /// puts them into `dataset/NAME`.
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

/// A dataset that was loaded, and what its user should know of it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The dataset.
    pub dataset: Dataset,
    /// A sentence each about overlaps of training and held-out data that were removed, were allowed, or may be legal.
    pub warnings: Vec<String>,
}

/// Loads or generates a dataset, as [`load_with_warnings`] does, without its warnings.
///
/// # Errors
/// Those of [`load_with_warnings`].
pub fn load(source: &DatasetSource) -> Result<Dataset, GraphError> {
    load_with_warnings(source).map(|loaded| loaded.dataset)
}

/// Loads or generates a dataset.
///
/// Unless `folder` is given, the dataset is looked for in `{root_dir}/{name}`, then in `{root_dir}/dataset/{name}`,
/// which is PyG's convention, each also with OGB's underscores in place of hyphens. The first that holds
/// files of a known layout is read. Then [`DatasetSource::to_undirected`], `overlap`, `hold_out_edges` and
/// `add_reverse_edges` are done, in that order.
///
/// # Errors
/// [`GraphError::Dataset`] listing what was looked for if there is no dataset, held-out edges that are training edges as
/// well and nodes that are in two splits, with their counts, unless `overlap` says otherwise, a split scheme for a
/// dataset that has no choice of them, and the errors of [`read_ogb`], [`read_npy_folder`], [`read_triples`] and
/// [`fake`](fn@fake).
pub fn load_with_warnings(source: &DatasetSource) -> Result<Loaded, GraphError> {
    let mut warnings = Vec::new();
    let mut dataset = match source.name.as_str() {
        FAKE_NAME if source.folder.is_none() => fake(fake_options(source)?)?,
        FAKE_HETERO_NAME if source.folder.is_none() => fake_hetero(fake_options(source)?)?,
        _ => {
            let mut dataset = read(source)?;
            if source.to_undirected {
                dataset.to_undirected();
            }
            warnings = settle_overlaps(&mut dataset, source)?;
            dataset
        }
    };
    // Before reverse edges are added, so that those of held-out edges are held out as well.
    if let Some(hold_out) = &source.hold_out_edges {
        dataset.hold_out_edges(&dataset.edge_type_ids(), hold_out)?;
    }
    if source.add_reverse_edges {
        dataset.add_reverse_edges();
    }
    Ok(Loaded { dataset, warnings })
}

/// Treats overlaps of training and held-out data as `source` says, and returns what a user should know of them.
fn settle_overlaps(dataset: &mut Dataset, source: &DatasetSource) -> Result<Vec<String>, GraphError> {
    let overlaps = dataset.overlaps();
    let leaks = overlaps.leaks(source.to_undirected);
    let remarks = overlaps.remarks(source.to_undirected);
    if leaks.is_empty() {
        return Ok(remarks);
    }
    let leaks = leaks.join("; ");
    let found = match source.overlap {
        OverlapPolicy::Error => {
            let why = format!(
                "{leaks}. A model would be judged by what it was trained on. Remove the overlap from the data, or give \
                 --overlap remove (drops held-out edges from the training edges, and keeps each node in its last \
                 split) or --overlap allow"
            );
            return Err(GraphError::Dataset { dataset: dataset.name.clone(), why });
        }
        OverlapPolicy::Remove => {
            dataset.remove_overlaps(source.to_undirected);
            format!("removed overlaps: {leaks}")
        }
        OverlapPolicy::Allow => format!("allowed overlaps, metrics are too good: {leaks}"),
    };
    Ok(std::iter::once(found).chain(remarks).collect())
}

/// Whether `folder` holds files of a layout that [`load`] reads; they may be wrong.
pub fn is_dataset(folder: &Path) -> bool {
    Layout::of(folder).is_some()
}

/// What to generate, of which there is only one split.
fn fake_options(source: &DatasetSource) -> Result<&FakeOptions, GraphError> {
    if let Some(split) = &source.split {
        let why = format!("split scheme {split} was asked for, but a generated graph has only one split");
        return Err(GraphError::Dataset { dataset: source.name.clone(), why });
    }
    Ok(&source.fake)
}

fn read(source: &DatasetSource) -> Result<Dataset, GraphError> {
    let candidates = source.candidates();
    let Some((folder, layout)) = candidates.iter().find_map(|folder| Some((folder, Layout::of(folder)?))) else {
        let looked: Vec<String> = candidates.iter().map(|c| c.display().to_string()).collect();
        let why = format!(
            "no dataset found; looked for {EDGE_INDEX_FILE} or {NODES_FOLDER}/ and {EDGES_FOLDER}/ (.npy arrays), for raw/ (OGB's CSV files) and for train.tsv (triples of a knowledge graph) in: {}",
            looked.join(", ")
        );
        return Err(GraphError::Dataset { dataset: source.name.clone(), why });
    };
    let split = source.split.as_deref();
    if let (Layout::Npy | Layout::NpyTypes | Layout::Triples, Some(split)) = (layout, split) {
        let what = if matches!(layout, Layout::Triples) { "triples" } else { ".npy arrays" };
        let why = format!("split scheme {split} was asked for, but a folder of {what} has only one split");
        return Err(GraphError::format(folder, why));
    }
    match layout {
        Layout::Ogb => read_ogb(&source.name, folder, split),
        Layout::OgbHetero => read_ogb_hetero(&source.name, folder, split),
        Layout::Npy => read_npy_folder(&source.name, folder),
        Layout::NpyTypes => read_npy_types(&source.name, folder),
        Layout::Triples => read_triples(&source.name, folder),
    }
}

#[derive(Clone, Copy)]
enum Layout {
    Npy,
    NpyTypes,
    Ogb,
    OgbHetero,
    Triples,
}

impl Layout {
    /// The layout of `folder`. Where it is both, the arrays win: someone converted the CSV files to them.
    fn of(folder: &Path) -> Option<Self> {
        if folder.join(EDGE_INDEX_FILE).is_file() {
            return Some(Self::Npy);
        }
        if folder.join(NODES_FOLDER).is_dir() && folder.join(EDGES_FOLDER).is_dir() {
            return Some(Self::NpyTypes);
        }
        let raw = folder.join("raw");
        let layout = if find_csv(&raw, TRIPLETS).is_some() { Self::OgbHetero } else { Self::Ogb };
        if raw.is_dir() {
            return Some(layout);
        }
        find_train_triples(folder).map(|_| Self::Triples)
    }
}
