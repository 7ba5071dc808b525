use flipcast_executor::ExecError;
use flipcast_ground::Hint;

/// Why the GPU could not be used.
#[derive(Debug, thiserror::Error)]
pub enum CudaError {
    /// A library is not installed.
    #[error("`{library}` cannot be loaded, tried {tried}")]
    LibraryMissing {
        /// What it is called.
        library: &'static str,
        /// The file names tried.
        tried: String,
    },
    /// A library is too old.
    #[error("`{library}` has no function `{function}`: it is older than this program needs")]
    FunctionMissing {
        /// The library.
        library: &'static str,
        /// The function.
        function: &'static str,
    },
    /// The driver is too old for the run-time compiler's code.
    #[error("the NVIDIA driver supports CUDA {found}, expected at least {expected}")]
    DriverTooOld {
        /// What it supports.
        found: String,
        /// What is needed.
        expected: String,
    },
    /// There is no GPU.
    #[error("the NVIDIA driver sees no GPU")]
    NoDevice,
    /// There is no GPU of that number.
    #[error("there is no GPU {index}, expected one below {count}")]
    DeviceIndex {
        /// The number asked for.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// The GPU lacks an instruction set.
    #[error("`{device}` has compute capability {found}, expected at least {expected}")]
    DeviceTooOld {
        /// Its name.
        device: String,
        /// Its capability.
        found: String,
        /// What is needed.
        expected: String,
    },
    /// A call of the driver failed.
    #[error("{call} failed: {name} ({description})")]
    Driver {
        /// The call.
        call: &'static str,
        /// The status by name.
        name: String,
        /// What the driver says about it.
        description: String,
    },
    /// The GPU faulted; nothing on it can be used any more.
    #[error("the GPU was lost during {call}: {name}")]
    DeviceLost {
        /// The call that noticed.
        call: &'static str,
        /// The status by name.
        name: String,
    },
    /// The GPU's memory is too small.
    #[error("{what} needs {needed} bytes of GPU memory, but {free} of {total} are free")]
    OutOfMemory {
        /// What it was for.
        what: &'static str,
        /// Bytes asked for.
        needed: usize,
        /// Bytes free.
        free: usize,
        /// Bytes there are.
        total: usize,
        /// A batch size that would fit, if any is known to.
        batch: Option<usize>,
    },
    /// A kernel does not compile.
    #[error("`{file}` does not compile: {log}")]
    Compile {
        /// The source file.
        file: String,
        /// What the compiler says.
        log: String,
    },
    /// A call of a mathematics library failed.
    #[error("{library}: {call} failed with status {status}{detail}")]
    Library {
        /// The library.
        library: &'static str,
        /// The call.
        call: &'static str,
        /// Its status.
        status: i32,
        /// More about it, if the library says more.
        detail: String,
    },
    /// No algorithm of a library can run a layer.
    #[error("no algorithm of {library} runs {what}")]
    NoAlgorithm {
        /// The library.
        library: &'static str,
        /// The layer.
        what: String,
    },
    /// A kernel that is in no source file.
    #[error("there is no kernel `{name}`")]
    UnknownKernel {
        /// Its name.
        name: String,
    },
    /// An argument of a kernel that its shape rules out.
    #[error("`{kernel}`: {what} is {found}, expected {expected}")]
    Argument {
        /// The kernel.
        kernel: &'static str,
        /// The argument.
        what: &'static str,
        /// What was given.
        found: usize,
        /// What is allowed.
        expected: String,
    },
    /// The graph, its weights or the batch.
    #[error(transparent)]
    Network(#[from] ExecError),
}

impl Hint for CudaError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::LibraryMissing { library, .. } | Self::FunctionMissing { library, .. } => {
                crate::library::advice(library)
            }
            Self::DriverTooOld { .. } => Some("update the NVIDIA driver, or install an older NVRTC".to_owned()),
            Self::NoDevice => Some("see what `nvidia-smi` says; without a GPU use the processor".to_owned()),
            Self::DeviceLost { .. } => {
                Some("start again; if it happens twice, see `dmesg` for the fault and use the processor".to_owned())
            }
            Self::OutOfMemory { batch, .. } => Some(match batch {
                Some(batch) => format!("a batch of {batch} images would fit"),
                None => "end other programs on this GPU, or use a smaller network".to_owned(),
            }),
            Self::Network(error) => error.hint(),
            Self::DeviceIndex { .. }
            | Self::DeviceTooOld { .. }
            | Self::Driver { .. }
            | Self::Compile { .. }
            | Self::Library { .. }
            | Self::NoAlgorithm { .. }
            | Self::UnknownKernel { .. }
            | Self::Argument { .. } => None,
        }
    }
}

/// As an executor reports it: errors of the network itself stay what they are.
impl From<CudaError> for ExecError {
    fn from(error: CudaError) -> Self {
        match error {
            CudaError::Network(error) => error,
            error => ExecError::Device { source: Box::new(error) },
        }
    }
}
