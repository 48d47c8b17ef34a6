//! Descriptions of overlaps for users.

use super::overlaps::{EdgeOverlap, NodeOverlap, Overlaps};

impl Overlaps {
    /// Describes the overlaps through which a model would be evaluated on its training data, one sentence per type.
    /// Returns an empty list if there are none. If `undirected` is true, an edge and its reverse are the same edge, so
    /// mirrored edges are included.
    pub fn leaks(&self, undirected: bool) -> Vec<String> {
        let nodes = self.node_types.iter().map(NodeOverlap::leak);
        nodes.chain(self.edge_types.iter().filter_map(|edges| edges.leak(undirected))).collect()
    }

    /// Describes possible leaks, one sentence per type and kind: directed edges whose reverse is held out, training edges that
    /// join the ends of held-out edges at other times, and types that seem to hold the reverses of held-out edges.
    pub fn remarks(&self, undirected: bool) -> Vec<String> {
        self.edge_types.iter().flat_map(|edges| edges.remarks(undirected)).collect()
    }
}

impl NodeOverlap {
    fn leak(&self) -> String {
        let counts = [
            (self.train_valid, "training nodes are validation nodes"),
            (self.train_test, "training nodes are test nodes"),
            (self.valid_test, "validation nodes are test nodes"),
        ];
        format!("node type {}: {}", self.node_type, join(counts))
    }
}

impl EdgeOverlap {
    fn leak(&self, undirected: bool) -> Option<String> {
        let [valid, test] = self.in_train;
        let [valid_reverse, test_reverse] = self.in_reverse_type;
        let if_undirected = |count| if undirected { count } else { 0 };
        let [valid_mirrored, test_mirrored] = self.mirrored_in_train.map(if_undirected);
        let [num_valid, num_test] = self.held_out;
        let counts = [
            (valid, format!("of {num_valid} validation edges are training edges")),
            (test, format!("of {num_test} test edges are training edges")),
            (valid_mirrored, format!("of {num_valid} validation edges are training edges in the other direction")),
            (test_mirrored, format!("of {num_test} test edges are training edges in the other direction")),
            (valid_reverse, format!("of {num_valid} validation edges are training edges of the reverse type")),
            (test_reverse, format!("of {num_test} test edges are training edges of the reverse type")),
            (self.valid_in_test, format!("of {num_valid} validation edges are test edges")),
            (
                if_undirected(self.valid_mirrored_in_test),
                format!("of {num_valid} validation edges are test edges in the other direction"),
            ),
        ];
        let words = join(counts);
        (!words.is_empty()).then(|| format!("edge type {}: {words}", self.edge_type))
    }

    fn remarks(&self, undirected: bool) -> Vec<String> {
        let [num_valid, num_test] = self.held_out;
        let mut remarks = Vec::new();
        if !undirected && self.mirrored_in_train != [0, 0] {
            let [valid, test] = self.mirrored_in_train;
            remarks.push(format!(
                "edge type {}: the reverse of {valid} of {num_valid} validation edges and of {test} of {num_test} test \
                 edges is a training edge; if the graph is undirected, this leaks held-out edges",
                self.edge_type
            ));
        }
        if self.at_other_times != [0, 0] {
            let [valid, test] = self.at_other_times;
            remarks.push(format!(
                "edge type {}: training edges join the ends of {valid} of {num_valid} validation edges and of {test} \
                 of {num_test} test edges at other times; they leak held-out edges unless neighbors are sampled by time",
                self.edge_type
            ));
        }
        for reverse in &self.undeclared_reverses {
            let [valid, test] = reverse.held_out;
            let one = &self.edge_type;
            let other = &reverse.edge_type;
            remarks.push(format!(
                "edge type {one}: the reverse of {valid} of {num_valid} validation edges and of {test} of {num_test} test \
                 edges is a training edge of {other}; if that type holds the reverse edges, messages over it leak held-out \
                 edges: leave it out and add reverse edges (`--add-reverse-edges`), or declare the pair in link prediction \
                 (`--reverse-types {one}={other}`)"
            ));
        }
        remarks
    }
}

/// Joins the counts above zero with their descriptions.
fn join<const N: usize>(counts: [(u64, impl AsRef<str>); N]) -> String {
    let words = counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {}", what.as_ref()));
    words.collect::<Vec<_>>().join(", ")
}
