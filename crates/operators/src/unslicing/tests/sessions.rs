//! The sessions of one key. What rows and watermarks make of them is compared with a model in the tests of the aggregates.

use crate::unslicing::sessions::{Merging, Outcome, Progress, Sessions};
use crate::window::TimeWindow;

/// Local time is that of instants.
struct Watermark(i64);

impl Progress for Watermark {
    fn is_late(&mut self, window: TimeWindow) -> bool {
        window.max_timestamp() <= self.0
    }

    fn is_past(&mut self, window: TimeWindow) -> bool {
        self.is_late(window)
    }
}

#[test]
fn windows_are_listed_as_java_lists_them() {
    // of HashSets of TimeWindows on a JVM
    let listed = [
        (64_236, 113_401, 10),
        (29_485, 57_530, 4),
        (-86_301_150, -86_261_615, 8),
        (-86_325_505, -86_285_842, 15),
        (1_704_067_212_961, 1_704_067_213_700, 11),
        (1_704_067_258_883, 1_704_067_285_935, 6),
        (253_402_300_804_239, 253_402_300_841_640, 0),
        (253_402_300_799_123, 253_402_300_827_197, 11),
        (-62_135_596_765_465, -62_135_596_748_972, 5),
    ];
    for (start, end, bucket) in listed {
        assert_eq!(TimeWindow { start, end }.bucket(), bucket, "{start} {end}");
    }
}

#[test]
fn given_windows_are_kept_apart_even_where_they_overlap() {
    let mut watermark = Watermark(10);
    let mut sessions = Sessions::default();
    let mut attach = |start, end| sessions.attach(TimeWindow { start, end }, &mut watermark);
    assert_eq!(attach(0, 11), Outcome::Late);
    assert_eq!(attach(5, 20), Outcome::Opened(0));
    assert_eq!(attach(5, 18), Outcome::Opened(0));
    assert_eq!(attach(0, 12), Outcome::Opened(0));
    assert_eq!(attach(5, 20), Outcome::Joined(2));
    assert_eq!(attach(5, 18), Outcome::Joined(1));
    assert_eq!(sessions.as_slice().len(), 3);
}
