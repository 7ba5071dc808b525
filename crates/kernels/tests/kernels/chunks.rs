use flipcast_kernels::internals::Chunking;

#[test]
fn chunks_cover_every_row_once() {
    for (height, rows, granule, images) in
        [(7, 32, 4, 5), (14, 4, 4, 3), (13, 5, 2, 2), (1, 1, 1, 4), (56, 8, 4, 2), (6, 4, 4, 1)]
    {
        let chunking = Chunking::new(height, rows, granule);
        let mut seen = vec![0; height * images];
        for index in 0..chunking.count(images) {
            let chunk = chunking.get(index, images);
            assert_eq!(chunk.row % granule, 0);
            for image in chunk.image..chunk.image + chunk.images {
                for row in chunk.row..chunk.row + chunk.rows {
                    seen[image * height + row] += 1;
                }
            }
        }
        assert!(seen.iter().all(|&count| count == 1), "{height} {rows} {granule} {images}");
    }
}
