//! Fan-outs by hop and edge type.

use crate::config::fan_out::{Fanout, parse_num_neighbors};
use edgecut_graph::{EdgeTypeMeta, Meta, named_values};
use edgecut_settings::suggestion;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The number of in-neighbors to draw per node, by hop and edge type. Lists start with the hop nearest to the seeds.
/// Edge types share one list or have lists of their own.
///
/// A fan-out counts **per edge type**, as in PyG and DGL: with a fan-out of 10, a paper with in-edges of the types
/// `cites` and `writes` draws 10 citing papers and 10 authors. (OGB's published settings for ogbn-mag are for samplers
/// that count differently.)
///
/// As text, `15,10` applies to all edge types. `cites=15,10;writes=10,0` names edge types by relation, or as
/// `author__writes__paper` if the relation is ambiguous. 0 draws none. `cites=15,10;5,5` gives 5 and 5 to all other
/// edge types. Names may contain `,`, `;` and `=`.
///
/// ```
/// use edgecut_dist_sampler::{Fanout, NumNeighbors};
/// let same: NumNeighbors = vec![Fanout::Count(15), Fanout::All].into();
/// assert_eq!("15,-1".parse(), Ok(same));
/// let typed: NumNeighbors = "cites=15,10;writes=10,0".parse()?;
/// assert_eq!(typed.num_hops(), 2);
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Lists")]
pub struct NumNeighbors {
    /// Fan-outs of the edge types without a name in the list.
    others: Option<Vec<Fanout>>,
    named: Vec<(String, Vec<Fanout>)>,
}

impl From<Vec<Fanout>> for NumNeighbors {
    fn from(fanouts: Vec<Fanout>) -> Self {
        Self { others: Some(fanouts), named: Vec::new() }
    }
}

/// Fan-outs as files store them.
#[derive(Deserialize)]
struct Lists {
    others: Option<Vec<Fanout>>,
    named: Vec<(String, Vec<Fanout>)>,
}

impl TryFrom<Lists> for NumNeighbors {
    type Error = String;

    fn try_from(lists: Lists) -> Result<Self, String> {
        Self::new(lists.others, lists.named)
    }
}

impl FromStr for NumNeighbors {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut others = None;
        let mut named = Vec::new();
        for entry in named_values(text, ';', looks_like_fan_outs) {
            let list = parse_num_neighbors(entry.value)?;
            if let Some(name) = entry.name {
                named.push((name.to_owned(), list));
            } else if others.replace(list).is_some() {
                return Err(format!("{text:?} has two lists without an edge type: name the edge type of one"));
            }
        }
        Self::new(others, named).map_err(|why| format!("{text:?}: {why}"))
    }
}

impl fmt::Display for NumNeighbors {
    /// Writes the form that is parsed, with edge types in the order of their names.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut entries: Vec<String> =
            self.named.iter().map(|(name, fanouts)| format!("{name}={}", as_text(fanouts))).collect();
        entries.sort_unstable();
        entries.extend(self.others.as_deref().map(as_text));
        f.write_str(&entries.join(";"))
    }
}

/// Returns the full name of an edge type.
fn triple(e: &EdgeTypeMeta) -> String {
    format!("{}__{}__{}", e.src_type, e.relation, e.dst_type)
}

fn as_text(fanouts: &[Fanout]) -> String {
    fanouts.iter().map(Fanout::to_string).collect::<Vec<_>>().join(",")
}

/// Returns true for a list of numbers. Numbers out of range count, so that parsing them names the fan-out and not the
/// edge type.
fn looks_like_fan_outs(text: &str) -> bool {
    text.split(',').all(|field| field.trim().parse::<i64>().is_ok())
}

impl NumNeighbors {
    /// Makes fan-outs from the lists of edge types by name, and a list for all other edge types.
    ///
    /// # Errors
    /// Describes lists of different lengths, or an edge type that is named twice or has an empty name.
    pub fn new(others: Option<Vec<Fanout>>, named: Vec<(String, Vec<Fanout>)>) -> Result<Self, String> {
        for (at, (name, _)) in named.iter().enumerate() {
            if name.is_empty() || named[..at].iter().any(|(known, _)| known == name) {
                return Err(format!("edge type {name:?} is named twice, or not at all"));
            }
        }
        let fanouts = Self { others, named };
        let hops = fanouts.num_hops();
        if fanouts.lengths().any(|length| length != hops) {
            return Err("the lists have different lengths: give each edge type one fan-out per hop".into());
        }
        Ok(fanouts)
    }

    /// Returns the number of hops.
    pub fn num_hops(&self) -> usize {
        self.lengths().next().unwrap_or(0)
    }

    /// Returns true if nothing is drawn at random: each fan-out takes all neighbors, or none.
    pub fn are_all(&self) -> bool {
        self.lists().flatten().all(|fanout| matches!(fanout, Fanout::All | Fanout::Count(0)))
    }

    /// Returns true if edges of a type are drawn in some hops and not in others. The neighbors that a layer reads of a node
    /// then depend on the hop that finds the node, so that no computation of a layer for all nodes equals a sampled one.
    pub fn skips_hops(&self) -> bool {
        let mut lists = self.lists();
        lists.any(|fanouts| {
            fanouts.contains(&Fanout::Count(0)) && fanouts.iter().any(|fanout| *fanout != Fanout::Count(0))
        })
    }

    /// Returns fan-outs that take all neighbors where these draw some, and none where these draw none.
    pub fn exhaustive(&self) -> Self {
        if !self.lists().flatten().any(|fanout| *fanout == Fanout::Count(0)) {
            // Names of edge types that no list distinguishes need not be names of the graph.
            return vec![Fanout::All; self.num_hops()].into();
        }
        let mut all = self.clone();
        let named = all.named.iter_mut().map(|(_, fanouts)| fanouts);
        for fanout in all.others.iter_mut().chain(named).flatten() {
            if *fanout != Fanout::Count(0) {
                *fanout = Fanout::All;
            }
        }
        all
    }

    /// Returns the fan-outs of one hop, which must be below [`num_hops`](Self::num_hops), as the fan-outs of the only hop.
    pub fn of_hop(&self, hop: usize) -> Self {
        let mut of_hop = self.clone();
        let named = of_hop.named.iter_mut().map(|(_, fanouts)| fanouts);
        for fanouts in of_hop.others.iter_mut().chain(named) {
            *fanouts = vec![fanouts[hop]];
        }
        of_hop
    }

    fn lists(&self) -> impl Iterator<Item = &Vec<Fanout>> {
        self.others.iter().chain(self.named.iter().map(|(_, fanouts)| fanouts))
    }

    fn lengths(&self) -> impl Iterator<Item = usize> {
        self.lists().map(Vec::len)
    }

    /// Makes the fan-outs of a graph from `[hop][edge type]`: one list if all edge types have the same one.
    pub(crate) fn of_types(meta: &Meta, by_hop: &[Vec<Fanout>]) -> Self {
        let num_types = meta.edge_types.len();
        let lists: Vec<Vec<Fanout>> =
            (0..num_types).map(|e| by_hop.iter().map(|fanouts| fanouts[e]).collect()).collect();
        if let Some((first, others)) = lists.split_first()
            && others.iter().all(|list| list == first)
        {
            return first.clone().into();
        }
        Self { others: None, named: meta.edge_types.iter().map(triple).zip(lists).collect() }
    }

    /// Returns the fan-outs for a graph as `[hop][edge type]`.
    ///
    /// # Errors
    /// A message about a name that no edge type has, or an edge type without a fan-out.
    pub(crate) fn of_graph(&self, meta: &Meta) -> Result<Vec<Vec<Fanout>>, String> {
        let has_name = |e: &EdgeTypeMeta, name: &str| triple(e) == name || e.relation == name;
        if let Some((name, _)) = self.named.iter().find(|(name, _)| !meta.edge_types.iter().any(|e| has_name(e, name)))
        {
            let triples: Vec<String> = meta.edge_types.iter().map(triple).collect();
            let relations = meta.edge_types.iter().map(|edges| edges.relation.as_str());
            let hint = suggestion(name, relations.chain(triples.iter().map(String::as_str)));
            return Err(format!(
                "num_neighbors names edge type {name}{hint}, but the graph has {}",
                triples.join(", ")
            ));
        }
        let of_type = |e: &EdgeTypeMeta| -> Result<&Vec<Fanout>, String> {
            // `src__relation__dst` is more specific than the relation, so it takes precedence.
            let exact = self.named.iter().find(|(name, _)| *name == triple(e));
            if let Some((_, fanouts)) = exact.or_else(|| self.named.iter().find(|(name, _)| *name == e.relation)) {
                return Ok(fanouts);
            }
            match &self.others {
                Some(fanouts) => Ok(fanouts),
                None => Err(format!(
                    "num_neighbors has nothing for edge type {}: name it (a fan-out of 0 draws none), or add a list \
                     without a name for all other edge types",
                    triple(e)
                )),
            }
        };
        let by_type = meta.edge_types.iter().map(of_type).collect::<Result<Vec<_>, _>>()?;
        Ok((0..self.num_hops()).map(|hop| by_type.iter().map(|fanouts| fanouts[hop]).collect()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Fanout::{All, Count};

    /// Returns the description of a graph with edge types v0__e0__v1, v1__e1__v0 and so on, as in `fake-hetero`.
    fn meta() -> Meta {
        let node = |name: &str| {
            serde_json::json!({"name": name, "book": [0, 5], "feature_dim": 0, "feature_dtype": "f32",
                "has_labels": false, "num_classes": 0, "split_sizes": [0, 0, 0]})
        };
        let ends = [("v0", "v1"), ("v1", "v0"), ("v1", "v2"), ("v2", "v1"), ("v2", "v0"), ("v0", "v2")];
        let edge = |(i, (src, dst)): (usize, &(&str, &str))| serde_json::json!({"src_type": src, "relation": format!("e{i}"), "dst_type": dst, "num_edges": 1});
        let edges: Vec<serde_json::Value> = ends.iter().enumerate().map(edge).collect();
        let nodes = ["v0", "v1", "v2"].map(node);
        let part = serde_json::json!({"nodes": 15, "edges": 6, "train_nodes": 0, "halo_nodes": 0});
        serde_json::from_value(serde_json::json!({
            "format": "edgecut-partition", "version": 1, "dataset": "test", "num_parts": 1,
            "provenance": {"method": "random", "recursive": false, "seed": 0, "balance": [], "split": null},
            "node_types": nodes, "files": {},
            "edge_types": edges,
            "report": {"parts": [part], "cut_edges": 0, "cut_fraction": 0.0, "remote_neighbor_fraction": 0.0},
        }))
        .expect("a description")
    }

    #[test]
    fn each_edge_type_has_its_own_or_what_all_others_have() {
        let fanouts: NumNeighbors = "e0=3,-1; v2__e3__v1 = 0,4; 7,8".parse().unwrap();
        let found = fanouts.of_graph(&meta()).unwrap();
        assert_eq!(found[0], [Count(3), Count(7), Count(7), Count(0), Count(7), Count(7)]);
        assert_eq!(found[1][..4], [All, Count(8), Count(8), Count(4)]);
        let same: NumNeighbors = vec![Count(2)].into();
        assert_eq!(same.of_graph(&meta()).unwrap(), [[Count(2); 6]]);
        assert_eq!(NumNeighbors::of_types(&meta(), &[vec![Count(2); 6]]), same);
        let written = NumNeighbors::of_types(&meta(), &found);
        assert_eq!(written.of_graph(&meta()).unwrap(), found);
        assert_eq!(written.to_string().parse::<NumNeighbors>().unwrap().of_graph(&meta()).unwrap(), found);
        let others_draw_nothing: NumNeighbors = "e0=3,3;0,0".parse().unwrap();
        assert_eq!(
            others_draw_nothing.of_graph(&meta()).unwrap()[1],
            [Count(3), Count(0), Count(0), Count(0), Count(0), Count(0)]
        );
    }

    #[test]
    fn exhaustive_fan_outs_draw_nothing_where_the_others_draw_nothing() {
        let fanouts: NumNeighbors = "e0=3,0;e1=0,0;7,8".parse().unwrap();
        let all = fanouts.exhaustive();
        assert!(fanouts.skips_hops() && all.skips_hops() && all.are_all() && !fanouts.are_all());
        let found = all.of_graph(&meta()).unwrap();
        assert_eq!([&found[0][..3], &found[1][..3]], [[All, Count(0), All], [Count(0), Count(0), All]]);
        assert_eq!(all.of_hop(1).of_graph(&meta()).unwrap(), [&found[1][..]]);
        let without_names: NumNeighbors = vec![All; 2].into();
        assert_eq!("e9=3,2".parse::<NumNeighbors>().unwrap().exhaustive(), without_names);
    }

    #[test]
    fn contradictory_fan_outs_are_rejected() {
        let parse = |text: &str| text.parse::<NumNeighbors>().unwrap_err();
        assert!(parse("e0=3,2;e1=3").contains("different lengths"));
        assert!(parse("e0=3;e0=4").contains("twice"));
        assert!(parse("=3").contains("not at all"));
        assert!(parse("1,2;3,4").contains("two lists without"));
        assert!(parse("e0=3,x").contains("\"x\""));
        assert!(parse("e0=3;99999999999").contains("\"99999999999\""));
        let of_graph = |text: &str| text.parse::<NumNeighbors>().unwrap().of_graph(&meta()).unwrap_err();
        assert!(of_graph("e9=3;2").contains("names edge type e9, but the graph has v0__e0__v1, "));
        assert!(of_graph("e0=3").contains("nothing for edge type v1__e1__v0"));
    }
}
