//! The flags that a sweep varies, and their combinations.

use edgecut_graph::rng::CounterRng;
use std::str::FromStr;

/// The most runs of a grid.
const MAX_RUNS: usize = 10_000;

/// A flag and the values that it takes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Setting {
    /// The flag, without dashes at its start.
    flag: String,
    values: Values,
}

#[derive(Clone, Debug, PartialEq)]
enum Values {
    List(Vec<String>),
    /// A range of whole numbers, both ends included.
    Integers(i64, i64),
    Decimals(f64, f64),
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let malformed = || format!("'{text}' is not FLAG=VALUES, for example 'lr=0.01 0.003'");
        let (flag, values) = text.split_once('=').ok_or_else(malformed)?;
        let flag = flag.trim_start_matches("--").replace('_', "-");
        let list: Vec<String> = values.split_whitespace().map(String::from).collect();
        if flag.is_empty() || list.is_empty() {
            return Err(malformed());
        }
        let values = match &list[..] {
            [one] if one.contains("..") => range(one)?,
            _ => Values::List(list),
        };
        Ok(Self { flag, values })
    }
}

fn range(text: &str) -> Result<Values, String> {
    let malformed = || format!("'{text}' is not a range of numbers, for example 0.0001..0.1");
    let (low, high) = text.split_once("..").ok_or_else(malformed)?;
    if let (Ok(low), Ok(high)) = (low.parse::<i64>(), high.parse::<i64>())
        && low < high
    {
        return Ok(Values::Integers(low, high));
    }
    match (low.parse::<f64>(), high.parse::<f64>()) {
        (Ok(low), Ok(high)) if low < high && low.is_finite() && high.is_finite() => Ok(Values::Decimals(low, high)),
        _ => Err(malformed()),
    }
}

/// Returns the flags of each run: all combinations, or `random` ones.
pub(super) fn combinations(
    settings: &[Setting],
    random: Option<u32>,
    seed: u64,
) -> Result<Vec<Vec<(String, String)>>, String> {
    for (number, setting) in settings.iter().enumerate() {
        if settings[..number].iter().any(|earlier| earlier.flag == setting.flag) {
            return Err(format!("--set {}: the flag is given twice", setting.flag));
        }
    }
    if let Some(num_runs) = random {
        let mut numbers = CounterRng::new(seed);
        let mut draw = |setting: &Setting| (setting.flag.clone(), setting.values.draw(&mut numbers));
        return Ok((0..num_runs).map(|_| settings.iter().map(&mut draw).collect()).collect());
    }
    let mut all: Vec<Vec<(String, String)>> = vec![Vec::new()];
    for Setting { flag, values } in settings {
        let Values::List(values) = values else {
            return Err(format!("--set {flag}: a range needs --random N, the number of runs"));
        };
        if all.len() * values.len() > MAX_RUNS {
            return Err(format!("the sweep has more than {MAX_RUNS} runs: give fewer values, or --random N"));
        }
        let with = |run: &Vec<(String, String)>, value: &String| {
            run.iter().cloned().chain([(flag.clone(), value.clone())]).collect()
        };
        all = all.iter().flat_map(|run| values.iter().map(move |value| with(run, value))).collect();
    }
    Ok(all)
}

impl Values {
    fn draw(&self, numbers: &mut CounterRng) -> String {
        match self {
            Self::List(values) => values[numbers.below(values.len() as u64) as usize].clone(),
            // The sum is at most `high`, so it wraps back into range even if the difference exceeds `i64`.
            Self::Integers(low, high) => {
                low.wrapping_add(numbers.below(low.abs_diff(*high).saturating_add(1)) as i64).to_string()
            }
            Self::Decimals(low, high) if *low > 0.0 => {
                let log = low.ln() + numbers.unit() * (high.ln() - low.ln());
                four_digits(log.exp().clamp(*low, *high))
            }
            Self::Decimals(low, high) => four_digits(low + numbers.unit() * (high - low)),
        }
    }
}

/// Formats a number with four significant digits.
fn four_digits(number: f64) -> String {
    format!("{number:.3e}").parse::<f64>().unwrap_or(number).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(texts: &[&str]) -> Vec<Setting> {
        texts.iter().map(|text| text.parse().expect("a setting")).collect()
    }

    #[test]
    fn a_grid_has_all_combinations_in_order() {
        let grid = combinations(&settings(&["lr=0.01 0.003", "--num_neighbors=15,10 5,5"]), None, 0).expect("a grid");
        let words: Vec<String> =
            grid.iter().map(|run| run.iter().map(|(flag, value)| format!("{flag}={value} ")).collect()).collect();
        let expected = [
            "lr=0.01 num-neighbors=15,10 ",
            "lr=0.01 num-neighbors=5,5 ",
            "lr=0.003 num-neighbors=15,10 ",
            "lr=0.003 num-neighbors=5,5 ",
        ];
        assert_eq!(words, expected);
    }

    #[test]
    fn random_values_are_in_their_ranges_and_repeat_with_the_seed() {
        let varied = settings(&["lr=0.0001..0.1", "hidden-channels=16..64", "dropout=0.0..0.5", "model=sage gcn"]);
        let runs = combinations(&varied, Some(200), 7).expect("runs");
        assert_eq!(runs, combinations(&varied, Some(200), 7).expect("runs"));
        assert_ne!(runs, combinations(&varied, Some(200), 8).expect("runs"));
        let value = |run: &[(String, String)], at: usize| run[at].1.parse::<f64>().expect("a number");
        assert!(runs.iter().all(|run| (0.0001..=0.1).contains(&value(run, 0))));
        assert!(runs.iter().all(|run| (16.0..=64.0).contains(&value(run, 1)) && value(run, 1).fract() == 0.0));
        assert!(runs.iter().all(|run| (0.0..=0.5).contains(&value(run, 2))));
        let widest = settings(&["seed=-9223372036854775808..9223372036854775807"]);
        assert_eq!(combinations(&widest, Some(9), 0).expect("runs").len(), 9);
        // Half of the learning rates are below the middle of the logarithms.
        let small = runs.iter().filter(|run| value(run, 0) < 0.00316).count();
        assert!((70..130).contains(&small), "{small}");
        assert!(["sage", "gcn"].iter().all(|model| runs.iter().any(|run| run[3].1 == *model)));
    }

    #[test]
    fn malformed_settings_are_refused() {
        for text in ["lr", "lr=", "=1", "lr=1..x", "lr=0.1..0.01", "lr=nan..1"] {
            assert!(text.parse::<Setting>().is_err(), "{text}");
        }
        assert!(combinations(&settings(&["lr=1..2"]), None, 0).expect_err("a range").contains("--random"));
        assert!(combinations(&settings(&["lr=1", "--lr=2"]), None, 0).expect_err("twice").contains("twice"));
        let many = "x=".to_owned() + &vec!["1"; 200].join(" ");
        let many = settings(&[&many, &many.replace("x=", "y="), &many.replace("x=", "z=")]);
        assert!(combinations(&many, None, 0).expect_err("too many").contains("10000"));
    }
}
