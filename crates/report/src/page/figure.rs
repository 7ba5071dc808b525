use crate::chart::{Figure, Panel, SvgStyle, to_svg};
use crate::figures::Shown;
use crate::html::{escape, escape_json};
use crate::table::{Table, TableCell};
use serde_json::json;

/// Most rows of the table behind a figure.
const MOST_ROWS: usize = 3000;

/// A figure with its buttons, its slider if it moves, and the numbers behind it.
pub(super) fn render(name: &str, number: usize, shown: &Shown) -> String {
    let Some(first) = shown.frames.first() else {
        return String::new();
    };
    let mut html = format!("<div class=\"figure\" data-figure=\"{name}-{number}\">");
    if !shown.title.is_empty() {
        html += &format!("<h3>{}</h3>", escape(&shown.title));
    }
    let moves = shown.frames.len() > 1;
    if moves {
        html += &slider(name, number, shown);
    }
    html += &format!(
        "<div class=\"panels{}\">",
        if first.panels.len() == 1 {
            " single"
        } else {
            ""
        }
    );
    for (place, panel) in first.panels.iter().enumerate() {
        let file = format!("{name}-{number}-{}", place + 1);
        html += &panel_html(panel, &file);
    }
    html += "</div>";
    if moves {
        html += &frames_json(shown);
    } else {
        html += &data_table(name, number, first);
    }
    html + "</div>"
}

fn panel_html(panel: &Panel, file: &str) -> String {
    let scene = panel.draw(panel.width, panel.height);
    let svg = to_svg(&scene, SvgStyle::Themed).replacen("<svg ", "<svg tabindex=\"0\" ", 1);
    format!(
        "<figure>{svg}<figcaption><output class=\"readout\" aria-live=\"polite\">\u{a0}</output>\
         <button type=\"button\" class=\"get\" data-svg=\"{file}.svg\" aria-label=\"Download this chart as SVG: {}\">SVG</button></figcaption></figure>",
        escape(&panel.label)
    )
}

fn slider(name: &str, number: usize, shown: &Shown) -> String {
    let id = format!("slider-{name}-{number}");
    format!(
        "<div class=\"slider\"><button type=\"button\" class=\"play\" aria-label=\"Play\">\u{25b6}</button>\
         <label for=\"{id}\">Frame</label><input id=\"{id}\" type=\"range\" min=\"0\" max=\"{}\" step=\"1\" value=\"0\">\
         <output for=\"{id}\">{}</output></div>",
        shown.frames.len() - 1,
        escape(shown.captions.first().map_or("", String::as_str))
    )
}

/// Where every moving dot is in every frame, in pixels, for the script.
fn frames_json(shown: &Shown) -> String {
    let tenths = |x: f64| (10.0 * x).round() / 10.0;
    let frames: Vec<Vec<f64>> = shown
        .frames
        .iter()
        .map(|figure| {
            let scenes = figure.panels.iter().map(|p| p.draw(p.width, p.height));
            let dots = scenes.flat_map(|scene| scene.moving());
            dots.flat_map(|(x, y)| [tenths(x), tenths(y)]).collect()
        })
        .collect();
    let value = json!({"captions": shown.captions, "frames": frames});
    format!(
        "<script type=\"application/json\" class=\"frames\">{}</script>",
        escape_json(&value.to_string())
    )
}

/// The numbers behind a still figure.
fn data_table(name: &str, number: usize, figure: &Figure) -> String {
    let intervals = figure
        .panels
        .iter()
        .flat_map(|panel| &panel.marks)
        .any(is_interval);
    let mut columns = vec!["chart", "mark", ">x", ">y"];
    if intervals {
        columns.extend([">low", ">high"]);
    }
    let mut table = Table::new(
        &format!("figure-{name}-{number}"),
        &format!("{}: the numbers behind it", figure.label),
        &columns,
    );
    for panel in &figure.panels {
        for mark in panel.marks.iter().filter(|mark| !mark.title.is_empty()) {
            if matches!(mark.shape, crate::chart::MarkShape::Label) {
                continue;
            }
            let places = if is_interval(mark) {
                1
            } else {
                mark.points.len()
            };
            for (x, y) in mark.points.iter().take(places) {
                let number = |value: f64| TableCell {
                    text: format!("{:.4}", value),
                    value: Some(value),
                    ..TableCell::default()
                };
                let mut row = vec![
                    TableCell::text(&panel.title),
                    TableCell::text(&mark.title),
                    number(*x),
                    number(*y),
                ];
                if intervals {
                    let end = |place: usize| match mark.points.get(place) {
                        // Rows of datasets have intervals along the other axis.
                        Some(point) if is_interval(mark) && point.1 == *y => number(point.0),
                        Some(point) if is_interval(mark) => number(point.1),
                        _ => TableCell::text("\u{2013}"),
                    };
                    row.extend([end(1), end(2)]);
                }
                table.rows.push(row);
            }
        }
    }
    let rows = table.rows.len();
    table.rows.truncate(MOST_ROWS);
    let cut = if rows > MOST_ROWS {
        format!(", the first {MOST_ROWS} of {rows}")
    } else {
        String::new()
    };
    folded(&format!("Numbers behind this figure{cut}"), &table)
}

fn is_interval(mark: &crate::chart::Mark) -> bool {
    matches!(mark.shape, crate::chart::MarkShape::Dot { .. }) && mark.points.len() == 3
}

/// A table with its download.
pub(super) fn table(table: &Table) -> String {
    format!(
        "<div class=\"table\">{}<button type=\"button\" class=\"get\" data-csv=\"{1}.csv\" aria-label=\"Download this table as CSV: {2}\">CSV</button></div>",
        table.to_html(),
        escape(&table.name),
        escape(&table.caption)
    )
}

/// A table that is closed at first.
pub(super) fn folded(summary: &str, content: &Table) -> String {
    format!(
        "<details class=\"data\"><summary>{}</summary>{}</details>",
        escape(summary),
        table(content)
    )
}
