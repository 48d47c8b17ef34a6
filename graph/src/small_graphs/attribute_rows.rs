//! The rows of the nodes or edges of a set of graphs.

use crate::classes::{check_num_classes, max_classes};
use crate::memory::{Buffer, Features};
use std::ops::Range;
use xxhash_rust::xxh3::Xxh3;

/// The attributes of nodes or of edges. A row has the features, followed by the one-hot labels.
#[derive(Clone, Debug, Default)]
pub struct AttributeRows {
    /// Features, if there are any.
    pub features: Option<Features>,
    /// Labels, if there are any. Models read them one-hot encoded.
    pub labels: Option<OneHotLabels>,
}

/// Labels that become columns.
#[derive(Clone, Debug)]
pub struct OneHotLabels {
    /// The columns of a row that are 1, `[rows, per_row]`.
    pub columns: Buffer<u32>,
    /// The number of labels per row.
    pub per_row: usize,
    /// The meaning of each column, such as `label 6`. A model that was trained on these columns fits other graphs only
    /// if theirs mean the same.
    pub names: Vec<String>,
}

impl AttributeRows {
    /// Returns the number of columns of a row.
    pub fn dim(&self) -> usize {
        self.num_features() + self.label_names().len()
    }

    /// Returns the meaning of each column after the features.
    pub fn label_names(&self) -> &[String] {
        self.labels.as_ref().map_or(&[], |labels| &labels.names)
    }

    fn num_features(&self) -> usize {
        self.features.as_ref().map_or(0, Features::dim)
    }

    /// Checks that there are `num_rows` rows of nodes or edges, and that labels are in range. `item` is "node" or "edge".
    pub(super) fn check(&self, num_rows: usize, item: &str) -> Result<(), String> {
        if let Some(rows) = self.features.as_ref().map(Features::num_rows).filter(|&rows| rows != num_rows) {
            return Err(format!("{rows} rows of features for {num_rows} {item}s"));
        }
        let Some(OneHotLabels { columns, per_row, names }) = &self.labels else { return Ok(()) };
        let dim = names.len();
        if columns.len() != num_rows * per_row {
            return Err(format!("{} labels of {item}s, expected {per_row} for each of {num_rows}", columns.len()));
        }
        if let Some(at) = columns.iter().position(|&column| column as usize >= dim) {
            return Err(format!("{item} {} has label {}, but there are {dim} labels", at / per_row, columns[at]));
        }
        // Each label value is a column of every row, so the number of values is bounded like the number of classes.
        if dim <= max_classes(0) {
            return Ok(());
        }
        let labels: Vec<i64> = columns.iter().map(|&column| i64::from(column)).collect();
        check_num_classes(&labels, dim, "entry").map_err(|why| format!("labels of {item}s: {why}"))
    }

    /// Returns these rows in another order: row `i` of the result is row `order[i]`.
    pub(super) fn permuted(&self, order: &[u32]) -> Self {
        let features = self.features.as_ref().map(|features| {
            let dim = features.dim();
            let mut values = vec![0.0; order.len() * dim];
            for (row, out) in order.iter().zip(values.chunks_exact_mut(dim.max(1))) {
                features.copy_row(*row as usize, out);
            }
            Features::F32 { values: values.into(), dim }
        });
        let labels = self.labels.as_ref().map(|OneHotLabels { columns, per_row, names }| {
            let mut permuted = Vec::with_capacity(columns.len());
            for &row in order {
                permuted.extend_from_slice(&columns[row as usize * per_row..][..*per_row]);
            }
            OneHotLabels { columns: permuted.into(), per_row: *per_row, names: names.clone() }
        });
        Self { features, labels }
    }

    /// Appends a range of rows to `out`.
    ///
    /// # Shapes
    /// - appended: `[range.len(), dim]`
    pub(super) fn append(&self, range: Range<usize>, out: &mut Vec<f32>) {
        let dim = self.dim();
        let dense = self.num_features();
        let start = out.len();
        out.resize(start + range.len() * dim, 0.0);
        for (at, row) in range.zip(out[start..].chunks_exact_mut(dim.max(1))) {
            if let Some(features) = &self.features {
                features.copy_row(at, &mut row[..dense]);
            }
            if let Some(OneHotLabels { columns, per_row, .. }) = &self.labels {
                for &column in &columns[at * per_row..(at + 1) * per_row] {
                    row[dense + column as usize] = 1.0;
                }
            }
        }
    }

    /// Adds the rows to a hash.
    pub(super) fn hash(&self, hash: &mut Xxh3) {
        if let Some(features) = &self.features {
            hash.update(features.bytes());
        }
        if let Some(labels) = &self.labels {
            hash.update(bytemuck::cast_slice(&labels.columns));
        }
    }

    /// Returns the number of bytes of the arrays.
    pub(super) fn num_bytes(&self) -> usize {
        let features = self.features.as_ref();
        let features = features.map_or(0, |features| features.num_rows() * features.dtype().row_bytes(features.dim()));
        features + self.labels.as_ref().map_or(0, |labels| size_of::<u32>() * labels.columns.len())
    }
}
