//! The part's nodes of a split.

use crate::arrays::bytes_of;
use crate::part::local_part::LocalPart;
use crate::part::requests::{Refusal, SplitRequest};
use bytes::Bytes;

impl LocalPart {
    /// Returns rows of a split, in the layout of [`ArrayReply`](crate::rpc::messages::ArrayReply).
    pub(crate) fn split(&self, request: &SplitRequest, max_bytes: usize) -> Result<Bytes, Refusal> {
        self.check_node_type(request.node_type)?;
        let rows = self.part.nodes(request.node_type).splits.get(request.split);
        let start = (request.start as usize).min(rows.len());
        let most = (max_bytes / size_of::<u32>()).saturating_sub(1).max(1);
        let page = &rows[start..rows.len().min(start.saturating_add(most))];
        let mut words = Vec::with_capacity(1 + page.len());
        words.push(rows.len() as u32);
        words.extend_from_slice(page);
        Ok(bytes_of(words))
    }
}
