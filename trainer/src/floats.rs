//! Numbers that are stored as bytes, which is much faster than one by one.

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// A vector that is serialised as its bytes, little-endian.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Floats(pub(crate) Vec<f32>);

impl Serialize for Floats {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytemuck::cast_slice(&self.0))
    }
}

impl<'de> Deserialize<'de> for Floats {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Floats;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the bytes of 32-bit floats")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Floats, E> {
                if !bytes.len().is_multiple_of(size_of::<f32>()) {
                    return Err(E::invalid_length(bytes.len(), &self));
                }
                Ok(Floats(bytemuck::pod_collect_to_vec(bytes)))
            }

            fn visit_byte_buf<E: Error>(self, bytes: Vec<u8>) -> Result<Floats, E> {
                self.visit_bytes(&bytes)
            }
        }
        deserializer.deserialize_byte_buf(Bytes)
    }
}
