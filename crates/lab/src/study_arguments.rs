use flipcast::corrupt::CorruptionSet;
use flipcast::{DataRequest, Device, Model, ModelRequest, OpenedData};
use flipcast_cuda::Precision;
use std::error::Error;
use std::path::Path;

/// `--weights FILE --data PATH [--architecture NAME] [--bar SET] [--seed N] [--device cpu|cuda]`, opened.
pub struct StudyArguments {
    /// The network that is studied.
    pub model: Model,
    /// Its labelled images.
    pub opened: OpenedData,
    /// The set whose corruptions stand beside those of ImageNet-C.
    pub bar: CorruptionSet,
    /// Which split of the images.
    pub seed: u64,
    /// Where the network runs.
    pub device: Device,
}

impl StudyArguments {
    /// Reads the options and opens what they name.
    pub fn open(arguments: &[String]) -> Result<Self, Box<dyn Error>> {
        let option = |name| Self::option(arguments, name);
        let weights = option("--weights").ok_or("--weights FILE is missing")?;
        let data = option("--data").ok_or("--data PATH is missing")?;
        let request = ModelRequest { architecture: option("--architecture"), ..ModelRequest::new(Path::new(weights)) };
        let model = request.open()?;
        let opened = DataRequest::new(data).open(&model)?;
        let device = Self::device(arguments, 0)?;
        let bar = option("--bar").unwrap_or("imagenet-c-bar").parse()?;
        let seed = option("--seed").unwrap_or("0").parse()?;
        Ok(Self { model, opened, bar, seed, device })
    }

    /// What `--device` asks for: a processor with so many threads, 0 for all, or the first GPU.
    pub fn device(arguments: &[String], threads: usize) -> Result<Device, Box<dyn Error>> {
        match Self::option(arguments, "--device").unwrap_or("cpu") {
            "cpu" => Ok(Device::cpu(threads)),
            "cuda" => Ok(Device::Cuda { index: 0, precision: Precision::Tf32 }),
            other => Err(format!("--device is `{other}`, expected `cpu` or `cuda`").into()),
        }
    }

    /// What stands behind `name`.
    pub fn option<'a>(arguments: &'a [String], name: &str) -> Option<&'a str> {
        let place = arguments.iter().position(|argument| argument == name)?;
        arguments.get(place + 1).map(String::as_str)
    }
}
