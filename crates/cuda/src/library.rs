//! Finding the libraries of CUDA, and saying what was found.

use crate::device;
use crate::error::CudaError;
use crate::sys::cublaslt::CublasLt;
use crate::sys::cudnn::Cudnn;
use crate::sys::driver::Driver;
use crate::sys::nvrtc::Nvrtc;
use flipcast_ground::Hint;
use libloading::Library;
use std::sync::OnceLock;

/// The oldest driver whose CUDA version is enough.
const OLDEST_DRIVER: i32 = 12_000;

/// Library file names to try, newest first.
const DRIVER_FILES: &[&str] = &["libcuda.so.1", "libcuda.so", "nvcuda.dll"];
const NVRTC_FILES: &[&str] =
    &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "nvrtc64_130_0.dll", "nvrtc64_120_0.dll"];
const CUBLASLT_FILES: &[&str] =
    &["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so", "cublasLt64_13.dll", "cublasLt64_12.dll"];
const CUDNN_FILES: &[&str] = &["libcudnn.so.9", "libcudnn.so", "cudnn64_9.dll"];

/// A library that was looked for: what is wrong with it is kept and told every time.
enum Found<T> {
    Loaded(T),
    Missing { tried: String },
    Incomplete { function: &'static str },
}

impl<T> Found<T> {
    fn find(files: &[&str], bind: impl FnOnce(Library) -> Result<T, &'static str>) -> Self {
        for file in files {
            // SAFETY: loading these libraries runs only their own initialisers, which have no requirements.
            if let Ok(library) = unsafe { Library::new(*file) } {
                return match bind(library) {
                    Ok(table) => Self::Loaded(table),
                    Err(function) => Self::Incomplete { function },
                };
            }
        }
        Self::Missing { tried: files.join(", ") }
    }

    fn get(&self, library: &'static str) -> Result<&T, CudaError> {
        match self {
            Self::Loaded(table) => Ok(table),
            Self::Missing { tried } => Err(CudaError::LibraryMissing { library, tried: tried.clone() }),
            Self::Incomplete { function } => Err(CudaError::FunctionMissing { library, function }),
        }
    }
}

/// The libraries, each looked for once when it is first needed.
pub(crate) struct Libraries {
    driver: OnceLock<Found<Driver>>,
    nvrtc: OnceLock<Found<Nvrtc>>,
    cublaslt: OnceLock<Found<CublasLt>>,
    cudnn: OnceLock<Found<Cudnn>>,
}

/// The libraries of this process.
pub(crate) fn libraries() -> &'static Libraries {
    static LIBRARIES: Libraries = Libraries {
        driver: OnceLock::new(),
        nvrtc: OnceLock::new(),
        cublaslt: OnceLock::new(),
        cudnn: OnceLock::new(),
    };
    &LIBRARIES
}

impl Libraries {
    /// The driver, started.
    pub fn driver(&'static self) -> Result<&'static Driver, CudaError> {
        let driver = self.driver.get_or_init(|| Found::find(DRIVER_FILES, Driver::bind)).get("CUDA driver")?;
        // SAFETY: starting it twice is allowed.
        device::check(driver, "cuInit", unsafe { (driver.init)(0) })?;
        let found = driver_version(driver)?;
        if found < OLDEST_DRIVER {
            return Err(CudaError::DriverTooOld { found: cuda_version(found), expected: cuda_version(OLDEST_DRIVER) });
        }
        Ok(driver)
    }

    /// The run-time compiler.
    pub fn nvrtc(&'static self) -> Result<&'static Nvrtc, CudaError> {
        self.nvrtc.get_or_init(|| Found::find(NVRTC_FILES, Nvrtc::bind)).get("NVRTC")
    }

    /// Matrix products.
    pub fn cublaslt(&'static self) -> Result<&'static CublasLt, CudaError> {
        self.cublaslt.get_or_init(|| Found::find(CUBLASLT_FILES, CublasLt::bind)).get("cuBLASLt")
    }

    /// Convolutions.
    pub fn cudnn(&'static self) -> Result<&'static Cudnn, CudaError> {
        self.cudnn.get_or_init(|| Found::find(CUDNN_FILES, Cudnn::bind)).get("cuDNN")
    }
}

fn driver_version(driver: &Driver) -> Result<i32, CudaError> {
    let mut version = 0;
    // SAFETY: `version` is a valid place.
    device::check(driver, "cuDriverGetVersion", unsafe { (driver.version)(&mut version) })?;
    Ok(version)
}

/// A version of CUDA from its number.
fn cuda_version(number: i32) -> String {
    format!("{}.{}", number / 1000, number % 1000 / 10)
}

/// How to get a library.
pub(crate) fn advice(library: &str) -> Option<String> {
    let advice = match library {
        "CUDA driver" => "install the NVIDIA driver for this GPU; a container must be started with access to it",
        "NVRTC" => {
            "install the CUDA toolkit, or `pip install nvidia-cuda-nvrtc`, and put its library folder on LD_LIBRARY_PATH"
        }
        "cuBLASLt" => {
            "install the CUDA toolkit, or `pip install nvidia-cublas`, and put its library folder on LD_LIBRARY_PATH"
        }
        "cuDNN" => "install cuDNN 9, or `pip install nvidia-cudnn-cu13`, and put its library folder on LD_LIBRARY_PATH",
        _ => return None,
    };
    Some(advice.to_owned())
}

/// A library as `flipcast env` tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryReport {
    /// What it is called.
    pub name: &'static str,
    /// Its version, or what is wrong with it.
    pub found: Result<String, String>,
    /// How to get it, where it is missing.
    pub hint: Option<String>,
}

/// A GPU as `flipcast env` tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceReport {
    /// Its number.
    pub index: usize,
    /// Its name.
    pub name: String,
    /// Bytes of its memory.
    pub memory: usize,
}

/// What of CUDA was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaReport {
    /// Driver and libraries.
    pub libraries: Vec<LibraryReport>,
    /// GPUs.
    pub devices: Vec<DeviceReport>,
    /// Where compiled kernels are kept.
    pub cache: Option<std::path::PathBuf>,
}

impl CudaReport {
    /// Whether a network can run on a GPU here.
    pub fn usable(&self) -> bool {
        !self.devices.is_empty() && self.libraries.iter().all(|library| library.found.is_ok())
    }
}

/// Looks for the driver, the libraries and the GPUs.
pub fn report() -> CudaReport {
    let entry = |name, found: Result<String, CudaError>| LibraryReport {
        name,
        hint: found.as_ref().err().and_then(Hint::hint),
        found: found.map_err(|error| error.to_string()),
    };
    let all = libraries();
    let driver = all.driver();
    let devices = driver.as_ref().map_or_else(|_| Vec::new(), |driver| devices(driver));
    let nvrtc = all.nvrtc().map(|nvrtc| {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both are valid places.
        unsafe { (nvrtc.version)(&mut major, &mut minor) };
        format!("{major}.{minor}")
    });
    let cublaslt = all.cublaslt().map(|cublaslt| {
        // SAFETY: the function takes nothing.
        let version = unsafe { (cublaslt.version)() };
        format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100)
    });
    let cudnn = all.cudnn().map(|cudnn| {
        // SAFETY: the function takes nothing.
        let version = unsafe { (cudnn.version)() };
        format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100)
    });
    CudaReport {
        libraries: vec![
            entry("CUDA driver", driver.and_then(driver_version).map(cuda_version)),
            entry("NVRTC", nvrtc),
            entry("cuBLASLt", cublaslt),
            entry("cuDNN", cudnn),
        ],
        devices,
        cache: crate::compile::cache_folder(),
    }
}

fn devices(driver: &Driver) -> Vec<DeviceReport> {
    let mut count = 0;
    // SAFETY: `count` is a valid place.
    if unsafe { (driver.device_count)(&mut count) } != 0 {
        return Vec::new();
    }
    let one = |number: i32| {
        let (mut device, mut memory) = (0, 0);
        // SAFETY: both are valid places, and `device` is set before it is used.
        let status = unsafe { (driver.device_get)(&mut device, number) | (driver.device_memory)(&mut memory, device) };
        let name = device::name(driver, device).ok()?;
        (status == 0).then_some(DeviceReport { index: number as usize, name, memory })
    };
    (0..count).filter_map(one).collect()
}
