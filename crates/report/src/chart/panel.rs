use super::font::Font;
use super::recorder::{Recorder, UNITS};
use super::{Anchor, Axis, AxisFormat, Item, Mark, Marker, Paint, Scene};
use plotters::chart::{ChartBuilder, LabelAreaPosition};
use plotters::drawing::IntoDrawingArea;
use plotters::element::{BackendCoordOnly, PathElement, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, IntoFont, ShapeStyle, TextStyle};
use std::convert::Infallible;

/// Size of the words of a legend in pixels.
const LABEL: f64 = 12.5;
/// Height of a line of the legend.
const LEGEND_LINE: f64 = 19.0;

/// How much of the usual trimmings a chart has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trim {
    /// Titles, ticks, and what the axes measure.
    Full,
    /// A small title and few ticks: one of many alike.
    Small,
}

/// Sizes in pixels.
struct Sizes {
    /// Of tick labels.
    label: f64,
    /// Of the title.
    title: f64,
    /// Of what axes measure.
    axis: f64,
    /// Room around the chart.
    margin: f64,
    /// Room for the ticks of the x axis.
    below: f64,
    /// Room beside the tick labels of the y axis.
    beside: f64,
    /// Ticks wanted.
    ticks: usize,
}

impl Trim {
    fn sizes(self) -> Sizes {
        match self {
            Self::Full => {
                Sizes { label: LABEL, title: 14.5, axis: 13.5, margin: 8.0, below: 42.0, beside: 34.0, ticks: 6 }
            }
            Self::Small => {
                Sizes { label: 9.0, title: 10.0, axis: 9.0, margin: 3.0, below: 15.0, beside: 9.0, ticks: 3 }
            }
        }
    }
}

/// What a series is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegendEntry {
    /// Its name.
    pub text: String,
    /// Its colour.
    pub paint: Paint,
    /// Its shape; a line has none.
    pub marker: Option<Marker>,
}

/// One chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// Its title; may be empty.
    pub title: String,
    /// What it shows, for those who do not see it.
    pub label: String,
    /// To the right.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// What is drawn.
    pub marks: Vec<Mark>,
    /// What the series are called.
    pub legend: Vec<LegendEntry>,
    /// Preferred width in pixels.
    pub width: f64,
    /// Preferred height in pixels.
    pub height: f64,
    /// How much it says about itself.
    pub trim: Trim,
}

impl Panel {
    /// An empty chart of the usual size.
    pub fn new(title: &str, label: &str, x: Axis, y: Axis) -> Self {
        Self {
            title: title.to_owned(),
            label: label.to_owned(),
            x,
            y,
            marks: Vec::new(),
            legend: Vec::new(),
            width: 460.0,
            height: 370.0,
            trim: Trim::Full,
        }
    }

    /// Names a series of points.
    pub fn name_points(&mut self, series: usize, text: &str) {
        self.legend.push(LegendEntry {
            text: text.to_owned(),
            paint: Paint::Series(series),
            marker: Some(Marker::of_series(series)),
        });
    }

    /// Names a series of lines.
    pub fn name_line(&mut self, paint: Paint, text: &str) {
        self.legend.push(LegendEntry { text: text.to_owned(), paint, marker: None });
    }

    /// Draws it in this size.
    pub fn draw(&self, width: f64, height: f64) -> Scene {
        let mut scene = Scene::new(width, height, &self.label);
        let top = self.draw_head(&mut scene);
        // The backend's errors have no values, so that drawing cannot fail.
        if let Err(error) = self.draw_chart(&mut scene, top) {
            unreachable!("drawing into memory failed: {error}");
        }
        scene
    }

    /// Title and legend; gives their height.
    fn draw_head(&self, scene: &mut Scene) -> f64 {
        let font = Font::new();
        let Sizes { title, margin, .. } = self.trim.sizes();
        let mut y = margin;
        if !self.title.is_empty() {
            y += title - 0.5;
            scene.items.push(Item::Text {
                at: (margin + 4.0, y),
                text: shortened(&font, &self.title, title, scene.width - 3.0 * margin),
                size: title,
                anchor: Anchor::Start,
                upwards: false,
                paint: Paint::Ink,
            });
            y += margin;
        }
        let (left, right) = (margin + 4.0, scene.width - margin);
        let mut x = left;
        for entry in &self.legend {
            let text = shortened(&font, &entry.text, LABEL, right - left - 24.0);
            // Where the font is missing, another one may be wider.
            let needed = 24.0 + 1.12 * font.width(&text, LABEL);
            if x > left && x + needed > right {
                x = left;
                y += LEGEND_LINE;
            }
            let middle = y + 0.5 * LEGEND_LINE;
            scene.items.push(match entry.marker {
                Some(marker) => Item::Dot {
                    at: (x + 8.0, middle),
                    marker,
                    radius: 4.5,
                    paint: entry.paint,
                    opacity: 1.0,
                    moves: false,
                },
                None => Item::Line {
                    points: vec![(x, middle), (x + 16.0, middle)],
                    paint: entry.paint,
                    width: 2.4,
                    dashed: false,
                    opacity: 1.0,
                },
            });
            scene.items.push(Item::Text {
                at: (x + 21.0, middle + 0.35 * LABEL),
                text,
                size: LABEL,
                anchor: Anchor::Start,
                upwards: false,
                paint: Paint::Ink,
            });
            x += needed + 14.0;
        }
        if self.legend.is_empty() { y } else { y + LEGEND_LINE + 4.0 }
    }

    fn draw_chart(
        &self,
        scene: &mut Scene,
        top: f64,
    ) -> Result<(), plotters::drawing::DrawingAreaErrorKind<Infallible>> {
        let units = |x: f64| (x * f64::from(UNITS)) as i32;
        let text = |size: f64, paint: Paint| -> TextStyle<'static> {
            ("sans-serif", f64::from(units(size))).into_font().color(&paint)
        };
        let font = Font::new();
        let sizes = self.trim.sizes();
        let (x_shown, y_shown) = (self.x.format != AxisFormat::Hidden, self.y.format != AxisFormat::Hidden);
        // Ticks are not known before plotters chose them; the ends are as wide as any of them.
        let ends = [self.y.low, self.y.high, 0.5 * (self.y.low + self.y.high)];
        let widest = ends.iter().map(|value| font.width(&self.y.text(*value), sizes.label)).fold(0.0, f64::max);
        let area = Recorder::new(scene).into_drawing_area();
        let mut builder = ChartBuilder::on(&area);
        builder
            .margin_top(units(top + 0.5 * sizes.margin))
            .margin_right(units(2.0 * sizes.margin))
            .margin_left(units(sizes.margin))
            .margin_bottom(units(sizes.margin));
        if x_shown {
            builder.x_label_area_size(units(sizes.below));
        }
        if y_shown {
            builder.y_label_area_size(units(widest + sizes.beside));
        }
        let mut chart = builder.build_cartesian_2d(self.x.low..self.x.high, self.y.low..self.y.high)?;
        let line = |paint: Paint, width: f64| ShapeStyle {
            color: paint.to_rgba(),
            filled: false,
            stroke_width: units(width) as u32,
        };
        let logarithmic = self.x.format == AxisFormat::Steps;
        let x_text = |v: &f64| match logarithmic {
            // These ticks are drawn below.
            true => String::new(),
            false => self.x.text(*v),
        };
        let y_text = |v: &f64| self.y.text(*v);
        let mut mesh = chart.configure_mesh();
        mesh.max_light_lines(0)
            .bold_line_style(line(Paint::Grid, 1.0))
            .light_line_style(line(Paint::Grid, 0.0))
            .axis_style(line(Paint::Muted, 1.0))
            .label_style(text(sizes.label, Paint::Muted))
            .axis_desc_style(text(sizes.axis, Paint::Ink))
            .set_all_tick_mark_size(units(4.0))
            .x_labels(sizes.ticks)
            .y_labels(sizes.ticks)
            .x_label_formatter(&x_text)
            .y_label_formatter(&y_text);
        let described = self.trim == Trim::Full;
        if !x_shown {
            mesh.disable_x_mesh().disable_x_axis();
        } else if described {
            mesh.x_desc(self.x.label.as_str());
        }
        if logarithmic {
            mesh.disable_x_mesh().set_tick_mark_size(LabelAreaPosition::Bottom, 0);
        }
        if !y_shown {
            mesh.disable_y_mesh().disable_y_axis();
        } else if described {
            mesh.y_desc(self.y.label.as_str());
        }
        mesh.draw()?;
        if logarithmic {
            let below = text(sizes.label, Paint::Muted).pos(Pos::new(HPos::Center, VPos::Top));
            let ticks = self.x.step_ticks();
            let grid = ticks.iter().map(|tick| {
                let at = self.x.place(*tick);
                let ends = vec![(at, self.y.low), (at, self.y.high)];
                PathElement::new(ends, line(Paint::Grid, 1.0))
            });
            chart.draw_series(grid)?;
            for tick in ticks {
                let (x, y) = chart.backend_coord(&(self.x.place(tick), self.y.low));
                let words = self.x.text(tick);
                area.draw(&Text::new(words, (x, y + units(4.0)), below.clone()))?;
            }
        }
        let placed = |mark: &Mark| {
            let points = mark.points.iter().map(|(x, y)| (self.x.place(*x), *y));
            Mark { points: points.collect(), ..mark.clone() }
        };
        let marks: Vec<Mark> = self.marks.iter().filter(|mark| mark.is_drawable()).map(placed).collect();
        chart.draw_series::<BackendCoordOnly, Mark, &Mark, _>(&marks)?;
        area.present()
    }
}

/// `text`, or as much of it as fits.
fn shortened(font: &Font, text: &str, size: f64, room: f64) -> String {
    if font.width(text, size) <= room {
        return text.to_owned();
    }
    let mut kept: String = text.to_owned();
    while !kept.is_empty() && font.width(&kept, size) + 0.9 * size > room {
        kept.pop();
    }
    kept.trim_end().to_owned() + "\u{2026}"
}
