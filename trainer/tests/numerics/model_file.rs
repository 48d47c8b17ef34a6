//! Model files: saving and loading, every kind of damage, and reading the file from Python.

use crate::support::{direct, own_weight, sage};
use edgecut_testing::python_has;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use burn::backend::{Autodiff, NdArray};
use edgecut_gnn::nn::Aggregation;
use edgecut_gnn::ops::AttentionVersion;
use edgecut_trainer::gradients::flatten_parameters;
use edgecut_trainer::model_file::{ModelFileError, load_model, save_model};
use edgecut_trainer::models::{ConvKind, GatSettings, GcnSettings, Network, NetworkConfig, SageSettings};
use safetensors::tensor::{TensorView, serialize};
use safetensors::{Dtype, SafeTensors};

type B = NdArray;

fn config() -> NetworkConfig {
    let kind = ConvKind::Sage(SageSettings { aggregation: Aggregation::Max });
    NetworkConfig { dropout: 0.25, ..NetworkConfig::stack(kind, 3, 5, 2, 2) }
}

fn saved(directory: &tempfile::TempDir) -> (PathBuf, Network<B>) {
    let path = directory.path().join("model.safetensors");
    let model = config().init::<B>(4, &Default::default()).expect("a valid model");
    save_model(&path, &model, &config(), &[]).expect("a written file");
    (path, model)
}

fn load(path: &Path) -> Result<(Network<B>, NetworkConfig), ModelFileError> {
    load_model::<B, NetworkConfig>(path, &Default::default()).map(|(model, config, _)| (model, config))
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

#[test]
fn comes_back_to_the_bit() {
    let gat = |version| ConvKind::Gat(GatSettings { heads: 1, version, attention_dropout: 0.5, projection_bias: true });
    let gats = [AttentionVersion::V1, AttentionVersion::V2].map(gat);
    for kind in [config().kind, ConvKind::Gcn(GcnSettings)].into_iter().chain(gats) {
        for num_layers in [1, 3] {
            let config = NetworkConfig { kind, num_layers, ..config() };
            let directory = directory();
            let path = directory.path().join("model.safetensors");
            let model = config.init::<Autodiff<B>>(9, &Default::default()).expect("a valid model");
            save_model(&path, &model, &config, &[]).expect("a written file");
            // Saving again replaces the file and leaves no other file in the folder.
            save_model(&path, &model, &config, &[]).expect("a written file");
            assert_eq!(std::fs::read_dir(directory.path()).expect("a listing").count(), 1);
            let (loaded, loaded_config) = load(&path).expect("a model");
            assert_eq!(loaded_config, config);
            let bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect::<Vec<_>>();
            assert_eq!(bits(flatten_parameters(&loaded)), bits(flatten_parameters(&model)));
        }
    }
}

#[test]
fn loads_files_that_were_written_before_settings_were_added() {
    // GATv2 had no biases of projections when these files were written.
    let settings =
        GatSettings { heads: 1, version: AttentionVersion::V2, attention_dropout: 0.5, projection_bias: false };
    let config = NetworkConfig { kind: ConvKind::Gat(settings), ..config() };
    let directory = directory();
    let path = directory.path().join("model.safetensors");
    let model = config.init::<B>(9, &Default::default()).expect("a valid model");
    save_model(&path, &model, &config, &[]).expect("a written file");
    let bytes = std::fs::read(&path).expect("the file");
    let (_, header) = SafeTensors::read_metadata(&bytes).expect("a header");
    let mut metadata = header.metadata().clone().expect("metadata");
    let before = r#"{"kind":{"gat":{"heads":1,"version":"v2","attention_dropout":0.5}},"in_channels":3,
        "hidden_channels":5,"num_classes":2,"num_layers":2,"dropout":0.25,"input_dropout":0.0,"normalize_features":false}"#;
    metadata.insert("config".to_owned(), before.to_owned());
    let file = SafeTensors::deserialize(&bytes).expect("safetensors");
    std::fs::write(&path, serialize(file.iter(), Some(metadata)).expect("a file")).expect("a written file");
    let (loaded, loaded_config) = load(&path).expect("a model");
    assert_eq!(loaded_config, config);
    assert_eq!(flatten_parameters(&loaded), flatten_parameters(&model));
}

#[test]
fn has_readable_names_and_pytorch_orientation() {
    let directory = directory();
    let (path, model) = saved(&directory);
    let bytes = std::fs::read(path).expect("the file");
    let file = SafeTensors::deserialize(&bytes).expect("safetensors");
    let mut shapes: Vec<(String, Vec<usize>)> =
        file.iter().map(|(name, view)| (name.to_owned(), view.shape().to_vec())).collect();
    shapes.sort();
    let named = |name: &str, shape: &[usize]| (name.to_owned(), shape.to_vec());
    let expected = [
        named("layers.0.bias", &[5]),
        named("layers.0.weight_neighbors", &[5, 3]),
        named("layers.0.weight_self", &[5, 3]),
        named("layers.1.bias", &[2]),
        named("layers.1.weight_neighbors", &[2, 5]),
        named("layers.1.weight_self", &[2, 5]),
    ];
    assert_eq!(shapes, expected);
    // Element [out 4, in 1] of the file is element [in 1, out 4] of the model.
    let in_model =
        own_weight(sage(direct(&model.layers[0].conv))).val().into_data().iter::<f32>().nth(5 + 4).expect("an element");
    let view = file.tensor("layers.0.weight_self").expect("a tensor");
    let (words, _) = view.data().as_chunks::<4>();
    assert_eq!(f32::from_le_bytes(words[4 * 3 + 1]), in_model);
}

/// The parts of a model file: the type, shape and bytes of each tensor by name, and the metadata.
type Parts = (Vec<(String, (Dtype, Vec<usize>, Vec<u8>))>, HashMap<String, String>);

/// Saves a model, changes the parts of its file by `damage`, and returns the error of loading it.
fn damaged(damage: fn(&mut Parts)) -> String {
    let directory = directory();
    let (path, _) = saved(&directory);
    let bytes = std::fs::read(&path).expect("the file");
    let (_, header) = SafeTensors::read_metadata(&bytes).expect("a header");
    let file = SafeTensors::deserialize(&bytes).expect("safetensors");
    let tensors = file
        .iter()
        .map(|(name, view)| (name.to_owned(), (view.dtype(), view.shape().to_vec(), view.data().to_vec())))
        .collect();
    let mut parts = (tensors, header.metadata().clone().expect("metadata"));
    damage(&mut parts);
    let views = parts.0.iter().map(|(name, (dtype, shape, bytes))| {
        (name, TensorView::new(*dtype, shape.clone(), bytes).expect("a consistent tensor"))
    });
    std::fs::write(&path, serialize(views, Some(parts.1)).expect("a file")).expect("a written file");
    let error = load(&path).expect_err("a damaged file").to_string();
    let start = format!("model {}: ", path.display());
    error.strip_prefix(&start).unwrap_or_else(|| panic!("the error does not name the file: {error}")).to_owned()
}

fn tensor<'a>(parts: &'a mut Parts, name: &str) -> &'a mut (Dtype, Vec<usize>, Vec<u8>) {
    &mut parts.0.iter_mut().find(|(found, _)| found == name).expect("a tensor").1
}

fn set_bias(parts: &mut Parts, value: f32) {
    tensor(parts, "layers.0.bias").2[8..12].copy_from_slice(&value.to_le_bytes());
}

fn set_metadata(parts: &mut Parts, key: &str, value: impl Into<String>) {
    parts.1.insert(key.to_owned(), value.into());
}

fn set_config(parts: &mut Parts, config: &NetworkConfig) {
    set_metadata(parts, "config", serde_json::to_string(config).expect("JSON"));
}

/// A change of a model file.
type Damage = fn(&mut Parts);

/// Changes of a model file, and the errors of loading it.
const DAMAGES: [(Damage, &str); 15] = [
    (
        |parts| parts.0.iter_mut().for_each(|(name, _)| *name = name.replace("layers.1.bias", "other")),
        "tensor layers.1.bias is missing",
    ),
    (
        |parts| parts.0.retain(|(name, _)| name != "layers.1.bias"),
        "the file has 55 parameters, its configuration describes 57",
    ),
    (
        |parts| parts.0.push(("more".to_owned(), (Dtype::F32, vec![1], vec![0; 4]))),
        "the file has 58 parameters, its configuration describes 57",
    ),
    (
        |parts| parts.0.push(("more".to_owned(), (Dtype::F32, vec![0], vec![]))),
        "tensor more does not belong to this model",
    ),
    (
        |parts| tensor(parts, "layers.0.weight_self").1 = vec![3, 5],
        "tensor layers.0.weight_self has shape [3, 5], expected [5, 3]",
    ),
    (|parts| tensor(parts, "layers.0.bias").0 = Dtype::I32, "tensor layers.0.bias has type I32, expected F32"),
    (|parts| set_bias(parts, f32::NAN), "tensor layers.0.bias holds NaN at element 2"),
    (|parts| set_bias(parts, f32::INFINITY), "tensor layers.0.bias holds inf at element 2"),
    (|parts| set_bias(parts, f32::NEG_INFINITY), "tensor layers.0.bias holds -inf at element 2"),
    (
        |parts| set_metadata(parts, "format", "pt"),
        "it is not a model of this version: its metadata format is pt, expected edgecut-model",
    ),
    (
        |parts| set_metadata(parts, "version", "2"),
        "it is not a model of this version: its metadata version is 2, expected 1",
    ),
    (|parts| set_metadata(parts, "config", "{}"), "metadata config is not a valid model configuration"),
    (
        |parts| drop(parts.1.remove("config")),
        "it is not a model of this version: its metadata has no config, expected a model configuration",
    ),
    (|parts| set_config(parts, &NetworkConfig::stack(config().kind, 3, 5, 0, 2)), "invalid configuration"),
    // The file must be rejected before this large model is made.
    (
        |parts| set_config(parts, &NetworkConfig { hidden_channels: 10_000_000, ..config() }),
        "the file has 57 parameters, its configuration describes 110000002",
    ),
];

#[test]
fn rejects_damaged_files() {
    for (damage, expected) in DAMAGES {
        assert_eq!(damaged(damage), expected);
    }
}

#[test]
fn rejects_truncated_and_foreign_files() {
    let directory = directory();
    let (path, _) = saved(&directory);
    let bytes = std::fs::read(&path).expect("the file");
    for keep in [0, 7, 8, 100, bytes.len() - 1] {
        std::fs::write(&path, &bytes[..keep]).expect("a written file");
        let error = load(&path).expect_err("a truncated file");
        assert!(matches!(error, ModelFileError::Format { .. }), "{keep} bytes: {error:?}");
    }
    std::fs::write(&path, b"not a model at all").expect("a written file");
    assert!(matches!(load(&path), Err(ModelFileError::Format { .. })));
    let error = load(&directory.path().join("absent")).expect_err("no file");
    assert!(matches!(error, ModelFileError::Read { .. }) && error.to_string().contains("absent"));
}

#[test]
fn a_failed_write_names_the_file_and_leaves_the_old_one() {
    let directory = directory();
    let (path, model) = saved(&directory);
    let before = std::fs::read(&path).expect("the file");
    let other = NetworkConfig { hidden_channels: 6, ..config() };
    assert!(matches!(save_model(&path, &model, &other, &[]), Err(ModelFileError::ForeignConfig { held: 57, .. })));
    assert_eq!(std::fs::read(&path).expect("the file"), before);
    let nowhere = directory.path().join("absent/model.safetensors");
    let error = save_model(&nowhere, &model, &config(), &[]).expect_err("no directory");
    assert!(matches!(error, ModelFileError::Write { .. }) && error.to_string().contains("absent/model"));
    // A directory at the path makes saving fail, and the temporary file is removed.
    let in_the_way = directory.path().join("folder");
    std::fs::create_dir(&in_the_way).expect("a directory");
    assert!(matches!(save_model(&in_the_way, &model, &config(), &[]), Err(ModelFileError::Write { .. })));
    assert_eq!(std::fs::read_dir(directory.path()).expect("a listing").count(), 2);
}

#[test]
fn python_reads_the_file() {
    if !python_has(Command::new("python3"), "numpy, safetensors.numpy", "python_reads_the_file") {
        return;
    }
    let directory = directory();
    let (path, model) = saved(&directory);
    let script = "import sys, safetensors, safetensors.numpy as s\n\
                  t = s.load_file(sys.argv[1])\n\
                  w = t['layers.0.weight_self']\n\
                  with safetensors.safe_open(sys.argv[1], 'np') as f: m = f.metadata()\n\
                  print(m['format'], w.shape, w.dtype, w[4, 1].view('uint32'))";
    let output = Command::new("python3").args(["-c", script]).arg(&path).output().expect("python3 runs");
    let value =
        own_weight(sage(direct(&model.layers[0].conv))).val().into_data().iter::<f32>().nth(5 + 4).expect("an element");
    let expected = format!("edgecut-model (5, 3) float32 {}\n", value.to_bits());
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{}", String::from_utf8_lossy(&output.stderr));
}
