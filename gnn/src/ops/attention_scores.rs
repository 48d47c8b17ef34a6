//! The scores of edges in attention, and their gradients.

use super::real::Real;

/// The scores of one version of attention, forward and backward.
pub(super) trait Scores<T: Real>: Sync {
    /// Returns the score of the edge from `source` to `row`.
    fn score(&self, source: usize, row: usize, head: usize) -> T;

    /// Returns the columns of a destination's gradient, which [`Scores::to_destination`] writes.
    fn destination_width(&self) -> usize;

    /// Returns the columns of the gradient of a source's scores, which [`Scores::to_source`] writes in addition to that
    /// of `z`.
    fn source_width(&self) -> usize;

    /// Returns the length of the gradient of the parameters that all edges share.
    fn shared_width(&self) -> usize;

    /// Adds the contribution of one edge to the gradients of its destination (`out`) and of the shared parameters
    /// (`shared`).
    ///
    /// `grad`, `[heads]`, holds the gradient of the edge's scores. It is overwritten with the values that
    /// [`Scores::to_source`] needs.
    fn to_destination(&self, source: usize, row: usize, grad: &mut [T], out: &mut [T], shared: &mut [T]);

    /// Adds the contribution of one edge to the gradients of its source: of its row of `z`, and of its scores
    /// (`score`).
    ///
    /// `grad`, `[heads]`, holds the values that [`Scores::to_destination`] left.
    fn to_source(&self, source: usize, row: usize, grad: &[T], z: &mut [T], score: &mut [T]);
}

/// Returns the derivative of LeakyReLU. `LeakyReLU(x)` is `x * slope(x)`.
#[inline(always)]
fn slope<T: Real>(argument: T, negative_slope: T) -> T {
    if argument > T::ZERO { T::ONE } else { negative_slope }
}

/// The scores `LeakyReLU(score_dst + score_src)` of [`AttentionVersion::V1`](super::attention::AttentionVersion::V1).
pub(super) struct AdditiveScores<'a, T> {
    /// `[num_src, heads]`.
    pub(super) src: &'a [T],
    /// `[num_dst, heads]`.
    pub(super) dst: &'a [T],
    pub(super) heads: usize,
    pub(super) negative_slope: T,
}

impl<T: Real> AdditiveScores<'_, T> {
    #[inline(always)]
    fn argument(&self, source: usize, row: usize, head: usize) -> T {
        self.src[source * self.heads + head] + self.dst[row * self.heads + head]
    }
}

impl<T: Real> Scores<T> for AdditiveScores<'_, T> {
    #[inline(always)]
    fn score(&self, source: usize, row: usize, head: usize) -> T {
        let argument = self.argument(source, row, head);
        argument * slope(argument, self.negative_slope)
    }

    fn destination_width(&self) -> usize {
        self.heads
    }

    fn source_width(&self) -> usize {
        self.heads
    }

    fn shared_width(&self) -> usize {
        0
    }

    #[inline(always)]
    fn to_destination(&self, source: usize, row: usize, grad: &mut [T], out: &mut [T], _: &mut [T]) {
        for (head, (grad, out)) in grad.iter_mut().zip(out).enumerate() {
            *grad = *grad * slope(self.argument(source, row, head), self.negative_slope);
            *out += *grad;
        }
    }

    #[inline(always)]
    fn to_source(&self, _: usize, _: usize, grad: &[T], _: &mut [T], score: &mut [T]) {
        for (score, &grad) in score.iter_mut().zip(grad) {
            *score += grad;
        }
    }
}

/// The scores `vector · LeakyReLU(z_dst + z_src)` per head of
/// [`AttentionVersion::V2`](super::attention::AttentionVersion::V2).
pub(super) struct DynamicScores<'a, T> {
    /// `[num_src, heads * channels]`.
    pub(super) z_src: &'a [T],
    /// `[num_dst, heads * channels]`.
    pub(super) z_dst: &'a [T],
    /// `[heads * channels]`.
    pub(super) vector: &'a [T],
    pub(super) channels: usize,
    pub(super) negative_slope: T,
}

impl<T: Real> DynamicScores<'_, T> {
    /// Returns a head's columns of a row.
    #[inline(always)]
    fn columns<'a>(&self, values: &'a [T], row: usize, head: usize) -> &'a [T] {
        &values[row * self.vector.len() + head * self.channels..][..self.channels]
    }
}

impl<T: Real> Scores<T> for DynamicScores<'_, T> {
    #[inline(always)]
    fn score(&self, source: usize, row: usize, head: usize) -> T {
        let src = self.columns(self.z_src, source, head);
        let dst = self.columns(self.z_dst, row, head);
        let vector = self.columns(self.vector, 0, head);
        sum_of(self.channels, |c| {
            let argument = src[c] + dst[c];
            vector[c] * (argument * slope(argument, self.negative_slope))
        })
    }

    fn destination_width(&self) -> usize {
        self.vector.len()
    }

    fn source_width(&self) -> usize {
        0
    }

    fn shared_width(&self) -> usize {
        self.vector.len()
    }

    #[inline(always)]
    fn to_destination(&self, source: usize, row: usize, grad: &mut [T], out: &mut [T], shared: &mut [T]) {
        for (head, &grad) in grad.iter().enumerate() {
            let src = self.columns(self.z_src, source, head);
            let dst = self.columns(self.z_dst, row, head);
            let vector = self.columns(self.vector, 0, head);
            let columns = head * self.channels..(head + 1) * self.channels;
            let out = &mut out[columns.clone()];
            let shared = &mut shared[columns];
            for ((((out, shared), &src), &dst), &vector) in out.iter_mut().zip(shared).zip(src).zip(dst).zip(vector) {
                let argument = src + dst;
                let grad = grad * slope(argument, self.negative_slope);
                *out += grad * vector;
                *shared += grad * argument;
            }
        }
    }

    #[inline(always)]
    fn to_source(&self, source: usize, row: usize, grad: &[T], z: &mut [T], _: &mut [T]) {
        for (head, &grad) in grad.iter().enumerate() {
            let src = self.columns(self.z_src, source, head);
            let dst = self.columns(self.z_dst, row, head);
            let vector = self.columns(self.vector, 0, head);
            let z = &mut z[head * self.channels..(head + 1) * self.channels];
            for (((z, &src), &dst), &vector) in z.iter_mut().zip(src).zip(dst).zip(vector) {
                *z += grad * slope(src + dst, self.negative_slope) * vector;
            }
        }
    }
}

/// Returns the sum of `term(0)` to `term(count - 1)`.
///
/// The terms go to eight partial sums, so that the loop vectorises. Their order is fixed, so the result does not depend
/// on the instruction set.
#[inline(always)]
pub(super) fn sum_of<T: Real>(count: usize, term: impl Fn(usize) -> T) -> T {
    const LANES: usize = 8;
    let mut lanes = [T::ZERO; LANES];
    let whole = count / LANES * LANES;
    for start in (0..whole).step_by(LANES) {
        for (lane, sum) in lanes.iter_mut().enumerate() {
            *sum += term(start + lane);
        }
    }
    for (lane, index) in (whole..count).enumerate() {
        lanes[lane] += term(index);
    }
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}
