//! Batch normalisation of a network over the rows of all ranks.

use burn::tensor::backend::Backend;

use super::network::{Network, Norm};
use edgecut_gnn::nn::Mode;
use edgecut_gnn::ops::{BatchNormSync, GnnBackend};

impl<B: GnnBackend> Network<B> {
    /// Sets the exchange by which batch normalisations cover the rows of all ranks in training. With `None`, the default, each
    /// rank normalises its own rows. Model files do not contain this setting.
    pub fn set_batch_norm_sync(&mut self, sync: Option<&BatchNormSync>) {
        for layer in &mut self.layers {
            for norm in layer.conv.batch_norms_mut() {
                norm.set_sync(sync.cloned());
            }
            set_sync(&mut layer.norms, sync);
        }
        set_sync(&mut self.norms, sync);
    }
}

fn set_sync<B: Backend>(norms: &mut [Norm<B>], sync: Option<&BatchNormSync>) {
    for norm in norms {
        if let Norm::Batch(norm) = norm {
            norm.set_sync(sync.cloned());
        }
    }
}

impl<B: GnnBackend> Network<B> {
    /// Takes part in the exchange of a forward pass for which this rank has no batch.
    pub fn forward_without_rows(&self, mode: Mode) {
        for layer in 0..self.layers.len() {
            for node_type in 0..self.config().graph.node_types.len() {
                self.layer_without_rows(layer, node_type, mode);
            }
        }
    }

    /// Takes part in the exchange of a layer for a node type of which this rank has no rows.
    pub(super) fn layer_without_rows(&self, layer: usize, node_type: usize, mode: Mode) {
        // Only destinations of edges have convolutions, on all ranks.
        if !self.config().graph.edge_types.iter().any(|edges| edges.dst.index() == node_type) {
            return;
        }
        for norm in self.layers[layer].conv.batch_norms() {
            norm.forward_without_rows(mode);
        }
        if let Some(Norm::Batch(norm)) = self.norm(layer, node_type) {
            norm.forward_without_rows(mode);
        }
    }
}
