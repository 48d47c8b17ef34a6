//! The weight matrix of each edge type, optionally decomposed.

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use serde::{Deserialize, Serialize};

use crate::nn::weight_init::WeightInit;
use crate::ops::{GnnBackend, matmul};

/// The decomposition of the weights of edge types, which reduces the number of parameters (Schlichtkrull et al.,
/// "Modeling relational data with graph convolutional networks", ESWC 2018, section 2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decomposition {
    /// No decomposition: one matrix per edge type.
    #[default]
    None,
    /// Every matrix is a weighted sum of the same basis matrices.
    Basis {
        /// Number of basis matrices.
        num_bases: usize,
    },
    /// Every matrix is block-diagonal.
    BlockDiagonal {
        /// Number of blocks. It must divide the input and output channels.
        num_blocks: usize,
    },
}

impl Decomposition {
    /// Returns an error text if the decomposition is not possible for matrices of this size.
    pub(crate) fn problem(self, fan_in: usize, fan_out: usize) -> Option<String> {
        match self {
            Self::Basis { num_bases: 0 } => Some("num_bases is 0, it must be at least 1".into()),
            Self::BlockDiagonal { num_blocks: 0 } => Some("num_blocks is 0, it must be at least 1".into()),
            Self::BlockDiagonal { num_blocks } if ![fan_in, fan_out].iter().all(|c| c.is_multiple_of(num_blocks)) => {
                let and = if fan_in == fan_out { String::new() } else { format!(" and {fan_out}") };
                Some(format!("{num_blocks} blocks do not divide {fan_in}{and} channels"))
            }
            _ => None,
        }
    }
}

/// The weights of all edge types of a layer.
#[derive(Module, Debug)]
pub struct RelationWeights<B: Backend> {
    /// The matrix of each edge type without decomposition, `[in_channels, out_channels]`.
    pub matrices: Vec<Param<Tensor<B, 2>>>,
    /// The basis matrices, `[num_bases, in_channels, out_channels]`.
    pub bases: Option<Param<Tensor<B, 3>>>,
    /// The coefficients of the basis matrices, `[num_relations, num_bases]`.
    pub coefficients: Option<Param<Tensor<B, 2>>>,
    /// The diagonal blocks of each edge type, `[num_blocks, in_channels / num_blocks, out_channels / num_blocks]`.
    pub blocks: Vec<Param<Tensor<B, 3>>>,
}

impl<B: Backend> RelationWeights<B> {
    /// Makes Glorot-uniform weights. The caller checks the sizes with [`Decomposition::problem`].
    pub(super) fn new(
        num_relations: usize,
        [fan_in, fan_out]: [usize; 2],
        decomposition: Decomposition,
        init: &mut WeightInit,
        device: &B::Device,
    ) -> Self {
        let bound = WeightInit::glorot_bound(fan_in, fan_out);
        let mut this = Self { matrices: Vec::new(), bases: None, coefficients: None, blocks: Vec::new() };
        match decomposition {
            Decomposition::None => {
                this.matrices = (0..num_relations).map(|_| init.uniform([fan_in, fan_out], bound, device)).collect();
            }
            Decomposition::Basis { num_bases } => {
                this.bases = Some(init.uniform([num_bases, fan_in, fan_out], bound, device));
                let bound = WeightInit::glorot_bound(num_relations, num_bases);
                this.coefficients = Some(init.uniform([num_relations, num_bases], bound, device));
            }
            Decomposition::BlockDiagonal { num_blocks } => {
                let [rows, columns] = [fan_in / num_blocks, fan_out / num_blocks];
                let bound = WeightInit::glorot_bound(rows, columns);
                let blocks = |_| init.uniform([num_blocks, rows, columns], bound, device);
                this.blocks = (0..num_relations).map(blocks).collect();
            }
        }
        this
    }
}

impl<B: GnnBackend> RelationWeights<B> {
    /// Returns the matrix of an edge type.
    ///
    /// # Shapes
    /// - output: `[in_channels, out_channels]`
    ///
    /// # Panics
    /// If the edge type does not exist.
    pub(super) fn of_relation(&self, relation: usize) -> Tensor<B, 2> {
        if let (Some(bases), Some(coefficients)) = (&self.bases, &self.coefficients) {
            let [num_bases, fan_in, fan_out] = bases.dims();
            let coefficients = coefficients.val().slice([relation..relation + 1, 0..num_bases]);
            let bases = bases.val().reshape([num_bases, fan_in * fan_out]);
            return matmul(coefficients, bases).reshape([fan_in, fan_out]);
        }
        match self.blocks.get(relation) {
            Some(blocks) => block_diagonal(blocks.val()),
            None => self.matrices[relation].val(),
        }
    }
}

/// Makes the block-diagonal matrix of blocks of shape `[num_blocks, rows, columns]`.
pub(super) fn block_diagonal<B: Backend>(blocks: Tensor<B, 3>) -> Tensor<B, 2> {
    let device = blocks.device();
    let [num_blocks, rows, columns] = blocks.dims();
    let strip = |block: usize| {
        let values = blocks.clone().slice([block..block + 1, 0..rows, 0..columns]).reshape([rows, columns]);
        let zeros = |count: usize| (count > 0).then(|| Tensor::zeros([rows, count * columns], &device));
        let parts = [zeros(block), Some(values), zeros(num_blocks - 1 - block)];
        Tensor::cat(parts.into_iter().flatten().collect(), 1)
    };
    Tensor::cat((0..num_blocks).map(strip).collect(), 0)
}
