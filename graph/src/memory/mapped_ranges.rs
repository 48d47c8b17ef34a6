//! Error messages for mapped files that cannot be read.
//!
//! An access to a page of a mapped file fails with SIGBUS if the file is now shorter, or if the disk fails. The handler
//! of the signal finds the file by the address of the access. It runs between any two instructions of a thread, so it
//! takes no lock, allocates nothing and only makes system calls that POSIX allows in handlers.
//!
//! A process that ends in this way is a failed rank to its peers, like any other death.

use nix::libc;
use std::ffi::CString;
use std::io::{Cursor, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The longest path that a message holds; Linux opens no longer ones.
const MAX_PATH_BYTES: usize = 4096;
/// The space for the rest of a message.
const MAX_TEXT_BYTES: usize = 512;
/// The exit status of an error.
const FAILURE: libc::c_int = 1;

/// An entry of the list of mapped ranges. Entries are never freed, but reused.
#[derive(Debug)]
struct Slot {
    start: AtomicUsize,
    /// The end of the range, 0 while the entry is unused. Written last when a range is listed, and first when it is
    /// removed.
    end: AtomicUsize,
    /// The path, ending in a zero.
    path: AtomicPtr<libc::c_char>,
    /// The entry that was made before this one.
    next: Option<&'static Self>,
}

/// The entry that was made last.
static NEWEST: AtomicPtr<Slot> = AtomicPtr::new(ptr::null_mut());
/// The unused entries. Only threads that map files use it, never the handler.
static UNUSED: Mutex<Vec<&'static Slot>> = Mutex::new(Vec::new());

/// The listing of a mapped range, until it is dropped.
#[derive(Debug)]
pub(super) struct MappedRange {
    slot: &'static Slot,
    /// The text that `slot` points to.
    _path: CString,
}

impl MappedRange {
    /// Lists the memory `mapped` of the file in `path`.
    pub(super) fn new(mapped: &[u8], path: &Path) -> Self {
        // A path contains no zeros, since the file was opened.
        let path = CString::new(path.as_os_str().as_bytes()).unwrap_or_default();
        let slot = unused_slot();
        let start = mapped.as_ptr().addr();
        slot.start.store(start, Ordering::Relaxed);
        slot.path.store(path.as_ptr().cast_mut(), Ordering::Relaxed);
        slot.end.store(start + mapped.len(), Ordering::Release);
        Self { slot, _path: path }
    }
}

impl Drop for MappedRange {
    fn drop(&mut self) {
        self.slot.end.store(0, Ordering::SeqCst);
        UNUSED.lock().unwrap_or_else(PoisonError::into_inner).push(self.slot);
    }
}

fn unused_slot() -> &'static Slot {
    let mut unused = UNUSED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(slot) = unused.pop() {
        return slot;
    }
    // SAFETY: the pointer is null or that of an entry, which is never freed.
    let next = unsafe { NEWEST.load(Ordering::Acquire).as_ref() };
    let slot = Slot { start: 0.into(), end: 0.into(), path: AtomicPtr::new(ptr::null_mut()), next };
    let slot: &'static mut Slot = Box::leak(Box::new(slot));
    // The lock is still held, so no other thread has added an entry.
    NEWEST.store(slot, Ordering::Release);
    slot
}

/// A range that the handler has found.
struct Found {
    bytes: usize,
    path: *const libc::c_char,
}

/// Finds the mapped range of `address`. The caller reads from this range, so its file stays mapped and listed.
fn find(address: usize) -> Option<Found> {
    // SAFETY: as in `unused_slot`.
    let mut slot = unsafe { NEWEST.load(Ordering::Acquire).as_ref() };
    while let Some(at) = slot {
        let end = at.end.load(Ordering::SeqCst);
        let start = at.start.load(Ordering::SeqCst);
        let path = at.path.load(Ordering::SeqCst);
        // An entry that another thread reuses meanwhile has another end by now.
        if (start..end).contains(&address) && at.end.load(Ordering::SeqCst) == end {
            return Some(Found { bytes: end - start, path });
        }
        slot = at.next;
    }
    None
}

/// Makes this process end with an error message and status 1 when a mapped file cannot be read, because it was
/// truncated or because the disk failed. Without this call, SIGBUS kills the process. Programs call it when they start.
///
/// # Errors
/// The error of the operating system.
pub fn end_on_unreadable_pages() -> std::io::Result<()> {
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = handle;
    act_on_sigbus(handler as usize, libc::SA_SIGINFO)
}

fn act_on_sigbus(handler: usize, flags: libc::c_int) -> std::io::Result<()> {
    // SAFETY: zeros are a valid `sigaction` with an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    // SAFETY: `handler` is `SIG_DFL`, or `handle`, which takes the arguments of the flag SA_SIGINFO and only does what is
    // allowed in handlers.
    match unsafe { libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Set once a thread has begun to end the process.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// Ends the process with a message if a mapped file caused the signal. Otherwise lets the signal kill the process.
extern "C" fn handle(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid `siginfo_t`. Signals of the kernel have a positive code, and an address.
    let address = unsafe { ((*info).si_code > 0).then(|| (*info).si_addr().addr()) };
    if let Some(found) = address.and_then(find) {
        // Several threads may read such pages at the same time. The first one reports.
        if IS_ENDING.swap(true, Ordering::SeqCst) {
            loop {
                // SAFETY: waits for a signal. The first thread ends the process.
                unsafe { libc::pause() };
            }
        }
        report(&found);
        // SAFETY: ends the process without running any other code of it.
        unsafe { libc::_exit(FAILURE) };
    }
    // This only fails for a number that is no signal.
    let _ = act_on_sigbus(libc::SIG_DFL, 0);
    // The signal arrives when this handler returns.
    // SAFETY: sends a signal to this thread.
    unsafe { libc::raise(libc::SIGBUS) };
}

/// Writes one line about the file to standard error.
fn report(found: &Found) {
    let mut line = [0_u8; MAX_PATH_BYTES + MAX_TEXT_BYTES];
    let mut text = Cursor::new(&mut line[..]);
    // SAFETY: the path belongs to the `MappedFile` that the interrupted code reads.
    let path = unsafe { std::ffi::CStr::from_ptr(found.path) };
    let path_bytes = path.to_bytes();
    let _ = text.write_all(b"error: ");
    let _ = text.write_all(&path_bytes[..path_bytes.len().min(MAX_PATH_BYTES)]);
    // SAFETY: zeros are a valid `stat`.
    let mut now: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `path` ends in a zero, and `now` is a local variable.
    let is_there = unsafe { libc::stat(path.as_ptr(), &raw mut now) } == 0;
    let bytes = found.bytes;
    let _ = match usize::try_from(now.st_size) {
        Ok(left) if is_there && left < bytes => writeln!(
            text,
            ": it was truncated while in use, from {bytes} to {left} bytes. Files must not be changed in place: copy or \
             make the file again, then restart"
        ),
        _ => writeln!(
            text,
            ": a page of the {bytes} bytes could not be read, because the disk failed or the file was truncated while in \
             use. Check the disk, copy or make the file again, then restart"
        ),
    };
    let length = text.position() as usize;
    // SAFETY: the first `length` bytes of `line` are initialized. One call, so that lines of processes do not mix.
    unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), length) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path_of(address: usize) -> Option<String> {
        // SAFETY: the tests keep the ranges that they look for.
        find(address).map(|found| unsafe { std::ffi::CStr::from_ptr(found.path) }.to_str().unwrap().to_owned())
    }

    #[test]
    fn addresses_lead_to_files_while_these_are_mapped() {
        let memory = vec![0_u8; 1000];
        let start = memory.as_ptr().addr();
        let first = MappedRange::new(&memory[..300], Path::new("first"));
        let second = MappedRange::new(&memory[300..600], Path::new("second"));
        assert_eq!(path_of(start).as_deref(), Some("first"));
        assert_eq!(path_of(start + 299).as_deref(), Some("first"));
        assert_eq!(path_of(start + 300).as_deref(), Some("second"));
        assert_eq!(path_of(start + 600), None);
        drop(first);
        assert_eq!((path_of(start), path_of(start + 599).as_deref()), (None, Some("second")));
        let third = MappedRange::new(&memory[600..], Path::new("third"));
        assert_eq!((path_of(start + 999).as_deref(), path_of(start)), (Some("third"), None));
        drop((second, third));
        assert_eq!(path_of(start + 999), None);
    }
}
