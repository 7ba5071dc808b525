use super::series::Series;
use crate::chart::{Axis, AxisFormat, Mark, MarkShape, Panel};

/// Height of a row in pixels.
const ROW: f64 = 34.0;

/// Numbers in named rows, with one dot for each series that has a number there.
pub(crate) struct RowDots {
    /// The chart's title.
    pub title: String,
    /// What the numbers are.
    pub measure: String,
    /// How they read.
    pub format: AxisFormat,
    /// What the dots of a row are, in the order of the legend.
    pub series: Vec<String>,
    /// From top to bottom.
    pub rows: Vec<DotRow>,
}

/// A row of dots.
pub(crate) struct DotRow {
    /// What stands above them.
    pub name: String,
    /// A number or none for each series.
    pub values: Vec<Option<f64>>,
}

impl RowDots {
    /// The chart, unless there is no number.
    pub fn panel(&self, text: impl Fn(f64) -> String) -> Option<Panel> {
        let values: Vec<f64> = self.rows.iter().flat_map(|row| row.values.iter().flatten().copied()).collect();
        if values.is_empty() {
            return None;
        }
        let mut x = Axis::spanning(&self.measure, self.format, values.iter().copied().chain([0.0]));
        // Room for the names.
        x.low -= 0.05 * (x.high - x.low);
        let rows = self.rows.len() as f64;
        let y = Axis { label: String::new(), low: -rows, high: 0.2, format: AxisFormat::Hidden };
        let label = format!("{} of {} rows", self.measure, self.rows.len());
        let mut panel = Panel::new(&self.title, &label, x, y);
        panel.width = 620.0;
        panel.height = (90.0 + ROW * rows).max(180.0);
        let start = panel.x.low + 0.01 * (panel.x.high - panel.x.low);
        for (place, DotRow { name, values }) in self.rows.iter().enumerate() {
            let row = -(place as f64) - 0.65;
            panel.marks.push(Mark::label((start, row + 0.32), name));
            for (number, value) in values.iter().enumerate() {
                let Some(value) = value else {
                    continue;
                };
                let title = format!("{name}, {}: {}", self.series[number], text(*value));
                let mut dot = Mark::dot((*value, row), number, title);
                if let MarkShape::Dot { radius, .. } = &mut dot.shape {
                    *radius = 4.6;
                }
                panel.marks.push(dot);
            }
        }
        Series::in_order(&self.series).name_in(&mut panel);
        Some(panel)
    }
}
