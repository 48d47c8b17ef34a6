//! The messages of panics, for failure reports to the other ranks.

use std::any::Any;
use std::cell::RefCell;
use std::panic::PanicHookInfo;
use std::sync::{Mutex, Once};

use crate::locks::lock;

thread_local! {
    static OF_THREAD: RefCell<Option<String>> = const { RefCell::new(None) };
}

// Libraries such as rayon resume a panic on another thread than the one that it began on, where `OF_THREAD` is not set.
static OF_PROCESS: Mutex<Option<String>> = Mutex::new(None);

/// Installs a panic hook that remembers the message of each panic. The previous hook still runs.
pub(crate) fn remember_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let next = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let text = describe(panic);
            OF_THREAD.with_borrow_mut(|last| *last = Some(text.clone()));
            *lock(&OF_PROCESS) = Some(text);
            next(panic);
        }));
    });
}

/// Returns the message of the panic that unwinds the calling thread, with its source location.
pub(crate) fn current_panic() -> String {
    let of_thread = OF_THREAD.with_borrow(Clone::clone);
    of_thread.or_else(|| lock(&OF_PROCESS).clone()).unwrap_or_else(|| "panicked".to_owned())
}

/// Returns the message of a caught panic, for [`Cluster::abort`](crate::Cluster::abort). In a process that has joined a
/// job it includes the source location.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    let message = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    let Some(message) = message else { return current_panic() };
    let of_thread = OF_THREAD.with_borrow(Clone::clone);
    // The payload of a caught panic has no location. The remembered text that ends with the same message has it.
    let known = [of_thread, lock(&OF_PROCESS).clone()].into_iter().flatten().find(|text| text.ends_with(message));
    known.unwrap_or_else(|| format!("panicked: {message}"))
}

fn describe(panic: &PanicHookInfo<'_>) -> String {
    let message = panic.payload_as_str().unwrap_or("no message");
    match panic.location() {
        Some(place) => format!("panicked at {}:{}: {message}", place.file(), place.line()),
        None => format!("panicked: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_told_with_its_message_and_its_line() {
        remember_panics();
        let number = 7;
        let caught = std::panic::catch_unwind(|| panic!("the answer is not {number}")).unwrap_err();
        let text = panic_text(&*caught);
        assert!(text.starts_with("panicked at ") && text.contains("panics.rs:"), "{text}");
        assert!(text.ends_with("the answer is not 7"), "{text}");
        let elsewhere = std::thread::spawn(|| panic!("on another thread")).join().unwrap_err();
        assert!(panic_text(&*elsewhere).ends_with("on another thread"));
    }
}
