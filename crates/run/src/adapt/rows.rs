use flipcast_exec::Logits;
use flipcast_images::loader::LoadedBatch;
use flipcast_record::predictions::PredictionRow;

/// One row per image of a batch.
pub(super) fn rows(
    loaded: &LoadedBatch,
    logits: Logits<'_>,
    source: Option<&[usize]>,
    class_names: Option<&[String]>,
) -> Vec<PredictionRow> {
    let mut rows = Vec::with_capacity(loaded.ids.len());
    for (image, (id, row)) in loaded.ids.iter().zip(logits.rows()).enumerate() {
        let class = first_largest(row);
        let (confidence, entropy) = confidence_and_entropy(row, class);
        rows.push(PredictionRow {
            id: id.clone(),
            class: class as u32,
            class_name: class_names.and_then(|names| names.get(class).cloned()),
            confidence: confidence as f32,
            entropy: entropy as f32,
            flipped: source.map(|classes| classes[image] != class),
        });
    }
    rows
}

/// As [`Logits::argmax`], for one row.
fn first_largest(row: &[f32]) -> usize {
    let best = row.iter().enumerate().reduce(|a, b| if b.1 > a.1 { b } else { a });
    best.map_or(0, |(class, _)| class)
}

/// The probability of `class`, and the entropy of all in nats: `log S + sum_k p_k (m - z_k)` with
/// `S = sum_k exp(z_k - m)`, `m` the largest logit.
fn confidence_and_entropy(row: &[f32], class: usize) -> (f64, f64) {
    let most = f64::from(row[class]);
    let (mut sum, mut weighted) = (0.0, 0.0);
    for &z in row {
        let below = most - f64::from(z);
        let weight = (-below).exp();
        sum += weight;
        weighted += weight * below;
    }
    (1.0 / sum, sum.ln() + weighted / sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confidence_and_entropy_are_those_of_the_softmax() {
        let (confidence, entropy) = confidence_and_entropy(&[3.0; 4], 0);
        assert!((confidence - 0.25).abs() < 1e-12 && (entropy - 4f64.ln()).abs() < 1e-12);
        let (confidence, entropy) = confidence_and_entropy(&[0.0, 1000.0], 1);
        assert_eq!((confidence, entropy), (1.0, 0.0));
        // p = 1/4 and 3/4.
        let (confidence, entropy) = confidence_and_entropy(&[0.0, 3f32.ln()], 1);
        let expected = -(0.25 * 0.25f64.ln() + 0.75 * 0.75f64.ln());
        assert!((confidence - 0.75).abs() < 1e-7 && (entropy - expected).abs() < 1e-7);
    }

    #[test]
    fn the_first_of_equal_logits_wins() {
        assert_eq!(first_largest(&[1.0, 2.0, 2.0]), 1);
    }
}
