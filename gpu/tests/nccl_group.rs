//! Collectives on the buffers of CubeCL's CUDA runtime, and its behavior when memory runs out. The tests run the real
//! CubeCL over stubs of the driver and of NCCL, built by a C compiler. Each case runs in a process of its own, whose
//! loader finds the stubs first.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::mpsc::channel;
use std::thread;

use cubecl::cuda::{CudaDevice, CudaRuntime};
use cubecl::prelude::{ComputeClient, Runtime};
use edgecut_gpu::{DeviceError, NcclConfig, NcclError, NcclGroup, noted_failure, watch_panics};

/// The variable that marks the process with the stubs.
const STUBBED: &str = "EDGECUT_TEST_STUBBED";

/// Runs the test `name` again in a process that finds the stubs, and checks that it passed. Returns false in that
/// process, in which the test continues.
fn ran_with_stub(name: &str, macros: &[&str]) -> bool {
    if std::env::var_os(STUBBED).is_some() {
        return false;
    }
    if !edgecut_testing::has_c_compiler(name) {
        return true;
    }
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("libcuda.so");
    let made = Command::new("cc")
        .args(["-shared", "-fPIC", "-pthread"])
        .args(macros.iter().map(|name| format!("-D{name}")))
        .args([concat!(env!("CARGO_MANIFEST_DIR"), "/tests/memory_stub.c"), "-o"])
        .arg(&library)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    // Both stubs are one file, and so one library to the loader: NCCL's part knows the driver's streams.
    std::os::unix::fs::symlink(&library, folder.path().join("libnccl.so.2")).unwrap();

    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture"]);
    let output = command.env(STUBBED, "1").env("LD_LIBRARY_PATH", folder.path()).output().unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success() && said[0].contains("1 passed"), "{}\n{}", said[0], said[1]);
    true
}

fn client(device: usize) -> ComputeClient<CudaRuntime> {
    CudaRuntime::client(&CudaDevice::new(device))
}

fn config(local_rank: usize, local_size: usize) -> NcclConfig {
    NcclConfig { local_rank, local_size, device: local_rank, timeout_ms: 60_000 }
}

fn alone(id: Option<[u8; 128]>) -> Result<[u8; 128], String> {
    id.ok_or_else(|| "there is no other rank".to_owned())
}

#[test]
fn buffers_of_two_devices_are_added_up() {
    if ran_with_stub("buffers_of_two_devices_are_added_up", &[]) {
        return;
    }
    assert!(NcclGroup::is_present());
    let (send, receive) = channel();
    let mut receive = Some(receive);
    thread::scope(|scope| {
        for rank in 0..2 {
            let send = send.clone();
            let receive = if rank == 1 { receive.take() } else { None };
            scope.spawn(move || {
                let mut group = NcclGroup::join(config(rank, 2), |id| match (id, receive) {
                    (Some(id), None) => send.send(id).map(|()| id).map_err(|error| error.to_string()),
                    (None, Some(receive)) => receive.recv().map_err(|error| error.to_string()),
                    _ => Err("an id on the wrong rank".to_owned()),
                })
                .unwrap();
                let client = client(rank);
                let data: Vec<_> = (0..1000).map(|i| (i * (rank + 1)) as f32).collect();
                let buffer = client.create_from_slice(bytemuck::cast_slice(&data));
                let read = || bytemuck::cast_slice::<u8, f32>(&client.read_one(buffer.clone()).unwrap()).to_vec();

                group.all_reduce_sum(&client, &buffer, 1000).unwrap();
                assert_eq!(read(), (0..1000).map(|i| (3 * i) as f32).collect::<Vec<_>>());
                // Only the first elements, from an offset on.
                let end = buffer.clone().offset_start(4 * 990);
                group.all_reduce_sum(&client, &end, 5).unwrap();
                let factor = |i| if (990..995).contains(&i) { 6 } else { 3 };
                assert_eq!(read(), (0..1000).map(|i| (factor(i) * i) as f32).collect::<Vec<_>>());

                let mine = client.create_from_slice(bytemuck::cast_slice(&[7.0 + rank as f32; 4]));
                group.broadcast(&client, &mine, 4, 1).unwrap();
                let read = client.read_one(mine).unwrap();
                assert_eq!(bytemuck::cast_slice::<u8, f32>(&read), [8.0; 4]);
            });
        }
    });
}

#[test]
fn a_short_buffer_is_refused() {
    if ran_with_stub("a_short_buffer_is_refused", &[]) {
        return;
    }
    let client = client(0);
    let mut group = NcclGroup::join(config(0, 1), alone).unwrap();
    let buffer = client.create_from_slice(bytemuck::cast_slice(&[1.0_f32; 3]));
    let error = group.all_reduce_sum(&client, &buffer, 4).unwrap_err();
    assert!(matches!(error, NcclError::TooShort { bytes: 12, .. }), "{error}");
    group.all_reduce_sum(&client, &buffer, 3).unwrap();
}

#[test]
fn a_gpu_that_is_not_there_is_refused() {
    if ran_with_stub("a_gpu_that_is_not_there_is_refused", &[]) {
        return;
    }
    let error = NcclGroup::join(NcclConfig { device: 99, ..config(0, 1) }, alone).unwrap_err();
    assert_eq!(
        error.to_string(),
        "join the NCCL group: the NVIDIA driver does not work: cuDeviceGet failed with CUDA_ERROR_INVALID_DEVICE (101): \
         compare CUDA_VISIBLE_DEVICES with what nvidia-smi lists"
    );
}

#[test]
fn memory_that_runs_out_is_recognised() {
    if ran_with_stub("memory_that_runs_out_is_recognised", &["LIMIT=(100ul<<20)"]) {
        return;
    }
    watch_panics();
    let client = client(0);
    let small = client.empty(4096);
    assert_eq!(client.read_one(small).unwrap().len(), 4096);
    assert_eq!(noted_failure(), None);

    let big = client.empty(200 << 20);
    // The device's thread has reported the cause; this thread only sees that there is no answer.
    let read = catch_unwind(AssertUnwindSafe(|| client.read_one(big)));
    assert!(!matches!(read, Ok(Ok(_))));
    match noted_failure() {
        Some(DeviceError::OutOfMemory { asked_bytes: Some(bytes) }) => assert!(bytes >= 200 << 20, "{bytes}"),
        other => panic!("{other:?}"),
    }
}
