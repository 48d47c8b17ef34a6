//! Damaged model files are refused with an error, or give a model. They never end the process.

use burn_ndarray::NdArray;
use edgecut_graph::rng::{CounterRng, combine};
use edgecut_trainer::model_file::load_model;
use edgecut_trainer::models::NetworkConfig;
use std::fs;
use std::path::{Path, PathBuf};

/// The number of damaged files. The fuzz target of models reads more.
const NUM_FILES: u64 = 1_000;
/// The bytes of the length before the header.
const LENGTH_BYTES: usize = 8;
/// Numbers at which programs err.
const NUMBERS: [&str; 9] =
    ["0", "1", "-1", "65536", "4294967295", "4294967296", "9223372036854775807", "18446744073709551615", "1e300"];

/// Returns the paths of all files of a golden model.
fn golden_files() -> Vec<PathBuf> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1/heterogeneous");
    let folder = golden.join("model.safetensors.embeddings");
    let shards = fs::read_dir(folder).expect("embeddings").map(|entry| entry.expect("a file").path());
    let mut files: Vec<PathBuf> = shards.collect();
    files.sort();
    files.insert(0, golden.join("model.safetensors"));
    files
}

/// Damages a file: any bytes, or a number of its header, whose length is then corrected.
fn damaged(bytes: &[u8], rng: &mut CounterRng) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let at = rng.below(bytes.len() as u64) as usize;
    match rng.below(4) {
        0 => bytes[at] ^= 1 << rng.below(8),
        1 => bytes.truncate(at),
        _ => {
            let length = u64::from_le_bytes(bytes[..LENGTH_BYTES].try_into().expect("8 bytes")) as usize;
            let header = bytes[LENGTH_BYTES..LENGTH_BYTES + length].to_vec();
            let digits = header.iter().skip(at % length).position(u8::is_ascii_digit);
            let Some(start) = digits.map(|skipped| at % length + skipped) else { return bytes };
            let end = start + header[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            let number = NUMBERS[rng.below(NUMBERS.len() as u64) as usize].as_bytes();
            let header = [&header[..start], number, &header[end..]].concat();
            let length = (header.len() as u64).to_le_bytes();
            bytes =
                [&length[..], &header, &bytes[LENGTH_BYTES + header.len() + (end - start) - number.len()..]].concat();
        }
    }
    bytes
}

#[test]
fn damaged_models_are_refused_or_read() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let golden = golden_files();
    let contents: Vec<Vec<u8>> = golden.iter().map(|path| fs::read(path).expect("a golden file")).collect();
    let model = dir.path().join("model.safetensors");
    let folder = dir.path().join("model.safetensors.embeddings");
    fs::create_dir(&folder).expect("a folder");
    let copies: Vec<PathBuf> = golden
        .iter()
        .enumerate()
        .map(|(number, path)| match number {
            0 => model.clone(),
            _ => folder.join(path.file_name().expect("a name")),
        })
        .collect();
    copies.iter().zip(&contents).for_each(|(copy, bytes)| fs::write(copy, bytes).expect("a copy"));
    let load = || load_model::<NdArray<f32>, NetworkConfig>(&model, &Default::default());
    load().expect("the golden model");
    let mut refused = 0;
    for number in 0..NUM_FILES {
        let mut rng = CounterRng::new(combine(20, number));
        let file = rng.below(copies.len() as u64) as usize;
        let bytes = damaged(&contents[file], &mut rng);
        fs::write(&copies[file], &bytes).expect("a damaged file");
        match load() {
            Ok(_) => {}
            Err(error) => {
                refused += 1;
                assert!(error.to_string().contains("model.safetensors"), "{error} names no file");
            }
        }
        fs::write(&copies[file], &contents[file]).expect("the intact file");
    }
    // Weights are not compared with checksums, so changed ones are read.
    assert!((NUM_FILES / 2..NUM_FILES).contains(&refused), "{refused} of {NUM_FILES} files were refused");
}
