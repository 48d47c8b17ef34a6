//! Tests of communicators over stubs of the driver and of NCCL, in which ranks are threads and device memory is host
//! memory.

use std::ffi::c_int;
use std::process::Command;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use crate::cuda::library::CudaLibrary;
use crate::cuda::stream::DeviceContext;
use crate::nccl::communicator::Communicator;
use crate::nccl::error::NcclError;
use crate::nccl::library::Nccl;
use crate::nccl::{NcclConfig, NcclGroup};

/// A time limit that only a failing test reaches.
const LONG_MS: u64 = 60_000;
const SHORT_MS: u64 = 100;

struct Stub {
    library: CudaLibrary,
    // The library stays loaded, so its file may be deleted.
    _folder: tempfile::TempDir,
}

impl Stub {
    /// Compiles a stub for one test. Returns `None`, with a message, if there is no C compiler.
    fn new(macros: &[&str]) -> Option<Self> {
        if !edgecut_testing::has_c_compiler("a test of NCCL") {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let [source, file] = ["stub.c", "libstub.so"].map(|name| folder.path().join(name));
        std::fs::write(&source, include_str!("../../tests/nccl_stub.c")).unwrap();
        let mut command = Command::new("cc");
        command.args(["-shared", "-fPIC", "-pthread", "-o"]).args([&file, &source]);
        let made = command.args(macros.iter().map(|name| format!("-D{name}"))).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let library = CudaLibrary::open([file.to_str().unwrap()]).unwrap();
        Some(Self { library, _folder: folder })
    }

    fn join(&self, local_rank: usize, local_size: usize, timeout_ms: u64) -> Result<Communicator, NcclError> {
        // All ids of the stub are the same.
        let id = std::array::from_fn(|i| (3 * i + 1) as u8);
        self.join_with(local_rank, local_size, timeout_ms, |mine| {
            assert_eq!(mine, (local_rank == 0).then_some(id));
            Ok::<_, String>(id)
        })
    }

    fn join_with(
        &self,
        local_rank: usize,
        local_size: usize,
        timeout_ms: u64,
        exchange: impl FnOnce(Option<[u8; 128]>) -> Result<[u8; 128], String>,
    ) -> Result<Communicator, NcclError> {
        let config = NcclConfig { local_rank, local_size, device: local_rank, timeout_ms };
        let context = DeviceContext::retain(self.library, local_rank).unwrap();
        Communicator::join(Nccl::of(self.library)?, context, config, exchange)
    }

    /// Returns a counter of the stub.
    fn counter(&self, name: &str) -> c_int {
        // SAFETY: the stub has an int of that name, which is only ever added to.
        unsafe { *self.library.function::<*const c_int>(name).unwrap() }
    }

    fn given_back(&self) -> bool {
        self.counter("stub_streams") == 0 && self.counter("stub_contexts") == 0
    }
}

fn sum(communicator: &mut Communicator, data: &mut [f32]) -> Result<(), NcclError> {
    // SAFETY: the stub's device memory is the host's.
    unsafe { communicator.all_reduce_sum(data.as_mut_ptr() as u64, data.len()) }
}

fn broadcast(communicator: &mut Communicator, data: &mut [f32], root: usize) -> Result<(), NcclError> {
    // SAFETY: as above.
    unsafe { communicator.broadcast(data.as_mut_ptr() as u64, data.len(), root) }
}

fn text<T>(outcome: Result<T, NcclError>) -> String {
    let Err(error) = outcome else { return "no error".to_owned() };
    match std::error::Error::source(&error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

#[test]
fn ranks_add_up_and_copy() {
    for size in 1..=3 {
        let Some(stub) = Stub::new(&[]) else { return };
        let results = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for rank in 0..size {
                let stub = &stub;
                let results = &results;
                scope.spawn(move || {
                    let mut communicator = stub.join(rank, size, LONG_MS).unwrap();
                    for step in 0..20 {
                        let mut data = [rank as f32, step as f32, 1.0];
                        sum(&mut communicator, &mut data).unwrap();
                        let ranks = (size * (size - 1) / 2) as f32;
                        assert_eq!(data, [ranks, (size * step) as f32, size as f32]);
                        let mut data = [10.0 + rank as f32; 2];
                        broadcast(&mut communicator, &mut data, step % size).unwrap();
                        assert_eq!(data, [10.0 + (step % size) as f32; 2]);
                    }
                    results.lock().unwrap().push(rank);
                });
            }
        });
        assert_eq!(results.into_inner().unwrap().len(), size);
        assert_eq!((stub.counter("stub_destroyed"), stub.counter("stub_aborted")), (size as c_int, 0));
        assert!(stub.given_back());
    }
}

#[test]
fn the_id_of_rank_0_reaches_the_others() {
    let Some(stub) = Stub::new(&[]) else { return };
    let (send, receive) = channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            let joined = stub.join_with(0, 2, LONG_MS, |mine| {
                let id = mine.unwrap();
                send.send(id).unwrap();
                Ok(id)
            });
            assert!(joined.is_ok());
        });
        let joined = stub.join_with(1, 2, LONG_MS, |mine| {
            assert_eq!(mine, None);
            receive.recv().map_err(|error| error.to_string())
        });
        assert!(joined.is_ok());
    });
    // The stub knows an id that was damaged on the way.
    let wrong = text(stub.join_with(1, 2, LONG_MS, |_| Ok([0; 128])));
    assert_eq!(wrong, "join the NCCL group: NCCL failed: invalid argument (4): the stub said so");
}

#[test]
fn a_rank_that_does_not_come_is_not_waited_for_for_ever() {
    let Some(stub) = Stub::new(&[]) else { return };
    let mut communicator = stub.join(1, 2, SHORT_MS).unwrap();
    let begin = Instant::now();
    let expected = "all-reduce(sum) of 4 f32 between the GPUs of the node: local rank 1 of 2 has waited 100 ms: another \
                    process of the node has failed or hangs";
    assert_eq!(text(sum(&mut communicator, &mut [1.0; 4])), expected);
    assert!(begin.elapsed() >= Duration::from_millis(SHORT_MS));
    assert_eq!(stub.counter("stub_aborted"), 1);
    // A broken group does not try again.
    let broken = format!("the NCCL group is broken by an earlier error: {expected}");
    assert_eq!(text(sum(&mut communicator, &mut [1.0; 4])), broken);
    assert_eq!(text(broadcast(&mut communicator, &mut [1.0; 4], 0)), broken);
    drop(communicator);
    assert_eq!((stub.counter("stub_aborted"), stub.counter("stub_destroyed")), (1, 0));
    assert!(stub.given_back());
}

#[test]
fn joining_is_bounded_too() {
    let Some(stub) = Stub::new(&["INIT_HANGS"]) else { return };
    let expected = "join the NCCL group: local rank 0 of 2 has waited 100 ms: another process of the node has failed or \
                    hangs";
    assert_eq!(text(stub.join(0, 2, SHORT_MS)), expected);
    assert_eq!(stub.counter("stub_aborted"), 1);
    assert!(stub.given_back());
}

#[test]
fn failures_are_told_in_words() {
    for (macros, expected) in [
        ("ID_CODE=2", "make the id of the NCCL group: NCCL failed: some error (2): the stub said so"),
        ("INIT_CODE=5", "join the NCCL group: NCCL failed: some error (5): the stub said so"),
    ] {
        let Some(stub) = Stub::new(&[macros]) else { return };
        assert_eq!(text(stub.join(0, 1, LONG_MS)), expected);
        assert!(stub.given_back());
    }
    for (macros, expected) in [
        ("ASYNC_CODE=6", "NCCL failed: remote process exited (6): the stub said so"),
        (
            "STREAM_CODE=719",
            "the NVIDIA driver does not work: cuStreamQuery failed with CUDA_ERROR_LAUNCH_FAILED (719)",
        ),
    ] {
        let Some(stub) = Stub::new(&[macros]) else { return };
        let mut communicator = stub.join(0, 1, LONG_MS).unwrap();
        let operation = "all-reduce(sum) of 1 f32 between the GPUs of the node";
        assert_eq!(text(sum(&mut communicator, &mut [1.0])), format!("{operation}: {expected}"));
        assert_eq!(stub.counter("stub_aborted"), 1);
        drop(communicator);
        assert!(stub.given_back());
    }
}

#[test]
fn an_abort_that_hangs_is_left_behind() {
    let Some(stub) = Stub::new(&["ABORT_HANGS"]) else { return };
    let mut communicator = stub.join(0, 2, SHORT_MS).unwrap();
    communicator.set_end_timeout(Duration::from_millis(SHORT_MS));
    assert!(text(sum(&mut communicator, &mut [1.0])).contains("has waited 100 ms"));
    drop(communicator);
    // The resources that the abort may still use are not released.
    assert_eq!((stub.counter("stub_streams"), stub.counter("stub_contexts")), (1, 1));
}

#[test]
fn an_end_that_hangs_is_aborted() {
    let Some(stub) = Stub::new(&["FINALIZE_HANGS"]) else { return };
    let mut communicator = stub.join(0, 1, LONG_MS).unwrap();
    communicator.set_end_timeout(Duration::from_millis(SHORT_MS));
    drop(communicator);
    assert_eq!((stub.counter("stub_aborted"), stub.counter("stub_destroyed")), (1, 0));
    assert!(stub.given_back());
}

#[test]
fn places_and_roots_have_to_exist() {
    let Some(stub) = Stub::new(&[]) else { return };
    assert_eq!(text(stub.join(2, 2, LONG_MS)), "local rank 2 is out of range: the group has 2 ranks");
    let refused = text(stub.join_with(0, 1, LONG_MS, |_| Err("rank 1 failed".to_owned())));
    assert_eq!(refused, "distribute the id of the NCCL group: rank 1 failed");
    let mut communicator = stub.join(0, 1, LONG_MS).unwrap();
    assert_eq!(
        text(broadcast(&mut communicator, &mut [1.0], 1)),
        "local rank 1 is out of range: the group has 1 ranks"
    );
    // No operation has begun, so the group is not broken.
    assert_eq!(text(sum(&mut communicator, &mut [1.0])), "no error");
}

#[test]
fn an_old_or_foreign_library_is_refused() {
    let Some(stub) = Stub::new(&["VERSION=21703"]) else { return };
    assert_eq!(text(Nccl::of(stub.library)), "NCCL 2.17.3 is too old: 2.18.0 or newer is needed");
    let Some(stub) = Stub::new(&["ncclCommAbort=other"]) else { return };
    let error = text(Nccl::of(stub.library));
    assert!(error.starts_with("NCCL cannot be used: "), "{error}");
    assert!(error.ends_with("undefined symbol: ncclCommAbort"), "{error}");
    // Without NCCL there is no group.
    match NcclGroup::check_present() {
        Ok(()) => assert!(NcclGroup::is_present()),
        Err(NcclError::Missing { cause }) => assert!(cause.contains("libnccl.so"), "{cause}"),
        Err(error) => assert!(matches!(error, NcclError::TooOld { .. }), "{error}"),
    }
}
