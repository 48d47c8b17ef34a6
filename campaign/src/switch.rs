//! A network switch whose links fail on request.

use crate::frame::{Ports, corrupt, data_end, ports, reset, send_from, send_to};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tun_rs::SyncDevice;

/// The largest frame.
const MAX_FRAME_BYTES: usize = 2048;
/// The number of delayed frames of a link. More are dropped, as a router drops them.
const MAX_DELAYED: usize = 1024;

/// A fault of the link from one host to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    /// All frames are dropped.
    Cut,
    /// Frames arrive late.
    Delay(Duration),
    /// A number of bytes per second.
    Throttle(u32),
    /// The next TCP segment becomes one that resets its connection.
    Reset,
    /// One bit of the next TCP segment with data changes.
    Corrupt,
}

/// The largest number of frames that are captured.
const MAX_CAPTURED: usize = 50_000;

/// The link from one host to another.
#[derive(Default)]
struct Link {
    fault: Mutex<Option<Fault>>,
}

/// Connections from one host to another that reach a third one in its place.
pub(crate) struct Redirection {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) instead: usize,
    /// The number of the first such connection, among those from the one host to the other.
    pub(crate) first: usize,
    /// The source ports of the connections from the one host to the other.
    pub(crate) opened: Vec<[u8; 2]>,
}

impl Redirection {
    /// Returns whether a connection with this source port is redirected.
    fn includes(&self, port: [u8; 2]) -> bool {
        self.opened.iter().skip(self.first).any(|&opened| opened == port)
    }

    /// Changes the addresses of a frame of a redirected connection. Returns the host that it goes to.
    fn apply(&mut self, from: usize, to: usize, frame: &mut [u8]) -> usize {
        let Some(Ports { source, destination, opens }) = ports(frame) else { return to };
        if (from, to) == (self.from, self.to) {
            if opens && !self.opened.contains(&source) {
                self.opened.push(source);
            }
            if self.includes(source) {
                send_to(frame, self.instead);
                return self.instead;
            }
        }
        if (from, to) == (self.instead, self.from) && self.includes(destination) {
            send_from(frame, self.to);
        }
        to
    }
}

/// A switch that connects devices. The host at device *k* has a MAC address that ends in *k*.
pub(crate) struct Switch {
    /// By source, then by destination.
    links: Arc<Vec<Vec<Link>>>,
    captured: Arc<Capture>,
    redirection: Arc<Mutex<Option<Redirection>>>,
}

/// The frames that a switch has captured. `None` if it does not capture.
type Capture = Mutex<Option<Vec<Vec<u8>>>>;

/// A frame with the time at which it is due.
type Delayed = (Instant, Vec<u8>);

impl Switch {
    /// Starts the threads of a switch. They run until the program ends.
    pub(crate) fn start(devices: Vec<SyncDevice>) -> Self {
        let devices: Vec<Arc<SyncDevice>> = devices.into_iter().map(Arc::new).collect();
        let count = devices.len();
        let links: Vec<Vec<Link>> = (0..count).map(|_| (0..count).map(|_| Link::default()).collect()).collect();
        let links = Arc::new(links);
        let captured = Arc::new(Mutex::new(None));
        let redirection = Arc::new(Mutex::new(None));
        for from in 0..count {
            let port = Port {
                from,
                links: links.clone(),
                captured: captured.clone(),
                redirection: redirection.clone(),
                devices: devices.clone(),
                delayed: devices.iter().map(|device| late(device.clone())).collect(),
                free_at: vec![Instant::now(); count],
                sent: vec![HashMap::new(); count],
            };
            std::thread::spawn(move || port.run());
        }
        Self { links, captured, redirection }
    }

    /// Captures all frames from now on, at most [`MAX_CAPTURED`].
    pub(crate) fn start_capture(&self) {
        *self.captured.lock().unwrap_or_else(PoisonError::into_inner) = Some(Vec::new());
    }

    /// Ends a capture, and returns its frames.
    pub(crate) fn end_capture(&self) -> Vec<Vec<u8>> {
        self.captured.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default()
    }

    /// Redirects connections from now on; `None` redirects no further ones. Returns the previous redirection.
    pub(crate) fn redirect(&self, redirection: Option<Redirection>) -> Option<Redirection> {
        std::mem::replace(&mut self.redirection.lock().unwrap_or_else(PoisonError::into_inner), redirection)
    }

    /// Sets the fault of the link from one host to another; `None` repairs it.
    pub(crate) fn set(&self, from: usize, to: usize, fault: Option<Fault>) {
        *self.links[from][to].fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }

    /// Repairs all links.
    pub(crate) fn repair(&self) {
        let count = self.links.len();
        (0..count).for_each(|from| (0..count).for_each(|to| self.set(from, to, None)));
    }

    /// Returns the fault of a link. Faults of a single frame are gone after it.
    pub(crate) fn fault(&self, from: usize, to: usize) -> Option<Fault> {
        *self.links[from][to].fault.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts a thread that writes late frames to a device.
fn late(device: Arc<SyncDevice>) -> SyncSender<Delayed> {
    let (sender, frames): (_, Receiver<Delayed>) = sync_channel(MAX_DELAYED);
    std::thread::spawn(move || {
        for (due, frame) in frames {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            // A host that is gone takes no frames.
            let _ = device.send(&frame);
        }
    });
    sender
}

/// The port of a switch that reads the frames of one host.
struct Port {
    from: usize,
    links: Arc<Vec<Vec<Link>>>,
    captured: Arc<Capture>,
    redirection: Arc<Mutex<Option<Redirection>>>,
    devices: Vec<Arc<SyncDevice>>,
    delayed: Vec<SyncSender<Delayed>>,
    /// The time at which a throttled link has sent its last frame.
    free_at: Vec<Instant>,
    /// The sequence number after the last data of each connection, by destination and ports.
    sent: Vec<HashMap<[u8; 4], u32>>,
}

impl Port {
    fn run(mut self) {
        let mut buffer = [0; MAX_FRAME_BYTES];
        while let Ok(length) = self.devices[self.from].recv(&mut buffer) {
            let frame = &buffer[..length];
            let Some(&[first, .., last]) = frame.get(..6) else { continue };
            if let Some(frames) = &mut *self.captured.lock().unwrap_or_else(PoisonError::into_inner)
                && frames.len() < MAX_CAPTURED
            {
                frames.push(frame.to_vec());
            }
            // The lowest bit of the first byte marks a frame for several hosts.
            let is_for_all = first & 1 == 1;
            for to in 0..self.devices.len() {
                if to != self.from && (is_for_all || usize::from(last) == to) {
                    self.forward(to, frame);
                }
            }
        }
    }

    /// Returns true if a frame has data that its connection has not sent before. A host discards what it has already.
    fn has_new_data(&mut self, to: usize, frame: &[u8]) -> bool {
        let Some((ports, end)) = data_end(frame) else { return false };
        match self.sent[to].entry(ports) {
            Entry::Vacant(sent) => {
                sent.insert(end);
                true
            }
            Entry::Occupied(mut sent) => {
                // Sequence numbers wrap around.
                let is_new = end.wrapping_sub(*sent.get()) as i32 > 0;
                if is_new {
                    sent.insert(end);
                }
                is_new
            }
        }
    }

    fn forward(&mut self, to: usize, frame: &[u8]) {
        let mut frame = frame.to_vec();
        let to = match &mut *self.redirection.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(redirection) => redirection.apply(self.from, to, &mut frame),
            None => to,
        };
        let is_new = self.has_new_data(to, &frame);
        let mut fault = self.links[self.from][to].fault.lock().unwrap_or_else(PoisonError::into_inner);
        let due = match *fault {
            Some(Fault::Cut) => return,
            Some(Fault::Delay(delay)) => Some(Instant::now() + delay),
            Some(Fault::Throttle(bytes_per_second)) => {
                let time = Duration::from_secs_f64(frame.len() as f64 / f64::from(bytes_per_second));
                self.free_at[to] = self.free_at[to].max(Instant::now()) + time;
                Some(self.free_at[to])
            }
            Some(Fault::Reset) => {
                if reset(&mut frame) {
                    *fault = None;
                }
                None
            }
            Some(Fault::Corrupt) => {
                if is_new && corrupt(&mut frame) {
                    *fault = None;
                }
                None
            }
            None => None,
        };
        drop(fault);
        match due {
            None => drop(self.devices[to].send(&frame)),
            Some(due) => match self.delayed[to].try_send((due, frame)) {
                Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
            },
        }
    }
}
