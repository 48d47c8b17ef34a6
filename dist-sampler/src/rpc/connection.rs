//! One connection to a peer, opened on first use and reopened after a failure.

use crate::error::SampleError;
use crate::rpc::dialer::Dialer;
use crate::rpc::messages::{Answer, Request};
use crate::rpc::transport::BulkTransport;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Mutex;

/// The sending end of an open connection.
pub(crate) type Client = tarpc::client::Channel<Request, Answer>;

/// A connection to a peer for one class of requests.
pub(crate) struct Connection {
    dialer: Arc<Dialer>,
    max_message_bytes: usize,
    /// The bytes received so far.
    received: Arc<AtomicU64>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The number of connections opened so far.
    generation: u64,
    client: Option<Client>,
}

/// An open connection and its number.
pub(crate) struct OpenConnection {
    pub(crate) generation: u64,
    pub(crate) client: Client,
}

impl Connection {
    pub(crate) fn new(dialer: Arc<Dialer>, max_message_bytes: usize) -> Self {
        Self { dialer, max_message_bytes, received: Arc::default(), state: Mutex::default() }
    }

    /// Returns the open connection. Dials if there is none. Concurrent callers wait for the dial and share its result.
    ///
    /// # Errors
    /// [`SampleError::Connect`], at most [`Dialer::longest`] after the call.
    pub(crate) async fn get(&self) -> Result<OpenConnection, SampleError> {
        // An open connection is returned without waiting. If the lock is taken, a dial is probably under way.
        if let Ok(state) = self.state.try_lock()
            && let Some(client) = &state.client
        {
            return Ok(OpenConnection { generation: state.generation, client: client.clone() });
        }
        let connected = tokio::time::timeout(self.dialer.longest(), self.get_or_dial()).await;
        connected.unwrap_or_else(|_| Err(self.dialer.not_connected()))
    }

    async fn get_or_dial(&self) -> Result<OpenConnection, SampleError> {
        let mut state = self.state.lock().await;
        if let Some(client) = &state.client {
            return Ok(OpenConnection { generation: state.generation, client: client.clone() });
        }
        let stream = self.dialer.dial().await?;
        let stream = stream.into_async().map_err(|source| {
            SampleError::process("register the connection to a peer with the network threads", source)
        })?;
        let transport = BulkTransport::new(stream, self.max_message_bytes).counting(self.received.clone());
        let client = tarpc::client::new(tarpc::client::Config::default(), transport).spawn();
        state.client = Some(client.clone());
        state.generation += 1;
        Ok(OpenConnection { generation: state.generation, client })
    }

    /// Returns the number of bytes received so far.
    pub(crate) fn received_bytes(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Returns whether the connection is open. While it is dialed, it is not.
    pub(crate) fn is_open(&self) -> bool {
        self.state.try_lock().is_ok_and(|state| state.client.is_some())
    }

    /// Drops a broken connection unless another request has replaced it already.
    pub(crate) async fn forget(&self, generation: u64) {
        let mut state = self.state.lock().await;
        if state.generation == generation {
            state.client = None;
        }
    }
}
