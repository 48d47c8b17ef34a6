//! Id maps of parts, files of ids, and the tables of an update.

use super::golden;
use crate::sample::Sample;
use crate::target::{Input, MemoryBound, Outcome, Target};
use anyhow::Context;
use edgecut_graph::part_writer::NodeFiles;
use edgecut_graph::{DiskPartId, ID_MAP_FILE, META_FILE, Meta, NodeTypeId, Part, checksum, node_file};
use edgecut_tables::{
    IdList, IdMaps, KnownEdges, KnownGraph, KnownLabel, KnownNodes, KnownSplit, TableOptions, Transforms, read_tables,
    read_update,
};
use serde_json::{Value, json};
use std::fs::File;
use std::path::Path;
use tempfile::TempDir;

/// Batches of tables have buffers that do not depend on their files. Several files are read at once.
const BOUND: MemoryBound = MemoryBound { fixed: 128 << 20, per_byte: 256 };

/// Files with ids of nodes, beside intact parts.
pub(super) struct IdFiles {
    /// The parts of the golden homogeneous graph, whose id maps the inputs replace.
    parts: TempDir,
    meta: Value,
    node_type: String,
    num_nodes: usize,
}

impl IdFiles {
    /// Copies the golden parts, of the version without a digest of the description.
    pub(super) fn new() -> anyhow::Result<Self> {
        let parts = tempfile::tempdir()?;
        Sample::read(&golden("v1").join("homogeneous"))?.write(parts.path())?;
        let of_parts = Meta::read(parts.path())?;
        let node_type = of_parts.node_types[0].name.clone();
        let num_nodes = of_parts.node_types[0].book.num_nodes();
        let mut meta: Value = serde_json::from_slice(&std::fs::read(parts.path().join(META_FILE))?)?;
        meta["node_types"][0]["has_id_map"] = true.into();
        Ok(Self { parts, meta, node_type, num_nodes })
    }

    /// Returns the name of the file of a part's id map in the parts.
    fn id_map(&self, part: u32) -> String {
        node_file(DiskPartId(part), &self.node_type, ID_MAP_FILE)
    }

    /// Opens all parts.
    fn open(&self) -> anyhow::Result<Vec<Part>> {
        let num_parts = self.meta["num_parts"].as_u64().context("the number of parts")? as u32;
        Ok((0..num_parts)
            .map(|part| Part::open(self.parts.path(), DiskPartId(part), true))
            .collect::<Result<_, _>>()?)
    }

    /// Returns the id maps and other files of a graph whose nodes have these ids.
    fn sample(&self, id: impl Fn(usize) -> String) -> anyhow::Result<Sample> {
        let dir = tempfile::tempdir()?;
        let ids: String = (0..self.num_nodes).map(|node| format!("{}\n", id(node))).collect();
        std::fs::write(dir.path().join("ids.csv"), &ids)?;
        std::fs::write(dir.path().join("n.csv"), format!("id\n{ids}"))?;
        std::fs::write(dir.path().join("e.csv"), format!("src,dst\n{},{}\n", id(0), id(1)))?;
        let table = json!({"node_type": "n", "files": "n.csv", "node_id_col": "id"});
        let edges =
            json!({"relation": ["n", "to", "n"], "files": "e.csv", "source_id_col": "src", "dest_id_col": "dst"});
        let conf = dir.path().join("graph.json");
        std::fs::write(&conf, json!({"nodes": [&table], "edges": [&edges]}).to_string())?;
        let maps = read_tables(&conf, "graph", &TableOptions::default())?.id_maps;
        std::fs::remove_file(&conf)?;
        let mut first = 0;
        for (number, part) in self.open()?.iter().enumerate() {
            let originals = &part.nodes(NodeTypeId(0)).original_ids;
            maps.write_id_map(0, originals, first, &dir.path().join(format!("{number}.parquet")))?;
            first += originals.len() as u32;
        }
        let new: String = (0..3).map(|node| format!("{}\n", id(self.num_nodes + node))).collect();
        std::fs::write(dir.path().join("n.csv"), format!("id\n{new}"))?;
        std::fs::write(dir.path().join("gone.csv"), format!("id\n{}\n", id(2)))?;
        let gone = json!({"node_type": "n", "files": "gone.csv", "node_id_col": "id"});
        let conf = json!({"nodes": [table], "edges": [&edges], "removed_nodes": [gone], "removed_edges": [edges]});
        std::fs::write(dir.path().join("new.json"), conf.to_string())?;
        Sample::read(dir.path())
    }

    /// Puts the id maps of an input into the parts, and describes them there.
    fn replace_id_maps(&self, dir: &Path) -> anyhow::Result<()> {
        let mut meta = self.meta.clone();
        for number in 0..self.meta["num_parts"].as_u64().context("the number of parts")? as u32 {
            let bytes = std::fs::read(dir.join(format!("{number}.parquet"))).unwrap_or_default();
            let name = self.id_map(number);
            std::fs::write(self.parts.path().join(&name), &bytes)?;
            meta["files"][name] = json!({ "bytes": bytes.len(), "xxh3": checksum(&bytes) });
        }
        std::fs::write(self.parts.path().join(META_FILE), serde_json::to_vec(&meta)?)?;
        Ok(())
    }

    /// Reads all files of an input.
    fn read_all(&self, dir: &Path) -> anyhow::Result<()> {
        let parts = self.open()?;
        let maps = IdMaps::read(self.parts.path(), &parts);
        for (file, names) in [("ids.csv", &["id"][..]), ("0.parquet", &["id"]), ("e.csv", &["src", "dst"])] {
            let list = IdList::read(&dir.join(file), names)?;
            for column in &list.columns {
                let path = dir.join("0.parquet");
                let originals = &parts[0].nodes(NodeTypeId(0)).original_ids;
                column.find_in(&path, File::open(&path)?, originals, |position, original| {
                    assert!((position as usize) < column.num_distinct() && (original as usize) < self.num_nodes);
                })?;
            }
        }
        let Some(ids) = maps?.0.into_iter().next() else { return Ok(()) };
        let labels = vec![KnownLabel { name: String::new(), splits: vec![KnownSplit::Open; ids.len()] }];
        let nodes = KnownNodes { name: "n".into(), ids, labels, has_table: true, lacks_transforms: false };
        let names = ["n", "to", "n"].map(String::from);
        let edges = KnownEdges { names, reverse_of: None, lacks_transforms: false, has_held_out: false };
        let known = KnownGraph { node_types: vec![nodes], edge_types: vec![edges], has_transforms: true };
        let options = TableOptions { transforms: Some(Transforms::default()), ..TableOptions::default() };
        let update = read_update(&dir.join("new.json"), "graph", &options, known)?;
        update.graph.dataset.validate_structure()?;
        Ok(())
    }
}

impl Target for IdFiles {
    fn samples(&mut self) -> anyhow::Result<Vec<Sample>> {
        let samples = vec![self.sample(|node| format!("n{node}"))?, self.sample(|node| (node * 3 + 7).to_string())?];
        Ok(samples)
    }

    fn has_files(&self) -> bool {
        true
    }

    fn memory_bound(&self) -> MemoryBound {
        BOUND
    }

    fn read(&mut self, input: &Input<'_>) -> Outcome {
        self.replace_id_maps(input.dir).expect("write the id maps");
        let read = self.read_all(input.dir);
        if let Err(error) = &read {
            assert!(!error.to_string().is_empty());
        }
        Outcome::from(&read)
    }
}
