//! The element types and operations of all-reduce.

/// The operation by which an all-reduce combines the values of all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceOp {
    /// The sum; integers wrap around.
    Sum,
    /// The sum divided by the number of ranks; integers round down.
    Mean,
    /// The largest value; NaN if any value is NaN.
    Max,
    /// The smallest value; NaN if any value is NaN.
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
        /// The number of the type on the wire.
        const CODE: u8;
        /// Combines `received` into `own`, element by element. Both hold whole elements.
        fn combine(op: super::ReduceOp, own: &mut [u8], received: &[u8]);
        /// Adds `received` to `own` and divides each sum by the number of ranks.
        fn average(own: &mut [u8], received: &[u8], ranks: usize);
    }
}

/// An element type of all-reduce: `f32`, `f64` or `u64`.
pub trait Reduce: bytemuck::Pod + Send + sealed::Sealed {
    /// The name of the type in messages.
    const NAME: &'static str;
}

/// The number of plain bytes on the wire. Bytes are only copied, never reduced.
pub(crate) const BYTE_CODE: u8 = 0;

/// Returns the name of an element type by its number on the wire.
pub(crate) fn element_name(code: u8) -> &'static str {
    let known = [(BYTE_CODE, "u8"), named::<f32>(), named::<f64>(), named::<u64>()];
    known.iter().find(|(known, _)| *known == code).map_or("unknown type", |&(_, name)| name)
}

fn named<T: Reduce>() -> (u8, &'static str) {
    (T::CODE, T::NAME)
}

/// Returns the number of an element type on the wire.
pub(crate) fn element_code<T: Reduce>() -> u8 {
    T::CODE
}

/// The size of the widest element type, in bytes.
pub(crate) const MAX_WIDTH: usize = 8;

macro_rules! reduce {
    ($number:ty, $code:expr, $add:expr, $is_nan:expr, $average:expr) => {
        impl sealed::Sealed for $number {
            const CODE: u8 = $code;

            fn combine(op: ReduceOp, own: &mut [u8], received: &[u8]) {
                let is_nan = $is_nan;
                // A NaN in `b` is kept because no comparison with it holds; one in `a` needs the check.
                let larger = |a, b| if a > b || is_nan(a) { a } else { b };
                let smaller = |a, b| if a < b || is_nan(a) { a } else { b };
                match op {
                    ReduceOp::Sum | ReduceOp::Mean => merge::<Self, { size_of::<Self>() }>(own, received, $add),
                    ReduceOp::Max => merge::<Self, { size_of::<Self>() }>(own, received, larger),
                    ReduceOp::Min => merge::<Self, { size_of::<Self>() }>(own, received, smaller),
                }
            }

            fn average(own: &mut [u8], received: &[u8], ranks: usize) {
                $average(own, received, ranks);
            }
        }

        impl Reduce for $number {
            const NAME: &'static str = stringify!($number);
        }
    };
}

macro_rules! reduce_float {
    ($number:ty, $code:expr) => {
        reduce!($number, $code, |a, b| a + b, <$number>::is_nan, |own, received, ranks: usize| {
            let count = ranks as $number;
            if ranks.is_power_of_two() {
                // A power of two has an exact reciprocal, so the product has the same bits as a division and is several
                // times as fast.
                let share = count.recip();
                merge::<$number, { size_of::<$number>() }>(own, received, |a, b| (a + b) * share);
            } else {
                merge::<$number, { size_of::<$number>() }>(own, received, |a, b| (a + b) / count);
            }
        });
    };
}

reduce_float!(f32, 1);
reduce_float!(f64, 2);
reduce!(u64, 3, u64::wrapping_add, |_| false, |own, received, ranks| {
    merge::<u64, 8>(own, received, |a, b| a.wrapping_add(b) / ranks as u64);
});

/// Combines two buffers element by element. It is generic over the operation, so that the compiler vectorizes each
/// loop. The buffers may be unaligned.
fn merge<T: bytemuck::Pod, const WIDTH: usize>(own: &mut [u8], received: &[u8], combine: impl Fn(T, T) -> T) {
    let (own, _) = own.as_chunks_mut::<WIDTH>();
    let (received, _) = received.as_chunks::<WIDTH>();
    for (own, received) in own.iter_mut().zip(received) {
        let merged = combine(bytemuck::pod_read_unaligned(own), bytemuck::pod_read_unaligned(received));
        own.copy_from_slice(bytemuck::bytes_of(&merged));
    }
}

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

    fn averaged<T: Reduce>(mut own: Vec<T>, received: &[T], ranks: usize) -> Vec<T> {
        T::average(bytemuck::cast_slice_mut(&mut own), bytemuck::cast_slice(received), ranks);
        own
    }

    #[test]
    fn averages_are_sums_divided_by_the_number_of_ranks() {
        assert_eq!(averaged(vec![4_u64, 4], &[5, 6], 3), [3, 3]);
        let own = [1.0_f32, 0.1, -7.3e20, f32::MIN_POSITIVE, 1e-45, 3e38, f32::NAN];
        let received = [2.0_f32, 0.2, 1.9e3, f32::MIN_POSITIVE, 2e-45, 3e38, 1.0];
        for ranks in 2..=16 {
            let divided = own.iter().zip(&received).map(|(own, received)| (own + received) / ranks as f32);
            let bits = |numbers: Vec<f32>| numbers.into_iter().map(f32::to_bits).collect::<Vec<_>>();
            assert_eq!(bits(averaged(own.to_vec(), &received, ranks)), bits(divided.collect()), "{ranks} ranks");
        }
    }
}
