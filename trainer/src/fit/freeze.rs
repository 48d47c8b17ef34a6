//! Freezing parameters: they keep their values in training.

use crate::embeddings::Embeddings;
use crate::error::TrainError;
use crate::model_file::{ModulePath, follows_path, tensor_names};
use burn::module::{AutodiffModule, ModuleMapper, Param};
use burn::tensor::Tensor;
use burn::tensor::backend::{AutodiffBackend, Backend};
use edgecut_settings::suggestion;

/// The name of all embeddings.
const EMBEDDINGS: &str = "embeddings";

/// Freezes the parameters and embeddings that `names` selects: a name is a tensor's name, or the first parts of the
/// names of several tensors, up to a dot. Frozen parameters have no gradients, so that the optimizer skips them. They
/// are in no all-reduce of gradients, no norm of gradients and no step of the optimizer. The average of running
/// statistics includes them, in `f64`, so they keep every bit (`programs/train/tests/warm_start.rs`).
///
/// # Errors
/// [`TrainError::Config`] for a name that selects nothing, or if nothing would be trained.
pub(super) fn freeze<B: AutodiffBackend, M: AutodiffModule<B>>(
    model: M,
    embeddings: &mut Embeddings,
    names: &[String],
) -> Result<M, TrainError> {
    if names.is_empty() {
        return Ok(model);
    }
    let parameters = tensor_names(&model).into_iter().filter(|tensor| tensor.is_trained).map(|tensor| tensor.name);
    let tables = embeddings.named_tables().into_iter().map(|table| format!("{EMBEDDINGS}.{}", table.node_type));
    let all: Vec<String> = parameters.chain(tables).collect();
    if let Some(unknown) = names.iter().find(|name| !all.iter().any(|tensor| selects(name, tensor))) {
        let layers = layers(&all);
        let hint = suggestion(unknown, layers.iter().map(String::as_str));
        let what =
            format!("`freeze` names {unknown}, but the model has no such layer{hint}: it has {}", layers.join(", "));
        return Err(TrainError::Config { what });
    }
    let is_frozen = |tensor: &str| names.iter().any(|name| selects(name, tensor));
    if all.iter().all(|tensor| is_frozen(tensor)) {
        let what = "`freeze` selects all parameters of the model, so there is nothing to train: name fewer layers";
        return Err(TrainError::config(what));
    }
    embeddings.freeze(|node_type| freezes_embedding(names, node_type));
    Ok(model.map(&mut Freeze { path: ModulePath::default(), is_frozen }))
}

/// Returns true if `names` selects the embeddings of a node type.
pub(crate) fn freezes_embedding(names: &[String], node_type: &str) -> bool {
    names.iter().any(|name| selects(name, &format!("{EMBEDDINGS}.{node_type}")))
}

struct Freeze<F> {
    path: ModulePath,
    is_frozen: F,
}

impl<B: Backend, F: Fn(&str) -> bool> ModuleMapper<B> for Freeze<F> {
    follows_path!(path);

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        if (self.is_frozen)(&self.path.name()) { param.set_require_grad(false) } else { param }
    }
}

/// Returns whether a name selects a tensor: `layers.1` selects `layers.1.bias`, but not `layers.10.bias`.
fn selects(name: &str, tensor: &str) -> bool {
    tensor.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Returns the names of the layers that tensors belong to, each once: the part of a tensor's name up to its first number,
/// or else up to its last dot.
pub(super) fn layers<S: AsRef<str>>(tensors: impl IntoIterator<Item = S>) -> Vec<String> {
    let mut layers: Vec<String> = Vec::new();
    for tensor in tensors {
        let parts: Vec<&str> = tensor.as_ref().split('.').collect();
        let number = parts.iter().position(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
        // The name of a node type may have dots and numbers.
        let is_table = parts.first() == Some(&EMBEDDINGS);
        let length = if is_table { 1 } else { number.map_or((parts.len() - 1).max(1), |number| number + 1) };
        let layer = parts[..length].join(".");
        if !layers.contains(&layer) {
            layers.push(layer);
        }
    }
    layers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gradients::{flatten_parameters, num_trained_parameters};
    use crate::models::{ConvKind, GraphSchema, Network, NetworkConfig, NetworkOutput, SageSettings};
    use burn::backend::{Autodiff, NdArray};
    use edgecut_gnn::nn::Aggregation;
    use edgecut_graph::NodeTypeId;

    type Grad = Autodiff<NdArray>;

    fn model() -> Network<Grad> {
        let kind = ConvKind::Sage(SageSettings { aggregation: Aggregation::Mean });
        let output = NetworkOutput { node_type: NodeTypeId(0), channels: 3 };
        let config = NetworkConfig::typed(kind, GraphSchema::homogeneous(4), output, 5, 11);
        config.init(0, &Default::default()).expect("a model")
    }

    fn frozen(names: &[&str]) -> Result<Network<Grad>, TrainError> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        freeze(model(), &mut Embeddings::default(), &names)
    }

    #[test]
    fn names_select_whole_parts() {
        let all = num_trained_parameters(&model());
        let layer = 5 * 5 + 5 * 5 + 5;
        for (names, count) in [
            (&[][..], 0),
            (&["layers.1"], layer),
            (&["layers.10", "layers.1"], 2 * layer),
            (&["layers"], 11 * layer),
            (&["encoders", "outputs.0.bias"], 4 * 5 + 5 + 3),
        ] {
            let model = frozen(names).expect("layers of the model");
            assert_eq!(num_trained_parameters(&model), all - count, "{names:?}");
            assert_eq!(flatten_parameters(&model), flatten_parameters(&self::model()), "the values stay");
        }
    }

    #[test]
    fn embeddings_are_frozen_by_their_node_type_or_together() {
        for (name, node_type, is_frozen) in [
            ("embeddings", "user", true),
            ("embeddings.user", "user", true),
            ("embeddings.user", "users", false),
            ("layers.0", "user", false),
        ] {
            assert_eq!(freezes_embedding(&[name.to_owned()], node_type), is_frozen, "{name} {node_type}");
        }
    }

    #[test]
    fn unknown_names_and_all_names_are_refused() {
        for unknown in ["layer", "layers.11", "layers.0.conv.own.0.weigh", "embeddings", ""] {
            let error = frozen(&["layers.0", unknown]).expect_err("an unknown name").to_string();
            let hint = if unknown.contains("weigh") { " (did you mean layers.0?)" } else { "" };
            let expected =
                format!("`freeze` names {unknown}, but the model has no such layer{hint}: it has encoders.0, ");
            assert!(error.starts_with(&expected) && error.ends_with("layers.10, outputs.0"), "{error}");
        }
        let error = frozen(&["layers", "encoders", "outputs"]).expect_err("nothing to train").to_string();
        assert!(error.contains("nothing to train"), "{error}");
    }

    #[test]
    fn layers_are_listed_once() {
        let tensors = ["encoder.layers.0.a", "encoder.layers.0.b.1.c", "decoder.relations", "scale", "embeddings.a.1"];
        assert_eq!(layers(tensors), ["encoder.layers.0", "decoder", "scale", "embeddings"]);
    }
}
