use crate::output::print;
use crate::table::render;
use anyhow::Result;
use flipcast_cuda::CudaReport;
use flipcast_kernels::Isa;

/// Every environment variable flipcast reads.
pub const VARIABLES: &[(&str, &str)] = &[
    ("FLIPCAST_ISA", "instruction set: scalar, avx2, avx512 or neon; the best one found if unset"),
    ("FLIPCAST_CACHE", "folder for compiled GPU kernels; `flipcast` in the user's cache folder if unset"),
    ("FLIPCAST_GOLDEN", "folder with golden data for the tests; `golden/` of the repository if unset"),
];

/// Prints what was found on this machine and the variables in force.
pub fn run() -> Result<()> {
    let sets: Vec<&str> = Isa::available().iter().map(|isa| isa.name()).collect();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut text = format!("flipcast {}\n", env!("CARGO_PKG_VERSION"));
    text += &format!("cores: {cores}\n");
    text += &format!("instruction sets: {} (in use: {})\n", sets.join(", "), isa()?.name());
    text += &devices(&flipcast_cuda::report());
    text.push('\n');
    let rows: Vec<Vec<String>> = VARIABLES
        .iter()
        .map(|(name, meaning)| {
            let value = std::env::var(name).unwrap_or_else(|_| "(unset)".to_owned());
            vec![(*name).to_owned(), value, (*meaning).to_owned()]
        })
        .collect();
    text += &render(&["variable", "value", "meaning"], &rows);
    print(&text)
}

/// The devices, and the libraries that a GPU needs: what was found, and how to get what was not.
fn devices(cuda: &CudaReport) -> String {
    let mut names = vec!["cpu".to_owned()];
    for device in &cuda.devices {
        let gib = device.memory as f64 / f64::from(1 << 30);
        names.push(format!("cuda:{} ({}, {gib:.0} GiB)", device.index, device.name));
    }
    let mut text = format!("devices: {}\n", names.join(", "));
    for library in &cuda.libraries {
        match &library.found {
            Ok(version) => text += &format!("{}: {version}\n", library.name),
            Err(problem) => text += &format!("{}: {problem}\n", library.name),
        }
        if let Some(hint) = &library.hint {
            text += &format!("  hint: {hint}\n");
        }
    }
    text
}

/// The instruction set in force: that of `FLIPCAST_ISA`, or the best.
pub fn isa() -> Result<Isa> {
    let Ok(name) = std::env::var("FLIPCAST_ISA") else {
        return Ok(Isa::detect());
    };
    Isa::named(&name).ok_or_else(|| {
        let sets: Vec<&str> = Isa::available().iter().map(|isa| isa.name()).collect();
        let text = format!("FLIPCAST_ISA is `{name}`, but this machine has {}", sets.join(", "));
        anyhow::Error::new(crate::failure::Environment(text))
    })
}
