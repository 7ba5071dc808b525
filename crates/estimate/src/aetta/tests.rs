use super::*;

/// A head that reads class `k` from values `3k` to `3k + 2`, so that dropping one of them changes nothing.
fn redundant_head(classes: usize) -> Head {
    let dims = 3 * classes;
    let weight: Vec<f32> = (0..classes * dims).map(|at| f32::from(u8::from(at % dims / 3 == at / dims))).collect();
    Head::new(&weight, vec![0.0; classes]).unwrap()
}

/// Image `i` is of class `of(i)`, with strength 8.
fn images(count: usize, classes: usize, of: impl Fn(usize) -> usize) -> Embeddings {
    let values = (0..count)
        .flat_map(|i| {
            let class = of(i);
            (0..3 * classes).map(move |d| if d / 3 == class { 8.0 } else { 0.0 })
        })
        .collect();
    Embeddings::new(values, 3 * classes).unwrap()
}

#[test]
fn an_embedding_that_moves_moves_logits_by_the_weights() {
    // Three classes, two values; the bias does not take part.
    let head = Head::new(&[1.0, 2.0, -1.0, 0.5, 3.0, 0.0], vec![9.0, 9.0, 9.0]).unwrap();
    assert_eq!(head.weigh(&[2.0, -1.0]), [0.0, -2.5, 6.0]);
}

#[test]
fn without_dropout_everything_agrees() {
    let config = AettaConfig { dropout: 0.0, ..AettaConfig::published(4) };
    let score = aetta(&images(100, 4, |i| i % 4), &redundant_head(4), &config).unwrap();
    assert_eq!(score.value, 1.0);
}

#[test]
fn the_first_batch_is_as_written() {
    // A class survives unless all three of its values are dropped: 0.4^3. The first of four equal logits then wins, which
    // is right for class 0 alone: e = 3/4 * 0.064. All classes occur, but a pass without any value spreads evenly.
    let config = AettaConfig { passes: 100, batch_size: 400, ..AettaConfig::published(4) };
    let score = aetta(&images(400, 4, |i| i % 4), &redundant_head(4), &config).unwrap();
    // E is ln 4 by symmetry, so both terms of the smoothing are e. The standard error of e is 0.001.
    assert!((1.0 - score.value - 0.048).abs() < 0.004, "{score:?}");
}

#[test]
fn collapse_lowers_the_estimate() {
    let config = AettaConfig::published(4);
    let head = redundant_head(4);
    let healthy = aetta(&images(400, 4, |i| i % 4), &head, &config).unwrap();
    let collapsed = aetta(&images(400, 4, |_| 1), &head, &config).unwrap();
    assert!(collapsed.value < healthy.value - 0.3);
    assert!(collapsed.value >= 0.25);
}

#[test]
fn the_seed_decides_and_batches_may_come_one_by_one() {
    let config = AettaConfig::published(5);
    let (set, head) = (images(64, 5, |i| i * i % 5), redundant_head(5));
    let whole = aetta(&set, &head, &config).unwrap().value;
    let mut state = Aetta::new(config).unwrap();
    assert_eq!(state.step(&set, &head).unwrap(), whole);
    let other = AettaConfig { seed: 1, ..config };
    assert_ne!(aetta(&set, &head, &other).unwrap().value, whole);
}

#[test]
fn edges_are_handled() {
    let single = Head::new(&[1.0, 2.0], vec![0.5]).unwrap();
    let one = Embeddings::new(vec![1.0, 1.0], 2).unwrap();
    let config = AettaConfig::published(1);
    assert_eq!(aetta(&one, &single, &config).unwrap().value, 1.0);
    assert!(Head::new(&[1.0; 5], vec![0.0; 2]).is_err());
    assert!(Head::new(&[], vec![]).is_err());
    assert!(Head::new(&[f32::NAN; 2], vec![0.0; 2]).is_err());
    let wide = Embeddings::new(vec![1.0; 3], 3).unwrap();
    assert!(aetta(&wide, &single, &config).is_err());
    let huge = Embeddings::new(vec![f32::MAX; 2], 2).unwrap();
    assert!(matches!(aetta(&huge, &single, &config), Err(EstimateError::NotFinite { .. })));
    let bad = AettaConfig { dropout: 1.0, ..config };
    assert!(aetta(&one, &single, &bad).is_err());
}
