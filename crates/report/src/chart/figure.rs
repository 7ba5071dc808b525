use super::{Panel, Scene};

/// One or more charts that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What it shows, for those who do not see it.
    pub label: String,
    /// Its charts, row by row.
    pub panels: Vec<Panel>,
    /// Charts in a row.
    pub columns: usize,
}

/// Wanted size in pixels; what is not given follows from the charts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Size {
    /// Width.
    pub width: Option<f64>,
    /// Height.
    pub height: Option<f64>,
}

impl Figure {
    /// Draws all charts in one scene.
    pub fn draw(&self, size: Size) -> Scene {
        let columns = self.columns.clamp(1, self.panels.len().max(1));
        let rows = self.panels.len().div_ceil(columns).max(1);
        let largest = |of: fn(&Panel) -> f64| self.panels.iter().map(of).fold(1.0, f64::max);
        let (natural_width, natural_height) =
            (largest(|panel| panel.width) * columns as f64, largest(|panel| panel.height) * rows as f64);
        // One given side keeps the proportions.
        let (width, height) = match (size.width, size.height) {
            (Some(width), Some(height)) => (width, height),
            (Some(width), None) => (width, natural_height * width / natural_width),
            (None, Some(height)) => (natural_width * height / natural_height, height),
            (None, None) => (natural_width, natural_height),
        };
        let (cell_width, cell_height) = (width / columns as f64, height / rows as f64);
        let mut scene = Scene::new(width, height, &self.label);
        for (number, panel) in self.panels.iter().enumerate() {
            let (row, column) = (number / columns, number % columns);
            let drawn = panel.draw(cell_width, cell_height);
            scene.place(drawn, column as f64 * cell_width, row as f64 * cell_height);
        }
        scene
    }
}
