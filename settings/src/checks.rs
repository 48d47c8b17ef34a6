//! Checks of the texts of numbers.

/// Accepts integers from `MIN` to `MAX`.
pub fn in_range<const MIN: u64, const MAX: u64>(text: &str) -> Result<(), String> {
    // The type of the setting refuses other texts.
    match text.parse::<i128>() {
        Ok(value) if (i128::from(MIN)..=i128::from(MAX)).contains(&value) => Ok(()),
        Ok(value) if MAX < u64::MAX => Err(format!("{value} is not in {MIN}..={MAX}")),
        Ok(value @ 0..) => Err(format!("{value} is not in {MIN}..{MAX}")),
        _ => Ok(()),
    }
}

/// Accepts integers of 32 bits from 1.
pub fn at_least_1(text: &str) -> Result<(), String> {
    in_range::<1, { u32::MAX as u64 }>(text)
}

/// Accepts integers of 64 bits from 1.
pub fn at_least_1_long(text: &str) -> Result<(), String> {
    in_range::<1, { u64::MAX }>(text)
}

/// Accepts finite numbers that are not negative.
pub fn not_negative(text: &str) -> Result<(), String> {
    let value = number(text)?;
    if value.is_finite() && value >= 0.0 { Ok(()) } else { Err(format!("{text} is not a finite number ≥ 0")) }
}

/// Accepts finite numbers above 0.
pub fn positive(text: &str) -> Result<(), String> {
    not_negative(text)?;
    if number(text)? > 0.0 { Ok(()) } else { Err(format!("{text} is not above 0")) }
}

/// Accepts numbers from 0 to 1.
pub fn share(text: &str) -> Result<(), String> {
    not_negative(text)?;
    if number(text)? <= 1.0 { Ok(()) } else { Err(format!("{text} is above 1")) }
}

/// Accepts numbers from 0 to less than 1.
pub fn below_1(text: &str) -> Result<(), String> {
    if (0.0..1.0).contains(&number(text)?) { Ok(()) } else { Err(format!("{text} is not in 0 ≤ p < 1")) }
}

fn number(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| format!("{text:?} is not a number"))
}
