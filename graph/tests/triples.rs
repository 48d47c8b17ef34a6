//! Tests of knowledge graphs as files of triples: valid variations and all kinds of errors.

use edgecut_graph::readers::{DatasetSource, load, read_triples};
use edgecut_graph::{Dataset, EdgeList, GraphError};
use edgecut_testing::assert_has;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs;
use std::io::Write;
use tempfile::TempDir;

/// A folder with a valid graph. Tests change single files of it.
struct Folder(TempDir);

impl Folder {
    fn of(files: &[(&str, &str)]) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        files.iter().for_each(|(name, text)| _ = folder.put(name, text));
        folder
    }

    fn by_name() -> Self {
        Self::of(&[
            ("train.tsv", "ada\tknows\tbob\nbob\tworks/at\tacme\nada\tknows\tcy\n"),
            ("valid.tsv", "cy\tworks/at\tacme\n"),
            ("test.tsv", "dan\tknows\tada\ndan\tlikes\tbob\n"),
        ])
    }

    fn by_number() -> Self {
        Self::of(&[
            ("entities.tsv", "0\tada\n1\tbob\n2\tacme\n3\tcy\n4\tdan\n"),
            ("relations.tsv", "1\tworks/at\n0\tknows\n2\tlikes\n"),
            ("train.ids.tsv", "0\t0\t1\n1\t1\t2\n0\t0\t3\n"),
            ("valid.ids.tsv", "3\t1\t2\n"),
            ("test.ids.tsv", "4\t0\t0\n4\t2\t1\n"),
        ])
    }

    fn put(&self, name: &str, text: &str) -> &Self {
        fs::write(self.0.path().join(name), text).unwrap();
        self
    }

    fn remove(&self, name: &str) -> &Self {
        fs::remove_file(self.0.path().join(name)).unwrap();
        self
    }

    fn read(&self) -> Result<Dataset, GraphError> {
        read_triples("kg", self.0.path())
    }

    fn why(&self) -> String {
        self.read().unwrap_err().to_string()
    }
}

fn pairs(list: &EdgeList) -> Vec<(u32, u32)> {
    list.src.iter().copied().zip(list.dst.iter().copied()).collect()
}

fn check(dataset: &Dataset, names: [&str; 3]) {
    dataset.validate().unwrap();
    let [entities] = &dataset.node_types[..] else { panic!("{dataset:?}") };
    assert_eq!((entities.name.as_str(), entities.num_nodes), ("entity", 5));
    let relations: Vec<&str> = dataset.edge_types.iter().map(|e| e.relation.as_str()).collect();
    assert_eq!(relations, names);
    let [knows, works_at, likes] = &dataset.edge_types[..] else { panic!("{relations:?}") };
    let edges = |e: &edgecut_graph::EdgeData| pairs(&EdgeList::new(e.src.clone(), e.dst.clone()));
    assert_eq!((edges(knows), edges(works_at), edges(likes)), (vec![(0, 1), (0, 3)], vec![(1, 2)], vec![]));
    assert_eq!((pairs(&knows.held_out.valid), pairs(&knows.held_out.test)), (vec![], vec![(4, 0)]));
    assert_eq!((pairs(&works_at.held_out.valid), pairs(&works_at.held_out.test)), (vec![(3, 2)], vec![]));
    assert_eq!(pairs(&likes.held_out.test), [(4, 1)]);
}

#[test]
fn names_are_numbered_as_they_first_appear() {
    check(&Folder::by_name().read().unwrap(), ["knows", "works_at", "likes"]);
}

#[test]
fn listed_numbers_and_names_mean_the_same() {
    let folder = Folder::by_number();
    check(&folder.read().unwrap(), ["knows", "works_at", "likes"]);
    folder.remove("relations.tsv");
    check(&folder.read().unwrap(), ["rel_0", "rel_1", "rel_2"]);
    folder.remove("entities.tsv");
    check(&folder.read().unwrap(), ["rel_0", "rel_1", "rel_2"]);
    // Names in a different order, which the lists of entities and relations define.
    let named = Folder::by_name();
    named.put("entities.tsv", "0\tada\n3\tcy\n1\tbob\n2\tacme\n4\tdan\n");
    named.put("relations.tsv", "2\tlikes\n1\tworks/at\n0\tknows\n");
    check(&named.read().unwrap(), ["knows", "works_at", "likes"]);
}

#[test]
fn numbers_are_preferred_and_files_may_be_compressed() {
    let folder = Folder::by_number();
    folder.put("train.tsv", "not a triple").remove("train.ids.tsv");
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(b"0\t0\t1\r\n\n1\t1\t2\r\n0\t0\t3").unwrap();
    fs::write(folder.0.path().join("train.ids.tsv.gz"), gzip.finish().unwrap()).unwrap();
    check(&folder.read().unwrap(), ["knows", "works_at", "likes"]);
}

#[test]
fn held_out_triples_may_be_absent() {
    let folder = Folder::of(&[("train.tsv", "a\tr\tb\n")]);
    let dataset = folder.read().unwrap();
    assert!(dataset.num_edges() == 1 && dataset.edge_types[0].held_out.is_empty());
}

#[test]
fn relations_become_folders_of_their_own() {
    let folder = Folder::of(&[("train.tsv", "a\t/x/y\tb\na\t_x_y\tb\na\t.hidden\tb\na\t_x\\y\tb\na\tp./q\tb\n")]);
    let dataset = folder.read().unwrap();
    let relations: Vec<&str> = dataset.edge_types.iter().map(|e| e.relation.as_str()).collect();
    assert_eq!(relations, ["_x_y", "_x_y_1", "_hidden", "_x_y_3", "p._q"]);
}

#[test]
fn the_layout_is_told_by_its_files() {
    for (folder, name) in [(Folder::by_name(), "train.tsv"), (Folder::by_number(), "train.ids.tsv")] {
        let mut source = DatasetSource::new("kg", "");
        source.folder = Some(folder.0.path().into());
        source.add_reverse_edges = true;
        let dataset = load(&source).unwrap();
        dataset.validate().unwrap();
        assert_eq!(dataset.edge_types.len(), 6);
        let reversed = &dataset.edge_types[3];
        assert_eq!((reversed.relation.as_str(), pairs(&reversed.held_out.test)), ("rev_knows", vec![(0, 4)]));
        source.split = Some("time".into());
        assert_has(load(&source).unwrap_err().to_string(), &["a folder of triples has only one split"]);
        folder.remove(name);
        assert_has(load(&source).unwrap_err().to_string(), &["train.tsv (triples of a knowledge graph)"]);
        assert!(folder.why().contains("it contains neither train.ids.tsv nor train.tsv"), "{}", folder.why());
    }
}

#[test]
fn each_bad_line_is_named() {
    for (name, text, why) in [
        ("train.ids.tsv", "0\t0\t1\n0\t0\n", "train.ids.tsv: line 2: 2 columns, expected head, relation and tail with"),
        ("train.ids.tsv", "0 0 1\n", "line 1: 1 columns"),
        ("train.ids.tsv", "0\t0\tada\n", "line 1: \"ada\" is not a number from 0"),
        ("train.ids.tsv", "0\t0\t1\n\n0\t0\t5\n", "line 3: entity 5 is unknown: entities.tsv has 5, counted from 0"),
        ("valid.ids.tsv", "0\t3\t1\n", "valid.ids.tsv: line 1: relation 3 is unknown: relations.tsv has 3"),
        ("entities.tsv", "0\ta\n1\n", "entities.tsv: line 2: 1 columns, expected number and name"),
        ("entities.tsv", "0\ta\n0\tb\n", "entities.tsv: line 2: entity 0 is listed twice"),
        ("entities.tsv", "0\ta\n1\ta\n", "entities.tsv: line 2: its name is also that of entity 0"),
        ("entities.tsv", "0\ta\n2\tb\n", "entities.tsv: line 2: entity 2 is out of range: there are 2, counted from 0"),
        ("relations.tsv", "0\t\n", "relations.tsv: line 1: a column is empty"),
    ] {
        let folder = Folder::by_number();
        folder.put(name, text);
        assert!(folder.why().contains(why), "{}, expected {why}", folder.why());
    }
    let folder = Folder::by_name();
    folder.put("entities.tsv", "0\tada\n1\tbob\n2\tacme\n3\tcy\n");
    assert!(folder.why().contains("test.tsv: line 1: entity \"dan\" is unknown: entities.tsv does not list it"));
    let folder = Folder::by_number();
    folder.remove("entities.tsv").put("train.ids.tsv", "0\t0\t4294967295\n");
    assert!(folder.why().contains("entity 4294967295 is too large"), "{}", folder.why());
    folder.put("train.ids.tsv", "0\t0\t1\n1\t0\t4000000000\n");
    let why = folder.why();
    assert!(why.contains("triple 1 of train has entity 4000000000, but ") && why.contains("entities.tsv"), "{why}");
    folder.put("train.ids.tsv", "").remove("valid.ids.tsv").put("valid.tsv", "cy\tworks/at\tacme\n");
    assert!(folder.why().contains("valid.tsv: it has names, but training triples are read as numbers: valid.ids.tsv"));
    let empty = Folder::of(&[("train.tsv", "")]);
    assert!(empty.why().contains("train.tsv: the graph has no entities"), "{}", empty.why());
}
