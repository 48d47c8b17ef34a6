//! Charts as inline SVG. Colors are classes, so that the page decides them for light and dark displays.

use crate::page::escaped;
use std::fmt::Write;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 36.0;
/// The number of ticks of an axis that is aimed for.
const TICKS: f64 = 5.0;

/// A line of a chart.
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// The number of the color, from 0 to 7.
    pub color: usize,
    /// The horizontal and vertical position of each point, such as an epoch and its loss.
    pub points: Vec<(f64, f64)>,
}

/// The most points of a line that are drawn as dots.
const MOST_DOTS: usize = 64;

/// Draws lines, with a dot for each point unless there are many. `x_name` is the name of the horizontal axis. Returns an empty
/// text without points.
pub fn lines(title: &str, x_name: &str, series: &[Series]) -> String {
    let all = || series.iter().flat_map(|series| &series.points);
    let Some(&(first_x, first_y)) = all().next() else { return String::new() };
    let range = |first: f64, value: fn(&(f64, f64)) -> f64| {
        let low = all().map(value).fold(first, f64::min);
        let high = all().map(value).fold(first, f64::max);
        if high > low { (low, high) } else { (low - 0.5, high + 0.5) }
    };
    let x_range = range(first_x, |point| point.0);
    let y_range = range(first_y, |point| point.1);
    let x_of = |x: f64| LEFT + (x - x_range.0) / (x_range.1 - x_range.0) * (WIDTH - LEFT - RIGHT);
    let y_of = |y: f64| HEIGHT - BOTTOM - (y - y_range.0) / (y_range.1 - y_range.0) * (HEIGHT - TOP - BOTTOM);
    let mut svg = begin(title);
    for tick in ticks(y_range) {
        let y = y_of(tick);
        let _ =
            write!(svg, "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\"/>", WIDTH - RIGHT);
        let _ = write!(svg, "<text class=\"y\" x=\"{:.1}\" y=\"{:.1}\">{}</text>", LEFT - 6.0, y + 4.0, shown(tick));
    }
    // No epoch is between two epochs.
    let has_fractions = all().any(|point| point.0.fract() != 0.0);
    for tick in ticks(x_range).into_iter().filter(|tick| has_fractions || tick.fract() == 0.0) {
        let _ = write!(
            svg,
            "<text class=\"x\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            x_of(tick),
            HEIGHT - BOTTOM + 18.0,
            shown(tick)
        );
    }
    let _ = write!(
        svg,
        "<text class=\"x\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        (LEFT + WIDTH) / 2.0,
        HEIGHT - 4.0,
        escaped(x_name)
    );
    for Series { name, color, points } in series {
        let path: Vec<String> = points.iter().map(|&(x, y)| format!("{:.1},{:.1}", x_of(x), y_of(y))).collect();
        let _ = write!(svg, "<polyline class=\"line c{color}\" points=\"{}\"/>", path.join(" "));
        let dots = if points.len() > MOST_DOTS { &[] } else { &points[..] };
        for &(x, y) in dots {
            let _ = write!(
                svg,
                "<circle class=\"dot c{color}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"><title>{}, {} {}: {}</title></circle>",
                x_of(x),
                y_of(y),
                escaped(name),
                escaped(x_name),
                shown(x),
                shown(y)
            );
        }
    }
    svg += "</svg>";
    svg + &legend(series.iter().map(|series| (series.name.as_str(), series.color))) + "</figure>"
}

/// A bar of a chart.
pub struct Bar {
    /// The name beside the bar.
    pub name: String,
    /// The size of each piece.
    pub pieces: Vec<f64>,
}

/// Draws stacked horizontal bars. `pieces` are the names of the pieces. Returns an empty text without bars.
pub fn bars(title: &str, unit: &str, pieces: &[&str], bars: &[Bar]) -> String {
    const ROW: f64 = 22.0;
    const NAME: f64 = 120.0;
    let longest = bars.iter().map(|bar| bar.pieces.iter().sum::<f64>()).fold(0.0, f64::max);
    if bars.is_empty() || longest <= 0.0 {
        return String::new();
    }
    let height = ROW * bars.len() as f64 + 4.0;
    let mut svg = format!(
        "<figure><figcaption>{0}</figcaption><svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{0}\">",
        escaped(title)
    );
    for (row, bar) in bars.iter().enumerate() {
        let y = ROW * row as f64 + 2.0;
        let _ =
            write!(svg, "<text class=\"y\" x=\"{}\" y=\"{:.1}\">{}</text>", NAME - 6.0, y + 14.0, escaped(&bar.name));
        let mut x = NAME;
        for (color, (&size, piece)) in bar.pieces.iter().zip(pieces).enumerate() {
            let width = size / longest * (WIDTH - NAME - 70.0);
            let _ = write!(
                svg,
                "<rect class=\"bar c{color}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{:.1}\"><title>{}, {}: {} {unit}</title></rect>",
                ROW - 6.0,
                escaped(&bar.name),
                escaped(piece),
                shown(size)
            );
            x += width;
        }
        let total = shown(bar.pieces.iter().sum());
        let _ = write!(svg, "<text x=\"{:.1}\" y=\"{:.1}\">{total} {unit}</text>", x + 6.0, y + 14.0);
    }
    svg += "</svg>";
    svg + &legend(pieces.iter().copied().zip(0..)) + "</figure>"
}

fn begin(title: &str) -> String {
    format!(
        "<figure><figcaption>{0}</figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{0}\">",
        escaped(title)
    )
}

fn legend<'a>(entries: impl Iterator<Item = (&'a str, usize)>) -> String {
    let entry = |(name, color): (&str, usize)| format!("<span class=\"c{color}\">{}</span>", escaped(name));
    format!("<p class=\"legend\">{}</p>", entries.map(entry).collect::<Vec<_>>().join(" "))
}

/// Returns round numbers within a range.
fn ticks((low, high): (f64, f64)) -> Vec<f64> {
    let rough = (high - low) / TICKS;
    let magnitude = 10.0_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * magnitude).find(|&step| step >= rough);
    let step = step.unwrap_or(10.0 * magnitude);
    let first = (low / step).ceil() as i64;
    let last = (high / step).floor() as i64;
    (first..=last).map(|tick| tick as f64 * step).collect()
}

/// Formats a number with four significant digits.
pub fn shown(number: f64) -> String {
    if number == 0.0 || !number.is_finite() {
        return number.to_string();
    }
    let digits = (3.0 - number.abs().log10().floor()).clamp(0.0, 9.0) as usize;
    let text = format!("{number:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits() {
        let cases =
            [(0.0, "0"), (1.0, "1"), (0.123456, "0.1235"), (12.3, "12.3"), (123456.7, "123457"), (-2.50004, "-2.5")];
        for (number, text) in cases {
            assert_eq!(shown(number), text);
        }
    }

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(ticks((0.0, 1.0)), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
        assert_eq!(ticks((1.0, 20.0)), [5.0, 10.0, 15.0, 20.0]);
        for (low, high) in [(0.301, 0.302), (-5.0, 7.0), (1e9, 3e9)] {
            let ticks = ticks((low, high));
            assert!(
                (3..=12).contains(&ticks.len()) && ticks.iter().all(|tick| (low..=high).contains(tick)),
                "{ticks:?}"
            );
        }
    }

    #[test]
    fn a_chart_has_every_point_and_no_markup_of_names() {
        let points = vec![(1.0, 0.5), (2.0, 0.25), (3.0, 0.125)];
        let series = [Series { name: "<b>&\"run".into(), color: 2, points }];
        let svg = lines("loss", "epoch", &series);
        assert_eq!((svg.matches("<circle").count(), svg.matches("<polyline").count()), (3, 1));
        assert!(
            svg.contains("epoch 3: 0.125") && svg.contains("&lt;b&gt;&amp;&quot;run") && !svg.contains("<b>"),
            "{svg}"
        );
        let many = [Series { name: "many".into(), color: 0, points: (0..100).map(|x| (f64::from(x), 1.0)).collect() }];
        assert!(!lines("many", "x", &many).contains("<circle"));
        assert_eq!(lines("nothing", "epoch", &[]), "");
        // One point is drawn in the middle.
        let one = [Series { name: "one".into(), color: 0, points: vec![(1.0, 7.0)] }];
        assert!(!lines("one", "epoch", &one).contains("NaN"));
    }
}
