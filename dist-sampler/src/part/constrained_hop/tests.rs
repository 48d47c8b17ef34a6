use super::*;
use crate::batch_key::BatchKey;
use crate::config::labor::Labor;
use crate::config::sampling_policy::Temporal;
use crate::part::source_ids::copies_of;
use edgecut_graph::{Csc, EdgeAttributes, HeldOutEdges, NodeTypeId, SplitIndex};
use proptest::prelude::*;
use std::collections::HashMap;
use std::num::NonZeroU32;

/// Returns a star: row 0 has `degree` neighbors, with node `i + 1` at position `i`.
fn star(weights: Option<Vec<f32>>, times: Option<Vec<i64>>, degree: usize) -> PartEdges {
    let indices: Vec<u32> = (1..=degree as u32).collect();
    PartEdges {
        src_type: NodeTypeId(0),
        dst_type: NodeTypeId(0),
        csc: Csc::new(vec![0, degree as u64].into(), indices.into(), degree + 1).expect("a star"),
        attributes: EdgeAttributes {
            weights: weights.map(Into::into),
            times: times.map(Into::into),
            ..EdgeAttributes::default()
        },
        split_index: SplitIndex::default(),
        src_times: None,
        held_out: HeldOutEdges::default(),
    }
}

/// Returns the neighbors that are drawn.
fn draw(edges: &PartEdges, fanout: Fanout, rule: SamplingPolicy, key: u64, time: Option<i64>) -> Vec<u32> {
    let drawn = draw_words(edges, fanout, rule, key, time);
    drawn[..drawn.len() / 2].to_vec()
}

/// Returns the positions of `count` neighbors that are drawn.
fn draw_positions(edges: &PartEdges, count: u32, rule: SamplingPolicy, key: u64) -> Vec<u32> {
    let drawn = draw_words(edges, Fanout::Count(count), rule, key, None);
    drawn[drawn.len() / 2..].to_vec()
}

/// Returns the neighbors that are drawn, then their positions.
fn draw_words(edges: &PartEdges, fanout: Fanout, rule: SamplingPolicy, key: u64, time: Option<i64>) -> Vec<u32> {
    // In the middle of a batch dependency, if there is one.
    let batch = rule.labor.map_or(0, |labor| u64::from(labor.batch_dependency.get() / 2));
    let of_batch = BatchKey { seed: key, epoch: 0, batch };
    let copies = copies_of(&edges.csc);
    let shared = rule.labor.map(|labor| SharedNumbers {
        variates: LayerVariates::new(labor, of_batch, NodeTypeId(0)),
        sources: Sources { originals: edges.csc.indices(), copies: &copies },
    });
    let draw = ConstrainedDraw { edges, original_ids: &[7], fanout, rule, key, positions: true, shared, sources: None };
    let mut out = Vec::new();
    draw.sample_hop(&[Query { row: 0, group: None, time }], &mut out, usize::MAX).expect("no limit");
    assert_eq!(2 * out[0] as usize, out.len() - 1);
    out.split_off(1)
}

/// Returns neighbor sampling, and layer-neighbor sampling with and without a batch dependency.
fn methods() -> [Option<Labor>; 3] {
    [0, 1, 4].map(|batches| NonZeroU32::new(batches).map(|batch_dependency| Labor { batch_dependency }))
}

const WEIGHTED: SamplingPolicy =
    SamplingPolicy { replace: false, weighted: true, temporal: None, labor: None, isolated: false };

fn temporal(strategy: TemporalStrategy, weighted: bool) -> SamplingPolicy {
    let temporal = Some(Temporal { attr: TimeAttr::EdgeTime, strategy });
    SamplingPolicy { weighted, temporal, ..SamplingPolicy::default() }
}

/// Returns the probability that sequential draws, each in proportion to the remaining weights, give exactly this set.
fn probability_of(set: u32, weights: &[f32]) -> f64 {
    fn orders(left: u32, taken: u32, weights: &[f32]) -> f64 {
        if left == 0 {
            return 1.0;
        }
        let rest: f64 = (0..weights.len()).filter(|&i| taken >> i & 1 == 0).map(|i| f64::from(weights[i])).sum();
        (0..weights.len())
            .filter(|&i| left >> i & 1 == 1)
            .map(|i| f64::from(weights[i]) / rest * orders(left & !(1 << i), taken | 1 << i, weights))
            .sum()
    }
    orders(set, 0, weights)
}

#[test]
fn sets_are_drawn_with_the_probabilities_of_their_weights() {
    let weights = [1.0, 2.0, 0.0, 4.0, 0.5, 3.0, 1.5];
    let edges = star(Some(weights.to_vec()), None, weights.len());
    let draws = 40_000_u64;
    // 99.9 % quantiles of the chi-square distribution with (6 choose k) - 1 degrees of freedom.
    let cases = [(1, 20.5), (2, 36.1), (3, 43.8)].into_iter().flat_map(|case| methods().map(|labor| (case, labor)));
    for ((count, bound), labor) in cases {
        let mut found: HashMap<u32, f64> = HashMap::new();
        let rule = SamplingPolicy { labor, ..WEIGHTED };
        for key in 0..draws {
            let set = draw(&edges, Fanout::Count(count), rule, combine(3, key), None);
            assert_eq!(set.len(), count as usize);
            *found.entry(set.iter().fold(0, |set, node| set | 1 << (node - 1))).or_default() += 1.0;
        }
        let mut statistic = 0.0;
        for set in (0_u32..1 << weights.len()).filter(|set| set.count_ones() == count && set >> 2 & 1 == 0) {
            let expected = probability_of(set, &weights) * draws as f64;
            statistic += (found.remove(&set).unwrap_or(0.0) - expected).powi(2) / expected;
        }
        assert!(found.is_empty(), "an edge of weight 0 was drawn: {found:?}");
        assert!(statistic < bound, "{count} of {weights:?}, {labor:?}: chi-square {statistic} > {bound}");
    }
}

#[test]
fn shared_numbers_draw_all_sets_of_edges_equally_often() {
    let weights = Some(vec![1.0; 6]);
    // Six different sources, and three edges of one source and two of another.
    let sources = [[1, 2, 3, 4, 5, 6], [4, 2, 4, 1, 2, 4]];
    let cases = sources.into_iter().flat_map(|sources| methods().map(|labor| (sources, labor)));
    for ((sources, labor), weighted) in cases.flat_map(|case| [(case, false), (case, true)]) {
        let mut edges = star(weights.clone(), None, 6);
        edges.csc = Csc::new(vec![0, 6].into(), sources.to_vec().into(), 7).expect("a star");
        let rule = SamplingPolicy { labor, weighted, ..SamplingPolicy::default() };
        let mut found: HashMap<Vec<u32>, f64> = HashMap::new();
        let draws = 40_000_u64;
        for key in 0..draws {
            *found.entry(draw_positions(&edges, 3, rule, combine(9, key))).or_default() += 1.0;
        }
        assert_eq!(found.len(), 20, "all 3-subsets of 6 occur");
        let expected = draws as f64 / 20.0;
        let statistic: f64 = found.values().map(|count| (count - expected).powi(2) / expected).sum();
        let case = format!("{sources:?}, {labor:?}, weighted {weighted}");
        assert!(statistic < 43.8, "{case}: chi-square of 19 degrees of freedom at 99.9 %: {statistic}");
    }
}

#[test]
fn with_replacement_each_draw_follows_the_weights() {
    let weights = [1.0, 0.0, 2.0, 5.0];
    let edges = star(Some(weights.to_vec()), None, 4);
    let rule = SamplingPolicy { replace: true, ..WEIGHTED };
    let mut counts = [0.0_f64; 4];
    for key in 0..5_000 {
        let drawn = draw(&edges, Fanout::Count(6), rule, combine(5, key), None);
        assert_eq!(drawn.len(), 6, "a fan-out above the degree is drawn in full");
        drawn.iter().for_each(|&node| counts[node as usize - 1] += 1.0);
    }
    let expected = weights.map(|w| 30_000.0 * w / 8.0);
    assert_eq!(counts[1], 0.0);
    let statistic: f64 =
        [0, 2, 3].iter().map(|&i| (counts[i] - f64::from(expected[i])).powi(2) / f64::from(expected[i])).sum();
    assert!(statistic < 13.8, "chi-square of 2 degrees of freedom at 99.9 %: {statistic}");
}

#[test]
fn the_latest_are_drawn_and_ties_go_to_the_last() {
    let edges = star(None, Some(vec![5, 9, 5, 1, 5, 7]), 6);
    let last = |count, time| draw(&edges, Fanout::Count(count), temporal(TemporalStrategy::Last, false), 1, Some(time));
    assert_eq!(last(2, 8), [5, 6]);
    assert_eq!(last(3, 9), [2, 5, 6]);
    assert_eq!(last(1, 5), [5]);
    assert_eq!(last(9, 4), [4]);
    assert_eq!(last(9, 0), [0_u32; 0]);
}

#[test]
fn sources_without_times_are_always_there_and_none_is_the_latest() {
    let edges = star(None, None, 6);
    let rule = SamplingPolicy {
        temporal: Some(Temporal { attr: TimeAttr::NodeTime, strategy: TemporalStrategy::Last }),
        ..SamplingPolicy::default()
    };
    let drawn = draw(&edges, Fanout::Count(4), rule, 1, Some(-5));
    assert!(drawn.len() == 4 && drawn.windows(2).all(|w| w[0] < w[1]), "{drawn:?}");
}

#[test]
fn groups_draw_apart_and_a_reply_above_the_limit_is_refused() {
    let edges = star(None, None, 60);
    let draw = ConstrainedDraw {
        edges: &edges,
        original_ids: &[7],
        fanout: Fanout::Count(10),
        rule: SamplingPolicy::default(),
        key: 1,
        positions: false,
        shared: None,
        sources: None,
    };
    let of_group = |group| {
        let mut out = Vec::new();
        draw.sample_hop(&[Query { row: 0, group: Some(group), time: None }], &mut out, 11).expect("11 words fit");
        out
    };
    assert_eq!(of_group(1), of_group(1));
    assert_ne!(of_group(1), of_group(2));
    let query = Query { row: 0, group: None, time: None };
    assert_eq!(draw.sample_hop(&[query], &mut Vec::new(), 10), Err(TooLarge));
}

#[test]
fn a_fan_out_above_the_limit_is_refused_before_memory_is_taken() {
    let edges = star(Some(vec![1.0; 4]), Some(vec![1, 2, 3, 4]), 4);
    let query = Query { row: 0, group: None, time: Some(3) };
    let drawn = |rule: SamplingPolicy| {
        // So many neighbors would take 16 GiB.
        let fanout = Fanout::Count(u32::MAX);
        let draw = ConstrainedDraw {
            edges: &edges,
            original_ids: &[7],
            fanout,
            rule,
            key: 1,
            positions: true,
            shared: None,
            sources: None,
        };
        let mut out = Vec::new();
        draw.sample_hop(&[query], &mut out, 1000).map(|()| out[0])
    };
    assert_eq!(drawn(SamplingPolicy { replace: true, ..SamplingPolicy::default() }), Err(TooLarge));
    assert_eq!(drawn(SamplingPolicy { replace: true, ..WEIGHTED }), Err(TooLarge));
    assert_eq!(drawn(SamplingPolicy { replace: true, ..temporal(TemporalStrategy::Uniform, false) }), Err(TooLarge));
    // The latest are distinct, and so are all that are drawn without replacement.
    assert_eq!(drawn(SamplingPolicy { replace: true, ..temporal(TemporalStrategy::Last, false) }), Ok(3));
    assert_eq!(drawn(SamplingPolicy::default()), Ok(4));
}

proptest! {
    #[test]
    fn nothing_is_drawn_that_lies_ahead(
        edges in proptest::collection::vec((-20_i64..20, 0_u8..3), 0..60),
        time in -25_i64..25,
        fanout in proptest::option::of(1_u32..20),
        rule in (any::<bool>(), any::<bool>(), any::<bool>()),
        method in 0_usize..3,
        key: u64,
    ) {
        let (replace, weighted, last) = rule;
        let times: Vec<i64> = edges.iter().map(|edge| edge.0).collect();
        let weights: Vec<f32> = edges.iter().map(|edge| f32::from(edge.1)).collect();
        let graph = star(Some(weights.clone()), Some(times.clone()), edges.len());
        let strategy = if last { TemporalStrategy::Last } else { TemporalStrategy::Uniform };
        let labor = methods()[method].filter(|_| !replace && !last);
        let rule = SamplingPolicy { replace, labor, ..temporal(strategy, weighted) };
        let fanout = fanout.map_or(Fanout::All, Fanout::Count);
        let drawn = draw(&graph, fanout, rule, key, Some(time));
        let legal = |i: usize| times[i] <= time && (!weighted || weights[i] > 0.0);
        let candidates = (0..edges.len()).filter(|&i| legal(i)).count();
        prop_assert!(drawn.iter().all(|&node| legal(node as usize - 1)));
        prop_assert!(drawn.windows(2).all(|w| w[0] <= w[1]), "the order of the edge list");
        let with_replacement = replace && !last && fanout != Fanout::All;
        if !with_replacement {
            prop_assert!(drawn.windows(2).all(|w| w[0] < w[1]));
        }
        let expected = match fanout {
            Fanout::All => candidates,
            Fanout::Count(count) if with_replacement && candidates > 0 => count as usize,
            Fanout::Count(count) => candidates.min(count as usize),
        };
        prop_assert_eq!(drawn.len(), expected);
    }
}
