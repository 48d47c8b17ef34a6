//! The encoding of records: a header, then the payload.
//!
//! | bytes | |
//! |---|---|
//! | 4 | length of the payload |
//! | 4 | keyed checksum of the length |
//! | 8 or 16 | keyed checksum of the payload (XXH3-64), or the tag of AES-256-GCM |
//!
//! The number of a record, from 0 in each direction, enters all checksums and the nonce of the encryption. So a record
//! is valid at its own position only. See `docs/src/wire.md`.

use std::io;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, Tag, UnboundKey};
use twox_hash::XxHash3_64;

use crate::secure::noise::RecordKeys;
use crate::secure::protection::Protection;

/// The longest payload of a record.
pub(super) const MAX_PAYLOAD_BYTES: usize = 256 << 10;
/// The longest header.
pub(super) const MAX_HEADER_BYTES: usize = LENGTH_BYTES + CHECK_BYTES + TAG_BYTES;
const LENGTH_BYTES: usize = 4;
const CHECK_BYTES: usize = 4;
const CHECKSUM_BYTES: usize = 8;
const TAG_BYTES: usize = 16;

/// The encoder or decoder of the records in one direction. It counts them.
pub(super) struct RecordCodec {
    // `None` for records that are checked and not encrypted.
    cipher: Option<LessSafeKey>,
    header_seed: u64,
    payload_seed: u64,
    number: u64,
}

/// The decoded header of a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordHeader {
    /// The length of the payload.
    pub(super) len: usize,
    // A checksum has half the length of a tag.
    tag: [u8; TAG_BYTES],
}

impl RecordCodec {
    /// Creates the codec of a direction. `protection` must not be [`Protection::Unprotected`].
    pub(super) fn new(keys: &RecordKeys, protection: Protection) -> io::Result<Self> {
        let mut cipher = None;
        if protection == Protection::Encrypted {
            let key = UnboundKey::new(&AES_256_GCM, &keys.cipher_key).map_err(failed)?;
            cipher = Some(LessSafeKey::new(key));
        }
        Ok(Self { cipher, header_seed: keys.header_seed, payload_seed: keys.payload_seed, number: 0 })
    }

    pub(super) fn is_encrypting(&self) -> bool {
        self.cipher.is_some()
    }

    /// Returns the length of a header.
    pub(super) fn header_bytes(&self) -> usize {
        LENGTH_BYTES + CHECK_BYTES + if self.is_encrypting() { TAG_BYTES } else { CHECKSUM_BYTES }
    }

    /// Encodes the next record in place and writes its header.
    pub(super) fn seal(&mut self, payload: &mut [u8], header: &mut [u8]) -> io::Result<()> {
        let Some(cipher) = &self.cipher else {
            self.check(payload, header);
            return Ok(());
        };
        let tag = cipher.seal_in_place_separate_tag(self.nonce(), Aad::empty(), payload).map_err(failed)?;
        self.write_header(payload.len(), tag.as_ref(), header);
        Ok(())
    }

    /// Writes the header of the next record, whose payload is sent as it is.
    pub(super) fn check(&mut self, payload: &[u8], header: &mut [u8]) {
        let checksum = self.checksum(payload);
        self.write_header(payload.len(), &checksum, header);
    }

    fn write_header(&mut self, len: usize, tag: &[u8], header: &mut [u8]) {
        let len = (len as u32).to_le_bytes();
        header[..LENGTH_BYTES].copy_from_slice(&len);
        header[LENGTH_BYTES..LENGTH_BYTES + CHECK_BYTES].copy_from_slice(&self.check_of_length(len));
        header[LENGTH_BYTES + CHECK_BYTES..].copy_from_slice(tag);
        self.number += 1;
    }

    /// Decodes the header of the next record; `None` if it is not the one that was sent.
    pub(super) fn parse(&self, header: &[u8]) -> Option<RecordHeader> {
        let (length, rest) = header.split_first_chunk::<LENGTH_BYTES>()?;
        let (check, tag) = rest.split_first_chunk::<CHECK_BYTES>()?;
        let len = u32::from_le_bytes(*length) as usize;
        let is_valid = *check == self.check_of_length(*length) && (1..=MAX_PAYLOAD_BYTES).contains(&len);
        let mut padded = [0; TAG_BYTES];
        padded[..tag.len()].copy_from_slice(tag);
        is_valid.then_some(RecordHeader { len, tag: padded })
    }

    /// Decodes the payload of the next record in place. Returns whether it is the one that was sent.
    pub(super) fn open(&mut self, payload: &mut [u8], header: &RecordHeader) -> bool {
        let is_valid = match &self.cipher {
            Some(cipher) => {
                let tag = Tag::from(header.tag);
                cipher.open_in_place_separate_tag(self.nonce(), Aad::empty(), tag, payload, 0..).is_ok()
            }
            None => header.tag[..CHECKSUM_BYTES] == self.checksum(payload),
        };
        self.number += 1;
        is_valid
    }

    fn nonce(&self) -> Nonce {
        let mut nonce = [0; NONCE_LEN];
        nonce[..8].copy_from_slice(&self.number.to_le_bytes());
        Nonce::assume_unique_for_key(nonce)
    }

    fn checksum(&self, payload: &[u8]) -> [u8; CHECKSUM_BYTES] {
        XxHash3_64::oneshot_with_seed(self.payload_seed.wrapping_add(self.number), payload).to_le_bytes()
    }

    fn check_of_length(&self, length: [u8; LENGTH_BYTES]) -> [u8; CHECK_BYTES] {
        let hash = XxHash3_64::oneshot_with_seed(self.header_seed.wrapping_add(self.number), &length);
        ((hash >> 32) as u32).to_le_bytes()
    }
}

fn failed(_: ring::error::Unspecified) -> io::Error {
    io::Error::other("the encryption of a message failed")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secure::noise::CIPHER_KEY_BYTES;

    fn codec(protection: Protection, key: u8) -> RecordCodec {
        let keys = RecordKeys {
            cipher_key: [key; CIPHER_KEY_BYTES],
            header_seed: 7 + u64::from(key),
            payload_seed: 9 + u64::from(key),
        };
        RecordCodec::new(&keys, protection).unwrap()
    }

    fn sealed(codec: &mut RecordCodec, payload: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let mut header = vec![0; codec.header_bytes()];
        let mut payload = payload.to_vec();
        codec.seal(&mut payload, &mut header).unwrap();
        (header, payload)
    }

    /// Returns the payload of a record, if it is the next one.
    fn opened(codec: &mut RecordCodec, header: &[u8], payload: &[u8]) -> Option<Vec<u8>> {
        let header = codec.parse(header).filter(|header| header.len == payload.len())?;
        let mut payload = payload.to_vec();
        codec.open(&mut payload, &header).then_some(payload)
    }

    const MODES: [Protection; 2] = [Protection::Checked, Protection::Encrypted];

    #[test]
    fn records_arrive_as_they_were_sent() {
        for protection in MODES {
            let mut sender = codec(protection, 1);
            let mut receiver = codec(protection, 1);
            for len in [1, 2, 100, 5_000, MAX_PAYLOAD_BYTES] {
                let data: Vec<u8> = (0..len).map(|at| at as u8).collect();
                let (header, payload) = sealed(&mut sender, &data);
                assert_eq!(payload == data, protection == Protection::Checked);
                assert_eq!(opened(&mut receiver, &header, &payload).unwrap(), data);
            }
        }
    }

    #[test]
    fn every_modified_bit_is_detected() {
        for protection in MODES {
            let (header, payload) = sealed(&mut codec(protection, 1), b"neighbors of 7");
            let record = [header.clone(), payload].concat();
            for bit in 0..8 * record.len() {
                let mut modified = record.clone();
                modified[bit / 8] ^= 1 << (bit % 8);
                let (head, body) = modified.split_at(header.len());
                assert_eq!(opened(&mut codec(protection, 1), head, body), None, "{protection:?}: bit {bit}");
            }
        }
    }

    #[test]
    fn a_record_is_valid_once_at_its_position_and_with_its_key() {
        for protection in MODES {
            let mut sender = codec(protection, 1);
            let (first_header, first) = sealed(&mut sender, b"same");
            let (second_header, second) = sealed(&mut sender, b"same");
            let mut receiver = codec(protection, 1);
            assert_eq!(opened(&mut receiver, &second_header, &second), None, "{protection:?}: the first was lost");
            assert!(opened(&mut receiver, &first_header, &first).is_some());
            assert_eq!(opened(&mut receiver, &first_header, &first), None, "{protection:?}: it was repeated");
            assert!(opened(&mut receiver, &second_header, &second).is_some());
            assert_eq!(opened(&mut codec(protection, 2), &first_header, &first), None, "{protection:?}: other keys");
        }
    }
}
