use proptest::prelude::*;
use streamfusion_plan::node::WindowSpec;

use super::{SliceAssigner, TimeWindow, WindowAssigner, window_start};

fn hop(size_ms: i64, slide_ms: i64, offset_ms: i64) -> WindowSpec {
    WindowSpec::Hopping { size_ms, slide_ms, offset_ms }
}

fn cumulate(max_size_ms: i64, step_ms: i64, offset_ms: i64) -> WindowSpec {
    WindowSpec::Cumulative { max_size_ms, step_ms, offset_ms }
}

fn assigned(window: &WindowSpec, millis: i64) -> Vec<(i64, i64)> {
    let mut windows = Vec::new();
    if let Some(assigner) = WindowAssigner::new(window) {
        assigner.assign(millis, &mut windows);
    }
    windows.into_iter().map(|TimeWindow { start, end }| (start, end)).collect()
}

#[test]
fn windows_come_in_flinks_order() {
    assert_eq!(assigned(&hop(10, 3, 0), 9), [(9, 19), (6, 16), (3, 13), (0, 10)]);
    assert_eq!(assigned(&hop(10, 3, 0), 10), [(9, 19), (6, 16), (3, 13)]);
    assert_eq!(assigned(&hop(2, 5, 0), 4), []);
    assert_eq!(assigned(&cumulate(10, 4 / 2, 0), 5), [(0, 6), (0, 8), (0, 10)]);
    assert_eq!(assigned(&WindowSpec::Tumbling { size_ms: 10, offset_ms: -3 }, -4), [(-13, -3)]);
    assert_eq!(assigned(&WindowSpec::Tumbling { size_ms: 10, offset_ms: 3 }, -7), [(-7, 3)]);
}

#[test]
fn the_first_slice_of_a_cumulative_window_stays_until_the_last_has_fired() -> Result<(), Box<dyn std::error::Error>> {
    let slices = SliceAssigner::new(&cumulate(6, 2, 1)).map_err(|reason| reason.to_string())?;
    assert_eq!([3, 5, 7].map(|end| slices.expired_slices(end)), [[None, None], [Some(5), None], [Some(7), Some(3)]]);
    assert_eq!([3, 5, 7].map(|end| slices.next_trigger_window(end, true)), [Some(5), Some(7), None]);
    assert_eq!([3, 5, 7].map(|end| slices.merged_slices(end).collect::<Vec<_>>()), [vec![], vec![5], vec![7]]);
    assert_eq!([3, 5, 7].map(|end| slices.late_target(end)), [3, 3, 3]);
    Ok(())
}

#[test]
fn a_hopping_window_that_is_no_multiple_of_its_slide_has_no_slices() {
    assert!(SliceAssigner::new(&hop(10, 3, 0)).is_err());
    assert!(SliceAssigner::new(&WindowSpec::Session { gap_ms: 1, partition: Vec::new() }).is_err());
}

fn windows() -> impl Strategy<Value = WindowSpec> {
    prop_oneof![
        (1..50_i64, -49..50_i64)
            .prop_map(|(size_ms, offset_ms)| WindowSpec::Tumbling { size_ms, offset_ms: offset_ms % size_ms }),
        (1..9_i64, 1..9_i64, -99..99_i64).prop_map(|(slide, times, offset)| hop(slide * times, slide, offset)),
        (1..9_i64, 1..9_i64, -99..99_i64).prop_map(|(step, times, offset)| cumulate(step * times, step, offset)),
    ]
}

proptest! {
    /// The windows that a slice is merged into are those that Flink assigns its times to.
    #[test]
    fn the_windows_of_a_slice_are_those_of_its_times(window in windows(), millis in -500..500_i64) {
        let slices = SliceAssigner::new(&window).map_err(|reason| TestCaseError::fail(reason.to_string()))?;
        let slice = slices.assign_slice_end(millis);
        prop_assert!(slice > millis && slice - slices.slice_end_interval() <= millis);
        let mut expected = assigned(&window, millis);
        expected.sort_unstable_by_key(|(_, end)| *end);
        let (mut end, mut found) = (slice, Vec::new());
        loop {
            found.push((slices.window_start(end), end));
            match slices.next_trigger_window(end, false) {
                Some(next) if next <= slices.last_window_end(slice) => end = next,
                _ => break,
            }
        }
        prop_assert_eq!(&found, &expected);
        prop_assert_eq!(slices.last_window_end(slice), expected.last().map_or(0, |(_, end)| *end));
        if slices.is_shared() && slices.merge_target(slice).is_none() {
            for (_, end) in found {
                prop_assert!(slices.merged_slices(end).any(|merged| merged == slice));
            }
        }
    }

    #[test]
    fn a_window_begins_at_or_before_a_time(millis in any::<i32>(), offset in -999..999_i64, size in 1..999_i64) {
        let start = window_start(millis.into(), offset, size);
        prop_assert!(start <= millis.into() && i64::from(millis) < start + size);
        prop_assert_eq!((start - offset).rem_euclid(size), 0);
    }
}
