use std::io::Cursor;
#[test] fn zz(){ let f=std::fs::read("/tmp/o224.jpg").unwrap();
 let mut d=zune_jpeg::JpegDecoder::new(Cursor::new(&f)); let v=d.decode().unwrap(); println!("{:?} {:?} {:?}",d.info().unwrap().width, d.output_colorspace(), &v[..30]);
 println!("{:?}", d.input_colorspace()); }
