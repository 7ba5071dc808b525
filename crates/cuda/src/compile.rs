//! Compiling kernels at run time, and keeping what was compiled.

use crate::error::CudaError;
use crate::launch::panel::CAPABILITY;
use crate::library::libraries;
use crate::precision::{Element, Precision};
pub(crate) use crate::sources::{HEADERS, SOURCES, Source};
use crate::sys::nvrtc::Nvrtc;
use sha2::{Digest, Sha256};
use std::ffi::{CStr, CString, c_char};
use std::path::{Path, PathBuf};

/// A cached file starts with this, then the hash of what follows.
const MAGIC: &[u8; 8] = b"flipcub1";

/// Compiles every source for `precision` and a compute capability, in the order of [`SOURCES`].
pub(crate) fn compile_all(precision: Precision, capability: i32) -> Result<Vec<Vec<u8>>, CudaError> {
    let nvrtc = libraries().nvrtc()?;
    let folder = cache_folder();
    let options = options(precision, capability);
    std::thread::scope(|scope| {
        let jobs: Vec<_> = SOURCES
            .iter()
            .map(|source| {
                let (options, folder) = (&options, folder.as_deref());
                scope.spawn(move || compile_cached(nvrtc, source, options, folder))
            })
            .collect();
        jobs.into_iter().map(|job| job.join().expect("compiling does not panic")).collect()
    })
}

fn options(precision: Precision, capability: i32) -> Vec<String> {
    let brain = i32::from(precision.element() == Element::Bf16);
    // Products of warpgroups are not part of the plain architecture.
    let own = if capability == CAPABILITY { "a" } else { "" };
    vec![
        format!("--gpu-architecture=sm_{capability}{own}"),
        format!("-DFLIPCAST_BF16={brain}"),
        "--std=c++17".to_owned(),
        "-default-device".to_owned(),
    ]
}

/// Where compiled kernels are kept: `FLIPCAST_CACHE`, or `flipcast` in the user's cache folder.
pub(crate) fn cache_folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(folder) = set("FLIPCAST_CACHE") {
        return Some(folder.into());
    }
    let user =
        set("XDG_CACHE_HOME").map(PathBuf::from).or_else(|| set("HOME").map(|home| PathBuf::from(home).join(".cache")));
    user.map(|folder| folder.join("flipcast"))
}

fn compile_cached(
    nvrtc: &Nvrtc,
    source: &Source,
    options: &[String],
    folder: Option<&Path>,
) -> Result<Vec<u8>, CudaError> {
    let path = folder.map(|folder| folder.join(format!("{}.cubin", key(nvrtc, source, options))));
    if let Some(cubin) = path.as_deref().and_then(read_cached) {
        return Ok(cubin);
    }
    let cubin = compile(nvrtc, source, options)?;
    if let Some(path) = &path {
        // A cache that cannot be written costs time at the next start and nothing else.
        let _ = write_cached(path, &cubin);
    }
    Ok(cubin)
}

/// The hash of everything the result depends on.
fn key(nvrtc: &Nvrtc, source: &Source, options: &[String]) -> String {
    let mut hash = Sha256::new();
    let mut add = |part: &[u8]| {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    };
    add(source.text.as_bytes());
    HEADERS.iter().for_each(|header| add(header.text.as_bytes()));
    options.iter().for_each(|option| add(option.as_bytes()));
    let (mut major, mut minor) = (0, 0);
    // SAFETY: both are valid places.
    unsafe { (nvrtc.version)(&mut major, &mut minor) };
    add(format!("{major}.{minor}").as_bytes());
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What was kept, unless the file is damaged.
fn read_cached(path: &Path) -> Option<Vec<u8>> {
    let bytes = std::fs::read(path).ok()?;
    let (head, cubin) = bytes.split_at_checked(MAGIC.len() + 32)?;
    let (magic, hash) = head.split_at(MAGIC.len());
    (magic == MAGIC && hash == Sha256::digest(cubin).as_slice()).then(|| cubin.to_vec())
}

/// Keeps a result; the file appears whole or not at all.
fn write_cached(path: &Path, cubin: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    let bytes = [MAGIC.as_slice(), Sha256::digest(cubin).as_slice(), cubin].concat();
    std::fs::write(&temporary, bytes)?;
    std::fs::rename(&temporary, path)
}

fn compile(nvrtc: &Nvrtc, source: &Source, options: &[String]) -> Result<Vec<u8>, CudaError> {
    let text = |value: &str| CString::new(value).expect("sources and options hold no zero");
    let (code, file) = (text(source.text), text(source.file));
    let headers: Vec<CString> = HEADERS.iter().map(|header| text(header.text)).collect();
    let names: Vec<CString> = HEADERS.iter().map(|header| text(header.file)).collect();
    let options: Vec<CString> = options.iter().map(|option| text(option)).collect();
    let pointers = |of: &[CString]| of.iter().map(|one| one.as_ptr()).collect::<Vec<*const c_char>>();
    let fail = |call, status| {
        // SAFETY: the library's texts are constants.
        let detail = unsafe { CStr::from_ptr((nvrtc.error_string)(status)) };
        CudaError::Library { library: "NVRTC", call, status, detail: format!(": {}", detail.to_string_lossy()) }
    };
    let mut program = std::ptr::null_mut();
    // SAFETY: all texts end with a zero and live until the program is made; the counts are those of the lists.
    let status = unsafe {
        (nvrtc.create)(
            &mut program,
            code.as_ptr(),
            file.as_ptr(),
            headers.len() as i32,
            pointers(&headers).as_ptr(),
            pointers(&names).as_ptr(),
        )
    };
    if status != 0 {
        return Err(fail("nvrtcCreateProgram", status));
    }
    let list = pointers(&options);
    // SAFETY: the program was made above and is destroyed once, below; `read` gives the calls room as they ask.
    unsafe {
        let status = (nvrtc.compile)(program, list.len() as i32, list.as_ptr());
        let result = if status == 0 {
            read(|size| (nvrtc.cubin_size)(program, size), |to| (nvrtc.cubin)(program, to))
                .map_err(|status| fail("nvrtcGetCUBIN", status))
        } else {
            let log = read(|size| (nvrtc.log_size)(program, size), |to| (nvrtc.log)(program, to));
            let log = log.unwrap_or_default();
            Err(CudaError::Compile {
                file: source.file.to_owned(),
                log: String::from_utf8_lossy(&log).trim_end_matches('\0').to_owned(),
            })
        };
        (nvrtc.destroy)(&mut program);
        result
    }
}

/// Bytes whose count one call tells and another writes.
fn read(size: impl Fn(*mut usize) -> i32, write: impl Fn(*mut c_char) -> i32) -> Result<Vec<u8>, i32> {
    let mut len = 0;
    let ok = |status| if status == 0 { Ok(()) } else { Err(status) };
    ok(size(&mut len))?;
    let mut bytes = vec![0u8; len];
    ok(write(bytes.as_mut_ptr().cast()))?;
    Ok(bytes)
}

/// Names of the kernels that a source defines.
pub(crate) fn kernel_names(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    for part in text.split("extern \"C\" __global__").skip(1) {
        let part = match part.find("__launch_bounds__(") {
            Some(at) if part[..at].trim_end() == " void" || part[..at].trim().is_empty() => {
                part[at..].split_once(')').map_or(part, |(_, rest)| rest)
            }
            _ => part,
        };
        let head = part.split('(').next().unwrap_or("");
        if let Some(name) = head.split_whitespace().next_back() {
            names.push(name.to_owned());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_names_are_read_off_the_source() {
        let text = "extern \"C\" __global__ void first(int a) {}\n\
                    extern \"C\" __global__ void __launch_bounds__(256)\nsecond(float *x) { f(x); }\n\
                    extern \"C\" __global__ __launch_bounds__(256, 2) void third(int b) {}";
        assert_eq!(kernel_names(text), ["first", "second", "third"]);
    }

    #[test]
    fn every_kernel_compiles_for_every_precision() {
        let nvrtc = match libraries().nvrtc() {
            Ok(nvrtc) => nvrtc,
            Err(error) => {
                println!("skipped: no kernel was compiled, since {error}");
                return;
            }
        };
        for (precision, capability) in
            [(Precision::Tf32, 80), (Precision::Tf32, 90), (Precision::Bf16, 90), (Precision::Bf16, 100)]
        {
            for source in SOURCES {
                let result = compile(nvrtc, source, &options(precision, capability));
                match result {
                    Ok(cubin) => assert!(!cubin.is_empty(), "{}", source.file),
                    Err(CudaError::Compile { file, log }) => {
                        panic!("{file} ({precision:?}, {capability}):\n{log}")
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }

    #[test]
    fn a_damaged_cache_file_is_not_used() {
        let folder = std::env::temp_dir().join(format!("flipcast-cubin-{}", std::process::id()));
        let path = folder.join("one.cubin");
        write_cached(&path, b"code").expect("a temporary folder can be written");
        assert_eq!(read_cached(&path).as_deref(), Some(&b"code"[..]));
        let mut bytes = std::fs::read(&path).expect("it was just written");
        *bytes.last_mut().expect("it is not empty") ^= 1;
        std::fs::write(&path, &bytes).expect("it can be written");
        assert_eq!(read_cached(&path), None);
        std::fs::write(&path, b"short").expect("it can be written");
        assert_eq!(read_cached(&path), None);
        let _ = std::fs::remove_dir_all(folder);
    }
}
