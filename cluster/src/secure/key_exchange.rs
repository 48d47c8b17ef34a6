//! The key agreement of a handshake: ephemeral X25519 keys, from which both sides derive the keys of the connection.
//!
//! The derivation is HKDF-SHA256 (RFC 5869) with the key of the shared secret as salt, the result of the key agreement
//! as input, and all bytes of the handshake so far as context, as with the external keys of TLS 1.3 (`psk_dhe_ke`).
//! The private keys exist in memory during the handshake only, so the secret alone does not decrypt earlier traffic.

use std::io;

use ring::agreement::{EphemeralPrivateKey, UnparsedPublicKey, X25519, agree_ephemeral};
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};
use ring::rand::SystemRandom;

/// The length of a public key.
pub(crate) const PUBLIC_KEY_BYTES: usize = 32;
/// The length of a key of AES-256.
pub(super) const CIPHER_KEY_BYTES: usize = 32;
const SEED_BYTES: usize = 8;
const RECORD_KEY_BYTES: usize = CIPHER_KEY_BYTES + 2 * SEED_BYTES;

/// One side of a key agreement.
pub(crate) struct KeyExchange {
    private: EphemeralPrivateKey,
    public: [u8; PUBLIC_KEY_BYTES],
}

/// The keys of a connection, one set per direction.
pub(crate) struct ConnectionKeys {
    /// The keys of the records that the connector sends.
    pub(crate) of_connector: RecordKeys,
    /// The keys of the records that the acceptor sends.
    pub(crate) of_acceptor: RecordKeys,
}

/// The keys of the records in one direction.
pub(crate) struct RecordKeys {
    pub(super) cipher_key: [u8; CIPHER_KEY_BYTES],
    pub(super) header_seed: u64,
    pub(super) payload_seed: u64,
}

impl KeyExchange {
    /// Generates a key pair.
    pub(crate) fn new() -> io::Result<Self> {
        let private = EphemeralPrivateKey::generate(&X25519, &SystemRandom::new()).map_err(failed)?;
        let public = private.compute_public_key().map_err(failed)?;
        let public = public.as_ref().try_into().map_err(io::Error::other)?;
        Ok(Self { private, public })
    }

    pub(crate) fn public_key(&self) -> &[u8; PUBLIC_KEY_BYTES] {
        &self.public
    }

    /// Derives the keys of the connection. `secret` is the key of the shared secret, `transcript` all bytes that both
    /// sides have sent.
    ///
    /// # Errors
    /// A public key that is not one.
    pub(crate) fn agree(
        self,
        peer_key: &[u8; PUBLIC_KEY_BYTES],
        secret: &[u8],
        transcript: &[u8],
    ) -> io::Result<ConnectionKeys> {
        let peer_key = UnparsedPublicKey::new(&X25519, peer_key);
        let derive = |agreed: &[u8]| {
            let derived = Salt::new(HKDF_SHA256, secret).extract(agreed);
            let expand = |label: &[u8]| -> Result<RecordKeys, ring::error::Unspecified> {
                let mut bytes = [0; RECORD_KEY_BYTES];
                derived.expand(&[label, transcript], RecordKeyLength)?.fill(&mut bytes)?;
                Ok(RecordKeys::from_bytes(&bytes))
            };
            Ok(ConnectionKeys {
                of_connector: expand(b"edgecut connector records")?,
                of_acceptor: expand(b"edgecut acceptor records")?,
            })
        };
        let keys: Result<ConnectionKeys, ring::error::Unspecified> =
            agree_ephemeral(self.private, &peer_key, derive).map_err(failed)?;
        keys.map_err(failed)
    }
}

impl RecordKeys {
    fn from_bytes(bytes: &[u8; RECORD_KEY_BYTES]) -> Self {
        let seed = |at: usize| bytes[at..at + SEED_BYTES].iter().fold(0, |seed, &byte| seed << 8 | u64::from(byte));
        let mut cipher_key = [0; CIPHER_KEY_BYTES];
        cipher_key.copy_from_slice(&bytes[..CIPHER_KEY_BYTES]);
        Self { cipher_key, header_seed: seed(CIPHER_KEY_BYTES), payload_seed: seed(CIPHER_KEY_BYTES + SEED_BYTES) }
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
    io::Error::new(io::ErrorKind::InvalidData, "the agreement on keys failed")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agree(secrets: [&[u8]; 2], transcripts: [&[u8]; 2]) -> [ConnectionKeys; 2] {
        let one = KeyExchange::new().unwrap();
        let other = KeyExchange::new().unwrap();
        let public_keys = [*one.public_key(), *other.public_key()];
        [
            one.agree(&public_keys[1], secrets[0], transcripts[0]).unwrap(),
            other.agree(&public_keys[0], secrets[1], transcripts[1]).unwrap(),
        ]
    }

    #[test]
    fn both_sides_derive_the_same_keys_and_each_direction_has_its_own() {
        let [one, other] = agree([b"secret"; 2], [b"transcript"; 2]);
        assert_eq!(one.of_connector.cipher_key, other.of_connector.cipher_key);
        assert_eq!(one.of_acceptor.payload_seed, other.of_acceptor.payload_seed);
        assert_ne!(one.of_connector.cipher_key, one.of_acceptor.cipher_key);
        assert_ne!(one.of_connector.header_seed, one.of_connector.payload_seed);
    }

    #[test]
    fn secret_and_transcript_enter_the_keys() {
        let [one, other] = agree([b"secret", b"Secret"], [b"transcript"; 2]);
        assert_ne!(one.of_connector.cipher_key, other.of_connector.cipher_key);
        let [one, other] = agree([b"secret"; 2], [b"transcript", b"transcripT"]);
        assert_ne!(one.of_connector.cipher_key, other.of_connector.cipher_key);
    }

    #[test]
    fn a_key_that_would_make_the_result_known_is_refused() {
        assert!(KeyExchange::new().unwrap().agree(&[0; PUBLIC_KEY_BYTES], b"secret", b"").is_err());
    }
}
