//! Plans that come with the program.

use crate::failure::Advised;
use crate::output::print;
use crate::table::{grouped, render};
use anyhow::{Context, Result};
use flipcast_study::{ExpandOptions, Plan, expand};

/// A plan by name.
pub struct ReadyPlan {
    /// The name it is asked for by.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

const fn ready(name: &'static str, text: &'static str) -> ReadyPlan {
    ReadyPlan { name, text }
}

/// All of them.
#[rustfmt::skip]
pub const READY_PLANS: &[ReadyPlan] = &[
    ready("table1", include_str!("../../../assets/plans/table1.toml")),
    ready("table2", include_str!("../../../assets/plans/table2.toml")),
    ready("f_ablation", include_str!("../../../assets/plans/f_ablation.toml")),
    ready("limited_data", include_str!("../../../assets/plans/limited_data.toml")),
    ready("stopping_step", include_str!("../../../assets/plans/stopping_step.toml")),
    ready("probe_size", include_str!("../../../assets/plans/probe_size.toml")),
    ready("adapters", include_str!("../../../assets/plans/adapters.toml")),
    ready("vit_refit", include_str!("../../../assets/plans/vit_refit.toml")),
    ready("fitting_subsets", include_str!("../../../assets/plans/fitting_subsets.toml")),
    ready("cifar", include_str!("../../../assets/plans/cifar.toml")),
    ready("tiny_imagenet", include_str!("../../../assets/plans/tiny_imagenet.toml")),
];

/// The plan called `name`.
pub fn find(name: &str) -> Option<&'static ReadyPlan> {
    READY_PLANS.iter().find(|plan| plan.name == name)
}

/// Prints one line per plan.
pub fn list() -> Result<()> {
    let mut rows = Vec::new();
    for ready in READY_PLANS {
        let broken = || format!("the plan `{}` that comes with the program", ready.name);
        let plan = Plan::parse(ready.text).with_context(broken)?;
        let units = expand(&plan, &ExpandOptions::default()).with_context(broken)?;
        rows.push(vec![ready.name.to_owned(), grouped(units.len()), plan.study.question.clone()]);
    }
    print(&render(&["plan", ">cells", "question"], &rows))
}

/// Prints the text of a plan.
pub fn print_plan(name: &str) -> Result<()> {
    let Some(plan) = find(name) else {
        let names: Vec<&str> = READY_PLANS.iter().map(|plan| plan.name).collect();
        return Err(Advised {
            problem: format!(
                "no plan that comes with the program is called `{name}`, expected one of {}",
                names.join(", ")
            ),
            hint: "`flipcast study plans` lists them".to_owned(),
        }
        .into());
    };
    print(plan.text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Cells and rows of a ready plan.
    fn size(name: &str) -> (usize, usize) {
        let plan = Plan::parse(find(name).expect("ready").text).expect("a plan");
        let units = expand(&plan, &ExpandOptions::default()).expect("cells");
        let rows: BTreeSet<usize> = units.iter().map(|unit| unit.dataset).collect();
        (units.len(), rows.len())
    }

    #[test]
    fn table_1_has_326_splits_in_23_rows() {
        assert_eq!(size("table1"), (326, 23));
    }

    #[test]
    fn every_ready_plan_has_the_cells_it_should() {
        for (name, cells) in [
            ("table2", 9 * 228),
            ("f_ablation", 326),
            ("limited_data", 2 * 326),
            ("stopping_step", 7 * 228),
            ("probe_size", 5 * 228),
            ("adapters", 4 * 228),
            ("vit_refit", 2 * 326),
            ("fitting_subsets", 326),
            ("cifar", 4 * 126),
            ("tiny_imagenet", 3 * 126),
        ] {
            assert_eq!(size(name).0, cells, "{name}");
        }
    }
}
