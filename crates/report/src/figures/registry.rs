use super::{
    advice, calibration, correlations, curves, errors, estimates, flips, intervals, map, omission, phases, splits,
    subsets, toy,
};
use crate::chart::Figure;
use crate::{ReportError, Study};

/// A figure as the page shows it: once, or frame by frame.
pub(crate) struct Shown {
    /// What it is of: a model, a method, some images.
    pub title: String,
    /// At least one; all have the same marks in the same order.
    pub frames: Vec<Figure>,
    /// What each frame is, where there are several.
    pub captions: Vec<String>,
}

impl Shown {
    /// A figure that does not move.
    pub fn still(title: String, figure: Figure) -> Self {
        Self { title, frames: vec![figure], captions: Vec::new() }
    }
}

/// A figure that can be asked for.
#[derive(Clone, Copy)]
pub struct FigureInfo {
    /// Its name.
    pub name: &'static str,
    /// What it shows.
    pub summary: &'static str,
    /// Which commands write the records it needs.
    pub commands: &'static [&'static str],
    pub(crate) build: fn(&Study) -> Vec<Shown>,
}

impl std::fmt::Debug for FigureInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// All figures, in the order of the page.
pub const FIGURES: &[FigureInfo] = &[
    FigureInfo {
        name: "estimates",
        summary: "estimated against true accuracy, with intervals",
        commands: &["flipcast study run", "flipcast estimate --record"],
        build: estimates::build,
    },
    FigureInfo {
        name: "intervals",
        summary: "estimates with their intervals, dataset by dataset, labels or not",
        commands: &["flipcast study run", "flipcast estimate --record"],
        build: intervals::build,
    },
    FigureInfo {
        name: "errors",
        summary: "errors of every estimator on every dataset",
        commands: &["flipcast study run", "flipcast estimate --record"],
        build: errors::build,
    },
    FigureInfo {
        name: "calibration",
        summary: "curves from score to accuracy, and their errors on corruptions left out",
        commands: &["flipcast study run"],
        build: calibration::build,
    },
    FigureInfo {
        name: "curves",
        summary: "errors of curves of other shapes, fitted to the same cells",
        commands: &["flipcast study refit"],
        build: curves::build,
    },
    FigureInfo {
        name: "subsets",
        summary: "how the error spreads over all choices of what a curve is fitted to",
        commands: &["flipcast study refit"],
        build: subsets::build,
    },
    FigureInfo {
        name: "advice",
        summary: "gains expected of ways to adapt, along the images they were tried on",
        commands: &["flipcast advise --record"],
        build: advice::build,
    },
    FigureInfo {
        name: "phases",
        summary: "accuracy, silhouette, shift distance and entropy while a model adapts",
        commands: &["flipcast analyse phases"],
        build: phases::build,
    },
    FigureInfo {
        name: "splits",
        summary: "accuracy of every run while a model adapts, in small charts with shared axes",
        commands: &["flipcast analyse phases"],
        build: splits::build,
    },
    FigureInfo {
        name: "silhouettes",
        summary: "silhouette of every run while a model adapts, in small charts with shared axes",
        commands: &["flipcast analyse phases"],
        build: splits::build_silhouettes,
    },
    FigureInfo {
        name: "correlations",
        summary: "how silhouette and shift distance move with accuracy in the two phases",
        commands: &["flipcast analyse phases"],
        build: correlations::build,
    },
    FigureInfo {
        name: "omission",
        summary: "what adapting gains when images are left out",
        commands: &["flipcast analyse omission"],
        build: omission::build,
    },
    FigureInfo {
        name: "flips",
        summary: "flips, silhouette and accuracy against each other",
        commands: &["flipcast analyse flips"],
        build: flips::build,
    },
    FigureInfo {
        name: "map",
        summary: "embeddings in the plane while a model adapts, frame by frame",
        commands: &["flipcast analyse map"],
        build: map::build,
    },
    FigureInfo {
        name: "toy",
        summary: "clusters in the plane under entropy minimisation, frame by frame",
        commands: &["flipcast analyse toy"],
        build: toy::build,
    },
];

/// The figure called `name` of everything a study holds; of a moving one the frame asked for, from 1, or the last.
pub fn build_figure(study: &Study, name: &str, frame: Option<usize>) -> Result<Figure, ReportError> {
    let info = FIGURES
        .iter()
        .find(|figure| figure.name == name)
        .ok_or_else(|| ReportError::UnknownFigure { name: name.to_owned() })?;
    let shown = (info.build)(study);
    let frames = shown.iter().map(|shown| shown.frames.len()).max().unwrap_or(0);
    if let Some(found) = frame.filter(|frame| *frame == 0 || *frame > frames) {
        return Err(ReportError::Frame { name: info.name, found, frames });
    }
    let mut all: Option<Figure> = None;
    for shown in shown {
        let last = shown.frames.len().saturating_sub(1);
        let place = frame.map_or(last, |frame| (frame - 1).min(last));
        let Some(figure) = shown.frames.into_iter().nth(place) else {
            continue;
        };
        match &mut all {
            None => all = Some(figure),
            Some(all) => {
                all.columns = all.columns.max(figure.columns);
                all.panels.extend(figure.panels);
            }
        }
    }
    all.filter(|figure| !figure.panels.is_empty())
        .ok_or(ReportError::EmptyFigure { name: info.name, commands: info.commands })
}
