use super::hash::base64_digits;
use crate::chart::{Figure, Mark, MarkShape, Scene, Size, Trim, to_inline_svg};
use crate::figures::Shown;
use crate::html::{escape, escape_json};
use crate::table::Table;
use serde_json::{Value, json};

/// Whether a figure has a table of the numbers behind it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Numbers {
    Here,
    Elsewhere,
}

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
    // Many small charts are one drawing; others stand beside each other as the page is wide.
    let small = first.panels.iter().all(|panel| panel.trim == Trim::Small);
    let class = match first.panels.len() {
        _ if small => " whole",
        1 => " single",
        _ => "",
    };
    html += &format!("<div class=\"panels{class}\">");
    if small {
        let scene = first.draw(Size::default());
        html += &drawing(&scene, &format!("{name}-{number}"));
    } else {
        for (place, panel) in first.panels.iter().enumerate() {
            let scene = panel.draw(panel.width, panel.height);
            html += &drawing(&scene, &format!("{name}-{number}-{}", place + 1));
        }
    }
    html += "</div>";
    // Small charts show what a larger figure before them shows.
    let table = if moves || small {
        Numbers::Elsewhere
    } else {
        html += &data_table(name, number, first);
        Numbers::Here
    };
    html + &data_json(shown, first, table) + "</div>"
}

fn drawing(scene: &Scene, file: &str) -> String {
    let svg = to_inline_svg(scene).replacen("<svg ", "<svg tabindex=\"0\" ", 1);
    format!(
        "<figure>{svg}<figcaption><output class=\"readout\" aria-live=\"polite\">\u{a0}</output>\
         <button type=\"button\" class=\"get\" data-svg=\"{file}.svg\" aria-label=\"Download this chart as SVG: {}\">SVG</button></figcaption></figure>",
        escape(&scene.label)
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

/// What every mark says and where it is, for the script: it reads marks out, makes the table behind the figure when it is
/// opened, and moves the dots of figures that move.
fn data_json(shown: &Shown, first: &Figure, table: Numbers) -> String {
    let moves = shown.frames.len() > 1;
    let panels: Vec<Value> = first
        .panels
        .iter()
        .map(|panel| {
            // Marks that cannot be drawn follow the others, so that the others keep the places of their drawings.
            let (drawn, left): (Vec<&Mark>, Vec<&Mark>) = panel
                .marks
                .iter()
                .filter(|mark| !mark.title.is_empty() && mark.shape != MarkShape::Label)
                .partition(|mark| mark.is_drawable());
            let mut before = "";
            let mut marks = Vec::new();
            for mark in drawn.into_iter().chain(left) {
                marks.push(mark_json(mark, before, table));
                before = &mark.title;
            }
            json!({"title": panel.title, "marks": marks})
        })
        .collect();
    let mut value = json!({ "panels": panels });
    if moves {
        value["captions"] = json!(shown.captions);
        let unit = first.panels.iter().map(|p| p.width.max(p.height));
        let unit = unit.fold(1.0, f64::max) / f64::from(LEVELS - 1);
        value["unit"] = json!(unit);
        value["frames"] = json!(frames(shown, unit));
    }
    format!("<script type=\"application/json\" class=\"figure-data\">{}</script>", escape_json(&value.to_string()))
}

/// `[shared, rest, x, y, x, y, ...]`, or `[shared, rest, x, y, low, high, null]` of an interval, which its odd number of values
/// tells. The title is the first `shared` letters of the one before and the rest. Marks without a table have no numbers.
fn mark_json(mark: &Mark, before: &str, table: Numbers) -> Value {
    let same = mark.title.chars().zip(before.chars());
    let shared = same.take_while(|(a, b)| a == b).count();
    let rest: String = mark.title.chars().skip(shared).collect();
    let mut entry = vec![json!(shared), json!(rest)];
    if table == Numbers::Elsewhere {
        return Value::Array(entry);
    }
    if let (true, [(x, y), low, high]) = (is_interval(mark), mark.points.as_slice()) {
        // Rows of datasets have intervals along the other axis.
        let [low, high] = [low, high].map(|end| if end.1 == *y { end.0 } else { end.1 });
        entry.extend([*x, *y, low, high].map(|value| json!(digits(value))));
        entry.push(Value::Null);
    } else {
        let places = mark.points.iter().flat_map(|(x, y)| [*x, *y]);
        entry.extend(places.map(|value| json!(digits(value))));
    }
    Value::Array(entry)
}

/// A number to six digits, which is more than a figure shows; the records have all.
fn digits(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// Places along an axis that two digits tell apart.
const LEVELS: u16 = 4096;

/// Where every moving dot is in every frame but the first, which is drawn: two digits of base 64 for each coordinate, in units.
fn frames(shown: &Shown, unit: f64) -> Vec<String> {
    let digits = |pixels: f64| {
        let level = (pixels / unit).round().clamp(0.0, f64::from(LEVELS - 1)) as u16;
        base64_digits(level)
    };
    let frame = |figure: &Figure| {
        let scenes = figure.panels.iter().map(|p| p.draw(p.width, p.height));
        let dots = scenes.flat_map(|scene| scene.moving());
        dots.flat_map(|(x, y)| [digits(x), digits(y)].into_iter().flatten()).collect()
    };
    shown.frames.iter().skip(1).map(frame).collect()
}

/// The place of the table behind a still figure.
fn data_table(name: &str, number: usize, figure: &Figure) -> String {
    format!(
        "<details class=\"data\" data-table=\"figure-{name}-{number}\" data-caption=\"{}\"><summary>Numbers behind this figure</summary></details>",
        escape(&format!("{}: the numbers behind it", figure.label))
    )
}

fn is_interval(mark: &Mark) -> bool {
    matches!(mark.shape, MarkShape::Dot { .. }) && mark.points.len() == 3
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
    format!("<details class=\"data\"><summary>{}</summary>{}</details>", escape(summary), table(content))
}
