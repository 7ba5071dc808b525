use super::svg::{FAMILY, anchor_attribute, head, path, put, short, turn_attribute};
use super::{Item, Paint, Scene};
use crate::html::escape;

/// The rules inline charts need: classes for filling, drawing and both per colour, and what marks have in common.
pub fn chart_rules() -> String {
    let mut rules = format!(
        ".chart text{{font-family:{FAMILY}}}.chart path{{stroke-linejoin:round}}\
         .mi>*>path:first-of-type{{fill:none;stroke-width:1.2px;stroke-opacity:.55}}.mi>*>circle,.mi>*>path+path{{stroke:none}}"
    );
    let fixed = [Paint::Ink, Paint::Muted, Paint::Grid, Paint::Paper];
    for paint in fixed.into_iter().chain((0..super::SERIES).map(Paint::Series)) {
        let name = paint.name();
        put(
            &mut rules,
            format_args!(
                ".f-{name}{{fill:var(--{name})}}.s-{name}{{stroke:var(--{name});fill:none}}.b-{name}{{fill:var(--{name});stroke:var(--{name})}}"
            ),
        );
    }
    rules
}

/// The scene as a part of a page, with colours from its style sheet ([`chart_rules`]). What marks say is not in it: the page
/// has it in the order of the marks. Neighbours that look alike stand in one group, which says how they look.
///
/// Marks are the elements of class `m` and the children of groups of class `ms` (points) and `mi` (points with an
/// interval).
pub fn to_inline_svg(scene: &Scene) -> String {
    let mut svg = head(scene) + ">";
    let mut open = String::new();
    let mut rest = scene.items.as_slice();
    while !rest.is_empty() {
        let (part, length) = next_part(rest);
        rest = &rest[length..];
        if part.group != open {
            if !open.is_empty() {
                svg += "</g>";
            }
            if !part.group.is_empty() {
                put(&mut svg, format_args!("<g {}>", part.group));
            }
            open = part.group;
        }
        svg += &part.element;
    }
    if !open.is_empty() {
        svg += "</g>";
    }
    svg + "</svg>"
}

/// What is written at once, and the attributes of the group it may share with its neighbours.
struct Part {
    group: String,
    element: String,
}

/// The first part of some items, and how many items it takes.
fn next_part(items: &[Item]) -> (Part, usize) {
    match items {
        [Item::Open { .. }, dot @ Item::Dot { .. }, Item::Close, ..] => (point(dot, "ms "), 3),
        [Item::Open { .. }, Item::Line { points, .. }, dot @ Item::Dot { paint, .. }, Item::Close, ..] => {
            let Part { group, element } = point(dot, "mi ");
            let part = Part {
                group: group.replace(&class_of("f", *paint), &class_of("b", *paint)),
                element: format!("<g><path d=\"{}\"/>{element}</g>", path(points, false)),
            };
            (part, 4)
        }
        [Item::Open { .. }, item, Item::Close, ..] => {
            let Part { group, element } = alone(item);
            let part = Part { group: String::new(), element: format!("<g class=\"m\"><g {group}>{element}</g></g>") };
            (part, 3)
        }
        [line @ Item::Line { opacity, .. }, ..] if *opacity >= 1.0 => lines(line, items),
        [item, ..] => (alone(item), 1),
        [] => unreachable!("callers stop at the end"),
    }
}

/// Lines that look alike and are no marks are one path.
fn lines(first: &Item, items: &[Item]) -> (Part, usize) {
    let look = alone(first).group;
    let mut along = String::new();
    let mut length = 0;
    for item in items {
        match item {
            Item::Line { points, .. } if alone(item).group == look => along += &path(points, false),
            _ => break,
        }
        length += 1;
    }
    let part = Part { group: String::new(), element: format!("<path {look} d=\"{along}\"/>") };
    (part, length)
}

/// An item that is no mark, or the only item of one.
fn alone(item: &Item) -> Part {
    match item {
        Item::Open { .. } => Part { group: String::new(), element: "<g class=\"m\">".to_owned() },
        Item::Close => Part { group: String::new(), element: "</g>".to_owned() },
        Item::Line { points, paint, width, dashed, opacity } => {
            let dash = if *dashed { " stroke-dasharray=\"5 4\"" } else { "" };
            Part {
                group: format!(
                    "class=\"{}\" stroke-width=\"{}\"{dash}{}",
                    class_of("s", *paint),
                    short(*width),
                    opacity_attribute("stroke-opacity", *opacity)
                ),
                element: format!("<path d=\"{}\"/>", path(points, false)),
            }
        }
        Item::Area { points, paint, opacity } => Part {
            group: format!("class=\"{}\"{}", class_of("f", *paint), opacity_attribute("fill-opacity", *opacity)),
            element: format!("<path d=\"{}\"/>", path(points, true)),
        },
        Item::Dot { .. } => point(item, ""),
        Item::Text { at: (x, y), text, size, anchor, upwards, paint } => {
            let (x, y) = (short(*x), short(*y));
            let anchor = anchor_attribute(*anchor);
            let turn = turn_attribute(*upwards, &x, &y);
            Part {
                group: format!("class=\"{}\" font-size=\"{}\"{anchor}", class_of("f", *paint), short(*size)),
                element: format!("<text x=\"{x}\" y=\"{y}\"{turn}>{}</text>", escape(text)),
            }
        }
    }
}

/// A point of a series; `class` says what its group is.
fn point(item: &Item, class: &str) -> Part {
    let Item::Dot { at, marker, radius, paint, opacity, moves } = item else {
        unreachable!("callers pass points");
    };
    let colour = class_of("f", *paint);
    let opacity = opacity_attribute("fill-opacity", *opacity);
    // Points that move are many and their colours take turns, so each names its own.
    let group = if *moves {
        format!("class=\"{}\"{opacity}", class.trim_end())
    } else {
        format!("class=\"{class}{colour}\"{opacity}")
    };
    let moved = |(x, y): &(f64, f64)| (at.0 + x, at.1 + y);
    let radius_text = short(*radius);
    let element = match (marker.corners(*radius), *moves) {
        (None, false) => format!("<circle cx=\"{}\" cy=\"{}\" r=\"{radius_text}\"/>", short(at.0), short(at.1)),
        (Some(corners), false) => {
            let corners: Vec<(f64, f64)> = corners.iter().map(moved).collect();
            format!("<path d=\"{}\"/>", path(&corners, true))
        }
        (shape, true) => {
            let place = format!("class=\"mv {colour}\" transform=\"translate({} {})\"", short(at.0), short(at.1));
            match shape {
                None => format!("<circle {place} r=\"{radius_text}\"/>"),
                Some(corners) => format!("<path {place} d=\"{}\"/>", path(&corners, true)),
            }
        }
    };
    Part { group, element }
}

fn class_of(what: &str, paint: Paint) -> String {
    format!("{what}-{}", paint.name())
}

fn opacity_attribute(name: &str, opacity: f64) -> String {
    if opacity < 1.0 { format!(" {name}=\"{}\"", short(opacity)) } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::Marker;

    fn dot(x: f64, series: usize) -> Item {
        Item::Dot {
            at: (x, 2.0),
            marker: Marker::of_series(series),
            radius: 3.0,
            paint: Paint::Series(series),
            opacity: 0.5,
            moves: false,
        }
    }

    fn line(x: f64, paint: Paint) -> Item {
        Item::Line { points: vec![(x, 1.0), (x, 4.0)], paint, width: 1.0, dashed: false, opacity: 1.0 }
    }

    fn drawn(marks: Vec<Vec<Item>>) -> String {
        let mut scene = Scene::new(40.0, 30.5, "a <b>");
        for mark in marks {
            let loose = mark.len() > 4;
            let title = "t".to_owned();
            if !loose {
                scene.items.push(Item::Open { title });
            }
            scene.items.extend(mark);
            if !loose {
                scene.items.push(Item::Close);
            }
        }
        let svg = to_inline_svg(&scene);
        let start = svg.find('>').expect("an element") + 1;
        svg[start..].to_owned()
    }

    #[test]
    fn neighbours_that_look_alike_share_a_group() {
        assert_eq!(
            drawn(vec![vec![dot(1.0, 0)], vec![dot(5.25, 0)], vec![dot(3.0, 1)]]),
            "<g class=\"ms f-c0\" fill-opacity=\"0.5\"><circle cx=\"1\" cy=\"2\" r=\"3\"/><circle cx=\"5.25\" cy=\"2\" r=\"3\"/></g>\
             <g class=\"ms f-c1\" fill-opacity=\"0.5\"><path d=\"M0.36 -0.64H5.64V4.64H0.36Z\"/></g></svg>"
        );
        assert_eq!(
            drawn(vec![vec![line(1.0, Paint::Series(0)), dot(1.0, 0)]]),
            "<g class=\"mi b-c0\" fill-opacity=\"0.5\"><g><path d=\"M1 1V4\"/><circle cx=\"1\" cy=\"2\" r=\"3\"/></g></g></svg>"
        );
    }

    #[test]
    fn helping_lines_are_one_path() {
        let grid = (0..5).map(|x| line(f64::from(x), Paint::Grid)).collect();
        assert_eq!(
            drawn(vec![grid]),
            "<path class=\"s-grid\" stroke-width=\"1\" d=\"M0 1V4M1 1V4M2 1V4M3 1V4M4 1V4\"/></svg>"
        );
        assert_eq!(
            drawn(vec![vec![line(1.0, Paint::Ink)]]),
            "<g class=\"m\"><g class=\"s-ink\" stroke-width=\"1\"><path d=\"M1 1V4\"/></g></g></svg>"
        );
    }

    #[test]
    fn every_class_a_chart_uses_has_a_rule() {
        let rules = chart_rules();
        for paint in [Paint::Ink, Paint::Grid, Paint::Series(9)] {
            for what in ["f", "s", "b"] {
                assert!(rules.contains(&format!(".{what}-{}{{", paint.name())));
            }
        }
    }
}
