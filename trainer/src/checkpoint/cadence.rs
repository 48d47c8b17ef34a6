//! The times at which checkpoints are written.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The distance between two checkpoints.
///
/// ```
/// use edgecut_trainer::checkpoint::Cadence;
/// use std::time::Duration;
/// assert_eq!("2epochs".parse(), Ok(Cadence::Epochs(2)));
/// assert_eq!("1step".parse(), Ok(Cadence::Steps(1)));
/// assert_eq!("90s".parse(), Ok(Cadence::Time(Duration::from_secs(90))));
/// assert_eq!("10min".parse::<Cadence>()?.to_string(), "10min");
/// assert!("0steps".parse::<Cadence>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cadence {
    /// A number of epochs.
    Epochs(u64),
    /// A number of steps. A checkpoint that is due at the last step of an epoch is written after the validation.
    Steps(u64),
    /// A time, measured by rank 0.
    Time(Duration),
}

impl FromStr for Cadence {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("expected a number with a unit, such as 1epoch, 50steps, 10min or 90s, got {text:?}");
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let number: u64 = number.parse().map_err(|_| expected())?;
        if number == 0 {
            return Err("the number must be at least 1".to_owned());
        }
        let seconds = |factor: u64| Self::Time(Duration::from_secs(number.saturating_mul(factor)));
        match unit {
            "epoch" | "epochs" => Ok(Self::Epochs(number)),
            "step" | "steps" => Ok(Self::Steps(number)),
            "s" => Ok(seconds(1)),
            "min" => Ok(seconds(60)),
            "h" => Ok(seconds(3600)),
            _ => Err(expected()),
        }
    }
}

impl fmt::Display for Cadence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |number: u64| if number == 1 { "" } else { "s" };
        match *self {
            Self::Epochs(number) => write!(f, "{number}epoch{}", plural(number)),
            Self::Steps(number) => write!(f, "{number}step{}", plural(number)),
            Self::Time(time) if time.as_secs().is_multiple_of(60) => write!(f, "{}min", time.as_secs() / 60),
            Self::Time(time) => write!(f, "{}s", time.as_secs()),
        }
    }
}
