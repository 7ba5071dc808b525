//! Where networks run: arguments that many commands share.

use super::env::isa;
use crate::failure::Advised;
use anyhow::Result;
use flipcast_cuda::Precision;
use flipcast_run::Device;

/// Where networks run: flatten into a command's arguments.
#[derive(Clone, Debug, clap::Args)]
pub struct DeviceArgs {
    /// Where the network runs: cpu, cuda (the first GPU), cuda:1, ..., or auto (a GPU if one can be used)
    #[arg(long, default_value = "cpu", value_name = "DEVICE")]
    device: String,
    /// Arithmetic on a GPU: tf32, bf16 or f32
    #[arg(long, default_value = "tf32", value_name = "PRECISION")]
    precision: String,
}

impl DeviceArgs {
    /// The device asked for; the processor works with `threads`.
    pub fn device(&self, threads: usize) -> Result<Device> {
        let precision = Precision::from_name(&self.precision).ok_or_else(|| Advised {
            problem: format!("--precision is `{}`, expected tf32, bf16 or f32", self.precision),
            hint: "it matters on a GPU alone".to_owned(),
        })?;
        let cuda = |index| Device::Cuda { index, precision };
        match self.device.split_once(':') {
            None if self.device == "cpu" => cpu(threads),
            None if self.device == "cuda" => Ok(cuda(0)),
            None if self.device == "auto" && flipcast_cuda::report().usable() => Ok(cuda(0)),
            None if self.device == "auto" => cpu(threads),
            Some(("cuda", index)) if index.parse::<usize>().is_ok() => {
                Ok(cuda(index.parse().expect("it was just parsed")))
            }
            _ => Err(Advised {
                problem: format!("--device is `{}`, expected cpu, cuda, cuda:1, ... or auto", self.device),
                hint: "`flipcast env` lists what is there".to_owned(),
            }
            .into()),
        }
    }
}

fn cpu(threads: usize) -> Result<Device> {
    Ok(Device::Cpu { threads, isa: Some(isa()?) })
}
