//! Release of the memory of mapped parts.

use super::{Part, PartLabel, PartNodes};
use crate::dataset::{EdgeAttributes, EdgeLabelValues, EdgeList, Split, Splits};
use crate::memory::Buffer;
use bytemuck::Pod;

impl Part {
    /// Gives the memory of all mapped arrays back to the system. Pages are read again on the next use, so that a pass over many
    /// parts holds one of them at a time.
    pub fn release_pages(&self) {
        self.nodes.iter().for_each(PartNodes::release_pages);
        for edges in &self.edges {
            edges.csc.release_pages();
            edges.attributes.release_pages();
            release(edges.src_times.as_ref());
            edges.held_out.lists().iter().for_each(|(_, list)| list.release_pages());
        }
    }
}

impl PartNodes {
    fn release_pages(&self) {
        self.original_ids.release_pages();
        self.label(0).release_pages();
        self.more_labels.iter().for_each(PartLabel::release_pages);
        release(self.times.as_ref());
        if let Some(features) = &self.features {
            features.release_pages();
        }
        if let Some(hot) = &self.hot {
            hot.nodes.release_pages();
            hot.counts.release_pages();
        }
    }
}

impl PartLabel {
    fn release_pages(&self) {
        release(self.labels.as_ref());
        release(self.targets.as_ref());
        self.splits.release_pages();
    }
}

impl Splits {
    fn release_pages(&self) {
        Split::ALL.iter().for_each(|&split| self.get(split).release_pages());
    }
}

impl EdgeAttributes {
    fn release_pages(&self) {
        release(self.weights.as_ref());
        release(self.times.as_ref());
        if let Some(ids) = &self.ids {
            ids.release_pages();
        }
        if let Some(features) = &self.features {
            features.release_pages();
        }
        if let Some(labels) = &self.labels {
            labels.splits.release_pages();
            match &labels.values {
                EdgeLabelValues::Classes { of_edges, .. } => of_edges.release_pages(),
                EdgeLabelValues::Targets(targets) => targets.values.release_pages(),
            }
        }
    }
}

impl EdgeList {
    fn release_pages(&self) {
        self.src.release_pages();
        self.dst.release_pages();
        release(self.times.as_ref());
    }
}

fn release<T: Pod>(array: Option<&Buffer<T>>) {
    if let Some(array) = array {
        array.release_pages();
    }
}
