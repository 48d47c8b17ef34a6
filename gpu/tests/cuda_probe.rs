//! Messages to the user when something that GPUs need is missing, broken or too old. The driver and the compiler are
//! stubs built by a C compiler. The probe runs in a process of its own, whose loader finds the stubs first.

use edgecut_testing::assert_has;
use std::path::{Path, PathBuf};
use std::process::Command;

use edgecut_gpu::{Resolved, resolve};

/// The input of the probing process: device, local rank, processes of the node.
const ASKED: &str = "EDGECUT_TEST_PROBE";
const HEADERS: [&str; 5] = ["cuda_runtime.h", "cuda_fp16.h", "cuda_bf16.h", "mma.h", "crt/mma.h"];

const DRIVER: &str = r#"
#include <stddef.h>
#include <stdio.h>
static int ready;
int cuDriverGetVersion(int *version) { *version = VERSION; return 0; }
int cuInit(unsigned flags) { ready = !flags && !INIT; return INIT; }
int cuDeviceGetCount(int *count) { *count = GPUS; return ready ? 0 : 3; }
int cuDeviceGet(int *device, int index) { *device = 40 + index; return ready && index < GPUS ? 0 : 101; }
int cuDeviceGetName(char *name, int length, int device) { snprintf(name, length, "Stub %d", device - 40); return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) { *value = attribute == 75 ? 8 : attribute == 76 ? 9 : -1; return 0; }
#ifndef NO_MEMORY
int cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = 24ul << 30; return 0; }
#endif
"#;

const COMPILER: &str = r##"
#include <stddef.h>
#include <stdio.h>
#include <string.h>
static char source[4096], log[4096];
int nvrtcVersion(int *major, int *minor) { *major = MAJOR; *minor = MINOR; return 0; }
int nvrtcGetNumSupportedArchs(int *count) { *count = 2; return 0; }
int nvrtcGetSupportedArchs(int *archs) { archs[0] = 80; archs[1] = ARCH; return 0; }
int nvrtcCreateProgram(void **program, const char *text, const char *name, int n, const char **a, const char **b) {
    snprintf(source, sizeof source, "%s", text);
    *program = source;
    return name || n || a || b;
}
int nvrtcCompileProgram(void *program, int count, const char **options) {
    int arch = 0, include = 0;
    for (int i = 0; i < count; i++) {
        arch += !strcmp(options[i], "--gpu-architecture=sm_89");
        include += strstr(options[i], "--include-path=/") == options[i];
    }
    if (!arch || include != 1 || !strstr(source, "#include <cuda_runtime.h>") || FAILS)
        return snprintf(log, sizeof log, "\nprobe(1): no such thing\n  more\n"), 6;
    return 0;
}
int nvrtcGetProgramLogSize(void *program, size_t *size) { *size = strlen(log) + 1; return 0; }
int nvrtcGetProgramLog(void *program, char *text) { strcpy(text, log); return 0; }
int nvrtcDestroyProgram(void **program) { *program = NULL; return 0; }
"##;

/// A folder of stubs and toolkit headers.
struct Stubs {
    folder: tempfile::TempDir,
}

impl Stubs {
    /// Creates an empty folder. Returns `None`, with a message, if there is no C compiler.
    fn new() -> Option<Self> {
        if !edgecut_testing::has_c_compiler("a test of the probe") {
            return None;
        }
        Some(Self { folder: tempfile::tempdir().unwrap() })
    }

    /// Creates the stubs of a complete machine with this many GPUs.
    fn working(gpus: usize) -> Option<Self> {
        let stubs = Self::new()?;
        stubs.driver(&[("VERSION", 12080), ("INIT", 0), ("GPUS", gpus as i32)]);
        stubs.compiler(12, 8, 89);
        stubs.headers(&HEADERS);
        Some(stubs)
    }

    fn driver(&self, values: &[(&str, i32)]) {
        self.library("cuda", DRIVER, values);
    }

    fn compiler(&self, major: i32, minor: i32, arch: i32) {
        self.library("nvrtc", COMPILER, &[("MAJOR", major), ("MINOR", minor), ("ARCH", arch), ("FAILS", 0)]);
    }

    /// Uses the first name that is searched for, so that a real library of the machine is never loaded.
    fn library(&self, name: &str, source: &str, values: &[(&str, i32)]) {
        let file = self.path(&format!("{name}.c"));
        std::fs::write(&file, source).unwrap();
        let made = Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .arg(self.path(&format!("lib{name}.so")))
            .args(values.iter().map(|(name, value)| format!("-D{name}={value}")))
            .arg(file)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }

    fn headers(&self, names: &[&str]) {
        std::fs::create_dir_all(self.path("include/crt")).unwrap();
        for name in names {
            std::fs::write(self.path("include").join(name), "").unwrap();
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the answer of a process that finds these stubs. `asked` is the device, the local rank and the local
    /// world size.
    fn resolved(&self, asked: &str) -> String {
        self.resolved_with(asked, &[])
    }

    fn resolved_with(&self, asked: &str, variables: &[(&str, &str)]) -> String {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "the_probing_process", "--nocapture"]);
        command.env(ASKED, asked).env("LD_LIBRARY_PATH", self.folder.path()).env("CUDA_PATH", self.folder.path());
        command.env_remove("CUDA_VISIBLE_DEVICES");
        command.envs(variables.iter().copied());
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let said = text.lines().find_map(|line| line.split_once("resolved: ")).map(|(_, said)| said.to_owned());
        said.unwrap_or_else(|| panic!("{text}\n{}", String::from_utf8_lossy(&output.stderr)))
    }
}

/// Returns true, with a message, if the loader would find a real library of this machine behind the stubs.
fn has_library(name: &str) -> bool {
    // SAFETY: NVIDIA's libraries are made to be loaded.
    let found = unsafe { libloading::Library::new(name) }.is_ok();
    if found {
        eprintln!("skipped: this machine has {name}");
    }
    found
}

/// The probe. The other tests run it in a process of its own; without them it has nothing to do.
#[test]
fn the_probing_process() {
    let asked = std::env::var(ASKED).unwrap_or_else(|_| "cpu 0 1".to_owned());
    let words: Vec<_> = asked.split(' ').collect();
    let resolved =
        words[0].parse().and_then(|choice| resolve(choice, words[1].parse().unwrap(), words[2].parse().unwrap()));
    match resolved {
        Ok(Resolved::Cpu { why: Some(why) }) => println!("\nresolved: cpu: {why}"),
        Ok(device) => println!("\nresolved: {device}"),
        Err(error) => println!("\nresolved: error: {error}"),
    }
    assert_eq!(resolve("cpu".parse().unwrap(), 0, 1), Ok(Resolved::Cpu { why: None }));
}

#[test]
fn gpus_that_work_are_taken_by_local_rank() {
    let Some(stubs) = Stubs::working(2) else { return };
    assert_eq!(stubs.resolved("cuda 0 2"), "cuda:0 (Stub 0, 24.0 GiB)");
    assert_eq!(stubs.resolved("cuda 1 2"), "cuda:1 (Stub 1, 24.0 GiB)");
    assert_eq!(stubs.resolved("auto 1 2"), "cuda:1 (Stub 1, 24.0 GiB)");
    assert_eq!(stubs.resolved("cuda:1 0 1"), "cuda:1 (Stub 1, 24.0 GiB)");
    assert_eq!(stubs.resolved("cpu 0 2"), "cpu");
}

#[test]
fn more_processes_than_gpus_are_refused() {
    let Some(stubs) = Stubs::working(2) else { return };
    let expected = "error: `nproc_per_node` is 4, but this machine has 2 GPUs: start at most 2 processes per node, or use \
                    `device=cpu`";
    assert_eq!(stubs.resolved("cuda 0 4"), expected);
    assert_eq!(stubs.resolved("auto 3 4"), expected);
    let hidden = stubs.resolved_with("cuda 0 4", &[("CUDA_VISIBLE_DEVICES", "0,3")]);
    let expected = "error: `nproc_per_node` is 4, but this machine has 2 GPUs that this process may see \
                    (CUDA_VISIBLE_DEVICES is '0,3'): start at most 2 processes per node, or use `device=cpu`";
    assert_eq!(hidden, expected);
    let expected = "error: `device=cuda:5`: this machine has 2 GPUs: cuda:0 (Stub 0), cuda:1 (Stub 1)";
    assert_eq!(stubs.resolved("cuda:5 0 1"), expected);
}

#[test]
fn a_machine_without_a_driver_computes_on_the_cpu() {
    let Some(stubs) = Stubs::new() else { return };
    if has_library("libcuda.so") || has_library("libcuda.so.1") {
        return;
    }
    assert_eq!(stubs.resolved("auto 1 2"), "cpu: `device=auto` chooses the CPU: no NVIDIA driver was found");
    let error = stubs.resolved("cuda 0 1");
    assert!(error.starts_with("error: no NVIDIA driver was found (libcuda.so"), "{error}");
    assert!(error.contains("No such file or directory"), "{error}");
    assert!(error.ends_with(
        "): install it so that nvidia-smi lists the GPU; a container has to be started with GPUs (docker run --gpus all)"
    ));
}

#[test]
fn a_driver_that_is_no_library_says_so() {
    let Some(stubs) = Stubs::new() else { return };
    std::fs::write(stubs.path("libcuda.so"), "not a library").unwrap();
    if has_library("libcuda.so.1") {
        return;
    }
    assert_has(stubs.resolved("cuda 0 1"), &["libcuda.so", "file too short"]);
}

#[test]
fn a_driver_without_a_gpu_computes_on_the_cpu() {
    let Some(stubs) = Stubs::new() else { return };
    stubs.driver(&[("VERSION", 12080), ("INIT", 0), ("GPUS", 0)]);
    assert_eq!(stubs.resolved("cuda 0 1"), "error: the NVIDIA driver finds no GPU");
    assert_eq!(stubs.resolved("auto 0 1"), "cpu: `device=auto` chooses the CPU: the NVIDIA driver finds no GPU");
    let hidden = stubs.resolved_with("cuda 0 1", &[("CUDA_VISIBLE_DEVICES", "")]);
    let expected = "error: the NVIDIA driver finds no GPU that this process may see (CUDA_VISIBLE_DEVICES is '')";
    assert_eq!(hidden, expected);
    // The error that cuInit itself returns.
    stubs.driver(&[("VERSION", 12080), ("INIT", 100), ("GPUS", 0)]);
    assert_eq!(stubs.resolved("cuda 0 1"), "error: the NVIDIA driver finds no GPU");
}

#[test]
fn a_driver_that_does_not_start_says_why() {
    let Some(stubs) = Stubs::working(1) else { return };
    for (code, expected) in [
        (
            999,
            "cuInit failed with CUDA_ERROR_UNKNOWN (999): nvidia-smi may say more; reloading the module nvidia_uvm or a \
             restart often helps",
        ),
        (
            803,
            "cuInit failed with CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803): the driver was updated: restart the machine",
        ),
        (
            34,
            "cuInit failed with CUDA_ERROR_STUB_LIBRARY (34): the toolkit's stub was loaded: take the folder 'stubs' out of \
             LD_LIBRARY_PATH",
        ),
        (12345, "cuInit failed with a CUresult (12345)"),
    ] {
        stubs.driver(&[("VERSION", 12080), ("INIT", code), ("GPUS", 1)]);
        assert_eq!(stubs.resolved("cuda 0 1"), format!("error: the NVIDIA driver does not work: {expected}"));
        let auto = stubs.resolved("auto 0 1");
        assert_eq!(auto, format!("cpu: `device=auto` chooses the CPU: the NVIDIA driver does not work: {expected}"));
    }
    stubs.driver(&[("VERSION", 12080), ("INIT", 0), ("GPUS", 1), ("NO_MEMORY", 1)]);
    let error = stubs.resolved("cuda 0 1");
    assert!(error.starts_with("error: the library libcuda.so.1 is not a usable NVIDIA driver: "), "{error}");
    assert!(error.contains("undefined symbol: cuDeviceTotalMem_v2"), "{error}");
}

#[test]
fn an_old_driver_is_refused() {
    let Some(stubs) = Stubs::working(1) else { return };
    stubs.driver(&[("VERSION", 11040), ("INIT", 0), ("GPUS", 1)]);
    let expected =
        "the NVIDIA driver is too old: it supports CUDA 11.4, but 12.0 is needed: install driver 525 or newer";
    assert_eq!(stubs.resolved("cuda 0 1"), format!("error: {expected}"));
    assert_eq!(stubs.resolved("auto 0 1"), format!("cpu: `device=auto` chooses the CPU: {expected}"));
}

#[test]
fn a_compiler_has_to_be_there_and_to_suit_driver_and_gpu() {
    let Some(stubs) = Stubs::new() else { return };
    stubs.headers(&HEADERS);
    stubs.driver(&[("VERSION", 12040), ("INIT", 0), ("GPUS", 1)]);
    if !has_library("libnvrtc.so") && !has_library("libnvrtc.so.12") && !has_library("libnvrtc.so.13") {
        let error = stubs.resolved("cuda 0 1");
        assert!(
            error.starts_with("error: libnvrtc, which compiles the kernels at run time, was not found (libnvrtc.so")
        );
        assert!(error.ends_with(
            "): install the package cuda-nvrtc of the driver's CUDA version (or the whole CUDA toolkit), and name its folder \
             in LD_LIBRARY_PATH"
        ));
    }
    stubs.compiler(12, 8, 89);
    assert_eq!(
        stubs.resolved("cuda 0 1"),
        "error: libnvrtc 12.8 compiles kernels that the NVIDIA driver, of CUDA 12.4, cannot load: install libnvrtc 12.4 or \
         older, or a newer driver"
    );
    stubs.compiler(12, 1, 86);
    assert_eq!(
        stubs.resolved("cuda 0 1"),
        "error: libnvrtc 12.1 does not compile for Stub 0 (compute capability 8.9): install a newer one"
    );
    stubs.compiler(12, 4, 120);
    assert_eq!(
        stubs.resolved("cuda 0 1"),
        "error: libnvrtc 12.4 does not compile for Stub 0 (compute capability 8.9): install an older one"
    );
    // CUDA 12.6 has the PTX version of 12.5.
    stubs.compiler(12, 6, 89);
    stubs.driver(&[("VERSION", 12050), ("INIT", 0), ("GPUS", 1)]);
    assert_eq!(stubs.resolved("cuda 0 1"), "cuda:0 (Stub 0, 24.0 GiB)");
}

#[test]
fn the_headers_have_to_be_there() {
    let Some(stubs) = Stubs::working(1) else { return };
    let include = stubs.path("include");
    std::fs::remove_file(include.join("mma.h")).unwrap();
    std::fs::remove_file(include.join("crt/mma.h")).unwrap();
    let without = |folder: &Path, lacks: &str| {
        format!(
            "the CUDA headers, which compiling the kernels at run time needs, were not found ({} lacks {lacks}): install the \
             packages cuda-cudart-dev and cuda-nvcc of libnvrtc's version, and set CUDA_PATH to the folder that has their \
             include/",
            folder.display()
        )
    };
    let lacks = without(&include, "mma.h, crt/mma.h");
    assert_eq!(stubs.resolved("cuda 0 1"), format!("error: {lacks}"));
    assert_eq!(stubs.resolved("auto 0 1"), format!("cpu: `device=auto` chooses the CPU: {lacks}"));

    let elsewhere = stubs.resolved_with("cuda 0 1", &[("CUDA_PATH", "/nowhere")]);
    assert_eq!(elsewhere, format!("error: {}", without(Path::new("/nowhere/include"), &HEADERS.join(", "))));
}

#[test]
fn a_kernel_has_to_compile() {
    let Some(stubs) = Stubs::working(1) else { return };
    stubs.library("nvrtc", COMPILER, &[("MAJOR", 12), ("MINOR", 8), ("ARCH", 89), ("FAILS", 1)]);
    let expected = format!(
        "error: libnvrtc 12.8 cannot compile a kernel with the headers in {}: probe(1): no such thing: install cuda-nvrtc, \
         cuda-cudart-dev and cuda-nvcc of the same version",
        stubs.path("include").display()
    );
    assert_eq!(stubs.resolved("cuda 0 1"), expected);
}
