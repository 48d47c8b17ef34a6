//! The messages of the control plane.

use serde::{Deserialize, Serialize};

use crate::error::Failure;

/// A message on a control connection after the rendezvous.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Message {
    Heartbeat,
    /// To rank 0: the failure of this rank or of another one. From rank 0: the failure that ends the job.
    Failed(Failure),
    /// To rank 0: this rank has waited too long for another one, which may itself wait for a third.
    Suspected(Failure),
    /// From rank 0: a request for [`Message::Waits`].
    AskWaits,
    /// To rank 0: the ranks that this rank waits for in its collectives.
    Waits(Vec<usize>),
    /// To rank 0: this rank is done and waits for the others.
    Leaving,
    /// From rank 0: all ranks are done, and connections may close.
    Goodbye,
}
