//! Training with products in `bf16` on the CPU.

use crate::checkpoints::training::{Training, edges, graphs, links, typed_nodes};
use crate::programs::*;

const BF16: [&str; 2] = ["--mixed-precision", "bf16"];

/// Checks that a training in `bf16` has the same bits on any number of threads and after it was continued, and other bits
/// than in `f32`.
fn check_bits(training: &Training) {
    let flags = |more: [&'static str; 4]| [&BF16[..], &more].concat();
    let whole = training.outcome(&run(&mut training.command(&flags(["--num-epochs", "3", "--num-threads", "1"]))));
    let again = training.again();
    again.outcome(&run(&mut again.stored(&flags(["--num-epochs", "1", "--num-threads", "3"]))));
    let mut resumed = again.stored(&flags(["--num-epochs", "3", "--num-threads", "2"]));
    assert_eq!(again.outcome(&run(resumed.arg("--resume"))), whole);
    let in_f32 = training.again();
    let in_f32 = in_f32.outcome(&run(&mut in_f32.command(&["--num-epochs", "3"])));
    assert_ne!(in_f32.model, whole.model);
}

#[test]
fn threads_and_interruptions_do_not_change_a_bit() {
    let (_parts, nodes) = typed_nodes("2");
    check_bits(&nodes);
    let (_parts, links) = links("1");
    check_bits(&links);
    let (_parts, edges) = edges("2");
    check_bits(&edges);
    check_bits(&graphs("2"));
}

#[test]
fn accuracy_is_like_in_f32_and_a_cpu_does_not_multiply_in_f16() {
    let parts = fake_parts(2);
    let [plain, bf16, f16] = ["", "bf16", "f16"].map(|precision| {
        let mut command = node(&parts.path);
        command.args(["--nproc-per-node", "2", "--device", "cpu", "--json"]);
        if !precision.is_empty() {
            command.args(["--mixed-precision", precision]);
        }
        succeeded(run(&mut command))
    });
    let message = "--mixed-precision f16 applies to GPUs only: the CPU multiplies in f32";
    assert!(stderr(&f16).contains(message), "{}", stderr(&f16));
    assert!(!stderr(&bf16).contains("applies to GPUs"), "{}", stderr(&bf16));
    let [plain, bf16, f16] = [plain, bf16, f16].map(json_of);
    assert_eq!(number_of(&f16, "test_acc"), number_of(&plain, "test_acc"));
    let difference = number_of(&bf16, "test_acc") - number_of(&plain, "test_acc");
    assert!(difference.abs() < 0.03, "{bf16} and {plain}");
}
