use crate::output::print;
use crate::table::{Align, render};
use anyhow::Result;
use flipcast_kernels::Isa;

/// Every environment variable flipcast reads.
pub const VARIABLES: &[(&str, &str)] = &[
    (
        "FLIPCAST_ISA",
        "instruction set: scalar, avx2 or avx512; the best one found if unset",
    ),
    (
        "FLIPCAST_GOLDEN",
        "folder with golden data for the tests; `golden/` of the repository if unset",
    ),
];

/// Prints what was found on this machine and the variables in force.
pub fn run() -> Result<()> {
    let sets: Vec<&str> = Isa::available().iter().map(|isa| isa.name()).collect();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut text = format!("flipcast {}\n", env!("CARGO_PKG_VERSION"));
    text += &format!("cores: {cores}\n");
    text += &format!(
        "instruction sets: {} (in use: {})\n",
        sets.join(", "),
        isa()?.name()
    );
    text += "devices: cpu\n\n";
    let rows: Vec<Vec<String>> = VARIABLES
        .iter()
        .map(|(name, meaning)| {
            let value = std::env::var(name).unwrap_or_else(|_| "(unset)".to_owned());
            vec![(*name).to_owned(), value, (*meaning).to_owned()]
        })
        .collect();
    text += &render(&["variable", "value", "meaning"], &[Align::Left; 3], &rows);
    print(&text)
}

/// The instruction set in force: that of `FLIPCAST_ISA`, or the best.
pub fn isa() -> Result<Isa> {
    let Ok(name) = std::env::var("FLIPCAST_ISA") else {
        return Ok(Isa::detect());
    };
    Isa::named(&name).ok_or_else(|| {
        let sets: Vec<&str> = Isa::available().iter().map(|isa| isa.name()).collect();
        let text = format!(
            "FLIPCAST_ISA is `{name}`, but this machine has {}",
            sets.join(", ")
        );
        anyhow::Error::new(crate::failure::Environment(text))
    })
}
