//! Knowledge graphs as files of (head, relation, tail) triples.

use super::vocabulary::{Vocabulary, columns, number, text};
use crate::dataset::{Dataset, EdgeData, EdgeList, HeldOutEdges, NodeData};
use crate::readers::seen_ids::check_largest;
use crate::readers::text::{Lines, bad_line, find_text, parse_file};
use crate::{GraphError, NodeTypeId};
use std::path::{Path, PathBuf};

/// The name of the only node type of a knowledge graph.
const ENTITY: &str = "entity";
/// The lists of held-out triples.
const HELD_OUT: [&str; 2] = ["valid", "test"];
/// All lists of triples.
const LISTS: [&str; 3] = ["train", "valid", "test"];

/// The notation of triples.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::readers) enum Spelling {
    /// Numbers from 0, in `train.ids.tsv`.
    Ids,
    /// Names, in `train.tsv`.
    Names,
}

impl Spelling {
    fn file(self, list: &str) -> String {
        match self {
            Self::Ids => format!("{list}.ids.tsv"),
            Self::Names => format!("{list}.tsv"),
        }
    }
}

/// Finds the file of training triples, which identifies this layout. Numbers are preferred over names.
pub(in crate::readers) fn find_train_triples(folder: &Path) -> Option<(Spelling, PathBuf)> {
    [Spelling::Ids, Spelling::Names]
        .into_iter()
        .find_map(|spelling| Some((spelling, find_text(folder, &spelling.file("train"))?)))
}

/// Reads a knowledge graph from `folder` in the layout in which FB15k, WN18 and others are published.
///
/// Each file is `NAME.tsv.gz` or `NAME.tsv`. If both exist, the compressed file is read. Columns are separated by tabs.
///
/// | file | content |
/// |---|---|
/// | `train.ids`, `valid.ids`, `test.ids` | the numbers of head, relation and tail per line; the last two are optional |
/// | `train`, `valid`, `test` | the same by name, read if there is no `train.ids` |
/// | `entities`, `relations` | number and name per line, with all numbers from 0; optional |
///
/// Without `entities` or `relations`, numbers range up to the largest one used, which must be below 17 entities per head or
/// tail and 65,536 in addition. Names are numbered in the order of
/// their first appearance in `train`, `valid` and `test`, with the head of a triple before its tail.
///
/// The graph has one node type, `entity`, and one edge type per relation, including relations without triples. The name
/// of an edge type is the relation's name, with `_` in place of characters that are invalid in folder names
/// (`/people/person` becomes `_people_person`). It is `rel_3` if relation 3 has no name. Training triples become edges
/// from head to tail, in the order of the file. The other triples become held-out edges.
///
/// # Errors
/// Fails for a missing or truncated file, a line with another number of columns, an unknown entity or relation, and a
/// duplicate or missing number. Each error names the file, and where possible the line, counted from 1.
pub fn read_triples(name: &str, folder: &Path) -> Result<Dataset, GraphError> {
    let Some((spelling, train_file)) = find_train_triples(folder) else {
        return Err(GraphError::format(folder, "it contains neither train.ids.tsv nor train.tsv, with or without .gz"));
    };
    let mut entities = Vocabulary::read(folder, "entities.tsv", "entity")?;
    let mut relations = Vocabulary::read(folder, "relations.tsv", "relation")?;
    let mut read = |path: &Path| match spelling {
        Spelling::Ids => read_list(path, number, |n, of| of.number(n), &mut entities, &mut relations),
        Spelling::Names => read_list(path, text, |name, of| of.named(&name), &mut entities, &mut relations),
    };
    let train = read(&train_file)?;
    let mut held_out = [Vec::new(), Vec::new()];
    for (list, triples) in HELD_OUT.into_iter().zip(&mut held_out) {
        if let Some(path) = held_out_file(folder, list, spelling)? {
            *triples = read(&path)?;
        }
    }
    if entities.len() == 0 {
        return Err(GraphError::format(train_file, "the graph has no entities"));
    }
    if !entities.is_listed() {
        check_entities(entities.len() as u32 - 1, [&train, &held_out[0], &held_out[1]])
            .map_err(|why| GraphError::format(folder, why))?;
    }
    let most = usize::from(u16::MAX);
    if relations.len() > most {
        let why = format!("it has {} relations, more than {most}", relations.len());
        return Err(GraphError::format(train_file, why));
    }
    let [train, valid, test] = [&train, &held_out[0], &held_out[1]].map(|list| by_relation(list, relations.len()));
    let held_out = valid.into_iter().zip(test).map(|(valid, test)| HeldOutEdges { valid, test });
    let edge_type = |((relation, EdgeList { src, dst, .. }), held_out)| {
        let edges = EdgeData::new(NodeTypeId(0), relation, NodeTypeId(0), src, dst);
        EdgeData { held_out, ..edges }
    };
    let edge_types = relations.folder_names().into_iter().zip(train).zip(held_out).map(edge_type).collect();
    let nodes = NodeData { name: ENTITY.into(), num_nodes: entities.len(), ..NodeData::default() };
    Ok(Dataset { name: name.into(), node_types: vec![nodes], edge_types })
}

/// Checks that the largest entity is not too large for the number of triples, which are in the order of [`LISTS`].
fn check_entities(largest: u32, lists: [&Vec<Triple>; 3]) -> Result<(), String> {
    let ends = 2 * lists.iter().map(|list| list.len()).sum::<usize>();
    let Err(why) = check_largest(largest.into(), ends) else { return Ok(()) };
    let is_largest = |[head, _, tail]: &Triple| *head == largest || *tail == largest;
    let places = LISTS.iter().zip(lists).map(|(list, triples)| (list, triples.iter().position(is_largest)));
    let place = places.flat_map(|(list, at)| at.map(|at| format!("triple {at} of {list}"))).next().unwrap_or_default();
    Err(format!("{place} has entity {why}: number entities from 0, or list all of them in entities.tsv"))
}

/// Returns the file of held-out triples, if it exists. Fails if only the file in the other notation exists.
fn held_out_file(folder: &Path, list: &str, spelling: Spelling) -> Result<Option<PathBuf>, GraphError> {
    let found = find_text(folder, &spelling.file(list));
    let names_only = spelling == Spelling::Ids && found.is_none();
    if let Some(other) = names_only.then(|| find_text(folder, &Spelling::Names.file(list))).flatten() {
        let why = format!("it has names, but training triples are read as numbers: {} is missing", spelling.file(list));
        return Err(GraphError::format(other, why));
    }
    Ok(found)
}

/// The numbers of head, relation and tail.
type Triple = [u32; 3];

/// Reads a file of triples. `parse` parses a column, and `resolve` returns the number of an entity or relation.
fn read_list<T: Send>(
    path: &Path,
    parse: impl Fn(&[u8]) -> Result<T, String> + Sync,
    resolve: impl Fn(T, &mut Vocabulary) -> Result<u32, String>,
    entities: &mut Vocabulary,
    relations: &mut Vocabulary,
) -> Result<Vec<Triple>, GraphError> {
    let line = |line: &[u8]| {
        let Some([head, relation, tail]) = columns(line, "head, relation and tail")? else { return Ok(Some(None)) };
        Ok(Some(Some([parse(head)?, parse(relation)?, parse(tail)?])))
    };
    let lines = parse_file(path, Lines(line))?;
    let mut triples = Vec::with_capacity(lines.iter().map(Vec::len).sum());
    // Parsing is parallel. Names are resolved in file order, because their numbers depend on it.
    for (at, line) in lines.into_iter().flatten().enumerate() {
        let Some([head, relation, tail]) = line else { continue };
        let number = |column, of: &mut Vocabulary| resolve(column, of).map_err(|why| bad_line(path, at + 1, &why));
        triples.push([number(head, entities)?, number(relation, relations)?, number(tail, entities)?]);
    }
    Ok(triples)
}

/// Groups the triples by relation, in their order.
fn by_relation(triples: &[Triple], num_relations: usize) -> Vec<EdgeList> {
    let mut lists = vec![(Vec::new(), Vec::new()); num_relations];
    for &[head, relation, tail] in triples {
        let (src, dst) = &mut lists[relation as usize];
        src.push(head);
        dst.push(tail);
    }
    lists.into_iter().map(|(src, dst)| EdgeList::new(src.into(), dst.into())).collect()
}
