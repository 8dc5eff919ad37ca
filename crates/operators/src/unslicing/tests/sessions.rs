//! The sessions of one key.

use proptest::prelude::*;

use super::super::sessions::{Ended, Merging, Outcome, Progress, Session, Sessions};
use super::model::{Model, Rows};
use crate::window::TimeWindow as Window;

/// Local time and instants: the same but for a jump, such as no zone has any more.
fn timer(jump: bool) -> impl Fn(i64) -> i64 + Copy {
    move |local| if jump && local >= 40 { local - 15 } else { local }
}

struct Clock<T> {
    timer: T,
    watermark: i64,
}

impl<T: Fn(i64) -> i64> Progress for Clock<T> {
    fn is_late(&mut self, window: Window) -> bool {
        (self.timer)(window.end - 1) <= self.watermark
    }

    fn is_past(&mut self, window: Window) -> bool {
        self.is_late(window)
    }
}

/// Sessions with what they add up to.
#[derive(Default)]
struct Folded {
    sessions: Sessions,
    rows: Vec<Rows>,
}

impl Folded {
    fn add(&mut self, row: u32, own: Window, clock: &mut impl Progress) -> Result<bool, Ended> {
        let place = match self.sessions.add(own, clock)? {
            Outcome::Late => return Ok(false),
            Outcome::Joined(place) => place,
            Outcome::Opened(place) => {
                self.sessions.as_mut_slice()[place].slot = self.rows.len() as u32;
                self.rows.push(Rows::new());
                place
            }
            Outcome::Merged { into, from } => {
                let rows = std::mem::take(&mut self.rows[from.slot as usize]);
                let slot = self.sessions.as_slice()[into].slot;
                self.rows[slot as usize].extend(rows);
                into
            }
        };
        let slot = self.sessions.as_slice()[place].slot;
        self.rows[slot as usize].push(row);
        Ok(true)
    }

    fn advance(&mut self, clock: &mut impl Progress) -> Vec<(Window, Rows)> {
        let due: Vec<Session> =
            self.sessions.as_slice().iter().filter(|session| clock.is_past(session.window)).copied().collect();
        let fired = due.iter().map(|session| {
            let taken = self.sessions.take(session.slot);
            assert_eq!(taken, Some(*session));
            (session.window, self.rows[session.slot as usize].clone())
        });
        fired.collect()
    }
}

fn apart(sessions: &[Session]) -> bool {
    sessions.windows(2).all(|pair| pair[0].window.end < pair[1].window.start)
}

#[derive(Debug, Clone)]
enum Step {
    Row(i64),
    Watermark(i64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![5 => (0_i64..90).prop_map(Step::Row), 1 => (0_i64..90).prop_map(Step::Watermark)];
    prop::collection::vec(step, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn rows_and_watermarks_do_what_the_model_says(steps in steps(), gap in 1_i64..12, jump in any::<bool>(), base in
        prop::sample::select(vec![0_i64, -40, 1_704_067_200_000, -62_135_596_800_000])
    ) {
        let jump = jump && base == 0;
        let timer = timer(jump);
        let (mut model, mut folded) = (Model::default(), Folded::default());
        let mut clock = Clock { timer, watermark: i64::MIN };
        for (row, step) in (0_u32..).zip(&steps) {
            match step {
                Step::Row(time) => {
                    let own = Window { start: base + time, end: base + time + gap };
                    let expected = model.add(row, own, timer, clock.watermark);
                    let found = folded.add(row, own, &mut clock).map_err(|_| ());
                    prop_assert_eq!(found, expected);
                    if found.is_err() {
                        return Ok(());
                    }
                }
                Step::Watermark(time) => {
                    clock.watermark = clock.watermark.max(base + time);
                    let (mut fired, mut expected) = (folded.advance(&mut clock), model.advance(clock.watermark));
                    if jump {
                        fired.sort();
                        expected.sort();
                    }
                    prop_assert_eq!(fired, expected);
                }
            }
            prop_assert!(apart(folded.sessions.as_slice()));
        }
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
        assert_eq!(Window { start, end }.bucket(), bucket, "{start} {end}");
    }
}

#[test]
fn given_windows_are_kept_apart_even_where_they_overlap() {
    let mut clock = Clock { timer: timer(false), watermark: 10 };
    let mut sessions = Sessions::default();
    let mut attach = |start, end| sessions.attach(Window { start, end }, &mut clock);
    assert_eq!(attach(0, 11), Outcome::Late);
    assert_eq!(attach(5, 20), Outcome::Opened(0));
    assert_eq!(attach(5, 18), Outcome::Opened(0));
    assert_eq!(attach(0, 12), Outcome::Opened(0));
    assert_eq!(attach(5, 20), Outcome::Joined(2));
    assert_eq!(attach(5, 18), Outcome::Joined(1));
    assert_eq!(sessions.as_slice().len(), 3);
}
