//! In which order rows and events leave a stage.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::datatypes::Int64Type;
use serde_json::Value;
use streamfusion_operators::bundle::{BundleMetrics, FlushReason};
use streamfusion_operators::{DroppedRows, Mark, MiniBatchAssigner, Operator, OperatorError, WatermarkStatus};
use streamfusion_plan::node;
use streamfusion_plan::types::TimeDomain;
use streamfusion_row::Batch;

use crate::stage::{Output, Stage};

type Log = Arc<Mutex<Vec<String>>>;

/// Keeps rows until its bundle ends, then hands them out one by one, and says so in a log.
struct Bundles {
    name: &'static str,
    rows: Vec<i64>,
    out: VecDeque<i64>,
    log: Log,
    metrics: BundleMetrics,
}

fn bundles(name: &'static str, log: &Log) -> Box<dyn Operator> {
    let metrics =
        BundleMetrics { peak: streamfusion_operators::bundle::BundleShape { rows: 7, keys: 3 }, ..Default::default() };
    Box::new(Bundles { name, rows: Vec::new(), out: VecDeque::new(), log: Arc::clone(log), metrics })
}

fn batch(values: &[i64]) -> Batch {
    let column: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
    Batch::try_new(vec![column], values.len(), None).unwrap()
}

fn values(batch: &Batch) -> Vec<i64> {
    batch.columns()[0].as_primitive::<Int64Type>().values().to_vec()
}

impl Operator for Bundles {
    fn push(&mut self, batch: Batch) -> Result<(), OperatorError> {
        self.rows.extend(values(&batch));
        Ok(())
    }

    fn push_second(&mut self, batch: Batch) -> Result<(), OperatorError> {
        self.rows.extend(values(&batch).iter().map(|value| -value));
        Ok(())
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        Ok(self.out.pop_front().map(|value| {
            self.log.lock().unwrap().push(format!("{} hands out {value}", self.name));
            batch(&[value])
        }))
    }

    fn flush(&mut self, reason: FlushReason) -> Result<(), OperatorError> {
        self.log.lock().unwrap().push(format!("{} {reason:?}", self.name));
        self.out.extend(self.rows.drain(..));
        Ok(())
    }

    fn bundle_metrics(&self) -> Option<&BundleMetrics> {
        Some(&self.metrics)
    }

    fn bundle_bytes(&self) -> usize {
        8 * self.rows.len()
    }
}

fn drain(stage: &mut Stage) -> Vec<String> {
    let mut out = Vec::new();
    while let Some(output) = stage.pull().unwrap() {
        out.push(match output {
            Output::Batch(batch) => format!("{:?}", values(&batch)),
            Output::Watermark(watermark) => format!("watermark {watermark}"),
            Output::Status(status) => format!("{status:?}"),
        });
    }
    out
}

fn assigner(mode: TimeDomain) -> Box<dyn Operator> {
    Box::new(MiniBatchAssigner::new(&node::MiniBatchAssigner { mode, interval_ms: 100 }))
}

#[test]
fn a_bundle_leaves_the_whole_chain_in_front_of_the_watermark_that_ends_it() {
    let log = Log::default();
    let mut stage = Stage::of_operators(vec![bundles("a", &log), bundles("b", &log)], None).unwrap();
    stage.push(0, batch(&[1, 2])).unwrap();
    assert!(drain(&mut stage).is_empty());
    assert_eq!(stage.memory().unwrap().used_bytes, 16);
    stage.watermark(50).unwrap();
    assert_eq!(drain(&mut stage), ["[1]", "[2]", "watermark 50"]);
    let expected = ["a Watermark", "a hands out 1", "a hands out 2", "b Watermark", "b hands out 1", "b hands out 2"];
    assert_eq!(*log.lock().unwrap(), expected);
    let memory = stage.memory().unwrap();
    assert_eq!((memory.used_bytes, memory.peak_bytes), (0, 16));
}

#[test]
fn a_bundle_that_a_checkpoint_ends_is_handed_out_one_batch_at_a_time() {
    let log = Log::default();
    let mut stage = Stage::of_operators(vec![bundles("a", &log)], None).unwrap();
    stage.push(0, batch(&[1, 2, 3])).unwrap();
    drain(&mut stage);
    stage.flush_bundles(FlushReason::Checkpoint).unwrap();
    assert!(matches!(stage.pull(), Ok(Some(Output::Batch(_)))));
    assert_eq!(*log.lock().unwrap(), ["a Checkpoint", "a hands out 1"]);
    assert_eq!(drain(&mut stage), ["[2]", "[3]"]);
}

#[test]
fn the_second_input_reaches_the_first_operator_alone() {
    let log = Log::default();
    let mut stage = Stage::of_operators(vec![bundles("a", &log), bundles("b", &log)], None).unwrap();
    stage.push(0, batch(&[1])).unwrap();
    drain(&mut stage);
    stage.push(1, batch(&[2])).unwrap();
    drain(&mut stage);
    stage.flush_bundles(FlushReason::EndOfInput).unwrap();
    assert_eq!(drain(&mut stage), ["[1]", "[-2]"]);
    assert!(stage.push(2, batch(&[2])).is_err());
}

#[test]
fn a_watermark_of_one_of_two_inputs_ends_the_bundle_of_the_first_operator_alone() {
    let log = Log::default();
    let mut stage = Stage::of_operators(vec![bundles("a", &log), bundles("b", &log)], None).unwrap();
    stage.push(0, batch(&[1])).unwrap();
    drain(&mut stage);
    stage.flush_bundles(FlushReason::Watermark).unwrap();
    assert!(drain(&mut stage).is_empty());
    assert_eq!(*log.lock().unwrap(), ["a Watermark", "a hands out 1"]);
    stage.watermark(5).unwrap();
    assert_eq!(drain(&mut stage), ["[1]", "watermark 5"]);
}

#[test]
fn a_marker_by_processing_time_ends_the_bundles_behind_the_assigner_alone() {
    let log = Log::default();
    let operators = vec![bundles("a", &log), assigner(TimeDomain::Proctime), bundles("b", &log)];
    let mut stage = Stage::of_operators(operators, None).unwrap();
    assert_eq!(stage.timer(), Some(0));
    stage.processing_time(1_010).unwrap();
    assert!(drain(&mut stage).is_empty(), "the first time sets the timer");
    assert_eq!(stage.timer(), Some(1_110));
    stage.push(0, batch(&[1])).unwrap();
    drain(&mut stage);
    stage.watermark(77).unwrap();
    assert!(drain(&mut stage).is_empty(), "the assigner swallows watermarks");
    log.lock().unwrap().clear();
    assert!(stage.processing_time(1_110).unwrap());
    assert_eq!(drain(&mut stage), ["[1]", "watermark 1100"]);
    assert_eq!(*log.lock().unwrap(), ["b Marker", "b hands out 1"]);
}

#[test]
fn the_last_watermark_of_an_assigner_leaves_in_front_of_the_end() {
    let log = Log::default();
    let mut stage = Stage::of_operators(vec![assigner(TimeDomain::Rowtime), bundles("b", &log)], None).unwrap();
    assert_eq!(stage.timer(), None);
    stage.watermark(150).unwrap();
    assert_eq!(drain(&mut stage), ["watermark 150"]);
    stage.watermark(180).unwrap();
    stage.push(0, batch(&[1])).unwrap();
    assert!(drain(&mut stage).is_empty());
    stage.flush_bundles(FlushReason::EndOfInput).unwrap();
    assert_eq!(drain(&mut stage), ["[1]", "watermark 180"]);
    assert_eq!(*log.lock().unwrap(), ["b Watermark", "b Watermark", "b hands out 1", "b EndOfInput"]);
}

#[test]
fn what_bundles_came_to_stands_among_the_counters_of_the_node() {
    let log = Log::default();
    let stage = Stage::of_operators(vec![assigner(TimeDomain::Rowtime), bundles("b", &log)], None).unwrap();
    let metrics: Value = serde_json::from_str(&stage.metrics()).unwrap();
    assert_eq!(metrics["nodes"][0].get("peakBundleRows"), None);
    assert_eq!(metrics["nodes"][1]["peakBundleRows"], 7);
}

/// Hands its rows out one by one, with a watermark behind each that ends in 0 and a status behind each that ends in 5.
#[derive(Default)]
struct Marks {
    out: VecDeque<i64>,
    mark: Option<Mark>,
    progress: i64,
    late: u64,
}

impl Operator for Marks {
    fn push(&mut self, batch: Batch) -> Result<(), OperatorError> {
        self.out.extend(values(&batch));
        Ok(())
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        if self.mark.is_some() {
            return Ok(None);
        }
        Ok(self.out.pop_front().map(|value| {
            self.mark = match value % 10 {
                0 => Some(Mark::Watermark(value)),
                5 => Some(Mark::Status(WatermarkStatus::Idle)),
                _ => None,
            };
            self.progress = value;
            batch(&[value])
        }))
    }

    fn mark(&mut self) -> Option<Mark> {
        self.mark.take()
    }

    fn status(&mut self, status: WatermarkStatus) -> Result<Option<WatermarkStatus>, OperatorError> {
        self.late += 1;
        Ok(Some(status))
    }

    fn progress(&self) -> Option<i64> {
        Some(self.progress)
    }

    fn restore_progress(&mut self, watermark_ms: i64) {
        self.progress = watermark_ms;
    }

    fn late_rows(&self) -> Option<u64> {
        Some(self.late)
    }

    fn processing_time(&mut self, now_ms: i64) -> Result<Option<i64>, OperatorError> {
        self.mark = (now_ms > 100).then_some(Mark::Status(WatermarkStatus::Active));
        Ok(None)
    }

    fn timer(&self) -> Option<i64> {
        Some(100)
    }
}

#[test]
fn a_mark_leaves_the_chain_in_front_of_the_rows_that_its_operator_hands_out_next() {
    let log = Log::default();
    let operators: Vec<Box<dyn Operator>> =
        vec![Box::new(Marks::default()), bundles("a", &log), Box::new(Marks::default()), bundles("b", &log)];
    let mut stage = Stage::of_operators(operators, None).unwrap();
    stage.push(0, batch(&[1, 10, 2, 5, 3])).unwrap();
    // the second operator with marks adds its own behind row 10
    assert_eq!(drain(&mut stage), ["[1]", "[10]", "watermark 10", "watermark 10", "Idle"]);
    assert!(log.lock().unwrap().iter().all(|entry| entry != "a hands out 2"), "a status ends no bundle");
    stage.watermark(20).unwrap();
    assert_eq!(drain(&mut stage), ["Idle", "[2]", "[5]", "[3]", "watermark 20"]);
}

#[test]
fn a_status_goes_down_the_chain_and_past_open_bundles() {
    let log = Log::default();
    let mut stage = Stage::of_operators(vec![bundles("a", &log), Box::new(Marks::default())], None).unwrap();
    stage.push(0, batch(&[1])).unwrap();
    stage.status(WatermarkStatus::Active).unwrap();
    assert_eq!(drain(&mut stage), ["Active"]);
    assert_eq!(stage.dropped_rows(), DroppedRows { late: Some(1), ..DroppedRows::default() });
    let metrics: Value = serde_json::from_str(&stage.metrics()).unwrap();
    assert_eq!(metrics["nodes"][1]["lateRowsDropped"], 1);
}

#[test]
fn what_a_timer_brings_is_to_be_pulled() {
    let mut stage = Stage::of_operators(vec![Box::new(Marks::default())], None).unwrap();
    assert!(!stage.processing_time(99).unwrap());
    assert!(stage.processing_time(101).unwrap());
    assert_eq!(drain(&mut stage), ["Active"]);
}

#[test]
fn the_progress_of_a_stage_is_that_of_the_operator_that_has_come_least_far() {
    let log = Log::default();
    let operators: Vec<Box<dyn Operator>> =
        vec![Box::new(Marks::default()), bundles("a", &log), Box::new(Marks::default())];
    let mut stage = Stage::of_operators(operators, None).unwrap();
    stage.restore_progress(7).unwrap();
    assert_eq!(stage.progress(), Some(7));
    stage.push(0, batch(&[8])).unwrap();
    drain(&mut stage);
    assert_eq!(stage.progress(), Some(7));
    assert_eq!(Stage::of_operators(vec![bundles("a", &log)], None).unwrap().progress(), None);
}
