//! The formulas of the decoders of links, as plain loops over 64-bit floats.

use edgecut_gnn::nn::DecoderKind;

/// Returns the score of a pair of rows. `tensors` are the values of the decoder's tensors, in the order of its fields.
pub(crate) fn plain_score(kind: DecoderKind, tensors: &[Vec<f64>], edge_type: usize, src: &[f64], dst: &[f64]) -> f64 {
    let channels = src.len();
    let half = channels / 2;
    let mut score = 0.0;
    match kind {
        DecoderKind::Dot(_) => {
            for channel in 0..channels {
                score += src[channel] * dst[channel];
            }
        }
        DecoderKind::DistMult(_) => {
            for channel in 0..channels {
                score += src[channel] * tensors[0][edge_type * channels + channel] * dst[channel];
            }
        }
        DecoderKind::ComplEx(_) => {
            for at in 0..half {
                let relation = (tensors[0][edge_type * channels + at], tensors[0][edge_type * channels + half + at]);
                let turned = times((src[at], src[half + at]), relation);
                score += times(turned, (dst[at], -dst[half + at])).0;
            }
        }
        DecoderKind::Bilinear(_) => {
            for row in 0..channels {
                for column in 0..channels {
                    let weight = tensors[0][(edge_type * channels + row) * channels + column];
                    score += src[row] * weight * dst[column];
                }
            }
        }
        DecoderKind::TransE(settings) => {
            for channel in 0..channels {
                let difference = src[channel] + tensors[0][edge_type * channels + channel] - dst[channel];
                score += if settings.norm == 1 { difference.abs() } else { difference * difference };
            }
            score = settings.margin - if settings.norm == 1 { score } else { score.sqrt() };
        }
        DecoderKind::RotatE(settings) => {
            for at in 0..half {
                let angle = tensors[0][edge_type * half + at];
                let turned = times((src[at], src[half + at]), (angle.cos(), angle.sin()));
                score += (turned.0 - dst[at]).hypot(turned.1 - dst[half + at]);
            }
            score = settings.margin - score;
        }
        DecoderKind::Mlp(_) => {
            let [source, destination, product, relations, output] = tensors else { panic!("five tensors") };
            for unit in 0..channels {
                let mut hidden = relations[edge_type * channels + unit];
                for channel in 0..channels {
                    let at = channel * channels + unit;
                    hidden += src[channel] * source[at] + dst[channel] * destination[at];
                    hidden += src[channel] * dst[channel] * product[at];
                }
                score += hidden.max(0.0) * output[unit];
            }
        }
    }
    score
}

fn times(one: (f64, f64), other: (f64, f64)) -> (f64, f64) {
    (one.0 * other.0 - one.1 * other.1, one.0 * other.1 + one.1 * other.0)
}
