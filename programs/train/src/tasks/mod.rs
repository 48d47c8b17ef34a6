//! The commands that train.

use crate::progress::reporter::Reporter;
use edgecut_gnn::nn::{EdgeFeatureUse, FlagValues, LayerForm};
use edgecut_graph::Meta;
use edgecut_trainer::models::ConvKind;

pub(crate) mod edge;
pub(crate) mod graph;
pub(crate) mod link;
pub(crate) mod model_bytes;
pub(crate) mod node;
pub(crate) mod saved_model;

/// Tells that edges have features if a convolution does not read them.
fn note_unread_edge_features(reporter: &Reporter, kind: ConvKind, has_features: bool) {
    if !has_features || kind.edge_features() != EdgeFeatureUse::Ignored {
        return;
    }
    let mut others: Vec<&str> = Vec::new();
    for model in ConvKind::model_names(LayerForm::Typed) {
        let reads = ConvKind::from_flags(model.name, FlagValues::new())
            .is_ok_and(|other| other.edge_features() != EdgeFeatureUse::Ignored);
        if reads {
            others.push(model.name);
        }
    }
    let model = kind.model_name();
    let others = others.join(", ");
    reporter.say(&format!("note: edges have features, which messages of --model {model} do not read: {others} do"));
}

/// Returns whether edges of any type have features.
fn has_edge_features(meta: &Meta) -> bool {
    meta.edge_types.iter().any(|edges| edges.feature_dim > 0)
}
