//! Hops of a peer's part. Too large ones are requested in halves.

use crate::arrays::{bytes_of, ids_in};
use crate::error::SampleError;
use crate::part::hop_reply::{HopReply, check_hop};
use crate::part::requests::HopRequest;
use crate::rpc::peer::{Outcome, Peer};
use crate::rpc::traffic::Traffic;
use crate::workers::LINE_BYTES;
use bytes::Bytes;

impl Peer {
    /// Expands a hop. Returns the reply to `sample_hop`, whose lengths and ids are checked. A hop with too large a
    /// request or reply is requested in halves.
    pub(crate) async fn sample_hop(&self, request: HopRequest) -> Result<Bytes, SampleError> {
        if request.rows.len() > self.config.max_message_bytes {
            return self.sample_hop_in_halves(request).await;
        }
        match self.send(&request).await? {
            Outcome::Data(data) => {
                let meta = self.meta.clone();
                let reply = data.clone();
                let asked = request.clone();
                let lines = data.len().div_ceil(LINE_BYTES);
                let traffic = self.traffic.clone();
                let check = move || check_hop(&meta, &asked, &reply).map(|()| count_edges(&traffic, &asked, &reply));
                let checked = self.workers.run_sized(lines, check).await?;
                checked.map(|()| data).map_err(|why| self.failed(&request, why))
            }
            Outcome::TooLarge => self.sample_hop_in_halves(request).await,
        }
    }

    async fn sample_hop_in_halves(&self, request: HopRequest) -> Result<Bytes, SampleError> {
        let rows = ids_in(&request.rows).map_err(|why| self.failed(&request, why))?;
        let mut halves = [Vec::new(), Vec::new()];
        let mut sections = [request.sections.clone(), request.sections.clone()];
        let width = request.words_per_row();
        let num_rows = rows.len() / width;
        let mut start = 0;
        // The rows of all sections are split at one point. Splitting each section would not end once every section has
        // one row.
        let middle = num_rows / 2;
        for (i, section) in request.sections.iter().enumerate() {
            let end = start + section.num_rows as usize;
            let middle = middle.clamp(start, end);
            for (half, range) in [(0, start..middle), (1, middle..end)] {
                sections[half][i].num_rows = range.len() as u32;
                halves[half].extend_from_slice(&rows[range.start * width..range.end * width]);
            }
            start = end;
        }
        // A hop of one row has an empty first half and cannot be split further.
        if halves[0].is_empty() {
            let why = format!(
                "the neighbors of one node exceed {} bytes: set a fan-out, or raise max_message_bytes",
                self.config.max_message_bytes
            );
            return Err(self.failed(&request, why));
        }
        let mut asked = Vec::with_capacity(2);
        let mut replies = Vec::with_capacity(2);
        for (sections, rows) in sections.into_iter().zip(halves) {
            let half = HopRequest { sections, rows: bytes_of(rows), ..request.clone() };
            asked.push(half.clone());
            replies.push(Box::pin(self.sample_hop(half)).await?);
        }
        let views = [0, 1].map(|half| HopReply::new(&asked[half], &replies[half]));
        // Section by section, since a reply lists the counts, neighbors and positions of each section end to end.
        let mut joined: Vec<u32> = Vec::new();
        for section in 0..request.sections.len() {
            let first = views[0].section(section);
            let second = views[1].section(section);
            for (first, second) in [
                (first.counts, second.counts),
                (first.neighbors, second.neighbors),
                (first.positions, second.positions),
            ] {
                joined.extend_from_slice(first);
                joined.extend_from_slice(second);
            }
        }
        Ok(bytes_of(joined))
    }
}

/// Counts the in-edges of a checked reply.
fn count_edges(traffic: &Traffic, request: &HopRequest, data: &Bytes) {
    let reply = HopReply::new(request, data);
    for (index, section) in request.sections.iter().enumerate() {
        let drawn = reply.section(index).neighbors.len();
        traffic.count_edges(section.edge_type.index(), section.num_rows as usize, drawn);
    }
}
