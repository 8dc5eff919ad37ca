//! An assigner against a model that takes one row at a time, and what it fails with.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use arrow::array::{BooleanArray, Int64Array, TimestampMillisecondArray};
use arrow::datatypes::Int64Type;
use proptest::prelude::*;
use streamfusion_plan::rex::Rex;
use streamfusion_plan::types::{LogicalType, TimeAttribute, TypeKind};

use super::*;

/// Reads row time from column 1 and the watermark from column 2.
fn assigner(interval_ms: i64, idle_timeout_ms: i64) -> WatermarkAssigner {
    let kind = TypeKind::Timestamp { precision: 3, attribute: TimeAttribute::Regular };
    let watermark = Rex::InputRef { index: 2, ty: LogicalType { kind, nullable: true } };
    let spec = node::WatermarkAssigner { row_time: 1, watermark, idle_timeout_ms };
    let mut assigner = WatermarkAssigner::try_new(&spec, &|_| None).unwrap();
    assigner.auto_watermark_interval(interval_ms);
    assigner
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Row {
    id: i64,
    row_time: Option<i64>,
    watermark: Option<i64>,
}

fn batch(rows: &[Row]) -> Batch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| Some(row.id)).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| row.row_time).collect::<TimestampMillisecondArray>()),
        Arc::new(rows.iter().map(|row| row.watermark).collect::<TimestampMillisecondArray>()),
        Arc::new(rows.iter().map(|row| Some(row.id % 2 == 0)).collect::<BooleanArray>()),
    ];
    Batch::try_new(columns, rows.len(), None).unwrap()
}

/// What leaves, as text, one entry per row; ends with the text of an error.
fn drain(assigner: &mut WatermarkAssigner, out: &mut Vec<String>) -> bool {
    loop {
        match assigner.pull() {
            Ok(Some(batch)) => {
                assert!(batch.num_rows() > 0);
                out.extend(
                    batch.columns()[0].as_primitive::<Int64Type>().values().iter().map(|id| format!("row {id}")),
                );
            }
            Ok(None) => match assigner.mark() {
                Some(mark) => out.push(text(mark)),
                None => return true,
            },
            Err(error) => {
                out.push(error.to_string());
                return false;
            }
        }
    }
}

fn text(mark: Mark) -> String {
    match mark {
        Mark::Watermark(watermark) => format!("watermark {watermark}"),
        Mark::Status(status) => format!("{status:?}"),
    }
}

/// WatermarkAssignerOperator, method by method.
struct Model {
    interval: i64,
    idle_timeout: i64,
    current: i64,
    last: i64,
    last_periodic: i64,
    last_check: i64,
    status: WatermarkStatus,
    elements: i64,
    checked_elements: i64,
    timer: i64,
    out: Vec<String>,
}

impl Model {
    fn open(interval: i64, idle_timeout: i64, now: i64) -> Self {
        let runs = interval > 0 || idle_timeout > 0;
        Self {
            interval,
            idle_timeout,
            current: 0,
            last: 0,
            last_periodic: now,
            last_check: now,
            status: WatermarkStatus::Active,
            elements: 0,
            checked_elements: -1,
            timer: if runs { now + Self::timer_interval(interval, idle_timeout) } else { i64::MAX },
            out: Vec::new(),
        }
    }

    fn timer_interval(interval: i64, idle_timeout: i64) -> i64 {
        match (interval, idle_timeout) {
            (..=0, _) => idle_timeout,
            (_, ..=0) => interval,
            _ if interval.min(idle_timeout) * 5 < interval.max(idle_timeout) => interval.min(idle_timeout),
            _ => (interval.min(idle_timeout) / 5).max(1),
        }
    }

    fn emit_status(&mut self, status: WatermarkStatus) {
        self.status = status;
        self.out.push(format!("{status:?}"));
    }

    fn element(&mut self, row: Row) -> bool {
        self.elements += 1;
        if self.idle_timeout > 0 && self.status == WatermarkStatus::Idle {
            self.emit_status(WatermarkStatus::Active);
        }
        if row.row_time.is_none() {
            self.out.push(null_row_time().to_string());
            return false;
        }
        if let Some(watermark) = row.watermark {
            self.current = self.current.max(watermark);
        }
        self.out.push(format!("row {}", row.id));
        if self.current - self.last > self.interval {
            self.advance();
        }
        true
    }

    fn advance(&mut self) {
        if self.current > self.last {
            self.last = self.current;
            self.out.push(format!("watermark {}", self.current));
        }
    }

    fn time(&mut self, now: i64, activity: i64) {
        if self.timer > now {
            return;
        }
        if self.interval > 0 && self.last_periodic + self.interval <= now {
            self.last_periodic = now;
            self.advance();
        }
        if self.elements != self.checked_elements {
            self.last_check = activity;
            self.checked_elements = self.elements;
        }
        if self.idle_timeout > 0
            && self.status == WatermarkStatus::Active
            && self.last_check + self.idle_timeout <= activity
        {
            self.emit_status(WatermarkStatus::Idle);
        }
        self.timer = now + Self::timer_interval(self.interval, self.idle_timeout);
    }

    fn watermark(&mut self, watermark: i64) {
        if watermark == i64::MAX && self.current != i64::MAX {
            if self.idle_timeout > 0 && self.status == WatermarkStatus::Idle {
                self.emit_status(WatermarkStatus::Active);
            }
            self.current = i64::MAX;
            self.out.push(format!("watermark {watermark}"));
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// Rows as far from the one before; none is a NULL watermark.
    Rows(Vec<(Option<i64>, bool)>),
    /// The clock, and that of activity, go on.
    Time(i64, i64),
    Watermark(i64),
    Status(WatermarkStatus),
    Cut,
}

fn step() -> impl Strategy<Value = Step> {
    let row = (proptest::option::weighted(0.9, -30..60_i64), proptest::bool::weighted(0.002));
    prop_oneof![
        8 => proptest::collection::vec(row, 1..20).prop_map(Step::Rows),
        3 => (0..150_i64, 0..150_i64).prop_map(|(now, activity)| Step::Time(now, activity)),
        1 => prop_oneof![Just(i64::MAX), 0..500_i64].prop_map(Step::Watermark),
        1 => prop_oneof![Just(WatermarkStatus::Idle), Just(WatermarkStatus::Active)].prop_map(Step::Status),
        1 => Just(Step::Cut),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn rows_watermarks_and_statuses_leave_as_they_do_row_by_row(
        interval in prop_oneof![Just(0), Just(200), 1..100_i64],
        idle_timeout in prop_oneof![Just(0), 1..300_i64],
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let (mut now, mut activity) = (5_000, 77);
        let mut model = Model::open(interval, idle_timeout, now);
        let mut assigner = assigner(interval, idle_timeout);
        prop_assert_eq!(assigner.timer().is_some(), interval > 0 || idle_timeout > 0);
        assigner.processing_time(now).unwrap();
        let (mut out, mut waiting, mut time, mut id, mut alive) = (Vec::new(), Vec::new(), 1_000, 0, true);
        for step in steps {
            if !alive {
                break;
            }
            if let Step::Rows(rows) = step {
                for (distance, fails) in rows {
                    time += distance.unwrap_or(0);
                    id += 1;
                    let row = Row { id, row_time: (!fails).then_some(time), watermark: distance.map(|_| time) };
                    waiting.push(row);
                    alive = alive && model.element(row);
                }
                continue;
            }
            let rows: Vec<Row> = std::mem::take(&mut waiting);
            assigner.push(batch(&rows)).unwrap();
            drain(&mut assigner, &mut out);
            match step {
                Step::Time(passes, passes_active) => {
                    (now, activity) = (now + passes, activity + passes_active);
                    model.time(now, activity);
                    assigner.input_activity_time(activity);
                    prop_assert_eq!(assigner.processing_time(now).unwrap(), None);
                    drain(&mut assigner, &mut out);
                    prop_assert!(assigner.timer().is_none_or(|timer| timer == model.timer));
                }
                Step::Watermark(watermark) => {
                    model.watermark(watermark);
                    let goes_on = assigner.watermark(watermark).unwrap();
                    drain(&mut assigner, &mut out);
                    out.extend(goes_on.map(|watermark| format!("watermark {watermark}")));
                }
                Step::Status(status) => {
                    model.emit_status(status);
                    let goes_on = assigner.status(status).unwrap();
                    out.extend(goes_on.map(|status| format!("{status:?}")));
                }
                Step::Rows(_) | Step::Cut => {}
            }
        }
        assigner.push(batch(&waiting)).unwrap();
        if drain(&mut assigner, &mut out) && alive {
            model.watermark(i64::MAX);
            let goes_on = assigner.finish().unwrap();
            drain(&mut assigner, &mut out);
            out.extend(goes_on.map(|watermark| format!("watermark {watermark}")));
        }
        prop_assert_eq!(out, model.out);
    }
}

#[test]
fn a_batch_is_cut_behind_the_row_that_exceeds_the_interval() {
    let row = |id, time| Row { id, row_time: Some(time), watermark: Some(time) };
    let mut assigner = assigner(200, 0);
    assigner.push(batch(&[row(1, 100), row(2, 200), row(3, 201), row(4, 150), row(5, 401), row(6, 402)])).unwrap();
    let mut out = Vec::new();
    assert!(drain(&mut assigner, &mut out));
    let expected = ["row 1", "row 2", "row 3", "watermark 201", "row 4", "row 5", "row 6", "watermark 402"];
    assert_eq!(out, expected);
}

#[test]
fn the_rows_before_one_without_a_row_time_have_gone_when_it_fails() {
    let row = |id, row_time| Row { id, row_time, watermark: Some(1_000) };
    let mut assigner = assigner(200, 0);
    assigner.push(batch(&[row(1, Some(5)), row(2, Some(6)), row(3, None), row(4, Some(7))])).unwrap();
    let mut out = Vec::new();
    assert!(!drain(&mut assigner, &mut out));
    let failure =
        "java.lang.RuntimeException: RowTime field should not be null, please convert it to a non-null long value.";
    assert_eq!(out, ["row 1", "watermark 1000", "row 2", failure]);
}
