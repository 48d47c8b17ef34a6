//! The colors of pages, for light and for dark displays.

use std::fmt::Write;

/// The colors of one scheme, each as `#rrggbb`.
struct Palette {
    /// Text.
    text: &'static str,
    /// The background.
    back: &'static str,
    /// Less important text, such as labels of axes.
    soft: &'static str,
    /// Lines between rows and at ticks.
    grid: &'static str,
    /// The full color of the cells of a matrix.
    heat: &'static str,
    /// The colors of series, which are distinct for color-blind readers too (after Okabe and Ito 2008).
    series: [&'static str; 8],
}

const LIGHT: Palette = Palette {
    text: "#1b1b1b",
    back: "#ffffff",
    soft: "#595959",
    grid: "#dddddd",
    heat: "#56b4e9",
    series: ["#0072b2", "#d55e00", "#009e73", "#b9568f", "#b07400", "#6a51c7", "#7d7d22", "#882255"],
};

const DARK: Palette = Palette {
    text: "#e8e8e8",
    back: "#16181c",
    soft: "#a8a8a8",
    grid: "#3a3d43",
    heat: "#00568a",
    series: ["#5aaeea", "#f2874b", "#35c49a", "#e39bc4", "#f0c04a", "#b3a8ff", "#bcbc5a", "#e0788f"],
};

/// Returns the declarations of the colors as variables, by the scheme of the display.
pub(crate) fn css() -> String {
    let light = LIGHT.css();
    let dark = DARK.css();
    let mut css = format!(
        ":root {{ color-scheme: light dark; {light}}}\n\
         @media (prefers-color-scheme: dark) {{ :root {{ {dark}}} }}\n"
    );
    for color in 0..LIGHT.series.len() {
        // Writing to a string does not fail.
        let _ = write!(css, ".c{color} {{ --c: var(--c{color}); }} ");
    }
    css
}

impl Palette {
    fn css(&self) -> String {
        let Self { text, back, soft, grid, heat, series } = self;
        let mut css = format!("--text: {text}; --back: {back}; --soft: {soft}; --grid: {grid}; --heat: {heat}; ");
        for (number, color) in series.iter().enumerate() {
            // Writing to a string does not fail.
            let _ = write!(css, "--c{number}: {color}; ");
        }
        css
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the three parts of a color, from 0 to 1.
    fn parts(color: &str) -> [f64; 3] {
        [1, 3, 5].map(|at| f64::from(u8::from_str_radix(&color[at..at + 2], 16).expect("a color")) / 255.0)
    }

    /// Returns the contrast of two colors as WCAG 2 defines it, from 1 to 21.
    fn contrast(a: [f64; 3], b: [f64; 3]) -> f64 {
        let [a, b] = [a, b].map(|color| {
            let [red, green, blue] =
                color.map(|part| if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) });
            0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05
        });
        if a > b { a / b } else { b / a }
    }

    #[test]
    fn contrasts_are_those_of_the_definition() {
        assert!((contrast(parts("#000000"), parts("#ffffff")) - 21.0).abs() < 1e-9);
        assert!((contrast(parts("#777777"), parts("#ffffff")) - 4.48).abs() < 0.01);
    }

    #[test]
    fn text_has_a_contrast_of_4_5() {
        for palette in [LIGHT, DARK] {
            let back = parts(palette.back);
            for color in [palette.text, palette.soft] {
                let found = contrast(parts(color), back);
                assert!(found >= 4.5, "{color} on {}: {found:.2}", palette.back);
            }
            // The color of a cell lies between the background and the full color.
            for percent in 0..=100 {
                let share = f64::from(percent) / 100.0;
                let heat = parts(palette.heat);
                let cell: [f64; 3] = std::array::from_fn(|at| share * heat[at] + (1.0 - share) * back[at]);
                let found = contrast(parts(palette.text), cell);
                assert!(found >= 4.5, "a cell of {percent} % on {}: {found:.2}", palette.back);
            }
        }
    }

    #[test]
    fn lines_and_bars_are_seen() {
        for (palette, least) in [(LIGHT, 3.0), (DARK, 4.5)] {
            for color in palette.series {
                let found = contrast(parts(color), parts(palette.back));
                assert!(found >= least, "{color} on {}: {found:.2}", palette.back);
            }
        }
    }
}
