//! A communicator of NCCL on raw device pointers, with a time limit on every wait.

use std::error::Error;
use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::cuda::stream::{DeviceContext, RawStream};
use crate::device::DeviceError;
use crate::nccl::NcclConfig;
use crate::nccl::error::NcclError;
use crate::nccl::library::{Comm, Config, FLOAT32, IN_PROGRESS, Nccl, SUCCESS, SUM, UniqueId};

/// The number of polls without a pause in between: about as long as an all-reduce of gradients takes.
const EAGER_LOOKS: u32 = 2_000;
/// The pause between later polls.
const PAUSE: Duration = Duration::from_micros(50);
/// The time limit of an abort, which hangs in some versions of NCCL, and of closing a healthy communicator.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// A rank's end of a communicator, with a stream of its own. Every call waits until its work on the device is done.
pub(crate) struct Communicator {
    nccl: Nccl,
    context: Arc<DeviceContext>,
    config: NcclConfig,
    comm: Comm,
    stream: RawStream,
    /// The error that broke the communicator, if any.
    broken: Option<String>,
    // True if an abort hangs. The resources that it may still use are never released.
    stuck: bool,
    end_timeout: Duration,
}

// SAFETY: NCCL and the driver allow their objects to be used from any thread, one at a time. `&mut self` ensures that,
// and the context is made current in whichever thread calls.
unsafe impl Send for Communicator {}

impl Communicator {
    /// Joins the other ranks. `exchange` gets the group's id on local rank 0, and must return it on all ranks.
    pub(crate) fn join<E: Into<Box<dyn Error + Send + Sync>>>(
        nccl: Nccl,
        context: DeviceContext,
        config: NcclConfig,
        exchange: impl FnOnce(Option<[u8; 128]>) -> Result<[u8; 128], E>,
    ) -> Result<Self, NcclError> {
        let mut this = Self {
            nccl,
            context: Arc::new(context),
            config,
            comm: null_mut(),
            stream: null_mut(),
            broken: None,
            stuck: false,
            end_timeout: END_TIMEOUT,
        };
        // From here on dropping `this` releases everything.
        let outcome = this.init(exchange);
        outcome.inspect_err(|error| this.give_up(error))?;
        Ok(this)
    }

    /// Creates the stream and the communicator.
    fn init<E: Into<Box<dyn Error + Send + Sync>>>(
        &mut self,
        exchange: impl FnOnce(Option<[u8; 128]>) -> Result<[u8; 128], E>,
    ) -> Result<(), NcclError> {
        const OPERATION: &str = "join the NCCL group";
        let NcclConfig { local_rank, local_size, .. } = self.config;
        let place = || Some((c_int::try_from(local_rank).ok()?, c_int::try_from(local_size).ok()?));
        let Some((rank, size)) = place().filter(|(rank, size)| rank < size) else {
            return Err(NcclError::NoSuchRank { local_rank, local_size });
        };
        let context = self.context.clone();
        let entered = context.enter().map_err(|cause| device(OPERATION, cause))?;
        self.stream = entered.stream().map_err(|cause| device(OPERATION, cause))?;

        let mine = if rank == 0 { Some(self.unique_id()?.0) } else { None };
        let id = exchange(mine).map_err(|error| NcclError::Exchange(Arc::from(Into::<Box<_>>::into(error))))?;
        // The time starts after the exchange, from which all ranks return at about the same time.
        let deadline = self.deadline();
        let mut config = Config::non_blocking();
        // SAFETY: NCCL writes one communicator, and copies the configuration.
        let code = unsafe { (self.nccl.init_rank)(&mut self.comm, size, UniqueId(id), rank, &mut config) };
        self.check(OPERATION, code)?;
        self.wait(OPERATION, deadline, |this| this.is_accepted(OPERATION))
    }

    fn unique_id(&self) -> Result<UniqueId, NcclError> {
        let mut id = UniqueId([0; 128]);
        // SAFETY: NCCL writes one id.
        let code = unsafe { (self.nccl.get_unique_id)(&mut id) };
        self.check("make the id of the NCCL group", code)?;
        Ok(id)
    }

    /// Sums `len` numbers over all ranks, in place on the device.
    ///
    /// # Safety
    /// `buffer` must be a device address of this context with room for `len` f32, which nothing else reads or writes until
    /// this returns; after a [`NcclError::TimedOut`], never again.
    pub(crate) unsafe fn all_reduce_sum(&mut self, buffer: u64, len: usize) -> Result<(), NcclError> {
        let data = buffer as usize as *mut _;
        self.collective(&all_reduce_text(len), |nccl, comm, stream| {
            // SAFETY: the caller vouches for the buffer; in place means the same one twice.
            unsafe { (nccl.all_reduce)(data, data, len, FLOAT32, SUM, comm, stream) }
        })
    }

    /// Copies `len` numbers from the rank `root` to all others.
    ///
    /// # Safety
    /// As [`all_reduce_sum`](Self::all_reduce_sum).
    pub(crate) unsafe fn broadcast(&mut self, buffer: u64, len: usize, root: usize) -> Result<(), NcclError> {
        let NcclConfig { local_size, .. } = self.config;
        let rank = c_int::try_from(root).ok().filter(|_| root < local_size);
        let rank = rank.ok_or(NcclError::NoSuchRank { local_rank: root, local_size })?;
        let data = buffer as usize as *mut _;
        self.collective(&broadcast_text(len, root), |nccl, comm, stream| {
            // SAFETY: as above.
            unsafe { (nccl.broadcast)(data, data, len, FLOAT32, rank, comm, stream) }
        })
    }

    /// Runs a collective, unless an earlier error has broken the communicator.
    fn collective(
        &mut self,
        operation: &str,
        start: impl FnOnce(&Nccl, Comm, RawStream) -> c_int,
    ) -> Result<(), NcclError> {
        if let Some(earlier) = &self.broken {
            return Err(NcclError::Broken { earlier: earlier.clone() });
        }
        self.run(operation, start).inspect_err(|error| self.give_up(error))
    }

    /// Starts a collective, and waits until its work on the device is done.
    fn run(&mut self, operation: &str, start: impl FnOnce(&Nccl, Comm, RawStream) -> c_int) -> Result<(), NcclError> {
        let deadline = self.deadline();
        let context = self.context.clone();
        let _entered = context.enter().map_err(|cause| device(operation, cause))?;
        self.check(operation, start(&self.nccl, self.comm, self.stream))?;
        // A non-blocking call puts its work on the stream only once NCCL has accepted it.
        self.wait(operation, deadline, |this| this.is_accepted(operation))?;
        self.wait(operation, deadline, |this| {
            // SAFETY: the stream is this one's own.
            let idle = unsafe { this.context.is_idle(this.stream) }.map_err(|cause| device(operation, cause))?;
            if !idle {
                // Only NCCL reports errors that it has noticed itself. The stream would wait for ever.
                this.is_accepted(operation)?;
            }
            Ok(idle)
        })
    }

    /// Returns true if NCCL has accepted all calls so far.
    fn is_accepted(&self, operation: &str) -> Result<bool, NcclError> {
        let mut state = SUCCESS;
        // SAFETY: the communicator lives; NCCL writes one result.
        let code = unsafe { (self.nccl.async_error)(self.comm, &mut state) };
        self.check(operation, code)?;
        self.check(operation, state)?;
        Ok(state == SUCCESS)
    }

    /// Turns a result of NCCL into an error.
    fn check(&self, operation: &str, code: c_int) -> Result<(), NcclError> {
        match code {
            SUCCESS | IN_PROGRESS => Ok(()),
            code => {
                Err(NcclError::Failed { operation: operation.to_owned(), cause: self.nccl.describe(code, self.comm) })
            }
        }
    }

    /// Polls `done` until it returns true. Fails at the deadline.
    fn wait(
        &self,
        operation: &str,
        deadline: Instant,
        done: impl FnMut(&Self) -> Result<bool, NcclError>,
    ) -> Result<(), NcclError> {
        if self.wait_until(deadline, done)? {
            return Ok(());
        }
        let NcclConfig { local_rank, local_size, timeout_ms, .. } = self.config;
        Err(NcclError::TimedOut { operation: operation.to_owned(), local_rank, local_size, timeout_ms })
    }

    /// Polls `done`. Returns true when it does, and false at the deadline.
    fn wait_until(
        &self,
        deadline: Instant,
        mut done: impl FnMut(&Self) -> Result<bool, NcclError>,
    ) -> Result<bool, NcclError> {
        for look in 0.. {
            if done(self)? {
                return Ok(true);
            }
            if Instant::now() >= deadline {
                return Ok(false);
            }
            if look < EAGER_LOOKS { std::thread::yield_now() } else { std::thread::sleep(PAUSE) }
        }
        Ok(false)
    }

    fn deadline(&self) -> Instant {
        Instant::now() + Duration::from_millis(self.config.timeout_ms)
    }

    /// Notes the error that breaks the communicator, and aborts it.
    fn give_up(&mut self, error: &NcclError) {
        self.broken = Some(error.to_string());
        self.abort();
    }

    /// Aborts the work on the device and the communicator. Some versions of NCCL hang in an abort, so a thread does it,
    /// which is abandoned if it hangs.
    fn abort(&mut self) {
        let comm = SendComm(std::mem::replace(&mut self.comm, null_mut()));
        if comm.0.is_null() {
            return;
        }
        let nccl = self.nccl;
        let context = self.context.clone();
        let (done, ended) = channel();
        let thread = std::thread::Builder::new().name("nccl-abort".to_owned()).spawn(move || {
            let comm = comm;
            let entered = context.enter();
            // SAFETY: the communicator lived, and nobody else has it any more. Nothing can be done about a failure.
            let _ = unsafe { (nccl.abort)(comm.0) };
            drop(entered);
            // The owner then releases the context itself, not this thread at some later time.
            drop(context);
            let _ = done.send(());
        });
        self.stuck = thread.is_err() || ended.recv_timeout(self.end_timeout).is_err();
    }

    /// Closes a healthy communicator. It waits only for this rank's own work, of which none is left.
    fn close(&mut self) {
        let finalized = |this: &Self| {
            // SAFETY: the communicator lives.
            this.check("end the NCCL group", unsafe { (this.nccl.finalize)(this.comm) })?;
            this.wait_until(Instant::now() + this.end_timeout, |this| this.is_accepted("end the NCCL group"))
        };
        match finalized(self) {
            Ok(true) => {
                // SAFETY: the communicator lives, and is not used any more. Nothing can be done about a failure.
                let _ = unsafe { (self.nccl.destroy)(self.comm) };
                self.comm = null_mut();
            }
            Ok(false) | Err(_) => self.abort(),
        }
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        if !self.comm.is_null() {
            let context = self.context.clone();
            match context.enter() {
                // A panic may come from inside a collective, whose work has not ended.
                Ok(_entered) if !std::thread::panicking() => self.close(),
                _ => self.abort(),
            }
        }
        if self.stuck {
            // The abort may still use the context, also if its thread could not be started.
            std::mem::forget(self.context.clone());
            return;
        }
        if !self.stream.is_null() {
            // SAFETY: the stream is this one's own, and not used any more.
            unsafe { self.context.destroy(self.stream) };
        }
    }
}

/// A communicator that is moved to the thread that aborts it.
struct SendComm(Comm);

// SAFETY: NCCL allows a communicator to be aborted from any thread.
unsafe impl Send for SendComm {}

/// Describes an all-reduce in errors.
pub(crate) fn all_reduce_text(len: usize) -> String {
    format!("all-reduce(sum) of {len} f32 between the GPUs of the node")
}

/// Describes a broadcast in errors.
pub(crate) fn broadcast_text(len: usize, root: usize) -> String {
    format!("broadcast from local rank {root} of {len} f32 between the GPUs of the node")
}

fn device(operation: &str, cause: DeviceError) -> NcclError {
    NcclError::Device { operation: operation.to_owned(), cause }
}

#[cfg(test)]
impl Communicator {
    pub(crate) fn set_end_timeout(&mut self, timeout: Duration) {
        self.end_timeout = timeout;
    }
}
