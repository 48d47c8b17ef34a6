//! Networks over typed edges: compared with separate operations, on sampled batches, saved and loaded, and with batches
//! that do not match.

use edgecut_testing::assert_has;
use std::collections::HashMap;
use std::sync::Arc;

use burn::backend::{Autodiff, NdArray};
use burn::tensor::activation::relu;
use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorData};
use edgecut_gnn::nn::{Aggregation, Decomposition, RelationAggregation};
use edgecut_gnn::ops::{AttentionVersion, BatchGraph, Block, DropoutKey, Reduce};
use edgecut_graph::NodeTypeId;
use edgecut_trainer::EmbeddingTable;
use edgecut_trainer::gradients::{flatten_parameters, num_parameters};
use edgecut_trainer::model_file::{load_model, save_model};
use edgecut_trainer::models::{
    ConvKind, EdgeTypeSchema, GatSettings, GcnSettings, GraphSchema, Mode, ModelError, ModelInput, Network,
    NetworkConfig, NetworkOutput, NodeClassifier, NodeInput, NodeTypeSchema, RgcnSettings, SageSettings,
};

use crate::support::*;

type Plain = NdArray<f64>;

const HIDDEN: usize = 8;
const COUNTS: [usize; 4] = [12, 9, 7, 5];
/// The source and destination node type of each edge type. Node type 3 is not a destination.
const EDGE_TYPES: [(usize, usize); 6] = [(0, 0), (1, 0), (0, 1), (2, 1), (1, 2), (3, 2)];

fn schema() -> GraphSchema {
    let node = |(name, feature_dim): (&str, usize)| NodeTypeSchema::new(name, feature_dim);
    let edge = |(number, &(src, dst)): (usize, &(usize, usize))| {
        let id = |t: usize| NodeTypeId(t as u16);
        EdgeTypeSchema::new(id(src), format!("e{number}"), id(dst))
    };
    GraphSchema {
        node_types: [("a", 5), ("b", 3), ("c", 0), ("d", 4)].map(node).to_vec(),
        edge_types: EDGE_TYPES.iter().enumerate().map(edge).collect(),
    }
}

fn config(kind: ConvKind) -> NetworkConfig {
    NetworkConfig::typed(kind, schema(), NetworkOutput { node_type: NodeTypeId(0), channels: 3 }, HIDDEN, 2)
}

fn kinds() -> Vec<ConvKind> {
    let gat = |version| ConvKind::Gat(GatSettings { heads: 2, version, attention_dropout: 0.2, projection_bias: true });
    let rgcn = |decomposition| ConvKind::Rgcn(RgcnSettings { decomposition });
    vec![
        ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean }),
        ConvKind::Sage(SageSettings { aggregation: Aggregation::Max }),
        gat(AttentionVersion::V1),
        gat(AttentionVersion::V2),
        rgcn(Decomposition::None),
        rgcn(Decomposition::Basis { num_bases: 2 }),
        rgcn(Decomposition::BlockDiagonal { num_blocks: 4 }),
    ]
}

/// Returns all combinations of settings that change the layers.
fn configs() -> Vec<NetworkConfig> {
    let with = |kind: ConvKind| {
        [(false, false), (true, false), (false, true), (true, true)].map(|(residual, layer_norm)| NetworkConfig {
            residual,
            layer_norm,
            relation_aggregation: RelationAggregation::Mean,
            ..config(kind)
        })
    };
    kinds().into_iter().flat_map(with).collect()
}

/// A whole graph: the in-neighbors of each node by edge type, and the rows of each node type.
struct Whole {
    neighbors: Vec<Vec<Vec<u32>>>,
    rows: Vec<(usize, Vec<f64>)>,
}

impl Whole {
    fn new() -> Self {
        let mut draws = Draws(9);
        let neighbors = EDGE_TYPES.map(|(src, dst)| {
            let of_node = |draws: &mut Draws| {
                let degree = draws.below(4);
                (0..degree).map(|_| draws.below(COUNTS[src]) as u32).collect()
            };
            (0..COUNTS[dst]).map(|_| of_node(&mut draws)).collect()
        });
        let widths = schema().node_types.into_iter().map(|t| if t.feature_dim == 0 { HIDDEN } else { t.feature_dim });
        let rows = widths.zip(COUNTS).map(|(width, count)| (width, draws.floats(width * count))).collect();
        Self { neighbors: neighbors.to_vec(), rows }
    }

    /// Makes the batch of seeds of type 0 with all neighbors of two hops, as a sampler with unlimited fan-outs would.
    fn batch<B: Backend>(&self, seeds: &[u32]) -> ModelInput<B> {
        let mut known: Vec<Vec<u32>> = vec![seeds.to_vec(), vec![], vec![], vec![]];
        let mut numbers: Vec<HashMap<u32, u32>> = vec![HashMap::new(); 4];
        numbers[0] = seeds.iter().copied().zip(0..).collect();
        let mut within_hop: Vec<Vec<usize>> = known.iter().map(|nodes| vec![nodes.len()]).collect();
        let mut edges: Vec<(Vec<u32>, Vec<u32>)> = vec![(vec![0], vec![]); EDGE_TYPES.len()];
        for hop in 0..2 {
            for (e, &(src, dst)) in EDGE_TYPES.iter().enumerate() {
                let (indptr, indices) = &mut edges[e];
                for row in indptr.len() - 1..within_hop[dst][hop] {
                    for &source in &self.neighbors[e][known[dst][row] as usize] {
                        let next = known[src].len() as u32;
                        let number = *numbers[src].entry(source).or_insert(next);
                        if number == next {
                            known[src].push(source);
                        }
                        indices.push(number);
                    }
                    indptr.push(indices.len() as u32);
                }
            }
            within_hop.iter_mut().zip(&known).for_each(|(within_hop, known)| within_hop.push(known.len()));
        }
        let blocks = edges.into_iter().zip(EDGE_TYPES).map(|((indptr, indices), (src, dst))| {
            let graph = Arc::new(BatchGraph::new(indptr, indices, known[src].len()).expect("a graph"));
            Block::layers_between(&graph, &within_hop[dst], &within_hop[src]).expect("blocks")
        });
        let blocks = blocks.collect();
        self.input(&known, within_hop, blocks)
    }

    /// Makes the batch of all nodes in both layers.
    fn all<B: Backend>(&self) -> ModelInput<B> {
        let known: Vec<Vec<u32>> = COUNTS.iter().map(|&count| (0..count as u32).collect()).collect();
        let blocks = self.neighbors.iter().zip(EDGE_TYPES).map(|(neighbors, (src, dst))| {
            let mut indptr = vec![0];
            neighbors.iter().for_each(|of_node| indptr.push(indptr[indptr.len() - 1] + of_node.len() as u32));
            let graph = Arc::new(BatchGraph::new(indptr, neighbors.concat(), COUNTS[src]).expect("a graph"));
            Block::layers_between(&graph, &[COUNTS[dst]; 3], &[COUNTS[src]; 3]).expect("blocks")
        });
        let blocks = blocks.collect();
        self.input(&known, COUNTS.iter().map(|&count| vec![count; 3]).collect(), blocks)
    }

    fn input<B: Backend>(
        &self,
        known: &[Vec<u32>],
        within_hop: Vec<Vec<usize>>,
        blocks: Vec<Vec<Block>>,
    ) -> ModelInput<B> {
        let tensor = |t: usize| {
            let (width, rows) = &self.rows[t];
            let values = known[t].iter().flat_map(|&node| rows[node as usize * width..][..*width].iter().copied());
            let data = TensorData::new(values.collect::<Vec<f64>>(), [known[t].len(), *width]);
            Tensor::<B, 2>::from_data(data, &Default::default())
        };
        let node = |(t, within_hop): (usize, Vec<usize>)| {
            let features = (t != 2).then(|| tensor(t));
            NodeInput { features, within_hop }
        };
        let nodes = within_hop.into_iter().enumerate().map(node).collect();
        let input = ModelInput::typed(Arc::new(schema()), nodes, blocks).expect("a batch that fits");
        input.with_embeddings(NodeTypeId(2), tensor(2)).expect("rows that fit")
    }
}

#[test]
fn a_sampled_batch_equals_the_whole_graph_where_all_neighbors_were_drawn() {
    let whole = Whole::new();
    for config in configs() {
        let model: Network<Plain> = config.init(5, &Default::default()).expect("a valid model");
        let all = values(model.forward(whole.all(), Mode::Eval).expect("a batch that fits"));
        let batch = whole.batch(&[7, 2]);
        assert_eq!(batch.num_seeds(), 2);
        let found = values(model.forward(batch.clone(), Mode::Eval).expect("a batch that fits"));
        assert_close(&found, &[&all[21..24], &all[6..9]].concat(), 1e-12, &format!("{config:?}"));
        let by_type = model.forward_by_type(&batch, Mode::Eval).expect("a batch that fits");
        assert_eq!(by_type.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, false, false]);
    }
}

#[test]
fn seeds_of_every_type_come_out() {
    let whole = Whole::new();
    let mut config = config(ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean }));
    config.outputs.push(NetworkOutput { node_type: NodeTypeId(1), channels: 4 });
    let model: Network<Plain> = config.init(5, &Default::default()).expect("a valid model");
    let outputs = model.forward_by_type(&whole.all(), Mode::Eval).expect("a batch that fits");
    let shapes: Vec<_> = outputs.iter().map(|output| output.as_ref().expect("seeds").dims()).collect();
    assert_eq!(shapes, [[12, 3], [9, 4], [7, HIDDEN], [5, HIDDEN]]);
}

/// Computes the typed SAGE network by separate operations.
fn slow_sage(model: &Network<Plain>, input: &ModelInput<Plain>) -> Tensor<Plain, 2> {
    let config = model.config();
    let mut rows: Vec<Tensor<Plain, 2>> = Vec::new();
    for (encoder, nodes) in model.encoders.iter().zip(input.nodes()) {
        let features = nodes.features.clone().expect("features or embeddings");
        rows.push(match encoder {
            Some(dense) => relu(features.matmul(dense.weight.val()) + dense.bias.val().unsqueeze()),
            None => features,
        });
    }
    for (number, layer) in model.layers.iter().enumerate() {
        let normalised: Vec<Tensor<Plain, 2>> = if config.layer_norm {
            rows.iter()
                .map(|rows| {
                    let centered = rows.clone() - rows.clone().mean_dim(1);
                    let variance = centered.clone().powi_scalar(2).mean_dim(1);
                    centered / (variance + 1e-5).sqrt()
                })
                .collect()
        } else {
            rows.clone()
        };
        let mut next = rows.clone();
        for (t, next) in next.iter_mut().enumerate() {
            let Some(own) = &hetero(&layer.conv).own[t] else { continue };
            let mut output = normalised[t].clone().matmul(own.weight.val()) + own.bias.val().unsqueeze();
            let entering = EDGE_TYPES.iter().filter(|(_, dst)| *dst == t).count() as f64;
            for (e, _) in EDGE_TYPES.iter().enumerate().filter(|(_, (_, dst))| *dst == t) {
                let block = &input.blocks_of(edgecut_graph::EdgeTypeId(e as u16))[number];
                let mean = gather_scatter(normalised[EDGE_TYPES[e].0].clone(), block, &Reduce::Mean);
                output =
                    output + mean.matmul(sage(&hetero(&layer.conv).relations[e]).weight_neighbors.val()) / entering;
            }
            *next = if config.residual { next.clone() + relu(output) } else { relu(output) };
        }
        rows = next;
    }
    let dense = model.outputs[0].as_ref().expect("an output");
    rows.swap_remove(0).matmul(dense.weight.val()) + dense.bias.val().unsqueeze()
}

#[test]
fn equals_its_operations_one_by_one() {
    let input = Whole::new().all();
    for config in configs() {
        if config.kind == (ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean })) {
            let model: Network<Plain> = config.init(6, &Default::default()).expect("a valid model");
            let found = values(model.forward(input.clone(), Mode::Eval).expect("a batch that fits"));
            assert_close(&found, &values(slow_sage(&model, &input)), 1e-11, &format!("{config:?}"));
        }
    }
}

#[test]
fn parameters_are_counted_and_come_back_from_disk() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("model.safetensors");
    for config in configs() {
        let table = |name: &str| {
            let values = (0..5 * config.hidden_channels).map(|i| i as f32).collect();
            EmbeddingTable { node_type: name.to_owned(), dim: config.hidden_channels, values }
        };
        let tables: Vec<EmbeddingTable> = config.graph.embedded_types().into_iter().map(table).collect();
        let model: Network<NdArray> = config.init(1, &Default::default()).expect("a valid model");
        assert_eq!(config.num_parameters(), Some(num_parameters(&model)), "{config:?}");
        save_model(&path, &model, &config, &tables).expect("a written file");
        let (loaded, loaded_config, loaded_tables) =
            load_model::<NdArray, NetworkConfig>(&path, &Default::default()).expect("a model");
        assert_eq!((loaded_config, loaded_tables), (config.clone(), tables));
        let bits = |model| flatten_parameters(model).into_iter().map(f32::to_bits).collect::<Vec<_>>();
        assert_eq!(bits(&loaded), bits(&model));
        let again: Network<NdArray> = config.init(1, &Default::default()).expect("a valid model");
        assert_eq!(bits(&again), bits(&model), "the initial weights depend on the seed only");
    }
}

#[test]
fn gradients_and_dropout_do_not_depend_on_the_number_of_threads() {
    let whole = Whole::new();
    for config in configs() {
        let config = NetworkConfig { dropout: 0.3, input_dropout: 0.1, ..config };
        let model: Network<Autodiff<NdArray>> = config.init(5, &Default::default()).expect("a valid model");
        let run = |threads: usize, step: u64| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
            pool.install(|| {
                let model = with_new_leaves(&model);
                let mode = Mode::Train(DropoutKey::new(1, 0, step));
                let logits = model.forward(whole.batch(&[1, 4, 5]), mode).expect("a batch that fits");
                let gradients = logits.clone().powi_scalar(2).sum().backward();
                let gradients = burn::optim::GradientsParams::from_grads(gradients, &model);
                let flat = edgecut_trainer::gradients::flatten_gradients(&model, gradients);
                (values(logits), flat.into_iter().map(f32::to_bits).collect::<Vec<_>>())
            })
        };
        let one = run(1, 0);
        assert!(one.1.iter().any(|&bits| bits != 0));
        assert!(one == run(4, 0), "{config:?}");
        assert!(one != run(1, 1), "other steps have other masks");
    }
}

#[test]
fn rejects_settings_and_batches_that_do_not_fit() {
    let sage = ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean });
    let settings = |config: NetworkConfig| config.validate().expect_err("wrong settings").to_string();
    let gat = GatSettings { heads: 3, version: AttentionVersion::V2, attention_dropout: 0.0, projection_bias: true };
    let blocks = Decomposition::BlockDiagonal { num_blocks: 3 };
    for (kind, what) in [
        (ConvKind::Gcn(GcnSettings), "a GCN takes homogeneous graphs"),
        (ConvKind::Gat(gat), "3 heads do not divide 8"),
        (ConvKind::Gat(GatSettings { heads: 2, attention_dropout: 1.0, ..gat }), "attention_dropout is 1"),
        (ConvKind::Rgcn(RgcnSettings { decomposition: blocks }), "3 blocks do not divide 8 channels"),
    ] {
        assert_has(settings(config(kind)), &[what]);
    }
    let mut twice = config(sage);
    twice.outputs.push(twice.outputs[0]);
    assert!(settings(twice).contains("two outputs"));
    let vast = NetworkConfig { hidden_channels: usize::MAX / 2, ..config(sage) };
    assert_eq!(vast.validate(), Err(ModelError::TooLarge));

    let whole = Whole::new();
    let device = Default::default();
    let error = |config: NetworkConfig, input: ModelInput<Plain>| {
        let model: Network<Plain> = config.init(0, &device).expect("a valid model");
        model.forward(input, Mode::Eval).expect_err("a batch that does not fit").to_string()
    };
    let mut other = config(sage);
    other.graph.edge_types[1].relation = "writes".into();
    assert!(error(other, whole.all()).contains("edge type b__e1__a instead of edge type b__writes__a"));
    let three = NetworkConfig { num_layers: 3, ..config(sage) };
    assert!(error(three, whole.all()).contains("2 blocks for a model of 3 layers"));
    let narrow = whole.all().with_embeddings(NodeTypeId(2), Tensor::zeros([7, 2], &device)).expect("rows that fit");
    assert!(error(config(sage), narrow).contains("node type c: 2 columns"));
    let rows = whole.all::<Plain>().with_embeddings(NodeTypeId(2), Tensor::zeros([6, HIDDEN], &device)).err();
    let what = "node type c: 6 rows of features or embeddings for 7 nodes".into();
    assert_eq!(rows, Some(ModelError::Batch { what }));
    let stack = NetworkConfig::stack(sage, 5, 8, 3, 2);
    assert!(error(stack, whole.all()).contains("node type a with 5 features instead of nodes with 5 features"));
    let several = NetworkConfig { encoders: false, ..config(sage) };
    assert!(settings(several).contains("needs encoders"));
}
