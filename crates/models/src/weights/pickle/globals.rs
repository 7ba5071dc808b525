use crate::text::shown;
use crate::weights::errors::ImportError;
use flipcast_tensor::DType;

/// What a constructor on the allow-list makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::weights) enum Global {
    /// A dict, possibly from a list of pairs.
    Dict,
    /// A tensor from storage, offset, shape and strides.
    Tensor,
    /// The tensor in its first argument.
    Parameter,
    /// The tuple in its first argument.
    Size,
    /// Names a storage's element type; never called.
    Storage(DType),
    /// Nothing weights need; the result is opaque.
    Inert,
}

/// The allow-list: module, name, and what it makes. Everything on it is data; nothing is looked up or run.
const GLOBALS: &[(&str, &str, Global)] = &[
    ("collections", "OrderedDict", Global::Dict),
    ("collections", "defaultdict", Global::Inert),
    ("collections", "Counter", Global::Inert),
    ("torch._utils", "_rebuild_tensor", Global::Tensor),
    ("torch._utils", "_rebuild_tensor_v2", Global::Tensor),
    ("torch._utils", "_rebuild_parameter", Global::Parameter),
    ("torch._utils", "_rebuild_parameter_with_state", Global::Parameter),
    ("torch", "Size", Global::Size),
    ("torch", "FloatStorage", Global::Storage(DType::F32)),
    ("torch", "DoubleStorage", Global::Storage(DType::F64)),
    ("torch", "HalfStorage", Global::Storage(DType::F16)),
    ("torch", "BFloat16Storage", Global::Storage(DType::BF16)),
    ("torch", "ByteStorage", Global::Storage(DType::U8)),
    ("torch", "CharStorage", Global::Storage(DType::I8)),
    ("torch", "ShortStorage", Global::Storage(DType::I16)),
    ("torch", "IntStorage", Global::Storage(DType::I32)),
    ("torch", "LongStorage", Global::Storage(DType::I64)),
    ("torch", "BoolStorage", Global::Storage(DType::Bool)),
    ("torch", "device", Global::Inert),
    ("torch", "float16", Global::Inert),
    ("torch", "bfloat16", Global::Inert),
    ("torch", "float32", Global::Inert),
    ("torch", "float64", Global::Inert),
    ("torch", "int64", Global::Inert),
    // Checkpoints of training scripts: the accuracy as a numpy number, the parsed command line, sets of names.
    ("numpy", "dtype", Global::Inert),
    ("numpy.core.multiarray", "scalar", Global::Inert),
    ("numpy._core.multiarray", "scalar", Global::Inert),
    ("_codecs", "encode", Global::Inert),
    ("argparse", "Namespace", Global::Inert),
    ("builtins", "set", Global::Inert),
    ("builtins", "list", Global::Inert),
    ("builtins", "dict", Global::Inert),
    ("builtins", "int", Global::Inert),
    ("builtins", "float", Global::Inert),
    ("__builtin__", "set", Global::Inert),
    ("__builtin__", "list", Global::Inert),
    ("__builtin__", "dict", Global::Inert),
    ("__builtin__", "int", Global::Inert),
    ("__builtin__", "float", Global::Inert),
];

/// Storages of complex and quantised numbers, which no supported model has.
const UNSUPPORTED_STORAGES: &[&str] = &[
    "ComplexFloatStorage",
    "ComplexDoubleStorage",
    "QInt8Storage",
    "QUInt8Storage",
    "QInt32Storage",
    "QUInt4x2Storage",
    "QUInt2x4Storage",
];

/// Finds `module.name` on the allow-list.
pub(super) fn find_global(module: &str, name: &str) -> Result<Global, ImportError> {
    if let Some(&(_, _, global)) = GLOBALS.iter().find(|&&(m, n, _)| m == module && n == name) {
        return Ok(global);
    }
    if module == "torch" && UNSUPPORTED_STORAGES.contains(&name) {
        let found = name.to_owned();
        return Err(ImportError::UnsupportedDType { found });
    }
    Err(ImportError::ForbiddenGlobal { module: shown(module), name: shown(name) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_forbidden_by_name() {
        for (module, name) in [
            ("os", "system"),
            ("builtins", "eval"),
            ("torch.storage", "_load_from_bytes"),
            ("torch._utils", "_rebuild_tensor_v2.__globals__"),
        ] {
            let error = find_global(module, name).expect_err("not on the list");
            assert!(matches!(error, ImportError::ForbiddenGlobal { .. }), "{error}");
        }
    }

    #[test]
    fn complex_numbers_are_an_element_type_not_an_attack() {
        let error = find_global("torch", "ComplexFloatStorage").expect_err("not supported");
        assert!(matches!(error, ImportError::UnsupportedDType { .. }), "{error}");
    }
}
