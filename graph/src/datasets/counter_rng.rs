//! Random numbers that are a function of what they are for.

/// The odd constant of splitmix64: 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The source of one kind of random number, from which each item takes a sequence of its own. So what an item gets
/// depends neither on the other items nor on the number of threads. The generator is splitmix64 (Steele, Lea and
/// Flood, Fast Splittable Pseudorandom Number Generators, 2014).
#[derive(Clone, Copy, Debug)]
pub(super) struct CounterRng {
    key: u64,
}

/// The sequence of one item.
#[derive(Clone, Debug)]
pub(super) struct Draws {
    state: u64,
}

impl CounterRng {
    /// The source for one purpose, `stream`, under `seed`.
    pub(super) fn new(seed: u64, stream: u64) -> Self {
        Self { key: mix(mix(seed).wrapping_add(stream.wrapping_mul(GOLDEN))) }
    }

    /// The sequence of item `index`.
    pub(super) fn item(self, index: u64) -> Draws {
        Draws { state: mix(self.key ^ index.wrapping_mul(GOLDEN)) }
    }
}

impl Draws {
    /// 64 random bits.
    pub(super) fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mix(self.state)
    }

    /// A number in `[0, 1)`.
    pub(super) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// A number below `end`, which is at least 1.
    pub(super) fn below(&mut self, end: u32) -> u32 {
        (((self.bits() >> 32) * u64::from(end)) >> 32) as u32
    }

    /// A number with mean 0 and variance 1, near Gaussian: the sum of four uniform numbers, at most 3.5 from the mean.
    /// Unlike a true Gaussian it takes no logarithm, so that every machine gets the same bits.
    pub(super) fn gaussian(&mut self) -> f32 {
        // The variance of a sum of four uniform numbers on 0..=65535 is (65536^2 - 1) / 3.
        const SCALE: f32 = 1.0 / 37_837.22;
        let bits = self.bits();
        let sum: u32 = [0, 16, 32, 48].into_iter().map(|shift| (bits >> shift) as u32 & 0xffff).sum();
        (sum as f32 - 131_070.0) * SCALE
    }
}

/// The finalizer of splitmix64; every bit of the result depends on every bit of `z`.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_follow_the_published_generator() {
        // The first outputs of splitmix64 from state 1234567, as the reference implementation in C prints them.
        let mut draws = Draws { state: 1_234_567 };
        let expected = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431_u64];
        assert_eq!(expected.map(|_| draws.bits()), expected);
    }

    #[test]
    fn units_and_gaussians_have_their_moments() {
        let rng = CounterRng::new(3, 7);
        let count = 100_000;
        let moments = |draw: fn(&mut Draws) -> f64| {
            let values: Vec<f64> = (0..count).map(|i| draw(&mut rng.item(i))).collect();
            let mean = values.iter().sum::<f64>() / count as f64;
            (mean, values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count as f64)
        };
        let (mean, variance) = moments(Draws::unit);
        assert!((mean - 0.5).abs() < 0.005 && (variance - 1.0 / 12.0).abs() < 0.001, "{mean} {variance}");
        let (mean, variance) = moments(|d| f64::from(d.gaussian()));
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
        assert!((0..1000).all(|i| rng.item(i).below(7) < 7));
    }
}
