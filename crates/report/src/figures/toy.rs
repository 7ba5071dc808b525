use super::Shown;
use super::map::{Plane, draw};
use crate::Study;
use crate::chart::{Figure, Panel};

/// One moving figure per record, with a chart per setting.
pub(super) fn build(study: &Study) -> Vec<Shown> {
    let mut shown = Vec::new();
    for entry in &study.toys {
        let toy = &entry.result;
        let labels: Vec<Option<usize>> = toy.labels.iter().copied().map(Some).collect();
        let columns: Vec<Vec<Panel>> = toy
            .panels
            .iter()
            .map(|setting| {
                let frames: Vec<Plane> = setting
                    .frames
                    .iter()
                    .map(|frame| Plane { points: frame.points.clone(), means: frame.means.clone() })
                    .collect();
                let title = if setting.title.is_empty() { &setting.name } else { &setting.title };
                let mut panels = draw(&frames, &labels, &|class| format!("cluster {class}"), title);
                for panel in &mut panels {
                    (panel.width, panel.height) = (420.0, 400.0);
                }
                panels
            })
            .filter(|panels| !panels.is_empty())
            .collect();
        let Some(length) = columns.iter().map(Vec::len).max() else {
            continue;
        };
        // A setting that ended earlier waits in its last frame.
        let frames = (0..length).map(|number| Figure {
            label: "Clusters under entropy minimisation".to_owned(),
            panels: columns.iter().map(|panels| panels[number.min(panels.len() - 1)].clone()).collect(),
            columns: columns.len(),
        });
        let captions = (0..length).map(|number| {
            let parts: Vec<String> = toy
                .panels
                .iter()
                .filter_map(|setting| {
                    let frame = setting.frames.get(number).or(setting.frames.last())?;
                    let (name, round) = (&setting.name, frame.round);
                    Some(format!("{name}: round {round}, purity {:.2}, drift {:.2}", frame.purity, frame.drift))
                })
                .collect();
            parts.join(" \u{b7} ")
        });
        shown.push(Shown {
            title: entry.subject.name.replace("unnamed", ""),
            captions: captions.collect(),
            frames: frames.collect(),
        });
    }
    shown
}
