//! Pages of sections: complete files, and pages that follow a run.

use crate::palette;
use std::fmt::Write;

/// The layout. A page needs no other file.
const STYLE: &str = include_str!("page.css");
/// The script of a page that follows a run.
const FOLLOW: &str = include_str!("follow.js");

/// A page of sections.
pub struct Page {
    title: String,
    sections: Vec<Section>,
}

/// A section of a page.
pub struct Section {
    /// The name in the page, which is unique.
    pub id: String,
    /// The content; empty for a section without content.
    pub html: String,
}

impl Page {
    /// Begins a page. The title is its first heading too.
    pub fn new(title: &str) -> Self {
        Self { title: escaped(title), sections: Vec::new() }
    }

    /// Adds a section of HTML. A complete page has no sections without content.
    pub fn section(&mut self, title: &str, content: &str) {
        let html = if content.is_empty() { String::new() } else { format!("<h2>{}</h2>\n{content}", escaped(title)) };
        self.push(title, html);
    }

    /// Adds a section of charts, side by side where the window is wide enough.
    pub fn charts(&mut self, title: &str, charts: &[String]) {
        let charts = charts.concat();
        let content = if charts.is_empty() { charts } else { format!("<div class=\"charts\">{charts}</div>") };
        self.section(title, &content);
    }

    /// Adds sections that are beside each other where the window is wide enough.
    pub fn beside(&mut self, sections: &[(&str, String)]) {
        let mut html = String::new();
        for (title, content) in sections.iter().filter(|(_, content)| !content.is_empty()) {
            // Writing to a string does not fail.
            let _ = write!(html, "<div><h2>{}</h2>\n{content}</div>", escaped(title));
        }
        let titles: Vec<&str> = sections.iter().map(|(title, _)| *title).collect();
        let html = if html.is_empty() { html } else { format!("<div class=\"beside\">{html}</div>") };
        self.push(&titles.join(" "), html);
    }

    fn push(&mut self, title: &str, html: String) {
        let id = title.to_lowercase().replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
        self.sections.push(Section { id, html });
    }

    /// Returns the sections, also those without content.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// Returns the page as a file of its own, without scripts.
    pub fn finish(self) -> String {
        self.html(false, "")
    }

    /// Returns a page that follows a run: a script asks for `sections.json` again and again, and replaces the sections
    /// that have changed. The answer is an array of objects with the fields of [`Section`].
    pub fn follow(self) -> String {
        // Without an icon a browser asks for one.
        let tail = format!(
            "<p id=\"connection\" role=\"status\"></p>\n<link rel=\"icon\" href=\"data:,\">\n<script>{FOLLOW}</script>\n"
        );
        self.html(true, &tail)
    }

    /// Returns the page. `has_empty` keeps sections that have no content yet.
    fn html(&self, has_empty: bool, tail: &str) -> String {
        let title = &self.title;
        let colors = palette::css();
        let mut html = format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" \
             content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n<style>\n{colors}\n{STYLE}</style></head>\n\
             <body><h1>{title}</h1>\n"
        );
        for Section { id, html: content } in self.sections.iter().filter(|found| has_empty || !found.html.is_empty()) {
            let _ = writeln!(html, "<section id=\"{id}\">{content}</section>");
        }
        html + tail + "</body></html>\n"
    }
}

/// Formats a table, which scrolls sideways in a narrow window. The first row is its head. Returns an empty text without
/// further rows.
pub fn table(rows: &[Vec<String>]) -> String {
    let Some((head, body)) = rows.split_first().filter(|(_, body)| !body.is_empty()) else { return String::new() };
    let body: String = body.iter().map(|cells| row(cells, "td")).collect();
    scrolling(&format!("<table><thead>{}</thead><tbody>{body}</tbody></table>", row(head, "th")))
}

fn row(cells: &[String], tag: &str) -> String {
    let mut html = "<tr>".to_owned();
    for cell in cells {
        let _ = write!(html, "<{tag}>{}</{tag}>", escaped(cell));
    }
    html + "</tr>"
}

/// Returns HTML that scrolls sideways in a narrow window. Shadows show that there is more, and keys scroll it too.
pub(crate) fn scrolling(html: &str) -> String {
    format!("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"table\">{html}</div>")
}

/// Formats pairs of a name and a value. Long values wrap. Returns an empty text without pairs.
pub fn definitions(pairs: &[(String, String)]) -> String {
    if pairs.is_empty() {
        return String::new();
    }
    let mut html = "<dl>".to_owned();
    for (name, value) in pairs {
        let _ = write!(html, "<div><dt>{}</dt><dd>{}</dd></div>", escaped(name), escaped(value));
    }
    html + "</dl>"
}

/// Returns content that is hidden until it is asked for. Returns an empty text without content.
pub fn folded(summary: &str, content: &str) -> String {
    if content.is_empty() {
        return String::new();
    }
    format!("<details><summary>{}</summary>{content}</details>", escaped(summary))
}

/// Draws a bar of the finished steps. `text` describes them.
pub fn progress(done: u64, all: u64, text: &str) -> String {
    format!("<p class=\"progress\"><progress max=\"{all}\" value=\"{done}\"></progress> {}</p>", escaped(text))
}

/// Replaces the characters that HTML gives a meaning.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_follows_a_run_keeps_empty_sections() {
        for follows in [false, true] {
            let mut page = Page::new("a <run>");
            page.section("Time by phase", "");
            page.charts("Curves", &["<figure></figure>".into()]);
            page.beside(&[("Results", definitions(&[("<a>".into(), "b".into())])), ("Run", String::new())]);
            let html = if follows { page.follow() } else { page.finish() };
            assert!(html.contains("<h1>a &lt;run&gt;</h1>") && html.contains("<dt>&lt;a&gt;</dt>"), "{html}");
            assert!(html.contains("<section id=\"curves\"><h2>Curves</h2>"), "{html}");
            assert_eq!(html.contains("<section id=\"time-by-phase\"></section>"), follows, "{html}");
            assert_eq!(html.contains("<script>"), follows, "{html}");
        }
    }
}
