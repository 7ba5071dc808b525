use super::{Anchor, Item, Paint, Scene, Theme};
use crate::html::escape;
use std::fmt::Write;

pub(super) const FAMILY: &str = "Roboto, system-ui, 'Segoe UI', 'Liberation Sans', Arial, sans-serif";

/// The scene as a file of its own, for papers and slides: its colours and what its marks say are in it.
pub fn to_svg(scene: &Scene, theme: Theme) -> String {
    let mut svg = head(scene);
    let (width, height) = (short(scene.width), short(scene.height));
    let paper = Paint::Paper.hex(theme);
    put(
        &mut svg,
        format_args!(" font-family=\"{FAMILY}\"><rect width=\"{width}\" height=\"{height}\" fill=\"{paper}\"/>"),
    );
    for item in &scene.items {
        write_item(&mut svg, item, theme);
    }
    svg + "</svg>"
}

/// The start of the element, still open for more attributes.
pub(super) fn head(scene: &Scene) -> String {
    let (width, height) = (short(scene.width), short(scene.height));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\"",
        escape(&scene.label)
    )
}

fn write_item(svg: &mut String, item: &Item, theme: Theme) {
    match item {
        Item::Open { title } => {
            put(svg, format_args!("<g class=\"m\"><title>{}</title>", escape(title)));
        }
        Item::Close => svg.push_str("</g>"),
        Item::Line { points, paint, width, dashed, opacity } => {
            let opacity = opacity_attribute(*opacity);
            let dash = if *dashed { " stroke-dasharray=\"5 4\"" } else { "" };
            put(
                svg,
                format_args!(
                    "<path {} stroke-width=\"{}\"{dash}{opacity} stroke-linejoin=\"round\" d=\"{}\"/>",
                    stroke(*paint, theme),
                    short(*width),
                    path(points, false)
                ),
            );
        }
        Item::Area { points, paint, opacity } => {
            let opacity = opacity_attribute(*opacity);
            put(svg, format_args!("<path {}{opacity} d=\"{}\"/>", fill(*paint, theme), path(points, true)));
        }
        Item::Dot { at, marker, radius, paint, opacity, .. } => {
            let fill = fill(*paint, theme);
            let opacity = opacity_attribute(*opacity);
            let place = format!("transform=\"translate({} {})\"", short(at.0), short(at.1));
            match marker.corners(*radius) {
                None => put(svg, format_args!("<circle {fill}{opacity} {place} r=\"{}\"/>", short(*radius))),
                Some(corners) => {
                    put(svg, format_args!("<path {fill}{opacity} {place} d=\"{}\"/>", path(&corners, true)))
                }
            }
        }
        Item::Text { at: (x, y), text, size, anchor, upwards, paint } => {
            let (x, y) = (short(*x), short(*y));
            let anchor = anchor_attribute(*anchor);
            let turn = turn_attribute(*upwards, &x, &y);
            put(
                svg,
                format_args!(
                    "<text {} x=\"{x}\" y=\"{y}\" font-size=\"{}\"{anchor}{turn}>{}</text>",
                    fill(*paint, theme),
                    short(*size),
                    escape(text)
                ),
            );
        }
    }
}

fn fill(paint: Paint, theme: Theme) -> String {
    format!("fill=\"{}\"", paint.hex(theme))
}

fn stroke(paint: Paint, theme: Theme) -> String {
    format!("fill=\"none\" stroke=\"{}\"", paint.hex(theme))
}

/// Which end of a text lies where it is put; the start needs no word.
pub(super) fn anchor_attribute(anchor: Anchor) -> &'static str {
    match anchor {
        Anchor::Start => "",
        Anchor::Middle => " text-anchor=\"middle\"",
        Anchor::End => " text-anchor=\"end\"",
    }
}

/// The turn of a text at `x`, `y` that runs upwards.
pub(super) fn turn_attribute(upwards: bool, x: &str, y: &str) -> String {
    if upwards { format!(" transform=\"rotate(-90 {x} {y})\"") } else { String::new() }
}

fn opacity_attribute(opacity: f64) -> String {
    if opacity < 1.0 { format!(" opacity=\"{}\"", short(opacity)) } else { String::new() }
}

/// A line through points; along an axis one number tells where it goes.
pub(super) fn path(points: &[(f64, f64)], closed: bool) -> String {
    let mut text = String::new();
    let mut before: Option<(String, String)> = None;
    for (x, y) in points {
        let at = (short(*x), short(*y));
        match &before {
            None => put(&mut text, format_args!("M{} {}", at.0, at.1)),
            Some(before) if before.0 == at.0 => put(&mut text, format_args!("V{}", at.1)),
            Some(before) if before.1 == at.1 => put(&mut text, format_args!("H{}", at.0)),
            Some(_) => put(&mut text, format_args!("L{} {}", at.0, at.1)),
        }
        before = Some(at);
    }
    if closed {
        text.push('Z');
    }
    text
}

/// A number with at most two digits behind the point.
pub(super) fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

pub(super) fn put(text: &mut String, what: std::fmt::Arguments) {
    text.write_fmt(what).expect("a string takes any text");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scene() -> Scene {
        let mut scene = Scene::new(40.0, 30.5, "a <b>");
        scene.items.push(Item::Open { title: "x & \"y\"".to_owned() });
        scene.items.push(Item::Dot {
            at: (1.25, -0.001),
            marker: super::super::Marker::Circle,
            radius: 3.0,
            paint: Paint::Series(1),
            opacity: 0.5,
            moves: true,
        });
        scene.items.push(Item::Close);
        scene
    }

    #[test]
    fn a_file_holds_its_colours_and_what_its_marks_say() {
        assert_eq!(
            to_svg(&scene(), Theme::Dark),
            format!(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" role=\"img\" aria-label=\"a &lt;b&gt;\" viewBox=\"0 0 40 30.5\" \
                 width=\"40\" height=\"30.5\" font-family=\"{FAMILY}\"><rect width=\"40\" height=\"30.5\" fill=\"#14181d\"/>\
                 <g class=\"m\"><title>x &amp; &quot;y&quot;</title>\
                 <circle fill=\"#f5a05a\" opacity=\"0.5\" transform=\"translate(1.25 0)\" r=\"3\"/></g></svg>"
            )
        );
    }

    #[test]
    fn lines_along_an_axis_are_short() {
        let points = [(1.0, 2.0), (1.0, 5.5), (4.0, 5.5), (3.0, 1.0)];
        assert_eq!(path(&points, true), "M1 2V5.5H4L3 1Z");
        assert_eq!(path(&[], false), "");
    }
}
