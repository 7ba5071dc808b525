//! Builds weight files byte by byte, well-formed or not.

/// A safetensors file with this header and data.
pub fn safetensors(header: &[u8], data: &[u8]) -> Vec<u8> {
    let length = header.len() as u64;
    [&length.to_le_bytes(), header, data].concat()
}

/// A pickle of protocol 2 around `body`.
pub fn pickle(body: &[u8]) -> Vec<u8> {
    [b"\x80\x02", body, b"."].concat()
}

/// A string.
pub fn text(text: &str) -> Vec<u8> {
    let length = text.len() as u32;
    [b"X", &length.to_le_bytes()[..], text.as_bytes()].concat()
}

/// An integer.
pub fn int(value: i64) -> Vec<u8> {
    [b"\x8a\x08", &value.to_le_bytes()[..]].concat()
}

/// A reference to a Python object by module and name.
pub fn global(module: &str, name: &str) -> Vec<u8> {
    format!("c{module}\n{name}\n").into_bytes()
}

/// A tuple of these values.
pub fn tuple(items: &[Vec<u8>]) -> Vec<u8> {
    [b"(", &items.concat()[..], b"t"].concat()
}

/// A tuple of integers.
pub fn ints(values: &[i64]) -> Vec<u8> {
    tuple(&values.iter().map(|&value| int(value)).collect::<Vec<_>>())
}

/// A list of these values.
pub fn list(items: &[Vec<u8>]) -> Vec<u8> {
    [b"](", &items.concat()[..], b"e"].concat()
}

/// A dict with these entries.
pub fn dict(entries: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let entries: Vec<Vec<u8>> = entries.iter().map(|(k, v)| [&k[..], v].concat()).collect();
    [b"}(", &entries.concat()[..], b"u"].concat()
}

/// A call of a constructor.
pub fn call(constructor: Vec<u8>, arguments: &[Vec<u8>]) -> Vec<u8> {
    [&constructor[..], &tuple(arguments), b"R"].concat()
}

/// A storage of `len` elements of type `storage_type`.
pub fn storage(storage_type: &str, key: &str, len: i64) -> Vec<u8> {
    let id = [text("storage"), global("torch", storage_type), text(key), text("cpu"), int(len)];
    [&tuple(&id)[..], b"Q"].concat()
}

/// A tensor over `storage`.
pub fn tensor(storage: Vec<u8>, first: i64, shape: &[i64], strides: &[i64]) -> Vec<u8> {
    let arguments = [storage, int(first), ints(shape), ints(strides)];
    call(global("torch._utils", "_rebuild_tensor"), &arguments)
}

/// A state dict with the one tensor `w` over the storage `0` of two `f32`.
pub fn one_tensor(first: i64, shape: &[i64], strides: &[i64]) -> Vec<u8> {
    let tensor = tensor(storage("FloatStorage", "0", 2), first, shape, strides);
    dict(&[(text("w"), tensor)])
}

/// A good state dict for [`TWO`].
pub fn good_object() -> Vec<u8> {
    one_tensor(0, &[2], &[1])
}

/// Two `f32`: 1.5 and -2.
pub const TWO: [u8; 8] = [0, 0, 0xc0, 0x3f, 0, 0, 0, 0xc0];

/// A torch file of the older format.
pub fn legacy(object: &[u8], keys: &[Vec<u8>], data: &[u8]) -> Vec<u8> {
    let magic = b"\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
    let pickles = [magic.to_vec(), int(1001), dict(&[]), object.to_vec(), list(keys)];
    let pickles: Vec<Vec<u8>> = pickles.iter().map(|body| pickle(body)).collect();
    [&pickles.concat()[..], data].concat()
}

/// A torch file of the older format that holds [`TWO`] as storage `0`.
pub fn legacy_of(object: &[u8]) -> Vec<u8> {
    let data = [&2u64.to_le_bytes()[..], &TWO].concat();
    legacy(object, &[text("0")], &data)
}

/// One record of a zip archive.
#[derive(Clone)]
pub struct Record {
    pub name: Vec<u8>,
    pub local_name: Vec<u8>,
    pub data: Vec<u8>,
    pub method: u16,
    pub flags: u16,
    pub declared: u64,
}

impl Record {
    pub fn new(name: &str, data: &[u8]) -> Self {
        Self {
            name: name.into(),
            local_name: name.into(),
            data: data.to_vec(),
            method: 0,
            flags: 0,
            declared: data.len() as u64,
        }
    }
}

/// Whether sizes and offsets stand in the 64-bit fields.
#[derive(Clone, Copy, PartialEq)]
pub enum Width {
    Narrow,
    Wide,
}

/// A zip archive of these records.
pub fn zip(records: &[Record], width: Width) -> Vec<u8> {
    let mut file = Vec::new();
    let mut directory = Vec::new();
    for record in records {
        let header_at = file.len() as u64;
        file.extend(b"PK\x03\x04\0\0");
        file.extend(record.flags.to_le_bytes());
        file.extend(record.method.to_le_bytes());
        file.extend([0; 16]);
        file.extend((record.local_name.len() as u16).to_le_bytes());
        file.extend([0; 2]);
        file.extend(&record.local_name);
        file.extend(&record.data);
        let sizes = [record.declared, record.data.len() as u64, header_at];
        directory.extend(b"PK\x01\x02\0\0\0\0");
        directory.extend(record.flags.to_le_bytes());
        directory.extend(record.method.to_le_bytes());
        directory.extend([0; 8]);
        let narrow = |value: u64| match width {
            Width::Narrow => (value as u32).to_le_bytes(),
            Width::Wide => [0xff; 4],
        };
        directory.extend(narrow(sizes[1]));
        directory.extend(narrow(sizes[0]));
        directory.extend((record.name.len() as u16).to_le_bytes());
        let mut extra = Vec::new();
        if width == Width::Wide {
            // Another field first, which readers must step over.
            extra.extend(b"FB\x02\0ZZ\x01\0\x18\0");
            extra.extend(sizes.iter().flat_map(|size| size.to_le_bytes()));
        }
        directory.extend((extra.len() as u16).to_le_bytes());
        directory.extend([0; 10]);
        directory.extend(narrow(header_at));
        directory.extend(&record.name);
        directory.extend(extra);
    }
    let (at, len) = (file.len() as u64, directory.len() as u64);
    let count = records.len() as u64;
    file.extend(directory);
    if width == Width::Wide {
        let end = file.len() as u64;
        file.extend(b"PK\x06\x06");
        file.extend([0; 28]);
        for value in [count, len, at] {
            file.extend(value.to_le_bytes());
        }
        file.extend(b"PK\x06\x07\0\0\0\0");
        file.extend(end.to_le_bytes());
        file.extend([1, 0, 0, 0]);
    }
    file.extend(b"PK\x05\x06\0\0\0\0\0\0");
    file.extend((count as u16).to_le_bytes());
    file.extend((len as u32).to_le_bytes());
    file.extend((at as u32).to_le_bytes());
    file.extend([0; 2]);
    file
}

/// The records of a torch archive around `object`, with [`TWO`] as storage `0`.
pub fn torch_records(object: &[u8]) -> Vec<Record> {
    vec![
        Record::new("x/data.pkl", &pickle(object)),
        Record::new("x/byteorder", b"little"),
        Record::new("x/data/0", &TWO),
    ]
}

/// A torch archive around `object`, with [`TWO`] as storage `0`.
pub fn torch_zip_of(object: &[u8]) -> Vec<u8> {
    zip(&torch_records(object), Width::Narrow)
}
