//! GraphSAGE as a model of one's own: `own-model PARTS_DIR MODEL_FILE` trains it with two processes.

use edgecut::burn::tensor::{Tensor, backend::Backend};
use edgecut::burn::{self, backend::Autodiff, module::Module};
use edgecut::prelude::*;
use std::{env, path::Path, sync::Arc};

/// A two-layer GraphSAGE.
#[derive(Module, Debug)]
struct Sage<B: Backend> {
    layers: Vec<SageConv<B>>,
}

impl<B: Backend> Sage<B> {
    fn new(num_features: usize, num_classes: usize, device: &B::Device) -> Self {
        let mut init = WeightInit::new(0);
        let mut layer = |fan_in, fan_out| SageConvConfig::new(fan_in, fan_out).init(&mut init, device);
        Self { layers: vec![layer(num_features, 256), layer(256, num_classes)] }
    }
}

impl<B: GnnBackend> NodeClassifier<B> for Sage<B> {
    fn forward(&self, input: ModelInput<B>, mode: Mode) -> Result<Tensor<B, 2>, ModelError> {
        let blocks = input.blocks();
        let x = self.layers[0].forward(input.features(), &blocks[0], mode.relu_and_dropout(0.5, 1));
        Ok(self.layers[1].forward(x, &blocks[1], Activation::Identity))
    }
}

fn run(cluster: &Cluster, parts: &Path, model_file: &Path) -> anyhow::Result<()> {
    let part = Arc::new(DistGraph::open_part(parts, cluster.rank(), cluster.world_size(), false)?);
    let meta = part.meta().clone();
    let graph = DistGraph::start(part, cluster.clone(), DistGraphConfig::default())?;
    let mut world = cluster.world()?;
    let device = Default::default();
    let sampler = SamplerConfig::new(vec![Fanout::Count(15), Fanout::Count(10)]);
    let training = TrainingConfig::new(ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean }), sampler);
    let config = NodeTrainingConfig { training, ..NodeTrainingConfig::default() };
    let task = NodeTask::new(&graph, &config, BatchOptions::default(), &device, &mut world)?;
    let model = Sage::<Autodiff<Cpu>>::new(meta.node_types[0].feature_dim, meta.node_types[0].num_classes, &device);
    let fitted = fit(task, model, (), &config.training.fit, &mut world, &mut ())?;
    if cluster.rank() == 0 {
        println!("{:?}", fitted.result);
        save_model(model_file, &fitted.model, &fitted.settings, &[])?;
    }
    Ok(())
}

fn main() -> anyhow::Result<()> {
    let [parts, model_file] = [1, 2].map(|at| env::args_os().nth(at).unwrap_or_default());
    Ok(spawn(2, |cluster| run(&cluster, parts.as_ref(), model_file.as_ref()))?)
}
