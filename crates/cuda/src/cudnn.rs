//! Convolutions of the library, through its graph interface: an operation, engines that run it, plans.

use crate::device::{Device, DeviceSlice};
use crate::error::CudaError;
use crate::gate;
use crate::gemm::Direction;
use crate::library::libraries;
use crate::precision::{Element, Precision};
use crate::sys::cudnn::number as n;
use crate::sys::cudnn::{Cudnn, Handle};
use flipcast_graph::ConvShape;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// Plans to try for one convolution.
const PLANS: usize = 5;
/// Numbers of the tensors of an operation.
const VALUES: i64 = 1;
const WEIGHTS: i64 = 2;
const RESULT: i64 = 3;

/// The library, started on a device's stream.
pub(crate) struct Dnn {
    library: &'static Cudnn,
    handle: Handle,
    device: Arc<Device>,
}

// SAFETY: the handle is used by one network at a time, whose calls need `&mut`.
unsafe impl Send for Dnn {}
// SAFETY: as above.
unsafe impl Sync for Dnn {}

impl std::fmt::Debug for Dnn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cuDNN on {:?}", self.device)
    }
}

impl Dnn {
    pub fn new(device: &Arc<Device>) -> Result<Arc<Self>, CudaError> {
        let library = libraries().cudnn()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: `handle` is a valid place, and the device's context is current.
        check(library, "cudnnCreate", unsafe { (library.create)(&mut handle) })?;
        let dnn = Arc::new(Self { library, handle, device: Arc::clone(device) });
        // SAFETY: handle and stream live as long as `dnn`.
        check(library, "cudnnSetStream", unsafe { (library.set_stream)(handle, device.stream()) })?;
        Ok(dnn)
    }
}

impl Drop for Dnn {
    fn drop(&mut self) {
        let _loading = gate::load();
        if self.device.enter().is_ok() {
            // SAFETY: made by `new` and not used after this.
            unsafe { (self.library.destroy)(self.handle) };
        }
    }
}

fn check(library: &Cudnn, call: &'static str, status: c_int) -> Result<(), CudaError> {
    if status == 0 {
        return Ok(());
    }
    let mut text = [0u8; 512];
    // SAFETY: the length is that of `text`, which the library ends with a zero.
    unsafe { (library.last_error)(text.as_mut_ptr().cast(), text.len()) };
    let said = std::ffi::CStr::from_bytes_until_nul(&text).unwrap_or(c"");
    Err(CudaError::Library { library: "cuDNN", call, status, detail: format!(": {}", said.to_string_lossy().trim()) })
}

/// A descriptor of the library.
#[derive(Debug)]
struct Descriptor {
    dnn: Arc<Dnn>,
    handle: Handle,
}

impl Descriptor {
    fn new(dnn: &Arc<Dnn>, kind: c_int) -> Result<Self, CudaError> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: `handle` is a valid place.
        check(dnn.library, "cudnnBackendCreateDescriptor", unsafe {
            (dnn.library.descriptor_create)(kind, &mut handle)
        })?;
        Ok(Self { dnn: Arc::clone(dnn), handle })
    }

    /// Sets an attribute. `T` is what the number `of` stands for: every caller pairs them as the header does.
    fn set<T: Copy>(&self, attribute: c_int, of: c_int, values: &[T]) -> Result<(), CudaError> {
        let library = self.dnn.library;
        // SAFETY: the count is that of `values`, whose type is the attribute's.
        check(library, "cudnnBackendSetAttribute", unsafe {
            (library.descriptor_set)(self.handle, attribute, of, values.len() as i64, values.as_ptr().cast())
        })
    }

    fn finish(self) -> Result<Self, CudaError> {
        let library = self.dnn.library;
        // SAFETY: the descriptor was made by `new`.
        check(library, "cudnnBackendFinalize", unsafe { (library.descriptor_finalize)(self.handle) })?;
        Ok(self)
    }

    /// Reads up to `values.len()` values of an attribute; tells how many there are.
    fn get<T: Copy>(&self, attribute: c_int, of: c_int, values: &mut [T]) -> Result<usize, CudaError> {
        let library = self.dnn.library;
        let mut count = 0;
        // SAFETY: the count is that of `values`, whose type is the attribute's.
        check(library, "cudnnBackendGetAttribute", unsafe {
            (library.descriptor_get)(
                self.handle,
                attribute,
                of,
                values.len() as i64,
                &mut count,
                values.as_mut_ptr().cast(),
            )
        })?;
        Ok(count.clamp(0, values.len() as i64) as usize)
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: made by `new` and not used after this.
        unsafe { (self.dnn.library.descriptor_destroy)(self.handle) };
    }
}

fn tensor(
    dnn: &Arc<Dnn>,
    id: i64,
    [images, channels, height, width]: [usize; 4],
    element: Element,
) -> Result<Descriptor, CudaError> {
    let of = match element {
        Element::Bf16 => n::BRAIN_FLOAT,
        _ => n::FLOAT,
    };
    let extents = [images, channels, height, width].map(|extent| extent as i64);
    // Channels are the fastest axis.
    let strides = [height * width * channels, 1, width * channels, channels].map(|s| s as i64);
    let tensor = Descriptor::new(dnn, n::TENSOR)?;
    tensor.set(n::TENSOR_TYPE, n::OF_DATA_TYPE, &[of])?;
    tensor.set(n::TENSOR_EXTENTS, n::OF_I64, &extents)?;
    tensor.set(n::TENSOR_STRIDES, n::OF_I64, &strides)?;
    tensor.set(n::TENSOR_ID, n::OF_I64, &[id])?;
    tensor.set(n::TENSOR_ALIGNMENT, n::OF_I64, &[16i64])?;
    tensor.finish()
}

/// Zeros after the input: as many as before it where that gives the same extents, else as many as are needed.
fn padding_after(shape: &ConvShape, axis: usize) -> i64 {
    let reach = shape.dilation * (shape.kernel[axis] - 1) + 1;
    let before = shape.padding[axis];
    let outputs = |after: usize| {
        let padded = shape.input[axis] + before + after;
        padded.checked_sub(reach).map_or(0, |padded| padded / shape.stride + 1)
    };
    if outputs(before) == shape.output[axis] {
        return before as i64;
    }
    let needed = (shape.output[axis] - 1) * shape.stride + reach;
    needed.saturating_sub(shape.input[axis] + before) as i64
}

/// A convolution by one engine of the library.
#[derive(Debug)]
pub(crate) struct ConvPlan {
    plan: Descriptor,
    /// Its place in the library's list, by which it is found again.
    pub number: usize,
    /// Bytes it needs besides its operands.
    pub workspace: usize,
}

// SAFETY: a plan is read-only after it was made.
unsafe impl Send for ConvPlan {}
// SAFETY: as above.
unsafe impl Sync for ConvPlan {}

/// Plans for a convolution of `images` images, best guess first; none when no engine runs it as `precision` asks. With a number
/// only that one, if it is still there.
pub(crate) fn plans(
    dnn: &Arc<Dnn>,
    precision: Precision,
    images: usize,
    (shape, direction): (&ConvShape, Direction),
    number: Option<usize>,
) -> Result<Vec<ConvPlan>, CudaError> {
    let element = precision.element();
    let [height, width] = shape.input;
    let input = tensor(dnn, VALUES, [images, shape.in_channels, height, width], element)?;
    let [rows, columns] = shape.kernel;
    let extents = [shape.out_channels, shape.in_channels / shape.groups, rows, columns];
    let weights = tensor(dnn, WEIGHTS, extents, element)?;
    let [height, width] = shape.output;
    let output = tensor(dnn, RESULT, [images, shape.out_channels, height, width], element)?;
    let pair = |value: usize| [value as i64; 2];
    let convolution = Descriptor::new(dnn, n::CONVOLUTION)?;
    convolution.set(n::CONVOLUTION_COMPUTE, n::OF_DATA_TYPE, &[n::FLOAT])?;
    convolution.set(n::CONVOLUTION_MODE, n::OF_MODE, &[n::CROSS_CORRELATION])?;
    convolution.set(n::CONVOLUTION_AXES, n::OF_I64, &[2i64])?;
    convolution.set(n::CONVOLUTION_DILATIONS, n::OF_I64, &pair(shape.dilation))?;
    convolution.set(n::CONVOLUTION_STRIDES, n::OF_I64, &pair(shape.stride))?;
    let before = shape.padding.map(|zeros| zeros as i64);
    convolution.set(n::CONVOLUTION_PRE, n::OF_I64, &before)?;
    let after = [padding_after(shape, 0), padding_after(shape, 1)];
    convolution.set(n::CONVOLUTION_POST, n::OF_I64, &after)?;
    let convolution = convolution.finish()?;
    // Alpha and beta, the convolution, then weights, input and output, in the order of the header.
    let (kind, first, places) = match direction {
        Direction::Forward => (n::FORWARD, n::FORWARD_ALPHA, [&weights, &input, &output]),
        Direction::Backward => (n::BACKWARD_DATA, n::BACKWARD_ALPHA, [&weights, &input, &output]),
    };
    let operation = Descriptor::new(dnn, kind)?;
    operation.set(first, n::OF_FLOAT, &[1.0f32])?;
    operation.set(first + 1, n::OF_FLOAT, &[0.0f32])?;
    operation.set(first + 2, n::OF_DESCRIPTOR, &[convolution.handle])?;
    for (at, place) in places.into_iter().enumerate() {
        operation.set(first + 3 + at as c_int, n::OF_DESCRIPTOR, &[place.handle])?;
    }
    let operation = operation.finish()?;
    let graph = Descriptor::new(dnn, n::GRAPH)?;
    graph.set(n::GRAPH_OPERATIONS, n::OF_DESCRIPTOR, &[operation.handle])?;
    graph.set(n::GRAPH_HANDLE, n::OF_HANDLE, &[dnn.handle])?;
    let graph = graph.finish()?;
    let mut plans = Vec::new();
    for mode in [n::HEURISTIC_A, n::HEURISTIC_FALLBACK] {
        if plans.is_empty() {
            plans = plans_of(dnn, &graph, mode, precision, number)?;
        }
    }
    Ok(plans)
}

fn plans_of(
    dnn: &Arc<Dnn>,
    graph: &Descriptor,
    mode: c_int,
    precision: Precision,
    number: Option<usize>,
) -> Result<Vec<ConvPlan>, CudaError> {
    let heuristic = Descriptor::new(dnn, n::HEURISTIC)?;
    heuristic.set(n::HEURISTIC_GRAPH, n::OF_DESCRIPTOR, &[graph.handle])?;
    heuristic.set(n::HEURISTIC_MODE, n::OF_HEURISTIC, &[mode])?;
    let Ok(heuristic) = heuristic.finish() else {
        return Ok(Vec::new());
    };
    let configs: Vec<Descriptor> =
        (0..4 * PLANS).map(|_| Descriptor::new(dnn, n::ENGINE_CONFIG)).collect::<Result<_, _>>()?;
    let mut handles: Vec<Handle> = configs.iter().map(|config| config.handle).collect();
    let Ok(found) = heuristic.get(n::HEURISTIC_RESULTS, n::OF_DESCRIPTOR, &mut handles) else {
        return Ok(Vec::new());
    };
    let mut plans = Vec::new();
    for (at, config) in configs.into_iter().take(found).enumerate() {
        let is_asked_for = number.is_none_or(|number| number == at) && plans.len() < PLANS;
        if is_asked_for && allowed(dnn, &config, precision).unwrap_or(false) {
            // An engine may turn out not to run this after all; the next one is tried then.
            plans.extend(build_plan(dnn, &config, at).ok());
        }
    }
    Ok(plans)
}

/// Whether an engine's arithmetic is what the precision promises, and the same every time.
fn allowed(dnn: &Arc<Dnn>, config: &Descriptor, precision: Precision) -> Result<bool, CudaError> {
    let engine = Descriptor::new(dnn, n::ENGINE)?;
    let mut handle = [engine.handle];
    config.get(n::CONFIG_ENGINE, n::OF_DESCRIPTOR, &mut handle)?;
    let mut notes = [-1 as c_int; 16];
    let count = engine.get(n::ENGINE_NUMERICAL, n::OF_NUMERICAL, &mut notes)?;
    let notes = &notes[..count];
    let mut behaviour = [-1 as c_int; 8];
    let count = engine.get(n::ENGINE_BEHAVIOUR, n::OF_BEHAVIOUR, &mut behaviour)?;
    let compiled = behaviour[..count].contains(&n::RUNTIME_COMPILATION);
    let banned: &[c_int] = match precision {
        Precision::F32 => &[n::TENSOR_CORE, n::DOWN_CONVERT, n::REDUCED_REDUCTION, n::NONDETERMINISTIC],
        Precision::Tf32 | Precision::Bf16 => &[n::REDUCED_REDUCTION, n::NONDETERMINISTIC],
    };
    Ok(!compiled && !notes.iter().any(|note| banned.contains(note)))
}

fn build_plan(dnn: &Arc<Dnn>, config: &Descriptor, number: usize) -> Result<ConvPlan, CudaError> {
    let plan = Descriptor::new(dnn, n::PLAN)?;
    plan.set(n::PLAN_HANDLE, n::OF_HANDLE, &[dnn.handle])?;
    plan.set(n::PLAN_CONFIG, n::OF_DESCRIPTOR, &[config.handle])?;
    let plan = plan.finish()?;
    let mut bytes = [0i64];
    plan.get(n::PLAN_WORKSPACE, n::OF_I64, &mut bytes)?;
    Ok(ConvPlan { plan, number, workspace: bytes[0].max(0) as usize })
}

impl ConvPlan {
    /// Queues the convolution. Backward, `values` is where the input's gradient goes and `result` the output's gradient.
    pub fn run(&self, [values, weights, result]: [DeviceSlice; 3], workspace: DeviceSlice) -> Result<(), CudaError> {
        assert!(self.workspace <= workspace.bytes(), "plans that need more were dropped");
        let dnn = &self.plan.dnn;
        let pack = Descriptor::new(dnn, n::VARIANT_PACK)?;
        let pointer = |slice: DeviceSlice| slice.address as *mut c_void;
        pack.set(n::PACK_IDS, n::OF_I64, &[VALUES, WEIGHTS, RESULT])?;
        let pointers = [values, weights, result].map(pointer);
        pack.set(n::PACK_POINTERS, n::OF_POINTER, &pointers)?;
        pack.set(n::PACK_WORKSPACE, n::OF_POINTER, &[pointer(workspace)])?;
        let pack = pack.finish()?;
        let execute = || {
            // SAFETY: the operands have the extents of the plan's tensors, which `conv` compares.
            check(dnn.library, "cudnnBackendExecute", unsafe {
                (dnn.library.execute)(dnn.handle, self.plan.handle, pack.handle)
            })
        };
        // The library fails now and then while another thread or process records or loads kernels (status 5000). Waiting ends that,
        // and a convolution gives the same when it runs again. While this stream itself is recorded, waiting fails and so does this.
        execute().or_else(|failed| match dnn.device.synchronize() {
            Ok(()) => execute(),
            Err(_) => Err(failed),
        })
    }
}
