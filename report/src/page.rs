//! The page of a report.

/// Colors of up to eight series, which are distinct for color-blind readers too (Okabe and Ito 2008).
const STYLE: &str = "
:root { color-scheme: light dark; --text: #1b1b1b; --back: #ffffff; --soft: #6b6b6b; --grid: #dddddd; --heat: #56b4e9; }
@media (prefers-color-scheme: dark) { :root { --text: #e8e8e8; --back: #16181c; --soft: #a0a0a0; --grid: #3a3d43; --heat: #0072b2; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back); margin: 0 auto; max-width: 1400px; padding: 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin: 2rem 0 0.5rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 420px), 1fr)); gap: 1rem; }
figure { margin: 0; min-width: 0; } figcaption { font-weight: 600; } svg { width: 100%; height: auto; display: block; }
svg text { font-size: 12px; fill: var(--soft); } svg .y { text-anchor: end; } svg .x { text-anchor: middle; }
.grid { stroke: var(--grid); } .line { fill: none; stroke-width: 2; stroke: var(--c); } .dot, .bar { fill: var(--c); }
.legend { margin: 0.2rem 0; color: var(--soft); } .legend span::before { content: ''; display: inline-block; width: 0.8em; height: 0.8em; margin: 0 0.3em 0 0.6em; background: var(--c); }
.c0 { --c: #0072b2; } .c1 { --c: #d55e00; } .c2 { --c: #009e73; } .c3 { --c: #cc79a7; } .c4 { --c: #e69f00; } .c5 { --c: #56b4e9; } .c6 { --c: #999933; } .c7 { --c: #882255; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; } th, td { padding: 0.2rem 0.7rem; text-align: right; border-bottom: 1px solid var(--grid); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
.matrix td, .matrix th { text-align: right; border: 1px solid var(--grid); } .matrix td { background: color-mix(in srgb, var(--heat) var(--share), transparent); }
.small td, .small th { padding: 0; font-size: 9px; min-width: 12px; height: 12px; }
@media (max-width: 600px) { svg text { font-size: 19px; } svg .dot { r: 5px; } .line { stroke-width: 3; } }
";

/// A page of sections.
pub struct Page {
    html: String,
}

impl Page {
    /// Begins a page. The title is its first heading too.
    pub fn new(title: &str) -> Self {
        let title = escaped(title);
        Self {
            html: format!(
                "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" \
                 content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n<style>{STYLE}</style></head>\n\
                 <body><h1>{title}</h1>\n"
            ),
        }
    }

    /// Adds a section of HTML. Nothing is added without content.
    pub fn section(&mut self, title: &str, content: &str) {
        if !content.is_empty() {
            self.html += &format!("<h2>{}</h2>\n{content}\n", escaped(title));
        }
    }

    /// Adds a section of charts, side by side where the window is wide enough.
    pub fn charts(&mut self, title: &str, charts: &[String]) {
        let charts = charts.concat();
        if !charts.is_empty() {
            self.section(title, &format!("<div class=\"charts\">{charts}</div>"));
        }
    }

    /// Returns the page.
    pub fn finish(self) -> String {
        self.html + "</body></html>\n"
    }
}

/// Formats a table. The first row is its head. Returns an empty text without further rows.
pub fn table(rows: &[Vec<String>]) -> String {
    let row = |cells: &Vec<String>, tag: &str| {
        let cells = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell)));
        format!("<tr>{}</tr>", cells.collect::<String>())
    };
    let Some((head, body)) = rows.split_first().filter(|(_, body)| !body.is_empty()) else { return String::new() };
    let body: String = body.iter().map(|cells| row(cells, "td")).collect();
    format!("<div class=\"scroll\"><table><thead>{}</thead><tbody>{body}</tbody></table></div>", row(head, "th"))
}

/// Replaces the characters that HTML gives a meaning.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
