use super::*;
use std::path::PathBuf;
use tempfile::TempDir;

struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    fn npy(&self, dict: &str, values: &[u8]) -> PathBuf {
        self.write("a.npy", npy_bytes(dict, values))
    }
}

fn npy_bytes(dict: &str, values: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\0".to_vec();
    bytes.extend((dict.len() as u16).to_le_bytes());
    bytes.extend(dict.as_bytes());
    bytes.extend(values);
    bytes
}

fn refused<T: std::fmt::Debug>(result: Result<T, DataError>) -> String {
    result.unwrap_err().to_string()
}

const TABLE: [f32; 6] = [1.0, -2.5, 3.0, 0.0, 1e-3, 7.0];

#[test]
fn what_is_written_is_read_again() {
    let files = Files::new();
    let path = files.0.path().join("logits.npy");
    write_npy(&path, &TABLE, 3).unwrap();
    assert_eq!(read_logits(&path).unwrap(), Table { values: TABLE.to_vec(), columns: 3 });
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!((bytes.len() % 64, bytes[127]), (24, b'\n'), "NumPy aligns values");
}

#[test]
fn arrays_of_every_float_and_order_are_read() {
    let files = Files::new();
    let double: Vec<u8> = TABLE.iter().flat_map(|&v| f64::from(v).to_le_bytes()).collect();
    let path = files.npy("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }", &double);
    assert_eq!(read_logits(&path).unwrap().values, TABLE);
    // The same numbers column after column.
    let by_column: Vec<u8> = [0, 3, 1, 4, 2, 5].iter().flat_map(|&at| TABLE[at].to_le_bytes()).collect();
    let path = files.npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", &by_column);
    assert_eq!(read_logits(&path).unwrap().values, TABLE);
    let labels = [3i64.to_le_bytes(), 0i64.to_le_bytes()].concat();
    let path = files.npy("{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }", &labels);
    assert_eq!(read_labels(&path).unwrap(), [3, 0]);
}

#[test]
fn arrays_in_archives_are_found_by_name_or_alone() {
    let files = Files::new();
    let pack = |arrays: &[&str]| {
        let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        for name in arrays {
            let plain = zip::write::SimpleFileOptions::default();
            zip.start_file(*name, plain).unwrap();
            let logits: Vec<u8> = TABLE.iter().flat_map(|v| v.to_le_bytes()).collect();
            let array = match *name {
                "labels.npy" => npy_bytes("{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }", &[2, 1]),
                _ => npy_bytes("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", &logits),
            };
            std::io::Write::write_all(&mut zip, &array).unwrap();
        }
        files.write("a.npz", zip.finish().unwrap().into_inner())
    };
    assert_eq!(read_logits(&pack(&["arr_0.npy"])).unwrap().values, TABLE);
    let both = pack(&["labels.npy", "logits.npy"]);
    assert_eq!((read_logits(&both).unwrap().columns, read_labels(&both).unwrap()), (3, vec![2, 1]));
    let text = refused(read_logits(&pack(&["a.npy", "b.npy"])));
    assert!(text.contains("a.npy, b.npy") && text.contains("`logits`"), "{text}");
}

#[test]
fn text_is_read_with_names_and_without() {
    let files = Files::new();
    let path = files.write("a.csv", "1,-2.5,3\n0, 1e-3 ,7\n");
    assert_eq!(read_logits(&path).unwrap(), Table { values: TABLE.to_vec(), columns: 3 });
    let path = files.write("a.csv", "image,cat,dog,fox,Label\na.jpg,1,-2.5,3,0\nb.jpg,0,1e-3,7,2\n");
    assert_eq!(read_logits(&path).unwrap().values, TABLE);
    assert_eq!(read_labels(&path).unwrap(), [0, 2]);
    assert_eq!(read_labels(&files.write("a.csv", "2\n0\n")).unwrap(), [2, 0]);
}

#[test]
fn columns_and_lists_of_parquet_are_read() {
    use ::parquet::data_type::{FloatType, Int64Type};
    use ::parquet::file::writer::SerializedFileWriter;
    use ::parquet::schema::parser::parse_message_type;
    use std::sync::Arc;
    let files = Files::new();
    let write = |schema: &str, floats: &[&[f32]], repetition: Option<&[i16]>| {
        let path = files.0.path().join("a.parquet");
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let mut writer = SerializedFileWriter::new(File::create(&path).unwrap(), schema, Default::default()).unwrap();
        let mut group = writer.next_row_group().unwrap();
        for values in floats {
            let mut column = group.next_column().unwrap().unwrap();
            let definition = repetition.map(|r| vec![1; r.len()]);
            column.typed::<FloatType>().write_batch(values, definition.as_deref(), repetition).unwrap();
            column.close().unwrap();
        }
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int64Type>().write_batch(&[1, 0], None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
        writer.close().unwrap();
        path
    };
    let columns = "message m { required float a; required float b; required float c; required int64 label; }";
    let path = write(columns, &[&[1.0, 0.0], &[-2.5, 1e-3], &[3.0, 7.0]], None);
    assert_eq!(read_logits(&path).unwrap(), Table { values: TABLE.to_vec(), columns: 3 });
    assert_eq!(read_labels(&path).unwrap(), [1, 0]);
    let lists = "message m { required group logits (LIST) { repeated group list { required float element; } } required int64 y; }";
    let path = write(lists, &[&TABLE], Some(&[0, 1, 1, 0, 1, 1]));
    assert_eq!(read_logits(&path).unwrap(), Table { values: TABLE.to_vec(), columns: 3 });
    let path = write(lists, &[&TABLE], Some(&[0, 1, 1, 1, 0, 1]));
    assert!(refused(read_logits(&path)).contains("row 2"));
}

#[test]
fn what_is_no_table_is_refused_with_what_is_wrong() {
    let files = Files::new();
    let logits = |text: &str| refused(read_logits(&files.write("a.csv", text)));
    assert!(logits("1,2\n3\n").contains("row 2"));
    assert!(logits("1,2\n3,x\n").contains("column 2 of row 2"));
    assert!(logits("").contains("no numbers"));
    assert!(logits("a,b\n").contains("no numbers"));
    let labels = |text: &str| refused(read_labels(&files.write("a.csv", text)));
    assert!(labels("1,2\n").contains("2 columns"));
    assert!(labels("1.5\n").contains("`1.5`"));
    assert!(labels("0\n-1\n").contains("label 1"));
    let npy = |dict: &str, values: &[u8]| refused(read_logits(&files.npy(dict, values)));
    assert!(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", &[0; 8]).contains("[images, classes]"));
    assert!(npy("{'descr': '<i4', 'fortran_order': False, 'shape': (1, 2), }", &[0; 8]).contains("int32"));
    let cut = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }", &[0; 8]);
    assert!(cut.contains("24") && cut.contains('8'), "{cut}");
    let huge = "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 8), }";
    assert!(matches!(read_logits(&files.npy(huge, &[])), Err(DataError::TooLarge { .. })));
    assert!(read_logits(&files.write("a.parquet", b"PAR1 and no more")).is_err());
    assert!(read_logits(Path::new("/nowhere/a.npy")).is_err());
    assert!(read_logits(files.0.path()).is_err());
}
