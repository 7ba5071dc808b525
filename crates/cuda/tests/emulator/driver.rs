use crate::compile::kernel_names;
use crate::error::CudaError;
use crate::launch::Queue;
use crate::module::Arg;
use crate::precision::{Element, Precision};
use libloading::Library;
use std::collections::{BTreeMap, HashMap};
use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// What the shim exports for a kernel: grid, block, shared bytes, pointers to the arguments, and how many there are.
type Emulated = unsafe extern "C" fn(*const u32, *const u32, u32, *mut *mut c_void, u32) -> i32;

/// The kernels of one file, compiled for the host.
struct Compiled {
    kernels: HashMap<String, Emulated>,
    // Unloaded after what was taken from it.
    _library: Library,
}

/// Compiled files by name and element; a slot is empty when there was no compiler.
type Cache = BTreeMap<(&'static str, bool), Arc<OnceLock<Option<Arc<Compiled>>>>>;

/// Takes the place of a device's stream.
pub(crate) struct Emulator {
    compiled: Arc<Compiled>,
    precision: Precision,
}

impl Emulator {
    /// Compiles `file` of the kernels' folder, once for all tests; `None`, and a line that says so, when there is no C++
    /// compiler.
    pub fn new(file: &'static str, precision: Precision) -> Option<Self> {
        static CACHE: Mutex<Cache> = Mutex::new(Cache::new());
        let brain = precision.element() == Element::Bf16;
        let slot = {
            let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(cache.entry((file, brain)).or_default())
        };
        let compiled = slot.get_or_init(|| {
            let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
            let text = std::fs::read_to_string(kernels.join(file)).expect("the source is there");
            Compiled::new(&own_shared(&text), &kernel_names(&text), precision).map(Arc::new)
        });
        Some(Self { compiled: Arc::clone(compiled.as_ref()?), precision })
    }

    /// Compiles a source that includes what it needs and defines the kernels called `names`.
    pub fn build(source: &str, names: &[String], precision: Precision) -> Option<Self> {
        let compiled = Compiled::new(source, names, precision)?;
        Some(Self { compiled: Arc::new(compiled), precision })
    }
}

impl Compiled {
    fn new(source: &str, names: &[String], precision: Precision) -> Option<Self> {
        let folder = scratch_folder();
        std::fs::create_dir_all(&folder).expect("the temporary folder can be written");
        let (code, object) = (folder.join("kernels.cpp"), folder.join("kernels.so"));
        let exports: String = names.iter().map(|name| format!("EMULATE({name})\n")).collect();
        let text = format!("#include \"cuda_shim.hpp\"\n{source}{exports}");
        std::fs::write(&code, text).expect("the temporary folder can be written");
        let compiled = compile(&code, &object, precision);
        // SAFETY: the library was just made from this crate's own sources, and has no initialisers beyond the compiler's.
        let library = compiled.then(|| unsafe { Library::new(&object) });
        let _ = std::fs::remove_dir_all(&folder);
        let library = library?.expect("a library that was just linked can be loaded");
        let export = |name: &String| {
            // SAFETY: the shim's macro defines the symbol with this type.
            let symbol = unsafe { library.get::<Emulated>(format!("emulate_{name}").as_bytes()) };
            (name.clone(), *symbol.expect("every kernel is exported"))
        };
        Some(Self { kernels: names.iter().map(export).collect(), _library: library })
    }
}

/// The source with `extern __shared__ type name[];` said in the way of the shim, whose shared memory has no linker.
pub(super) fn own_shared(text: &str) -> String {
    let line = |line: &str| {
        let declared = line.trim().strip_prefix("extern __shared__ ");
        let declared = declared.and_then(|rest| rest.strip_suffix("[];")?.rsplit_once(' '));
        match declared {
            Some((of, name)) => format!("DYNAMIC_SHARED({of}, {name});\n"),
            None => format!("{line}\n"),
        }
    };
    text.lines().map(line).collect()
}

fn scratch_folder() -> PathBuf {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("flipcast-emulator-{}-{number}", std::process::id());
    std::env::temp_dir().join(name)
}

/// Whether there was a compiler to try.
///
/// # Panics
/// With the compiler's output if it refuses the source.
fn compile(code: &Path, object: &Path, precision: Precision) -> bool {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let brain = i32::from(precision.element() == Element::Bf16);
    let mut compiler = Command::new("g++");
    compiler
        .args(["-std=c++20", "-O1", "-shared", "-fPIC", "-ffp-contract=off", "-w"])
        // Jumping between stacks is what fibers do; a fortified `longjmp` takes it for damage.
        .args(["-U_FORTIFY_SOURCE", "-fno-stack-protector"])
        .arg(format!("-DFLIPCAST_BF16={brain}"))
        .arg("-I")
        .arg(crate_folder.join("tests/emulator"))
        .arg("-I")
        .arg(crate_folder.join("kernels"))
        .arg(code)
        .arg("-o")
        .arg(object);
    match compiler.output() {
        Err(error) => {
            println!("skipped: kernels are not run on the host, since g++ cannot be started: {error}");
            false
        }
        Ok(output) => {
            let log = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{} does not compile:\n{log}", code.display());
            true
        }
    }
}

impl Queue for Emulator {
    fn launch(
        &self,
        name: &str,
        grid: [u32; 3],
        block: [u32; 3],
        shared_bytes: usize,
        args: &[Arg],
    ) -> Result<(), CudaError> {
        let unknown = || CudaError::UnknownKernel { name: name.to_owned() };
        let kernel = *self.compiled.kernels.get(name).ok_or_else(unknown)?;
        assert!(block.iter().product::<u32>() <= 1024, "`{name}`: a block of {block:?}");
        assert!(shared_bytes <= self.shared_bytes(), "`{name}`: {shared_bytes} shared bytes");
        let mut words: Vec<u64> = args.iter().map(|arg| arg.word()).collect();
        let mut pointers: Vec<*mut c_void> = words.iter_mut().map(|word| std::ptr::from_mut(word).cast()).collect();
        // SAFETY: the count is that of the list and is compared with the kernel's; every pointer leads to eight bytes, at
        // least as many as the parameter has, and addresses among them are those of `Place`s that the test holds.
        let status = unsafe {
            kernel(grid.as_ptr(), block.as_ptr(), shared_bytes as u32, pointers.as_mut_ptr(), pointers.len() as u32)
        };
        assert_ne!(status, 1, "`{name}`: threads wait for each other");
        assert_ne!(status, 2, "`{name}`: {} arguments are not as many as it has", args.len());
        Ok(())
    }

    fn precision(&self) -> Precision {
        self.precision
    }

    fn multiprocessors(&self) -> usize {
        // Few, so that grids are short and threads loop.
        2
    }

    fn shared_bytes(&self) -> usize {
        227 << 10
    }
}
