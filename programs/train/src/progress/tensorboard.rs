//! Event files for TensorBoard.
//!
//! An event file is a sequence of records as TensorFlow writes them: the length of the data (`u64`), its checksum, the
//! data, and its checksum, all little-endian. The data is a protobuf message `Event`; numbers of fields below are those of
//! `event.proto` and `summary.proto`.

use crate::progress::named_values::NamedValues;
use anyhow::Context;
use edgecut_trainer::EpochReport;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The version that starts each file.
const VERSION: &str = "brain.Event:2";

/// The event file of a run.
pub(crate) struct EventFile(File);

impl EventFile {
    /// Creates the folder, and in it an event file of its own for this run. Processes with the same number on other hosts, or
    /// in other containers, have files with other names.
    ///
    /// # Errors
    /// A folder or file that cannot be written.
    pub(crate) fn create(dir: &Path) -> anyhow::Result<Self> {
        let name = format!("events.out.tfevents.{:.6}.edgecut.{}", now(), std::process::id());
        let path = dir.join(name);
        Self::create_at(&path).with_context(|| format!("--tensorboard: write {}", path.display()))
    }

    fn create_at(path: &Path) -> std::io::Result<Self> {
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir)?;
        }
        let mut file = Self(File::create_new(path)?);
        let mut event = Message::default();
        event.double(1, now()).bytes(3, VERSION.as_bytes());
        file.record(&event.0)?;
        Ok(file)
    }

    /// Writes the scalars of an epoch. TensorBoard shows them over the number of the epoch.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(crate) fn epoch<S>(&mut self, report: &EpochReport<S>, metrics: &NamedValues) -> std::io::Result<()> {
        let cost = &report.cost;
        let mut scalars = vec![("train/loss".to_owned(), report.loss), ("train/accuracy".to_owned(), report.train_acc)];
        scalars.extend(metrics.iter().map(|(name, value)| (format!("valid/{name}"), *value)));
        for (tag, value) in [
            ("seconds/epoch", Some(cost.seconds)),
            ("seconds/waiting for batches", Some(cost.sample_wait_seconds)),
            ("seconds/compute", Some(cost.compute_seconds)),
            ("seconds/all-reduce", Some(cost.allreduce_seconds)),
            ("seconds/validation", Some(cost.eval_seconds)),
            ("network/received bytes", Some(cost.remote_bytes as f64)),
        ] {
            scalars.push((tag.to_owned(), value));
        }
        // The folds of a cross-validation have the same epochs.
        let fold = report.fold.map(|fold| format!("fold {fold}/")).unwrap_or_default();
        let mut summary = Message::default();
        for (tag, value) in scalars.iter().filter_map(|(tag, value)| Some((tag, (*value)?))) {
            let tag = format!("{fold}{tag}");
            let mut scalar = Message::default();
            scalar.bytes(1, tag.as_bytes()).float(2, value as f32);
            summary.bytes(1, &scalar.0);
        }
        let mut event = Message::default();
        event.double(1, now()).integer(2, report.epoch).bytes(5, &summary.0);
        self.record(&event.0)
    }

    /// Writes a record with one call, so that a reader sees no half of it.
    fn record(&mut self, data: &[u8]) -> std::io::Result<()> {
        let length = (data.len() as u64).to_le_bytes();
        let mut record = length.to_vec();
        record.extend(masked_checksum(&length).to_le_bytes());
        record.extend_from_slice(data);
        record.extend(masked_checksum(data).to_le_bytes());
        self.0.write_all(&record)
    }
}

/// Returns the seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// A protobuf message.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    /// Appends an integer of up to 64 bits, seven bits a byte.
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn key(&mut self, field: u64, wire_type: u64) {
        self.varint(field << 3 | wire_type);
    }

    fn integer(&mut self, field: u64, value: u64) -> &mut Self {
        self.key(field, 0);
        self.varint(value);
        self
    }

    fn double(&mut self, field: u64, value: f64) -> &mut Self {
        self.key(field, 1);
        self.0.extend(value.to_le_bytes());
        self
    }

    fn float(&mut self, field: u64, value: f32) -> &mut Self {
        self.key(field, 5);
        self.0.extend(value.to_le_bytes());
        self
    }

    fn bytes(&mut self, field: u64, value: &[u8]) -> &mut Self {
        self.key(field, 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }
}

/// Returns TensorFlow's masked form of the CRC-32C (Castagnoli) of `data`.
fn masked_checksum(data: &[u8]) -> u32 {
    /// The polynomial with reversed bits.
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    let mut crc = u32::MAX;
    for &byte in data {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (POLYNOMIAL & (crc & 1).wrapping_neg());
        }
    }
    (!crc).rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_castagnoli() {
        // The check value of CRC-32C (RFC 3720) is 0xe3069283.
        assert_eq!(masked_checksum(b"123456789"), 0xe306_9283_u32.rotate_right(15).wrapping_add(0xa282_ead8));
    }

    #[test]
    fn integers_have_seven_bits_a_byte() {
        let mut message = Message::default();
        message.integer(2, 300);
        assert_eq!(message.0, [0x10, 0xac, 0x02]);
    }
}
