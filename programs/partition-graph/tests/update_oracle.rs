//! Updated parts against the slow and obvious answer: the whole graph after the changes, written with the assignment of the update.

use crate::graphs;

use edgecut_graph::part_writer::ExtraFiles;
use edgecut_graph::rng::CounterRng;
use edgecut_graph::{
    Buffer, Dataset, DiskPartId, EdgeAttributes, EdgeData, EdgeIds, EdgeLabelValues, EdgeLabels, EdgeList,
    FeatureDtype, Features, HeldOutEdges, HotnessRule, Meta, NodeData, NodeLabel, OriginalIds, OverlapPolicy, Part,
    Split, Splits, TargetKind, Targets, TextArray, Workspace,
};
use edgecut_partition::{
    Assignment, Changes, PartitionError, PartitionOptions, Progress, RemovedPairs, Replaces, UpdateOptions, update,
    verify, write_parts,
};
use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// The changes of a graph. All new values are copies of values of the graph.
#[derive(Default)]
struct Plan {
    nodes: Vec<NodePlan>,
    edges: Vec<EdgePlan>,
}

#[derive(Default)]
struct NodePlan {
    removed: Vec<bool>,
    /// The number of each kept node.
    numbers: BTreeMap<u32, u32>,
    /// Kept nodes, each with the node whose attributes it takes.
    changed: BTreeMap<u32, u32>,
    /// For each new node, the node whose attributes it takes.
    new: Vec<u32>,
}

#[derive(Default)]
struct EdgePlan {
    removed: Vec<[u32; 2]>,
    /// The numbers of the ends, and the edge whose attributes an added edge takes.
    added: Vec<([u32; 2], u32)>,
    /// The numbers of the ends of added held-out edges.
    held_out: [Vec<[u32; 2]>; 2],
}

struct Dice(CounterRng);

impl Dice {
    fn below(&mut self, end: usize) -> u32 {
        self.0.below(end as u64) as u32
    }

    fn plan(&mut self, graph: &Dataset) -> Plan {
        let mut plan = Plan::default();
        for nodes in &graph.node_types {
            let mut of_type = NodePlan::default();
            for node in 0..nodes.num_nodes as u32 {
                let is_removed = self.below(7) == 0;
                of_type.removed.push(is_removed);
                if is_removed {
                    continue;
                }
                of_type.numbers.insert(node, of_type.numbers.len() as u32);
                if self.below(8) == 0 {
                    of_type.changed.insert(node, self.below(nodes.num_nodes));
                }
            }
            if nodes.num_nodes > 0 {
                of_type.new = (0..self.below(5)).map(|_| self.below(nodes.num_nodes)).collect();
            }
            plan.nodes.push(of_type);
        }
        for edges in &graph.edge_types {
            let mut of_type = EdgePlan::default();
            let held_out = &edges.held_out;
            for list in [(&edges.src, &edges.dst), (&held_out.valid.src, &held_out.valid.dst)] {
                for (&src, &dst) in list.0.iter().zip(&list.1[..]) {
                    if self.below(20) == 0 {
                        of_type.removed.push([src, dst]);
                    }
                }
            }
            let sizes = [edges.src_type, edges.dst_type].map(|t| plan.nodes[t.index()].num_after());
            if sizes[0] > 0 && sizes[1] > 0 && !edges.src.is_empty() {
                for _ in 0..self.below(30) {
                    of_type.added.push((sizes.map(|size| self.below(size)), self.below(edges.src.len())));
                }
                // Held-out edges have times like the others.
                if edges.attributes.times.is_some() == held_out.valid.times.is_some() {
                    of_type.held_out =
                        [0, 1].map(|_| (0..self.below(4)).map(|_| sizes.map(|size| self.below(size))).collect());
                }
            }
            plan.edges.push(of_type);
        }
        plan
    }
}

impl Plan {
    /// Leaves out added edges that join the ends of held-out edges. Only parts that allow overlaps get such edges, and their
    /// reverses, which a graph read from files does not get.
    fn leave_out_held_out(&mut self, graph: &Dataset) {
        for (edges, of_type) in graph.edge_types.iter().zip(&mut self.edges) {
            let numbers = [edges.src_type, edges.dst_type].map(|t| &self.nodes[t.index()].numbers);
            for (_, list) in edges.held_out.lists() {
                for (src, dst) in list.src.iter().zip(&list.dst[..]) {
                    let pair = [numbers[0].get(src).copied(), numbers[1].get(dst).copied()];
                    of_type.added.retain(|([a, b], _)| pair != [Some(*a), Some(*b)] && pair != [Some(*b), Some(*a)]);
                }
            }
        }
    }
}

impl NodePlan {
    fn num_after(&self) -> usize {
        self.numbers.len() + self.new.len()
    }

    /// Returns the number and the source of each row of the update: changed nodes in descending order, then new ones.
    fn rows(&self) -> Vec<(u32, u32)> {
        let changed = self.changed.iter().rev().map(|(node, &from)| (self.numbers[node], from));
        changed.chain((self.numbers.len() as u32..).zip(self.new.iter().copied())).collect()
    }
}

fn buffer<T: bytemuck::Pod>(values: &[T], width: usize, rows: &[u32]) -> Buffer<T> {
    rows.iter().flat_map(|&row| &values[row as usize * width..][..width]).copied().collect::<Vec<T>>().into()
}

fn features(of: &Features, rows: &[u32]) -> Features {
    let mut bytes = Vec::new();
    of.append_rows(rows, &mut bytes);
    let dim = of.dim();
    match of.dtype() {
        FeatureDtype::F32 => Features::F32 { values: bytemuck::pod_collect_to_vec(&bytes).into(), dim },
        FeatureDtype::F16 => Features::F16 { values: bytemuck::pod_collect_to_vec(&bytes).into(), dim },
        FeatureDtype::Bf16 => Features::Bf16 { values: bytemuck::pod_collect_to_vec(&bytes).into(), dim },
        FeatureDtype::Int8 => Features::Int8 { rows: bytes.into(), dim },
    }
}

fn targets(of: &Targets, rows: &[u32]) -> Targets {
    Targets { values: buffer(&of.values, of.dim, rows), dim: of.dim, kind: of.kind }
}

/// Returns the types of a graph with a second label, and stored types of features by `dice`.
fn with_more(mut graph: Dataset, dice: &mut Dice) -> Dataset {
    for nodes in &mut graph.node_types {
        if let Some(features) = &nodes.features {
            let dtype =
                [FeatureDtype::F32, FeatureDtype::F16, FeatureDtype::Bf16, FeatureDtype::Int8][dice.below(4) as usize];
            nodes.features = Some(features.to_dtype(dtype).unwrap());
        }
        if (nodes.labels.is_some() || nodes.targets.is_some()) && dice.below(2) == 0 {
            let mut values = Vec::new();
            values.extend(
                (0..nodes.num_nodes).map(|_| if dice.below(3) == 0 { f32::NAN } else { dice.below(9) as f32 + 0.5 }),
            );
            let mut splits = [Vec::new(), Vec::new(), Vec::new()];
            for (node, value) in (0..).zip(&values).filter(|(_, value)| !value.is_nan()) {
                if let Some(split) = splits.get_mut(*value as usize) {
                    split.push(node);
                }
            }
            let [train, valid, test] = splits.map(Buffer::from);
            nodes.label_name = Some("first".into());
            nodes.more_labels = vec![NodeLabel {
                name: "second".into(),
                targets: Some(Targets { values: values.into(), dim: 1, kind: TargetKind::Regression }),
                splits: Splits { train, valid, test },
                ..NodeLabel::default()
            }];
        }
    }
    graph
}

/// A label of a node type, in any position.
#[derive(Clone, Default)]
struct AnyLabel {
    labels: Option<Buffer<i64>>,
    targets: Option<Targets>,
    splits: Splits,
}

impl AnyLabel {
    fn all_of(nodes: &NodeData) -> Vec<Self> {
        let first = Self { labels: nodes.labels.clone(), targets: nodes.targets.clone(), splits: nodes.splits.clone() };
        let more = nodes.more_labels.iter().map(|label| Self {
            labels: label.labels.clone(),
            targets: label.targets.clone(),
            splits: label.splits.clone(),
        });
        std::iter::once(first).chain(more).collect()
    }

    fn set_all(labels: Vec<Self>, nodes: &mut NodeData) {
        let mut labels = labels.into_iter();
        let first = labels.next().unwrap();
        (nodes.labels, nodes.targets, nodes.splits) = (first.labels, first.targets, first.splits);
        for (into, label) in nodes.more_labels.iter_mut().zip(labels) {
            (into.labels, into.targets, into.splits) = (label.labels, label.targets, label.splits);
        }
    }

    fn is_known(&self, node: u32) -> bool {
        match (&self.labels, &self.targets) {
            (Some(labels), _) => labels[node as usize] >= 0,
            (None, Some(targets)) => targets.is_known(node as usize),
            (None, None) => true,
        }
    }

    fn has_values(&self) -> bool {
        self.labels.is_some() || self.targets.is_some()
    }

    /// Returns the values of `rows`, with these splits.
    fn select(&self, rows: &[u32], splits: Splits) -> Self {
        let labels = self.labels.as_ref().map(|labels| buffer(labels, 1, rows));
        Self { labels, targets: self.targets.as_ref().map(|of| targets(of, rows)), splits }
    }

    fn is_in_split(&self, node: u32) -> bool {
        Split::ALL.iter().any(|&split| self.splits.get(split).contains(&node))
    }
}

/// Returns the attributes of `rows`, without labels.
fn attributes(nodes: &NodeData, rows: &[u32]) -> NodeData {
    NodeData {
        num_nodes: rows.len(),
        features: nodes.features.as_ref().map(|of| features(of, rows)),
        times: nodes.times.as_ref().map(|times| buffer(times, 1, rows)),
        ..nodes.clone()
    }
}

fn splits_of(mut lists: [Vec<u32>; 3]) -> Splits {
    lists.iter_mut().for_each(|list| list.sort_unstable());
    let [train, valid, test] = lists.map(Buffer::from);
    Splits { train, valid, test }
}

/// Returns the rows of an update, and the nodes afterwards.
fn changed_nodes(nodes: &NodeData, plan: &NodePlan, dice: &mut Dice) -> (NodeData, NodeData) {
    let rows = plan.rows();
    let mut update = attributes(nodes, &rows.iter().map(|row| row.1).collect::<Vec<u32>>());
    let kept: Vec<u32> = plan.numbers.keys().copied().collect();
    let from: Vec<u32> =
        kept.iter().map(|node| plan.changed.get(node).copied().unwrap_or(*node)).chain(plan.new.clone()).collect();
    let mut after = attributes(nodes, &from);
    let [mut of_update, mut of_after] = [Vec::new(), Vec::new()];
    for label in AnyLabel::all_of(nodes) {
        // A row without a label keeps the label of its node.
        let mut from = Vec::new();
        for node in &kept {
            from.push(plan.changed.get(node).copied().filter(|&from| label.is_known(from)).unwrap_or(*node));
        }
        from.extend(&plan.new);
        let mut of_rows: [Vec<u32>; 3] = Default::default();
        let mut of_all: [Vec<u32>; 3] = Default::default();
        for (at, split) in Split::ALL.into_iter().enumerate() {
            of_all[at].extend(label.splits.get(split).iter().filter_map(|node| plan.numbers.get(node)));
        }
        for (row, &(number, from)) in (0..).zip(&rows) {
            let is_open = kept
                .get(number as usize)
                .is_none_or(|&node| !label.is_in_split(node) && (!label.is_known(node) || !label.has_values()));
            let split = dice.below(4) as usize;
            if is_open && label.is_known(from) && split < 3 {
                of_rows[split].push(row);
                of_all[split].push(number);
            }
        }
        of_update.push(label.select(&rows.iter().map(|row| row.1).collect::<Vec<u32>>(), splits_of(of_rows)));
        of_after.push(label.select(&from, splits_of(of_all)));
    }
    AnyLabel::set_all(of_update, &mut update);
    AnyLabel::set_all(of_after, &mut after);
    (update, after)
}

fn select_edges(attributes: &EdgeAttributes, rows: &[u32]) -> EdgeAttributes {
    let labels = attributes.labels.as_ref().map(|labels| EdgeLabels {
        values: match &labels.values {
            EdgeLabelValues::Classes { of_edges, num_classes } => {
                EdgeLabelValues::Classes { of_edges: buffer(of_edges, 1, rows), num_classes: *num_classes }
            }
            EdgeLabelValues::Targets(of) => EdgeLabelValues::Targets(targets(of, rows)),
        },
        splits: buffer(&labels.splits, 1, rows),
    });
    let positions: Vec<u64> = rows.iter().map(|&row| u64::from(row)).collect();
    EdgeAttributes {
        features: attributes.features.as_ref().map(|of| features(of, rows)),
        weights: attributes.weights.as_ref().map(|weights| buffer(weights, 1, rows)),
        times: attributes.times.as_ref().map(|times| buffer(times, 1, rows)),
        labels,
        ids: attributes.ids.as_ref().map(|ids| ids.select_in(&Workspace::default(), &positions).unwrap()),
    }
}

/// Returns ids that no edge has yet, after the ids of known edges.
fn with_new_ids(known: Option<&EdgeIds>, num_new: usize) -> Option<EdgeIds> {
    let new = 1_000_000..1_000_000 + num_new as i64;
    Some(match known? {
        EdgeIds::Numbers(numbers) => EdgeIds::Numbers(numbers.iter().copied().chain(new).collect::<Vec<i64>>().into()),
        EdgeIds::Texts(texts) => {
            let known = (0..texts.len()).map(|at| texts.get(at).to_vec());
            EdgeIds::Texts(TextArray::of(known.chain(new.map(|number| number.to_string().into_bytes()))))
        }
    })
}

/// The edges of a type that an update keeps.
struct KeptEdges<'a> {
    nodes: [&'a NodePlan; 2],
    removed: Vec<[u32; 2]>,
}

impl KeptEdges<'_> {
    /// Returns the numbers of the ends of an edge, if it is kept.
    fn numbers(&self, src: u32, dst: u32) -> Option<[u32; 2]> {
        let ends = [self.nodes[0].numbers.get(&src)?, self.nodes[1].numbers.get(&dst)?];
        (!self.removed.contains(&[src, dst])).then_some(ends.map(|number| *number))
    }
}

/// Returns the added edges, and the edges afterwards.
fn changed_edges(edges: &EdgeData, plan: &EdgePlan, nodes: &[NodePlan], undirected: bool) -> (EdgeData, EdgeData) {
    let [src_type, dst_type] = [edges.src_type, edges.dst_type];
    let mut removed = plan.removed.clone();
    if undirected && src_type == dst_type {
        removed.extend(plan.removed.iter().map(|&[src, dst]| [dst, src]));
    }
    let kept = KeptEdges { nodes: [src_type, dst_type].map(|t| &nodes[t.index()]), removed };
    let mut ends = Vec::new();
    let mut rows = Vec::new();
    for (at, (&src, &dst)) in (0..).zip(edges.src.iter().zip(&edges.dst[..])) {
        if let Some(pair) = kept.numbers(src, dst) {
            ends.push(pair);
            rows.push(at);
        }
    }
    let list =
        |ends: &[[u32; 2]]| [0, 1].map(|end| Buffer::from(ends.iter().map(|pair| pair[end]).collect::<Vec<u32>>()));
    let added_ends: Vec<[u32; 2]> = plan.added.iter().map(|added| added.0).collect();
    let added_rows: Vec<u32> = plan.added.iter().map(|added| added.1).collect();
    let [src, dst] = list(&added_ends);
    let mut added = EdgeData::new(src_type, edges.relation.clone(), dst_type, src, dst);
    added.attributes = select_edges(&edges.attributes, &added_rows);
    // Numbers among texts become texts.
    let no_ids = edges.attributes.ids.as_ref().map(|_| EdgeIds::Numbers(Vec::new().into()));
    added.attributes.ids = with_new_ids(no_ids.as_ref(), added_rows.len());
    let [src, dst] = list(&[ends, added_ends].concat());
    let mut after = EdgeData::new(src_type, edges.relation.clone(), dst_type, src, dst);
    let ids = with_new_ids(select_edges(&edges.attributes, &rows).ids.as_ref(), added_rows.len());
    after.attributes = EdgeAttributes { ids, ..select_edges(&edges.attributes, &[rows, added_rows].concat()) };
    let [mut lists_added, mut lists_after] = [Vec::new(), Vec::new()];
    for ((_, of_list), more) in edges.held_out.lists().into_iter().zip(&plan.held_out) {
        let mut ends = Vec::new();
        let mut times = Vec::new();
        for at in 0..of_list.len() {
            if let Some(pair) = kept.numbers(of_list.src[at], of_list.dst[at]) {
                ends.push(pair);
                times.extend(of_list.times.as_ref().map(|times| times[at]));
            }
        }
        let has_times = of_list.times.is_some();
        let of_added: Vec<i64> = (0..more.len() as i64).filter(|_| has_times).collect();
        let [src, dst] = list(more);
        lists_added.push(EdgeList { times: has_times.then(|| of_added.clone().into()), ..EdgeList::new(src, dst) });
        let [src, dst] = list(&[ends, more.clone()].concat());
        times.extend(of_added);
        lists_after.push(EdgeList { times: has_times.then(|| times.into()), ..EdgeList::new(src, dst) });
    }
    for (edges, lists) in [(&mut added, lists_added), (&mut after, lists_after)] {
        let [valid, test] = <[EdgeList; 2]>::try_from(lists).unwrap();
        edges.held_out = HeldOutEdges { valid, test };
    }
    (added, after)
}

fn open(dir: &Path) -> Vec<Part> {
    let num_parts = Meta::read(dir).unwrap().num_parts;
    (0..num_parts).map(|part| Part::open(dir, DiskPartId(part), true).unwrap()).collect()
}

/// Returns the part of each node, by its original id.
fn assignment_of(parts: &[Part]) -> Assignment {
    let mut by_type = Vec::new();
    for (t, of_type) in parts[0].meta().node_types.iter().enumerate() {
        let mut of_nodes = vec![0; of_type.book.num_nodes()];
        for part in parts {
            let ids = &part.nodes(edgecut_graph::NodeTypeId(t as u16)).original_ids;
            ids.iter().for_each(|&id| of_nodes[id as usize] = part.id().0);
        }
        by_type.push(of_nodes);
    }
    Assignment { parts: by_type }
}

/// Returns what `META.json` says about the graph. The order in which edges are listed is no part of it.
fn described(dir: &Path) -> Value {
    let mut meta = serde_json::to_value(Meta::read(dir).unwrap()).unwrap();
    meta["provenance"] = Value::Null;
    for of_type in meta["node_types"].as_array_mut().unwrap() {
        of_type["digests"].as_object_mut().unwrap().remove("earlier_contents");
    }
    for of_type in meta["edge_types"].as_array_mut().unwrap() {
        let has_list = of_type["feature_dim"] != 0
            || of_type["has_weights"] == true
            || of_type["has_times"] == true
            || of_type.get("labels").is_some()
            || of_type.get("ids").is_some()
            || of_type["held_out"] != serde_json::json!([0, 0]);
        if has_list {
            of_type["digests"] = Value::Null;
        }
    }
    meta
}

/// A graph, its parts in `old`, and its changes.
struct Case {
    root: tempfile::TempDir,
    options: PartitionOptions,
    changes: Changes,
    after: Dataset,
}

impl Case {
    fn new(graph: Dataset, num_parts: u32, undirected: bool, seed: u64) -> Option<Self> {
        let mut dice = Dice(CounterRng::new(seed));
        let mut graph = with_more(graph, &mut dice);
        if undirected {
            for edges in graph.edge_types.iter_mut().filter(|edges| edges.src_type == edges.dst_type) {
                edges.attributes.labels = None;
            }
            graph.to_undirected();
        }
        let mut plan = dice.plan(&graph);
        if undirected {
            plan.leave_out_held_out(&graph);
        }
        let num_nodes = graph.node_types.iter().map(|nodes| nodes.num_nodes).sum::<usize>();
        let num_after = plan.nodes.iter().map(NodePlan::num_after).sum::<usize>();
        if (num_parts as usize) > num_nodes.min(num_after) {
            return None;
        }
        let has_features = graph.node_types.iter().any(|nodes| nodes.features.is_some());
        let has_train = graph.node_types.iter().any(|nodes| !nodes.splits.train.is_empty());
        let hotness = match dice.below(3) {
            1 if has_features => Some(HotnessRule::InDegree),
            2 if has_features && has_train => {
                Some(HotnessRule::Presample { num_neighbors: vec![3, -1], batch_size: 2 })
            }
            _ => None,
        };
        let options = PartitionOptions {
            hotness,
            to_undirected: undirected,
            overlap: OverlapPolicy::Allow,
            ..PartitionOptions::new(num_parts)
        };
        let assignment = Assignment {
            parts: graph
                .node_types
                .iter()
                .map(|nodes| (0..nodes.num_nodes).map(|_| dice.below(num_parts as usize)).collect())
                .collect(),
        };
        let root = graphs::tempdir();
        write_parts(&graph, &assignment, &options, &root.path().join("old")).unwrap();
        let mut rows = Dataset { name: graph.name.clone(), node_types: Vec::new(), edge_types: Vec::new() };
        let mut after = rows.clone();
        for (nodes, of_type) in graph.node_types.iter().zip(&plan.nodes) {
            let (update, nodes) = changed_nodes(nodes, of_type, &mut dice);
            rows.node_types.push(update);
            after.node_types.push(nodes);
        }
        let mut removed_edges = Vec::new();
        for (edges, of_type) in graph.edge_types.iter().zip(&plan.edges) {
            let (added, edges) = changed_edges(edges, of_type, &plan.nodes, undirected);
            let [src, dst] = [edges.src_type, edges.dst_type].map(|t| graph.node_types[t.index()].name.clone());
            removed_edges
                .push(RemovedPairs { edge_type: [src, edges.relation.clone(), dst], pairs: of_type.removed.clone() });
            rows.edge_types.push(added);
            after.edge_types.push(edges);
        }
        if undirected {
            after.to_undirected();
        }
        let is_ranked_by_train = matches!(options.hotness, Some(HotnessRule::Presample { .. }));
        if is_ranked_by_train && after.node_types.iter().all(|nodes| nodes.splits.train.is_empty()) {
            return None;
        }
        let changes = Changes {
            rows,
            numbers: plan.nodes.iter().map(|of_type| of_type.rows().iter().map(|row| row.0).collect()).collect(),
            removed_nodes: plan.nodes.iter().map(|of_type| of_type.removed.clone()).collect(),
            removed_edges,
            held_out: Vec::new(),
        };
        Some(Self { root, options, changes, after })
    }

    fn update(
        &self,
        space: Workspace,
        to: &str,
        replaces: Replaces,
        progress: &dyn Progress,
    ) -> Result<(), PartitionError> {
        let parts = open(&self.root.path().join("old"));
        let options = UpdateOptions {
            space,
            overlap: None,
            reverse_types: Vec::new(),
            skips_missing_edges: false,
            replaces,
            extra: ExtraFiles::default(),
            keys: &OriginalIds,
        };
        update(&parts, self.changes.clone(), options, &self.root.path().join(to), progress).map(drop)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn updated_parts_are_the_parts_of_the_whole_graph(
        graph in graphs::any_graph(), num_parts in 1..5_u32, undirected in any::<bool>(), seed in 0..1000_u64,
    ) {
        let Some(case) = Case::new(graph, num_parts, undirected, seed) else { return Ok(()) };
        let [new, all] = ["new", "all"].map(|name| case.root.path().join(name));
        case.update(Workspace::default(), "new", Replaces::Nothing, &()).unwrap();
        write_parts(&case.after, &assignment_of(&open(&new)), &case.options, &all).unwrap();
        let [mut found, mut expected] = [&new, &all].map(|dir| graphs::contents(dir));
        found.remove("META.json");
        expected.remove("META.json");
        for (name, content) in &expected {
            prop_assert!(found.get(name) == Some(content), "{} differs", name);
        }
        prop_assert_eq!(found.len(), expected.len());
        prop_assert_eq!(described(&new), described(&all));
        verify(&new).unwrap();
        let scratch = Workspace::scratch(case.root.path().join("scratch"), 1 << 16, ()).unwrap();
        case.update(scratch, "in-files", Replaces::Nothing, &()).unwrap();
        prop_assert!(graphs::contents(&case.root.path().join("in-files")) == graphs::contents(&new), "in scratch files");
    }
}

/// A progress that asks to stop at the first question after a part has a file.
struct StopAtPart<'a> {
    root: &'a Path,
    part: &'a str,
}

impl Progress for StopAtPart<'_> {
    fn cancelled(&self) -> bool {
        let hidden = edgecut_testing::names(self.root).into_iter().filter(|name| name.contains(".partial"));
        hidden.map(|name| self.root.join(name).join(self.part)).any(|path| path.exists())
    }
}

#[test]
fn an_update_that_is_stopped_between_parts_leaves_the_old_parts() {
    let mut graph = graphs::rich();
    graph.edge_types[0].held_out = HeldOutEdges::default();
    let case = Case::new(graph, 3, false, 4).unwrap();
    let root = case.root.path();
    let before = graphs::contents(&root.join("old"));
    for part in ["part_0", "part_1", "part_2", "META.json"] {
        let stopped = case.update(Workspace::default(), "old", Replaces::Updated, &StopAtPart { root, part });
        assert!(matches!(stopped, Err(PartitionError::Cancelled)), "{part}: {stopped:?}");
        assert!(graphs::contents(&root.join("old")) == before, "{part}");
        assert_eq!(edgecut_testing::names(root), ["old"], "{part}");
    }
    case.update(Workspace::default(), "old", Replaces::Updated, &()).unwrap();
    assert!(graphs::contents(&root.join("old")) != before);
    verify(&root.join("old")).unwrap();
}
