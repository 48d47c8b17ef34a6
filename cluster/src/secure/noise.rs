//! The Noise handshake of a connection (`Noise_NNpsk2_25519_AESGCM_SHA256`), and the keys that follow from it.
//!
//! ```text
//! -> e              connector: its ephemeral key
//! <- e, ee, psk     acceptor: its ephemeral key, and a payload that only a process with the secret can have sealed
//! ```
//!
//! In this pattern the secret enters last. A process that only pretends to be a rank, or that listens on the network,
//! therefore gets nothing to test guesses of the secret against, and the acceptor proves the secret first. With
//! `NNpsk0`, the first message of every connector would already depend on the secret. The connector proves the secret
//! by a [`Confirmation`] afterwards.
//!
//! Noise gives two keys, one for each direction. They are used as the input of HKDF-SHA256 (RFC 5869) only, which derives
//! the keys of the records and of the confirmation. The ephemeral keys exist in memory during the handshake only, so the
//! secret alone does not decrypt earlier traffic.

use std::io;

use ring::hkdf::{HKDF_SHA256, KeyType, Prk};
use ring::hmac;
use snow::{Builder, HandshakeState};

use crate::io_error::invalid;

const PATTERN: &str = "Noise_NNpsk2_25519_AESGCM_SHA256";
/// The position of the secret in the pattern.
const SECRET_POSITION: u8 = 2;
/// The length of the secret's key.
pub(crate) const SECRET_BYTES: usize = 32;
const PUBLIC_KEY_BYTES: usize = 32;
const TAG_BYTES: usize = 16;
/// The length of the connector's message, whose payload is empty.
pub(crate) const FIRST_MESSAGE_BYTES: usize = PUBLIC_KEY_BYTES + TAG_BYTES;
/// The length of the acceptor's message without its payload.
pub(crate) const SECOND_MESSAGE_BYTES: usize = PUBLIC_KEY_BYTES + TAG_BYTES;
/// The length of a [`Confirmation`].
pub(crate) const CONFIRMATION_BYTES: usize = 32;

/// The length of a key of AES-256.
pub(super) const CIPHER_KEY_BYTES: usize = 32;
const SEED_BYTES: usize = 8;
const RECORD_KEY_BYTES: usize = CIPHER_KEY_BYTES + 2 * SEED_BYTES;

/// One side of a Noise handshake.
pub(crate) struct NoiseHandshake(HandshakeState);

/// The keys of a connection.
pub(crate) struct ConnectionKeys {
    /// The keys of the records that the connector sends.
    pub(crate) of_connector: RecordKeys,
    /// The keys of the records that the acceptor sends.
    pub(crate) of_acceptor: RecordKeys,
    /// The connector's proof of the secret.
    pub(crate) confirmation: Confirmation,
}

/// The keys of the records in one direction.
pub(crate) struct RecordKeys {
    pub(super) cipher_key: [u8; CIPHER_KEY_BYTES],
    pub(super) header_seed: u64,
    pub(super) payload_seed: u64,
}

/// The connector's proof that it knows the secret: a MAC over everything that both sides have sent and the prologue.
pub(crate) struct Confirmation {
    key: hmac::Key,
    transcript: Vec<u8>,
}

impl NoiseHandshake {
    /// Begins the connector's side. Both sides must have the same `prologue` and the same secret.
    pub(crate) fn connector(prologue: &[u8], secret: &[u8; SECRET_BYTES]) -> io::Result<Self> {
        builder(prologue, secret).and_then(Builder::build_initiator).map(Self).map_err(io::Error::other)
    }

    /// Begins the acceptor's side.
    pub(crate) fn acceptor(prologue: &[u8], secret: &[u8; SECRET_BYTES]) -> io::Result<Self> {
        builder(prologue, secret).and_then(Builder::build_responder).map(Self).map_err(io::Error::other)
    }

    /// Fills `message`, which must have the length of the next message with this payload.
    pub(crate) fn write(&mut self, payload: &[u8], message: &mut [u8]) -> io::Result<()> {
        match self.0.write_message(payload, message) {
            Ok(len) if len == message.len() => Ok(()),
            Ok(len) => Err(io::Error::other(format!("a message of the handshake has {len} bytes"))),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    /// Reads a message and fills `payload`.
    ///
    /// # Errors
    /// A message of a side that has another secret or another prologue, or that was modified on the way.
    pub(crate) fn read(&mut self, message: &[u8], payload: &mut [u8]) -> io::Result<()> {
        match self.0.read_message(message, payload) {
            Ok(len) if len == payload.len() => Ok(()),
            Ok(len) => Err(invalid(format!("a message of the handshake has a payload of {len} bytes"))),
            Err(error) => Err(invalid(error)),
        }
    }

    /// Derives the keys of the connection, after both messages.
    pub(crate) fn finish(mut self) -> io::Result<ConnectionKeys> {
        let (of_connector, of_acceptor) = self.0.dangerously_get_raw_split();
        let of_connector = Prk::new_less_safe(HKDF_SHA256, &of_connector);
        let of_acceptor = Prk::new_less_safe(HKDF_SHA256, &of_acceptor);
        let key = of_connector.expand(&[b"edgecut confirmation"], hmac::HMAC_SHA256).map_err(failed)?.into();
        Ok(ConnectionKeys {
            confirmation: Confirmation { key, transcript: self.0.get_handshake_hash().to_vec() },
            of_connector: RecordKeys::derive(&of_connector)?,
            of_acceptor: RecordKeys::derive(&of_acceptor)?,
        })
    }
}

fn builder<'a>(prologue: &'a [u8], secret: &'a [u8; SECRET_BYTES]) -> Result<Builder<'a>, snow::Error> {
    Builder::new(PATTERN.parse()?).psk(SECRET_POSITION, secret)?.prologue(prologue)
}

impl RecordKeys {
    fn derive(direction: &Prk) -> io::Result<Self> {
        let mut bytes = [0; RECORD_KEY_BYTES];
        direction
            .expand(&[b"edgecut records"], RecordKeyLength)
            .and_then(|derived| derived.fill(&mut bytes))
            .map_err(failed)?;
        let mut cipher_key = [0; CIPHER_KEY_BYTES];
        cipher_key.copy_from_slice(&bytes[..CIPHER_KEY_BYTES]);
        let (header_seed, payload_seed) = bytes[CIPHER_KEY_BYTES..].split_at(SEED_BYTES);
        Ok(Self { cipher_key, header_seed: number(header_seed), payload_seed: number(payload_seed) })
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

impl Confirmation {
    pub(crate) fn bytes(&self) -> [u8; CONFIRMATION_BYTES] {
        let mut bytes = [0; CONFIRMATION_BYTES];
        bytes.copy_from_slice(hmac::sign(&self.key, &self.transcript).as_ref());
        bytes
    }

    /// Returns whether `bytes` are the confirmation. Takes the same time for all wrong ones.
    pub(crate) fn is(&self, bytes: &[u8]) -> bool {
        hmac::verify(&self.key, &self.transcript, bytes).is_ok()
    }
}

/// The length of all keys of one direction together.
struct RecordKeyLength;

impl KeyType for RecordKeyLength {
    fn len(&self) -> usize {
        RECORD_KEY_BYTES
    }
}

fn failed(_: ring::error::Unspecified) -> io::Error {
    io::Error::other("the derivation of keys failed")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a handshake. Returns the keys of the connector and of the acceptor.
    fn agree(prologues: [&[u8]; 2], secrets: [u8; 2]) -> io::Result<[ConnectionKeys; 2]> {
        let mut connector = NoiseHandshake::connector(prologues[0], &[secrets[0]; SECRET_BYTES])?;
        let mut acceptor = NoiseHandshake::acceptor(prologues[1], &[secrets[1]; SECRET_BYTES])?;
        let mut first = [0; FIRST_MESSAGE_BYTES];
        connector.write(&[], &mut first)?;
        acceptor.read(&first, &mut [])?;
        let mut second = [0; SECOND_MESSAGE_BYTES + 5];
        acceptor.write(b"reply", &mut second)?;
        let mut payload = [0; 5];
        connector.read(&second, &mut payload)?;
        assert_eq!(&payload, b"reply");
        Ok([connector.finish()?, acceptor.finish()?])
    }

    #[test]
    fn both_sides_derive_the_same_keys_and_each_direction_has_its_own() {
        let [one, other] = agree([b"prologue"; 2], [1; 2]).unwrap();
        assert_eq!(one.of_connector.cipher_key, other.of_connector.cipher_key);
        assert_eq!(one.of_acceptor.payload_seed, other.of_acceptor.payload_seed);
        assert_ne!(one.of_connector.cipher_key, one.of_acceptor.cipher_key);
        assert_ne!(one.of_connector.header_seed, one.of_connector.payload_seed);
        let [mut proof, of_other] = [one.confirmation.bytes(), other.confirmation.bytes()];
        assert!(proof == of_other && other.confirmation.is(&proof));
        proof[31] ^= 1;
        assert!(!other.confirmation.is(&proof));
    }

    #[test]
    fn connections_with_the_same_secret_have_different_keys() {
        let [one, _] = agree([b"prologue"; 2], [1; 2]).unwrap();
        let [other, _] = agree([b"prologue"; 2], [1; 2]).unwrap();
        assert_ne!(one.of_connector.cipher_key, other.of_connector.cipher_key);
        assert!(!one.confirmation.is(&other.confirmation.bytes()));
    }

    #[test]
    fn another_secret_or_prologue_is_refused() {
        assert!(agree([b"prologue"; 2], [1, 2]).is_err());
        assert!(agree([b"prologue", b"prologuE"], [1; 2]).is_err());
    }

    #[test]
    fn the_first_message_does_not_depend_on_the_secret() {
        let mut connector = NoiseHandshake::connector(b"prologue", &[1; SECRET_BYTES]).unwrap();
        let mut first = [0; FIRST_MESSAGE_BYTES];
        connector.write(&[], &mut first).unwrap();
        // A process with another secret reads it too.
        NoiseHandshake::acceptor(b"prologue", &[2; SECRET_BYTES]).unwrap().read(&first, &mut []).unwrap();
    }
}
