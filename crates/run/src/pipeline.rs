//! Work in flight: while one item is in the middle stage, the next is prepared and the one before is finished.

use std::panic::resume_unwind;
use std::sync::mpsc::sync_channel;

/// Takes every item through three stages, each item in the order of `items`, and gives what the last stage made of them.
///
/// `prepare` and `finish` have a thread each, `observe` runs on the caller's. An item is handed over only when the next stage is
/// free for it, so that at most one item is in or behind each stage. The first error in the order of items is returned: what
/// comes before it is finished, what comes behind it is dropped as soon as its stage ends. What the stages compute cannot
/// depend on the overlap, since every item passes them alone and in order.
///
/// ```
/// let doubled = flipcast_run::in_flight(1..4, |n| Ok(n), |n| Ok(2 * n), |n| Ok::<i32, String>(n));
/// assert_eq!(doubled, Ok(vec![2, 4, 6]));
/// ```
pub fn in_flight<Item, Prepared: Send, Observed: Send, Done: Send, Error: Send>(
    items: impl IntoIterator<Item = Item, IntoIter: Send>,
    mut prepare: impl FnMut(Item) -> Result<Prepared, Error> + Send,
    mut observe: impl FnMut(Prepared) -> Result<Observed, Error>,
    mut finish: impl FnMut(Observed) -> Result<Done, Error> + Send,
) -> Result<Vec<Done>, Error> {
    let items = items.into_iter();
    std::thread::scope(|scope| {
        let (hand_over, prepared) = sync_channel(0);
        let preparing = scope.spawn(move || {
            for outcome in items.map(&mut prepare) {
                let is_last = outcome.is_err();
                // Nobody takes it any more once a later stage has failed.
                if hand_over.send(outcome).is_err() || is_last {
                    break;
                }
            }
        });
        let (pass_on, observed) = sync_channel::<Result<Observed, Error>>(0);
        let finishing = scope.spawn(move || observed.into_iter().map(|item| item.and_then(&mut finish)).collect());
        for outcome in prepared {
            let outcome = outcome.and_then(&mut observe);
            let is_last = outcome.is_err();
            if pass_on.send(outcome).is_err() || is_last {
                break;
            }
        }
        drop(pass_on);
        let done = finishing.join().unwrap_or_else(|panic| resume_unwind(panic));
        preparing.join().unwrap_or_else(|panic| resume_unwind(panic));
        done
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn three_items_are_in_flight_at_once_and_come_out_in_order() {
        // Each stage waits until the two others hold an item too: were there no overlap, this would never end.
        let all_busy = Barrier::new(3);
        let meet = |item: usize, place: usize| {
            if (2..=8).contains(&(item + place)) {
                all_busy.wait();
            }
            item
        };
        let done =
            in_flight(0..9, |item| Ok(meet(item, 0)), |item| Ok(meet(item, 1)), |item| Ok::<_, String>(meet(item, 2)));
        assert_eq!(done, Ok((0..9).collect()));
    }

    #[test]
    fn an_error_in_any_stage_is_the_first_in_order_and_what_comes_before_it_is_finished() {
        for stage in 0..3 {
            let (prepared, finished) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let fail = |item: usize, here: usize| match (item, here == stage) {
                (4, true) => Err(format!("item 4 in stage {stage}")),
                // A later item that fails earlier on the clock is not the first in order.
                (5.., _) if here == 0 => Err(format!("item {item}")),
                _ => Ok(item),
            };
            let done = in_flight(
                0..100,
                |item| {
                    prepared.fetch_add(1, Ordering::Relaxed);
                    fail(item, 0)
                },
                |item| fail(item, 1),
                |item| {
                    let item = fail(item, 2)?;
                    finished.fetch_add(1, Ordering::Relaxed);
                    Ok(item)
                },
            );
            assert_eq!(done, Err(format!("item 4 in stage {stage}")));
            assert_eq!(finished.into_inner(), 4);
            assert!(prepared.into_inner() <= 6, "nothing is begun behind an error");
        }
    }

    #[test]
    fn a_panic_in_any_stage_reaches_the_caller() {
        for stage in 0..3 {
            let check = |item: usize, here: usize| {
                assert!(item != 2 || here != stage, "item two");
                Ok::<_, String>(item)
            };
            let caught = std::panic::catch_unwind(|| {
                in_flight(0..5, |item| check(item, 0), |item| check(item, 1), |item| check(item, 2))
            });
            assert!(caught.is_err(), "stage {stage}");
        }
    }
}
