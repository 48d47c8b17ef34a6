//! Element types of stored arrays.

use bytemuck::Pod;
use half::f16;

/// An element type of stored arrays.
pub trait NpyElement: Pod + npyz::AutoSerialize + npyz::Deserialize + Send + Sync {
    /// The name of the type in NumPy.
    const NAME: &'static str;
}

macro_rules! npy_element {
    ($($t:ty, $name:literal;)*) => { $(impl NpyElement for $t { const NAME: &'static str = $name; })* };
}
npy_element! { u8, "uint8"; i8, "int8"; u16, "uint16"; i16, "int16"; u32, "uint32"; i32, "int32"; u64, "uint64"; i64, "int64"; f32, "float32"; f64, "float64"; f16, "float16"; }
