//! `.npy` files.

use crate::sample::Sample;
use crate::target::{Input, Outcome, Target};
use edgecut_graph::{FeatureDtype, NpyElement, map_features, map_npy, npy_header, npy_shape, read_npy};
use half::f16;
use std::path::Path;

/// The name of the file.
const FILE: &str = "array.npy";

/// Single arrays, read as every type.
pub(super) struct Arrays;

fn array<T: NpyElement>(shape: &[usize]) -> anyhow::Result<Sample> {
    let mut bytes = npy_header::<T>(shape)?;
    bytes.extend((0..shape.iter().product::<usize>() * size_of::<T>()).map(|at| at as u8 % 2));
    Ok(Sample { files: [(FILE.to_owned(), bytes)].into() })
}

/// Maps the file as an array of `T`, and reads it in both ways.
fn maps<T: NpyElement>(path: &Path) -> bool {
    match map_npy::<T>(path) {
        Ok((shape, values)) => {
            let (read_shape, read) = read_npy::<T>(path).expect("an array that can be mapped can be read");
            assert_eq!((&read_shape, read.len()), (&shape, values.len()), "the shape of the array that was read");
            assert_eq!(shape.iter().product::<usize>(), values.len(), "the shape of the values");
            std::hint::black_box(values.to_vec());
            true
        }
        Err(error) => {
            assert!(error.to_string().contains(FILE), "{error} names no file");
            false
        }
    }
}

impl Target for Arrays {
    fn samples(&mut self) -> anyhow::Result<Vec<Sample>> {
        Ok(vec![
            array::<f32>(&[3, 2])?,
            array::<f16>(&[3, 2])?,
            array::<f64>(&[4])?,
            array::<u16>(&[2, 2])?,
            array::<u32>(&[])?,
            array::<i64>(&[0])?,
            array::<u64>(&[5, 1])?,
            array::<u8>(&[2, 7])?,
        ])
    }

    fn has_files(&self) -> bool {
        true
    }

    fn read(&mut self, input: &Input<'_>) -> Outcome {
        let path = input.dir.join(FILE);
        let _ = npy_shape(&path);
        for dtype in [FeatureDtype::F32, FeatureDtype::F16, FeatureDtype::Bf16, FeatureDtype::Int8] {
            let _ = map_features(&path, [3, 2], dtype);
        }
        let kinds =
            [maps::<f32>, maps::<f16>, maps::<f64>, maps::<u16>, maps::<u32>, maps::<i64>, maps::<u64>, maps::<u8>];
        match kinds.iter().filter(|maps| maps(&path)).count() {
            0 => Outcome::Rejected,
            _ => Outcome::Accepted,
        }
    }
}
