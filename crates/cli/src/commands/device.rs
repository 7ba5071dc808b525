//! Where networks run: arguments that many commands share.

use super::env::isa;
use crate::failure::{Advised, Environment};
use anyhow::Result;
use flipcast_cuda::{CudaReport, Precision};
use flipcast_run::Device;

/// Every GPU of this machine.
const ALL_GPUS: &str = "cuda:all";

/// Where networks run: flatten into a command's arguments.
#[derive(Clone, Debug, clap::Args)]
pub struct DeviceArgs {
    /// Where the network runs: cpu, cuda (the first GPU), cuda:1, ..., or auto (a GPU if one can be used). Commands that make several cells also take cuda:all, every GPU at once
    #[arg(long, default_value = "cpu", value_name = "DEVICE")]
    device: String,
    /// Arithmetic on a GPU: tf32, bf16 or f32
    #[arg(long, default_value = "tf32", value_name = "PRECISION")]
    precision: String,
}

impl DeviceArgs {
    /// The devices asked for, each of which takes cells from one queue: one of them but for `cuda:all`.
    pub fn devices(&self, threads: usize) -> Result<Vec<Device>> {
        if self.device != ALL_GPUS {
            return Ok(vec![self.device(threads)?]);
        }
        let precision = self.precision()?;
        let found = flipcast_cuda::report();
        if !found.usable() {
            return Err(Environment(format!("--device is `{ALL_GPUS}`, but {}", what_lacks(&found))).into());
        }
        Ok(found.devices.iter().map(|gpu| Device::Cuda { index: gpu.index, precision }).collect())
    }

    fn precision(&self) -> Result<Precision> {
        let unknown = || Advised {
            problem: format!("--precision is `{}`, expected tf32, bf16 or f32", self.precision),
            hint: "it matters on a GPU alone".to_owned(),
        };
        Ok(Precision::from_name(&self.precision).ok_or_else(unknown)?)
    }

    /// The device asked for; the processor works with `threads`.
    pub fn device(&self, threads: usize) -> Result<Device> {
        let precision = self.precision()?;
        let cuda = |index| Device::Cuda { index, precision };
        match self.device.split_once(':') {
            None if self.device == "cpu" => cpu(threads),
            None if self.device == "cuda" => Ok(cuda(0)),
            None if self.device == "auto" && flipcast_cuda::report().usable() => Ok(cuda(0)),
            None if self.device == "auto" => cpu(threads),
            Some(("cuda", index)) if index.parse::<usize>().is_ok() => {
                Ok(cuda(index.parse().expect("it was just parsed")))
            }
            _ if self.device == ALL_GPUS => Err(Advised {
                problem: format!("--device is `{ALL_GPUS}`, but this command works on one device"),
                hint: "`study run`, `calibrate` and `estimate` use several GPUs at once; give `cuda`, `cuda:1`, ..."
                    .to_owned(),
            }
            .into()),
            _ => Err(Advised {
                problem: format!("--device is `{}`, expected cpu, cuda, cuda:1, ... or auto", self.device),
                hint: "`flipcast env` lists what is there".to_owned(),
            }
            .into()),
        }
    }
}

/// Why no GPU can be used.
fn what_lacks(report: &CudaReport) -> String {
    let mut lacking = report.libraries.iter().filter_map(|library| Some((library, library.found.as_ref().err()?)));
    match lacking.next() {
        Some((library, problem)) => {
            let advice = library.hint.as_ref().map_or_else(String::new, |hint| format!("; {hint}"));
            format!("no GPU can be used: {}: {problem}{advice}", library.name)
        }
        None => "the CUDA driver found no GPU; `flipcast env` tells what is there".to_owned(),
    }
}

fn cpu(threads: usize) -> Result<Device> {
    Ok(Device::Cpu { threads, isa: Some(isa()?) })
}
