use plotters::style::Color;
use plotters_backend::BackendColor;
use std::fmt::Write;

/// Colours that tell series apart.
pub const SERIES: usize = 10;

/// What a colour is for. Which colour that is depends on the theme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// Text and whatever has to stand out.
    Ink,
    /// Axes and their labels.
    Muted,
    /// Grid lines.
    Grid,
    /// What charts are drawn on.
    Paper,
    /// A series, counted round.
    Series(usize),
}

/// Light or dark ground.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// Dark on white.
    #[default]
    Light,
    /// Light on almost black.
    Dark,
}

/// Name, value on light ground, value on dark ground.
///
/// The series keep apart under the common colour vision deficiencies when taken from the front, which is why blue and
/// orange come first; each has a contrast of at least 3 to its ground.
const PALETTE: [(&str, &str, &str); 4 + SERIES] = [
    ("ink", "#1b2129", "#e8ebef"),
    ("muted", "#5a6572", "#a3adb8"),
    ("grid", "#dde2e7", "#323b45"),
    ("paper", "#ffffff", "#14181d"),
    ("c0", "#0b63b0", "#6db3f2"),
    ("c1", "#c4500a", "#f5a05a"),
    ("c2", "#1b7f5c", "#5ecfa5"),
    ("c3", "#8a3fa0", "#cf9be3"),
    ("c4", "#96700a", "#e3c24d"),
    ("c5", "#b3255d", "#f58ab1"),
    ("c6", "#127a8a", "#5fd0de"),
    ("c7", "#6b4a2b", "#cfa982"),
    ("c8", "#3d4ec4", "#9aa6ff"),
    ("c9", "#5b6470", "#c2cad3"),
];

impl Paint {
    /// Its row of the palette.
    fn row(self) -> usize {
        match self {
            Self::Ink => 0,
            Self::Muted => 1,
            Self::Grid => 2,
            Self::Paper => 3,
            Self::Series(number) => 4 + number % SERIES,
        }
    }

    /// What it is called in style sheets.
    pub fn name(self) -> &'static str {
        PALETTE[self.row()].0
    }

    /// Its value, as in `#0b63b0`.
    pub fn hex(self, theme: Theme) -> &'static str {
        let (_, light, dark) = PALETTE[self.row()];
        match theme {
            Theme::Light => light,
            Theme::Dark => dark,
        }
    }

    /// Red, green and blue.
    pub fn rgb(self, theme: Theme) -> [u8; 3] {
        let digits = &self.hex(theme)[1..];
        let value = u32::from_str_radix(digits, 16).expect("the palette is written in hexadecimal");
        let [_, red, green, blue] = value.to_be_bytes();
        [red, green, blue]
    }

    /// What plotters was told to draw with.
    pub(super) fn from_backend(color: BackendColor) -> Self {
        match usize::from(color.rgb.0) {
            0 => Self::Ink,
            1 => Self::Muted,
            2 => Self::Grid,
            3 => Self::Paper,
            series => Self::Series(series - 4),
        }
    }
}

/// Plotters carries the role where it expects a colour; only the recorder reads it.
impl Color for Paint {
    fn to_backend_color(&self) -> BackendColor {
        BackendColor { alpha: 1.0, rgb: (self.row() as u8, 0, 0) }
    }
}

/// Definitions of all colours for a style sheet: `--ink:#1b2129;...`.
pub fn theme_variables(theme: Theme) -> String {
    let mut text = String::new();
    for (name, light, dark) in PALETTE {
        let value = match theme {
            Theme::Light => light,
            Theme::Dark => dark,
        };
        write!(text, "--{name}:{value};").expect("a string takes any text");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contrast as the accessibility guidelines define it.
    fn contrast(a: [u8; 3], b: [u8; 3]) -> f64 {
        let luminance = |rgb: [u8; 3]| {
            let linear = rgb.map(|v| {
                let v = f64::from(v) / 255.0;
                if v <= 0.04045 { v / 12.92 } else { ((v + 0.055) / 1.055).powf(2.4) }
            });
            0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
        };
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn everything_can_be_told_from_its_ground() {
        for theme in [Theme::Light, Theme::Dark] {
            let paper = Paint::Paper.rgb(theme);
            assert!(contrast(Paint::Ink.rgb(theme), paper) > 7.0);
            assert!(contrast(Paint::Muted.rgb(theme), paper) > 4.5);
            for series in 0..SERIES {
                let found = contrast(Paint::Series(series).rgb(theme), paper);
                assert!(found > 4.5, "{theme:?} {series}: {found}");
            }
        }
    }

    #[test]
    fn roles_survive_the_way_through_plotters() {
        let all = [Paint::Ink, Paint::Muted, Paint::Grid, Paint::Paper];
        for paint in all.into_iter().chain((0..SERIES).map(Paint::Series)) {
            assert_eq!(Paint::from_backend(paint.to_backend_color()), paint);
        }
    }
}
