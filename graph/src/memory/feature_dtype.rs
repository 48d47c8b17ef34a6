//! The types in which features are stored.

use crate::named_values::named_values;
use edgecut_settings::words;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use serde::{Deserialize, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// The bytes of the scale at the start of a row of [`FeatureDtype::Int8`].
pub(super) const SCALE_BYTES: usize = size_of::<f32>();
/// The greatest absolute value of an entry of [`FeatureDtype::Int8`].
const GREATEST: f32 = 127.0;
/// The least scale other than 0. Smaller ones would have too few significant bits.
const LEAST_SCALE: f32 = f32::MIN_POSITIVE * 128.0;
/// The bits that are cleared at the end of a scale, so that the product of a scale and any entry is exact.
const CLEARED_BITS: u32 = 7;

/// The stored type of features: on disk, in memory and on the wire. All arithmetic is in `f32`.
///
/// Invariants: the features of a node type have one stored type on disk, in memory, in caches and on the wire, and
/// become `f32` when a batch is assembled. Own rows are rounded like the rows of other parts, so batches do not depend
/// on the partitioning. A decoded row of `int8` is encoded to the same bytes again, which caches rely on and `verify`
/// checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FeatureDtype {
    /// 32-bit floats.
    #[default]
    F32,
    /// 16-bit IEEE floats: 11 significant bits, absolute values up to 65504.
    F16,
    /// 16-bit floats with the range of `f32` and 8 significant bits.
    Bf16,
    /// 8-bit integers from -127 to 127, times a 32-bit scale per row. The greatest absolute value of a row is 127 times
    /// its scale, so that each entry is off by at most half a scale.
    Int8,
}

impl FeatureDtype {
    /// All types.
    pub const ALL: [Self; 4] = [Self::F32, Self::F16, Self::Bf16, Self::Int8];

    /// Returns the size of a row of `dim` features in bytes, 0 without features.
    pub fn row_bytes(self, dim: usize) -> usize {
        match self {
            Self::F32 => dim * size_of::<f32>(),
            Self::F16 | Self::Bf16 => dim * size_of::<f16>(),
            Self::Int8 if dim == 0 => 0,
            Self::Int8 => SCALE_BYTES + dim,
        }
    }

    /// Converts a stored row to `f32`.
    ///
    /// # Panics
    /// If `row` is not a row of `out.len()` features, or is not aligned for the type's numbers.
    pub fn decode(self, row: &[u8], out: &mut [f32]) {
        match self {
            Self::F32 => out.copy_from_slice(bytemuck::cast_slice(row)),
            Self::F16 => bytemuck::cast_slice::<u8, f16>(row).convert_to_f32_slice(out),
            Self::Bf16 => bytemuck::cast_slice::<u8, bf16>(row).convert_to_f32_slice(out),
            Self::Int8 => {
                let (scale, entries) = row.split_first_chunk::<SCALE_BYTES>().expect("a row starts with its scale");
                let scale = f32::from_le_bytes(*scale);
                assert_eq!(entries.len(), out.len(), "entries of a row");
                out.iter_mut().zip(entries).for_each(|(out, &entry)| *out = scale * f32::from(entry as i8));
            }
        }
    }
}

words!(FeatureDtype, "type of features", F32 = "f32", F16 = "f16", Bf16 = "bf16", Int8 = "int8");

/// Writes `values` as a row of [`FeatureDtype::Int8`] to `row`. A row that was decoded from this type is encoded to the
/// same bytes again. The scale of a row with a value that is not finite is not finite either.
pub(super) fn encode_int8(values: &[f32], row: &mut [u8]) {
    // A NaN makes the scale NaN.
    let greater = |most: f32, value: &f32| if value.abs() > most || value.is_nan() { value.abs() } else { most };
    let scale = scale_of(values.iter().fold(0.0, greater));
    let (head, entries) = row.split_at_mut(SCALE_BYTES);
    head.copy_from_slice(&scale.to_le_bytes());
    for (entry, value) in entries.iter_mut().zip(values) {
        // Without a scale, all values are zero or far too small for any entry.
        let scaled = if scale > 0.0 { value / scale } else { 0.0 };
        *entry = scaled.round_ties_even().clamp(-GREATEST, GREATEST) as i8 as u8;
    }
}

/// Returns the scale of a row by its greatest absolute value: that value / 127, rounded up to 17 significant bits. Its
/// product with an entry, which has 7 bits, is then exact, and so is the quotient. 0 for values so small that they have
/// fewer significant bits.
fn scale_of(greatest: f32) -> f32 {
    if !greatest.is_finite() {
        return greatest;
    }
    if greatest / GREATEST < LEAST_SCALE {
        return 0.0;
    }
    let mask = (1u32 << CLEARED_BITS) - 1;
    let exact = (greatest / GREATEST).to_bits();
    let up = f32::from_bits((exact + mask) & !mask);
    if (up * GREATEST).is_finite() { up } else { f32::from_bits(exact & !mask) }
}

/// The stored types of node features by node type: one for all types, or one per named type.
///
/// On the command line: `int8` for all node types, `paper=int8,author=f16` for two of them, and `f16,paper=int8` for all
/// with an exception. Other node types keep their stored type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureDtypes {
    of_others: Option<FeatureDtype>,
    of_named: BTreeMap<String, FeatureDtype>,
}

impl FeatureDtypes {
    /// Returns the type for the features of a node type, `None` to keep the present one.
    pub fn of(&self, node_type: &str) -> Option<FeatureDtype> {
        self.of_named.get(node_type).copied().or(self.of_others)
    }

    /// Returns true if all features keep their types.
    pub fn is_empty(&self) -> bool {
        self.of_others.is_none() && self.of_named.is_empty()
    }

    /// Returns the first named type that is not among `names`.
    pub fn unknown<'a>(&'a self, names: &[&str]) -> Option<&'a str> {
        self.of_named.keys().map(String::as_str).find(|name| !names.contains(name))
    }
}

impl From<FeatureDtype> for FeatureDtypes {
    fn from(dtype: FeatureDtype) -> Self {
        Self { of_others: Some(dtype), of_named: BTreeMap::new() }
    }
}

impl Serialize for FeatureDtypes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for FeatureDtypes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut dtypes = Self::default();
        for entry in named_values(text, ',', |dtype| dtype.parse::<FeatureDtype>().is_ok()) {
            let dtype = entry.value.parse()?;
            let is_new = match entry.name {
                Some(name) => dtypes.of_named.insert(name.to_owned(), dtype).is_none(),
                None => dtypes.of_others.replace(dtype).is_none(),
            };
            if !is_new {
                return Err(format!("{text:?} gives a node type two types of features"));
            }
        }
        Ok(dtypes)
    }
}

impl fmt::Display for FeatureDtypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let others = self.of_others.iter().map(ToString::to_string);
        let named = self.of_named.iter().map(|(name, dtype)| format!("{name}={dtype}"));
        f.write_str(&others.chain(named).collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edgecut_testing::assert_has;
    use proptest::prelude::*;

    fn encoded(values: &[f32]) -> Vec<u8> {
        let mut row = vec![0; FeatureDtype::Int8.row_bytes(values.len())];
        encode_int8(values, &mut row);
        row
    }

    fn decoded(row: &[u8]) -> Vec<f32> {
        let mut values = vec![9.0; row.len() - SCALE_BYTES];
        FeatureDtype::Int8.decode(row, &mut values);
        values
    }

    proptest! {
        #[test]
        fn integers_are_close_and_encoded_again_without_change(
            values in prop::collection::vec(any::<f32>().prop_filter("finite", |value| value.is_finite()), 1..40)
        ) {
            let row = encoded(&values);
            let found = decoded(&row);
            let greatest = values.iter().fold(0.0, |most: f32, value| most.max(value.abs()));
            // A scale has 17 significant bits. Values below 127 times the least scale become 0.
            let half = greatest / 127.0 * 0.501 + 127.0 * LEAST_SCALE;
            for (found, value) in found.iter().zip(&values) {
                prop_assert!((found / 2.0 - value / 2.0).abs() <= half, "{} for {} of {}", found, value, greatest);
            }
            prop_assert_eq!(encoded(&found), row);
        }
    }

    #[test]
    fn the_greatest_value_of_a_row_is_127_scales() {
        let row = encoded(&[0.5, -2.0, 1.0]);
        assert_eq!(row[SCALE_BYTES..], [32, (-127_i8) as u8, 63]);
        assert_eq!(encoded(&[0.0, -0.0]), [0; 6]);
        assert!((decoded(&encoded(&[f32::MAX, f32::MIN]))[0] / f32::MAX - 1.0).abs() < 1e-4);
    }

    #[test]
    fn types_are_parsed_and_shown() {
        for text in ["int8", "f16,paper=int8", "author=bf16,paper=f32"] {
            assert_eq!(text.parse::<FeatureDtypes>().unwrap().to_string(), text);
        }
        for (text, why) in [
            ("f64", "unknown type of features \"f64\": expected f32, f16, bf16 or int8"),
            ("paper=", "unknown type of features \"\""),
            ("f16,f32", "gives a node type two types of features"),
            ("a=f16,a=f16", "gives a node type two types of features"),
        ] {
            assert_has(text.parse::<FeatureDtypes>().unwrap_err(), &[why]);
        }
        let dtypes: FeatureDtypes = "f16,paper=int8".parse().unwrap();
        assert_eq!((dtypes.unknown(&["paper", "author"]), dtypes.unknown(&["author"])), (None, Some("paper")));
    }
}
