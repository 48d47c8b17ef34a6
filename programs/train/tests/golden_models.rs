//! Models that earlier versions have saved are read, and give the same predictions.

use crate::programs::*;

use edgecut_graph::map_npy;
use std::path::Path;

/// The versions of the format that this version of the code reads, with a folder for each.
const VERSIONS: [u32; 1] = [1];

#[test]
fn golden_models_give_the_logits_of_their_time() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../trainer/tests/golden");
    let parts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../partition/tests/golden");
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let out = scratch.path().join("logits");
    for version in VERSIONS {
        for dataset in ["homogeneous", "heterogeneous"] {
            let golden = tests.join(format!("v{version}")).join(dataset);
            let (expected_shape, expected) = map_npy::<f32>(&golden.join("logits.npy")).expect("golden logits");
            // The parts have the same nodes in each version of their format.
            for of_parts in ["v1", "v2"] {
                let model = golden.join("model.safetensors");
                predicted(&parts.join(of_parts).join(dataset), &model, &out, &["--output", "logit"]);
                let (shape, found) = map_npy::<f32>(&out.join("predictions.npy")).expect("logits");
                assert_eq!(shape, expected_shape);
                assert_close(&found, &expected, &format!("{dataset}, version {version}, parts {of_parts}"));
            }
        }
    }
}
