//! Charts as inline SVG, and bars as HTML. Colors are classes, so that the page decides them for light and dark displays.

use crate::page::escaped;
use crate::range::Range;
use crate::unit::{Unit, shown};
use std::fmt::Write;

/// The size of a chart in the units of its drawing. A page shows a chart 340 to 560 pixels wide, so that its text is as
/// large as the text of the page.
const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 236.0;
/// The room for labels at the left, which have up to eight characters, and around the drawing.
const LEFT: f64 = 70.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 46.0;
const BASE: f64 = HEIGHT - BOTTOM;

/// The most points of a line that are drawn as dots, and the most columns that tell their numbers.
const MOST_DOTS: usize = 64;
/// The most columns of a chart. More are drawn as means of neighbors.
const MOST_COLUMNS: usize = 300;

/// An axis of a chart.
#[derive(Clone, Copy, Debug)]
pub struct Axis<'a> {
    /// The name, such as `epoch`. It may be empty.
    pub name: &'a str,
    /// The unit of its numbers.
    pub unit: Unit,
}

/// A line of a chart.
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// The number of the color, from 0 to 7.
    pub color: usize,
    /// The horizontal and vertical position of each point, such as an epoch and its loss.
    pub points: Vec<(f64, f64)>,
    /// The horizontal position of the point that is marked as the best.
    pub best: Option<f64>,
}

/// Draws lines, with a dot for each point unless there are many. Returns an empty text without points.
pub fn lines(title: &str, x: Axis<'_>, y: Axis<'_>, series: &[Series]) -> String {
    let all = series.iter().flat_map(|series| &series.points);
    let Some(x_range) = Range::of(all.clone().map(|point| point.0), x.unit) else { return String::new() };
    let Some(y_range) = Range::of(all.clone().map(|point| point.1), y.unit) else { return String::new() };
    let y_range = y_range.up_to_ticks();
    // No epoch is between two epochs.
    let has_fractions = all.clone().any(|point| point.0.fract() != 0.0);
    let mut svg = begin(title);
    draw_y_axis(&mut svg, y, &y_range);
    let first = all.clone().map(|point| point.0).fold(f64::INFINITY, f64::min);
    draw_x_axis(&mut svg, x.name, &x_range, first, has_fractions);
    for Series { name, color, points, best } in series {
        let places: Vec<(f64, f64)> =
            points.iter().map(|&(x, y)| (x_range.place(x, LEFT, WIDTH - RIGHT), y_range.place(y, BASE, TOP))).collect();
        let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = write!(svg, "<polyline class=\"line c{color}\" points=\"{}\"/>", path.join(" "));
        for (&(at, value), &(left, top)) in points.iter().zip(&places) {
            let label = format!("{} {}: {}", x.name, shown(at), y.unit.format(value));
            if points.len() <= MOST_DOTS {
                let _ = write!(
                    svg,
                    "<circle class=\"dot c{color}\" cx=\"{left:.1}\" cy=\"{top:.1}\" r=\"3\"><title>{}, {}</title></circle>",
                    escaped(name),
                    escaped(&label)
                );
            }
            if *best == Some(at) {
                draw_best(&mut svg, *color, (left, top), &label);
            }
        }
    }
    svg += "</svg>";
    svg + &legend(series.iter().map(|series| (series.name.as_str(), series.color))) + "</figure>"
}

/// Draws a ring around the best point, and its label towards the middle of the chart.
fn draw_best(svg: &mut String, color: usize, (x, y): (f64, f64), label: &str) {
    let anchor = if x > (LEFT + WIDTH) / 2.0 { "end" } else { "start" };
    // A label at the top of the chart would meet the name of the axis.
    let text_y = if y < TOP + 20.0 { y + 22.0 } else { y - 12.0 };
    let _ = write!(
        svg,
        "<circle class=\"best c{color}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"6\"/>\
         <text class=\"mark\" style=\"text-anchor:{anchor}\" x=\"{x:.1}\" y=\"{text_y:.1}\">best {}</text>",
        escaped(label)
    );
}

/// Draws a line and a label for each tick, and the name and the unit above the axis.
fn draw_y_axis(svg: &mut String, axis: Axis<'_>, range: &Range) {
    let scale = axis.unit.scale(range.low.abs().max(range.high.abs()));
    for tick in range.ticks() {
        let y = range.place(tick, BASE, TOP);
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\"/>\
             <text class=\"y\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 10.0,
            y + 4.0,
            range.label(tick, scale.factor)
        );
    }
    let name = match (axis.name, scale.name) {
        (name, "") => name.to_owned(),
        ("", unit) => unit.to_owned(),
        (name, unit) => format!("{name}, {unit}"),
    };
    if !name.is_empty() {
        let _ = write!(svg, "<text x=\"4\" y=\"14\">{}</text>", escaped(&name));
    }
}

/// Draws a label for each tick, and for the first number if there is room for it, and the name below the axis.
fn draw_x_axis(svg: &mut String, name: &str, range: &Range, first: f64, has_fractions: bool) {
    /// The least distance of two labels.
    const DISTANCE: f64 = 40.0;
    let mut ticks = range.ticks();
    ticks.retain(|tick| has_fractions || tick.fract() == 0.0);
    let place = |number: f64| range.place(number, LEFT, WIDTH - RIGHT);
    if ticks.first().is_none_or(|&tick| place(tick) - place(first) >= DISTANCE) {
        ticks.insert(0, first);
    }
    for tick in ticks {
        let _ = write!(
            svg,
            "<text class=\"x\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            place(tick),
            BASE + 21.0,
            if has_fractions { range.label(tick, 1.0) } else { shown(tick) }
        );
    }
    let _ = write!(
        svg,
        "<text class=\"x\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 6.0,
        escaped(name)
    );
}

/// A column of a chart.
pub struct Column {
    /// The number of the column, such as an epoch. A column reaches up to the number of the next one.
    pub number: u64,
    /// The size of each piece.
    pub pieces: Vec<f64>,
}

/// Draws stacked columns. `pieces` are the names of the pieces of each column. Many columns are drawn as means of
/// neighbors. Returns an empty text without columns.
pub fn columns(title: &str, x_name: &str, unit: Unit, pieces: &[&str], columns: &[Column]) -> String {
    let together = columns.len().div_ceil(MOST_COLUMNS).max(1);
    let means: Vec<Column> = columns.chunks(together).map(|chunk| mean_of(chunk, pieces.len())).collect();
    let highest = means.iter().map(|column| column.pieces.iter().sum::<f64>()).fold(0.0, f64::max);
    let (Some(first), Some(last)) = (columns.first(), columns.last()) else { return String::new() };
    let ends = [first.number as f64 - 0.5, last.number as f64 + 0.5];
    let (Some(height), Some(range)) =
        (Range::of([0.0, highest].into_iter(), unit), Range::of(ends.into_iter(), Unit::Number))
    else {
        return String::new();
    };
    if highest <= 0.0 {
        return String::new();
    }
    let height = height.up_to_ticks();
    let mut svg = if together > 1 { begin(&format!("{title}, means of {together}")) } else { begin(title) };
    draw_y_axis(&mut svg, Axis { name: "", unit }, &height);
    draw_x_axis(&mut svg, x_name, &range, first.number as f64, false);
    let mut sides: Vec<f64> = means.iter().map(|column| column.number as f64 - 0.5).collect();
    sides.push(ends[1]);
    let sides: Vec<f64> = sides.into_iter().map(|side| range.place(side, LEFT, WIDTH - RIGHT)).collect();
    let mut bases = vec![0.0; means.len()];
    for (color, piece) in pieces.iter().enumerate() {
        for (at, column) in means.iter().enumerate() {
            let low = height.place(bases[at], BASE, TOP);
            bases[at] += column.pieces[color];
            let high = height.place(bases[at], BASE, TOP);
            let mut tooltip = String::new();
            if means.len() <= MOST_DOTS {
                let size = unit.format(column.pieces[color]);
                let text = format!("{x_name} {}, {piece}: {size}", column.number);
                tooltip = format!("<title>{}</title>", escaped(&text));
            }
            let _ = write!(
                svg,
                "<rect class=\"bar c{color}\" x=\"{:.1}\" y=\"{high:.1}\" width=\"{:.1}\" height=\"{:.1}\">{tooltip}</rect>",
                sides[at],
                (sides[at + 1] - sides[at]) * 0.9,
                low - high
            );
        }
    }
    svg += "</svg>";
    svg + &legend(pieces.iter().copied().zip(0..)) + "</figure>"
}

/// Returns the mean of some columns, with the number of the first one.
fn mean_of(columns: &[Column], num_pieces: usize) -> Column {
    let mut means = vec![0.0; num_pieces];
    for column in columns {
        for (mean, piece) in means.iter_mut().zip(&column.pieces) {
            *mean += piece / columns.len() as f64;
        }
    }
    Column { number: columns.first().map_or(0, |column| column.number), pieces: means }
}

/// A bar of a chart.
pub struct Bar {
    /// The name beside the bar.
    pub name: String,
    /// The size of each piece.
    pub pieces: Vec<f64>,
}

/// Draws stacked horizontal bars. `pieces` are the names of the pieces. Returns an empty text without bars.
pub fn bars(title: &str, unit: Unit, pieces: &[&str], bars: &[Bar]) -> String {
    let longest = bars.iter().map(|bar| bar.pieces.iter().sum::<f64>()).fold(0.0, f64::max);
    if bars.is_empty() || longest <= 0.0 {
        return String::new();
    }
    let mut html = format!("<figure><figcaption>{}</figcaption><div class=\"bars\">", escaped(title));
    for Bar { name, pieces: sizes } in bars {
        let name = escaped(name);
        let _ = write!(html, "<span>{name}</span><div>");
        for (color, (&size, piece)) in sizes.iter().zip(pieces).enumerate() {
            let _ = write!(
                html,
                "<i class=\"c{color}\" style=\"width:{:.2}%\" title=\"{name}, {}: {}\"></i>",
                100.0 * size / longest,
                escaped(piece),
                unit.format(size)
            );
        }
        let _ = write!(html, "</div><span>{}</span>", unit.format(sizes.iter().sum()));
    }
    html + "</div>" + &legend(pieces.iter().copied().zip(0..)) + "</figure>"
}

fn begin(title: &str) -> String {
    format!(
        "<figure><figcaption>{0}</figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{0}\">",
        escaped(title)
    )
}

/// Returns the names of colors. A single one needs no legend.
fn legend<'a>(entries: impl Iterator<Item = (&'a str, usize)>) -> String {
    let mut spans = Vec::new();
    for (name, color) in entries {
        spans.push(format!("<span class=\"c{color}\">{}</span>", escaped(name)));
    }
    if spans.len() < 2 { String::new() } else { format!("<p class=\"legend\">{}</p>", spans.join(" ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: Axis<'_> = Axis { name: "epoch", unit: Unit::Number };
    const SHARE: Axis<'_> = Axis { name: "", unit: Unit::Share };

    fn series(name: &str, points: Vec<(f64, f64)>) -> Series {
        Series { name: name.into(), color: 2, points, best: None }
    }

    #[test]
    fn a_chart_has_every_point_and_no_markup_of_names() {
        let points = vec![(1.0, 0.5), (2.0, 0.25), (3.0, 0.125)];
        let svg = lines("loss", EPOCH, SHARE, &[series("<b>&\"run", points.clone()), series("b", points)]);
        assert_eq!((svg.matches("<circle").count(), svg.matches("<polyline").count()), (6, 2));
        assert!(
            svg.contains("epoch 3: 12.5 %") && svg.contains("&lt;b&gt;&amp;&quot;run") && !svg.contains("<b>"),
            "{svg}"
        );
        let many = [series("many", (0..100).map(|x| (f64::from(x), 1.0)).collect())];
        assert!(!lines("many", EPOCH, SHARE, &many).contains("<circle"));
        assert_eq!(lines("nothing", EPOCH, SHARE, &[]), "");
        // One point is drawn in the middle, and one line needs no legend.
        let one = lines("one", EPOCH, SHARE, &[series("one", vec![(1.0, 7.0)])]);
        assert!(!one.contains("NaN") && !one.contains("legend"), "{one}");
    }

    #[test]
    fn the_best_point_is_marked_once() {
        let mut line = series("run", (1..=100).map(|x| (f64::from(x), 0.01 * f64::from(x))).collect());
        line.best = Some(80.0);
        let svg = lines("accuracy", EPOCH, SHARE, &[line]);
        assert_eq!(svg.matches("class=\"best c2\"").count(), 1);
        assert!(svg.contains(">best epoch 80: 80 %<"), "{svg}");
    }

    fn column(number: u32, others: &[f64]) -> Column {
        Column { number: number.into(), pieces: [&[f64::from(number)], others].concat() }
    }

    #[test]
    fn columns_have_all_epochs() {
        let all: Vec<Column> = (1..=30).map(|number| column(number, &[1.0])).collect();
        let svg = columns("time", "epoch", Unit::Seconds, &["waiting", "computing"], &all);
        assert_eq!(svg.matches("<rect").count(), 60);
        assert!(svg.contains("<title>epoch 30, waiting: 30 s</title>"), "{svg}");
        // The mean of the first seven of 2,000 columns.
        let many: Vec<Column> = (1..=2000).map(|number| column(number, &[])).collect();
        let svg = columns("time", "epoch", Unit::Seconds, &["waiting"], &many);
        assert_eq!(svg.matches("<rect").count(), 286);
        assert!(svg.contains("time, means of 7"));
        assert_eq!((mean_of(&many[..7], 1).number, &mean_of(&many[..7], 1).pieces[..]), (1, &[4.0][..]));
        assert_eq!(columns("nothing", "epoch", Unit::Seconds, &["waiting"], &[]), "");
    }

    #[test]
    fn bars_have_their_sum() {
        let rows = [Bar { name: "rank <0>".into(), pieces: vec![0.5, 1.5] }];
        let html = bars("time", Unit::Seconds, &["waiting", "computing"], &rows);
        assert!(html.contains("width:25.00%\" title=\"rank &lt;0&gt;, waiting: 500 ms\""), "{html}");
        assert!(html.contains("<span>2 s</span>"), "{html}");
    }
}
