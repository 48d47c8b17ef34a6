//! The numbers that an all-reduce works on, and how it combines them.

/// How an all-reduce combines the values of all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceOp {
    /// Their sum; integers wrap around.
    Sum,
    /// Their sum divided by the number of ranks; integers round down.
    Mean,
    /// The largest; not a number if any is not.
    Max,
    /// The smallest; not a number if any is not.
    Min,
}

impl ReduceOp {
    pub(crate) fn code(self) -> u8 {
        self as u8
    }

    pub(crate) fn name(code: u8) -> &'static str {
        match code {
            0 => "sum",
            1 => "mean",
            2 => "max",
            3 => "min",
            _ => "unknown operation",
        }
    }
}

mod sealed {
    pub trait Sealed {
        /// The type's number on the wire.
        const CODE: u8;
        /// Combines `received` into `own`, element by element; both hold whole elements.
        fn combine(op: super::ReduceOp, own: &mut [u8], received: &[u8]);
        /// Divides each element by the number of ranks.
        fn divide(own: &mut [u8], ranks: usize);
    }
}

/// A number that can be all-reduced: `f32`, `f64` or `u64`.
pub trait Reduce: bytemuck::Pod + Send + sealed::Sealed {
    /// The type's name in messages.
    const NAME: &'static str;
}

/// The number on the wire of plain bytes, which are only copied.
pub(crate) const BYTE_CODE: u8 = 0;

/// The name of an element type that a neighbor has sent the number of.
pub(crate) fn element_name(code: u8) -> &'static str {
    let known = [(BYTE_CODE, "u8"), named::<f32>(), named::<f64>(), named::<u64>()];
    known.iter().find(|(known, _)| *known == code).map_or("unknown type", |&(_, name)| name)
}

fn named<T: Reduce>() -> (u8, &'static str) {
    (T::CODE, T::NAME)
}

/// The number of an element type on the wire.
pub(crate) fn element_code<T: Reduce>() -> u8 {
    T::CODE
}

/// The widest element.
pub(crate) const MAX_WIDTH: usize = 8;

macro_rules! reduce {
    ($number:ty, $code:expr, $add:expr, $divide:expr, $is_nan:expr) => {
        impl sealed::Sealed for $number {
            const CODE: u8 = $code;

            fn combine(op: ReduceOp, own: &mut [u8], received: &[u8]) {
                let is_nan = $is_nan;
                match op {
                    ReduceOp::Sum | ReduceOp::Mean => combine_with(own, received, Self::from_le_bytes, $add),
                    ReduceOp::Max => {
                        combine_with(own, received, Self::from_le_bytes, |a, b| if a > b || is_nan(a) { a } else { b })
                    }
                    ReduceOp::Min => {
                        combine_with(own, received, Self::from_le_bytes, |a, b| if a < b || is_nan(a) { a } else { b })
                    }
                }

                // Generic over nothing but the operation, so that each becomes a plain vector loop.
                fn combine_with(
                    own: &mut [u8],
                    received: &[u8],
                    read: impl Fn([u8; size_of::<$number>()]) -> $number,
                    combine: impl Fn($number, $number) -> $number,
                ) {
                    let (own, _) = own.as_chunks_mut();
                    let (received, _) = received.as_chunks();
                    for (own, received) in own.iter_mut().zip(received) {
                        *own = combine(read(*own), read(*received)).to_le_bytes();
                    }
                }
            }

            fn divide(own: &mut [u8], ranks: usize) {
                let (own, _) = own.as_chunks_mut();
                for own in own {
                    *own = $divide(Self::from_le_bytes(*own), ranks).to_le_bytes();
                }
            }
        }

        impl Reduce for $number {
            const NAME: &'static str = stringify!($number);
        }
    };
}

reduce!(f32, 1, |a, b| a + b, |sum: f32, ranks| sum / ranks as f32, f32::is_nan);
reduce!(f64, 2, |a, b| a + b, |sum: f64, ranks| sum / ranks as f64, f64::is_nan);
reduce!(u64, 3, u64::wrapping_add, |sum: u64, ranks| sum / ranks as u64, |_| false);

#[cfg(test)]
mod tests {
    use super::*;

    fn combined<T: Reduce>(op: ReduceOp, mut own: Vec<T>, received: &[T]) -> Vec<T> {
        T::combine(op, bytemuck::cast_slice_mut(&mut own), bytemuck::cast_slice(received));
        own
    }

    #[test]
    fn combines_element_by_element() {
        assert_eq!(combined(ReduceOp::Sum, vec![1.0_f32, 2.0], &[0.5, -2.0]), [1.5, 0.0]);
        assert_eq!(combined(ReduceOp::Max, vec![1.0_f64, 2.0], &[0.5, 3.0]), [1.0, 3.0]);
        assert_eq!(combined(ReduceOp::Min, vec![1_u64, 2], &[5, 0]), [1, 0]);
        assert_eq!(combined(ReduceOp::Sum, vec![u64::MAX], &[2]), [1]);
    }

    #[test]
    fn every_element_type_has_a_name() {
        assert_eq!([0, 1, 2, 3, 4].map(element_name), ["u8", "f32", "f64", "u64", "unknown type"]);
    }

    #[test]
    fn a_nan_is_never_hidden() {
        for op in [ReduceOp::Max, ReduceOp::Min, ReduceOp::Sum] {
            for (own, received) in [(f32::NAN, 1.0), (1.0, f32::NAN)] {
                assert!(combined(op, vec![own], &[received])[0].is_nan(), "{op:?} of {own} and {received}");
            }
        }
    }

    #[test]
    fn divides_by_the_number_of_ranks() {
        let mut sums = [9_u64, 10];
        <u64 as sealed::Sealed>::divide(bytemuck::cast_slice_mut(&mut sums), 3);
        assert_eq!(sums, [3, 3]);
    }
}
