use super::{Anchor, Item, Paint, Scene, Theme};
use crate::html::escape;
use std::fmt::Write;

/// Where an SVG's colours come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SvgStyle {
    /// From the style sheet of the page it stands in; see [`chart_rules`].
    Themed,
    /// From the file itself, for papers and slides.
    Fixed(Theme),
}

const FAMILY: &str = "Roboto, system-ui, 'Segoe UI', 'Liberation Sans', Arial, sans-serif";

/// The rules themed charts need: one class for filling and one for drawing per colour.
pub fn chart_rules() -> String {
    let mut rules = format!(".chart text{{font-family:{FAMILY}}}");
    let fixed = [Paint::Ink, Paint::Muted, Paint::Grid, Paint::Paper];
    for paint in fixed
        .into_iter()
        .chain((0..super::SERIES).map(Paint::Series))
    {
        let name = paint.name();
        put(
            &mut rules,
            format_args!(
                ".f-{name}{{fill:var(--{name})}}.s-{name}{{stroke:var(--{name});fill:none}}"
            ),
        );
    }
    rules
}

/// The scene as an SVG element.
pub fn to_svg(scene: &Scene, style: SvgStyle) -> String {
    let mut svg = String::new();
    let (width, height) = (short(scene.width), short(scene.height));
    let label = escape(&scene.label);
    put(
        &mut svg,
        format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" role=\"img\" aria-label=\"{label}\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\""
        ),
    );
    if let SvgStyle::Fixed(theme) = style {
        let paper = Paint::Paper.hex(theme);
        put(
            &mut svg,
            format_args!(
                " font-family=\"{FAMILY}\"><rect width=\"{width}\" height=\"{height}\" fill=\"{paper}\"/>"
            ),
        );
    } else {
        svg.push('>');
    }
    for item in &scene.items {
        write_item(&mut svg, item, style);
    }
    svg + "</svg>"
}

fn write_item(svg: &mut String, item: &Item, style: SvgStyle) {
    match item {
        Item::Open { title } => {
            put(
                svg,
                format_args!("<g class=\"m\"><title>{}</title>", escape(title)),
            );
        }
        Item::Close => svg.push_str("</g>"),
        Item::Line {
            points,
            paint,
            width,
            dashed,
            opacity,
        } => {
            let opacity = opacity_attribute(*opacity);
            let dash = if *dashed {
                " stroke-dasharray=\"5 4\""
            } else {
                ""
            };
            put(
                svg,
                format_args!(
                    "<path {} stroke-width=\"{}\"{dash}{opacity} stroke-linejoin=\"round\" d=\"{}\"/>",
                    stroke(*paint, style),
                    short(*width),
                    path(points, false)
                ),
            );
        }
        Item::Area {
            points,
            paint,
            opacity,
        } => {
            let opacity = opacity_attribute(*opacity);
            put(
                svg,
                format_args!(
                    "<path {}{opacity} d=\"{}\"/>",
                    fill(*paint, style),
                    path(points, true)
                ),
            );
        }
        Item::Dot {
            at,
            marker,
            radius,
            paint,
            opacity,
            moves,
        } => {
            let fill = if *moves {
                fill(*paint, style).replace("class=\"", "class=\"mv ")
            } else {
                fill(*paint, style)
            };
            let opacity = opacity_attribute(*opacity);
            let place = format!("transform=\"translate({} {})\"", short(at.0), short(at.1));
            match marker.corners(*radius) {
                None => put(
                    svg,
                    format_args!("<circle {fill}{opacity} {place} r=\"{}\"/>", short(*radius)),
                ),
                Some(corners) => put(
                    svg,
                    format_args!(
                        "<path {fill}{opacity} {place} d=\"{}\"/>",
                        path(&corners, true)
                    ),
                ),
            }
        }
        Item::Text {
            at: (x, y),
            text,
            size,
            anchor,
            upwards,
            paint,
        } => {
            let (x, y) = (short(*x), short(*y));
            let anchor = match anchor {
                Anchor::Start => "",
                Anchor::Middle => " text-anchor=\"middle\"",
                Anchor::End => " text-anchor=\"end\"",
            };
            let turn = if *upwards {
                format!(" transform=\"rotate(-90 {x} {y})\"")
            } else {
                String::new()
            };
            put(
                svg,
                format_args!(
                    "<text {} x=\"{x}\" y=\"{y}\" font-size=\"{}\"{anchor}{turn}>{}</text>",
                    fill(*paint, style),
                    short(*size),
                    escape(text)
                ),
            );
        }
    }
}

fn fill(paint: Paint, style: SvgStyle) -> String {
    match style {
        SvgStyle::Themed => format!("class=\"f-{}\"", paint.name()),
        SvgStyle::Fixed(theme) => format!("fill=\"{}\"", paint.hex(theme)),
    }
}

fn stroke(paint: Paint, style: SvgStyle) -> String {
    match style {
        SvgStyle::Themed => format!("class=\"s-{}\"", paint.name()),
        SvgStyle::Fixed(theme) => format!("fill=\"none\" stroke=\"{}\"", paint.hex(theme)),
    }
}

fn opacity_attribute(opacity: f64) -> String {
    if opacity < 1.0 {
        format!(" opacity=\"{}\"", short(opacity))
    } else {
        String::new()
    }
}

fn path(points: &[(f64, f64)], closed: bool) -> String {
    let mut text = String::new();
    for (number, (x, y)) in points.iter().enumerate() {
        let step = if number == 0 { 'M' } else { 'L' };
        put(&mut text, format_args!("{step}{} {}", short(*x), short(*y)));
    }
    if closed {
        text.push('Z');
    }
    text
}

/// A number with at most two digits behind the point.
fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" {
        "0".to_owned()
    } else {
        text.to_owned()
    }
}

fn put(text: &mut String, what: std::fmt::Arguments) {
    text.write_fmt(what).expect("a string takes any text");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scene() -> Scene {
        let mut scene = Scene::new(40.0, 30.5, "a <b>");
        scene.items.push(Item::Open {
            title: "x & \"y\"".to_owned(),
        });
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
    fn themed_charts_name_classes_and_fixed_ones_colours() {
        assert_eq!(
            to_svg(&scene(), SvgStyle::Themed),
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" role=\"img\" aria-label=\"a &lt;b&gt;\" viewBox=\"0 0 40 30.5\" \
             width=\"40\" height=\"30.5\"><g class=\"m\"><title>x &amp; &quot;y&quot;</title>\
             <circle class=\"mv f-c1\" opacity=\"0.5\" transform=\"translate(1.25 0)\" r=\"3\"/></g></svg>"
        );
        let fixed = to_svg(&scene(), SvgStyle::Fixed(Theme::Dark));
        assert!(fixed.contains("fill=\"#f5a05a\"") && !fixed.contains("var("));
    }

    #[test]
    fn every_class_a_chart_uses_has_a_rule() {
        let rules = chart_rules();
        for paint in [Paint::Ink, Paint::Grid, Paint::Series(9)] {
            assert!(rules.contains(&format!(".f-{}{{", paint.name())));
            assert!(rules.contains(&format!(".s-{}{{", paint.name())));
        }
    }
}
