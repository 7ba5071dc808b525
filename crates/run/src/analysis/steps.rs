use super::Subject;
use crate::images::Images;
use crate::{RunError, Watcher};
use flipcast_graph::Purpose;
use flipcast_images::loader::Order;

/// Adapts to `images` for `last` steps, passing over them in another order as often as needed; `visit` hears of every step and the
/// affine vector after it.
///
/// As flips are counted: batches that are not full are left out, and a dataset smaller than a batch is one.
pub(super) fn adapt(
    subject: &Subject,
    images: &Images,
    last: usize,
    watcher: &mut dyn Watcher,
    mut visit: impl FnMut(usize, &[f32]) -> Result<(), RunError>,
) -> Result<(), RunError> {
    if last == 0 {
        return Ok(());
    }
    let seed = subject.request.seed;
    let batch_size = subject.batch_size.min(images.len());
    let mut adapter = subject.method.build(seed)?;
    let mut net = subject.device.network(subject.model, Purpose::Adapt, batch_size)?;
    let (mut step, mut epoch) = (0, 0);
    loop {
        let seed = seed.wrapping_add(1 + epoch);
        let mut pass = images.pass(Order::Shuffled { seed }, None, batch_size)?;
        let before = step;
        while let Some(loaded) = pass.next_batch()? {
            if loaded.batch.images() < batch_size {
                break;
            }
            adapter.step(&mut *net, &loaded.batch)?;
            pass.recycle(loaded.batch);
            step += 1;
            watcher.step(step, last);
            visit(step, net.affine())?;
            if step == last {
                return Ok(());
            }
        }
        if step == before {
            return Err(RunError::NoImages);
        }
        epoch += 1;
    }
}
