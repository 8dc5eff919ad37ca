#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use proptest::prelude::*;
use streamfusion_plan::node::{JoinSpec, JoinType, ShiftZone};
use streamfusion_plan::rex::{Function, Rex};
use streamfusion_plan::types::TypeKind;

use super::*;
use crate::window::testing::{
    Event, Expected, Job, Row, batch, check, context, cuts, drain, events, input_type, row, second, windowing, zones,
};

const TYPES: [JoinType; 6] =
    [JoinType::Inner, JoinType::Left, JoinType::Right, JoinType::Full, JoinType::Semi, JoinType::Anti];

/// A key and its rows of both inputs.
type Joined = (String, [Vec<Row>; 2]);

/// A join to try.
#[derive(Debug, Clone)]
struct Case {
    join_type: JoinType,
    keys: Vec<usize>,
    filter_nulls: Vec<bool>,
    /// Whether the row time of the left row must be below that of the right one.
    condition: bool,
    zone: ShiftZone,
    limits: Limits,
}

impl Case {
    fn new(join_type: JoinType, condition: bool) -> Self {
        let (keys, filter_nulls) = (vec![1], vec![true]);
        Self { join_type, keys, filter_nulls, condition, zone: ShiftZone::Utc, limits: Limits::default() }
    }

    fn spec(&self) -> node::WindowJoin {
        let time = input_type().fields()[3].ty.clone();
        let condition = Rex::Call {
            function: Function::BuiltIn { name: "<".to_owned(), version: 1 },
            operands: vec![Rex::InputRef { index: 3, ty: time.clone() }, Rex::InputRef { index: 8, ty: time }],
            ty: LogicalType { kind: TypeKind::Boolean, nullable: true },
        };
        node::WindowJoin {
            join: JoinSpec {
                join_type: self.join_type,
                left_keys: self.keys.clone(),
                right_keys: self.keys.clone(),
                filter_nulls: self.filter_nulls.clone(),
                condition: self.condition.then_some(condition),
            },
            left: windowing(self.zone.clone()),
            right: windowing(self.zone.clone()),
        }
    }

    fn open(&self, context: &StateContext) -> Box<dyn Operator> {
        Box::new(WindowJoin::with_limits(&self.spec(), &input_type(), &input_type(), context, self.limits).unwrap())
    }

    /// Whether rows of one key match.
    fn matches(&self, left: &Row, right: &Row) -> bool {
        let null = |key: &usize| if *key == 1 { left.k.is_none() } else { left.v.is_none() };
        if self.keys.iter().zip(&self.filter_nulls).any(|(key, filtered)| *filtered && null(key)) {
            return false;
        }
        !self.condition || left.t.zip(right.t).is_some_and(|(left, right)| left < right)
    }

    /// WindowJoinHelper.doJoin
    fn join(&self, left: &[Row], right: &[Row], out: &mut Vec<String>) {
        let nulls = "NULL NULL NULL NULL NULL";
        let pair = |left: &Row, right: &Row| format!("{} {}", left.show(), right.show());
        match self.join_type {
            JoinType::Semi | JoinType::Anti => {
                for row in left {
                    let matches = right.iter().any(|other| self.matches(row, other));
                    if matches == (self.join_type == JoinType::Semi) {
                        out.push(row.show());
                    }
                }
            }
            JoinType::Right => {
                for row in right {
                    let before = out.len();
                    out.extend(left.iter().filter(|other| self.matches(other, row)).map(|other| pair(other, row)));
                    if out.len() == before {
                        out.push(format!("{nulls} {}", row.show()));
                    }
                }
            }
            JoinType::Inner | JoinType::Left | JoinType::Full => {
                for row in left {
                    let before = out.len();
                    out.extend(right.iter().filter(|other| self.matches(row, other)).map(|other| pair(row, other)));
                    if out.len() == before && self.join_type != JoinType::Inner {
                        out.push(format!("{} {nulls}", row.show()));
                    }
                }
                if self.join_type == JoinType::Full {
                    let alone = right.iter().filter(|row| !left.iter().any(|other| self.matches(other, row)));
                    out.extend(alone.map(|row| format!("{nulls} {}", row.show())));
                }
            }
        }
    }

    /// WindowJoinOperator, row by row. What is late is forgotten between the parts.
    fn model(&self, parts: &[&[Event]]) -> Expected {
        let zone = WindowZone::new(&self.zone);
        let mut slots: BTreeMap<i64, Vec<Joined>> = BTreeMap::new();
        let mut expected = Expected::default();
        for part in parts {
            let mut progress = i64::MIN;
            for event in *part {
                match event {
                    Event::Row(row) if zone.is_window_fired(row.window(), progress) => expected.late_rows += 1,
                    Event::Row(row) => {
                        let (of_window, key) = (slots.entry(row.window()).or_default(), row.key(&self.keys));
                        let at = of_window.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
                            of_window.push((key, Default::default()));
                            of_window.len() - 1
                        });
                        of_window[at].1[row.side].push(row.clone());
                    }
                    Event::Watermark(watermark) => {
                        // the task sends on none that goes back
                        progress = progress.max(*watermark);
                        while let Some(window) =
                            slots.first_entry().filter(|e| zone.is_window_fired(*e.key(), progress))
                        {
                            for (_, [left, right]) in window.remove() {
                                self.join(&left, &right, &mut expected.out);
                            }
                        }
                    }
                }
            }
        }
        expected
    }

    fn run(&self, events: &[Event], sizes: &[usize]) -> Vec<String> {
        let mut out = Vec::new();
        let factory = |context: &StateContext| self.open(context);
        Job::open(&factory, &self.keys, 1).run(events, sizes, &mut out);
        out
    }
}

/// Those of production, which these rows never come near, or ones that cut them everywhere.
fn limits() -> impl Strategy<Value = Limits> {
    let bytes = prop::sample::select(vec![1_usize, 20, 200, 1 << 20]);
    let small = (1_usize..6, 1_usize..6, 1_usize..6, bytes);
    let small = small.prop_map(|(chunk_rows, pairs, output_rows, bytes)| Limits {
        chunk_rows,
        pairs,
        output_rows,
        bytes,
        ..Limits::default()
    });
    prop_oneof![1 => Just(Limits::default()), 3 => small]
}

fn cases() -> impl Strategy<Value = Case> {
    let keys = prop::sample::select(vec![
        (vec![1], vec![true]),
        (vec![1], vec![false]),
        (vec![2, 1], vec![true, false]),
        (vec![2], vec![true]),
        (vec![], vec![]),
    ]);
    (prop::sample::select(TYPES.to_vec()), keys, any::<bool>(), zones(), limits()).prop_map(
        |(join_type, (keys, filter_nulls), condition, zone, limits)| Case {
            join_type,
            keys,
            filter_nulls,
            condition,
            zone,
            limits,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn rows_are_flinks_at_any_cut_restore_and_rescaling(case in cases(), events in events(2), cuts in cuts()) {
        check(&|context| case.open(context), &case.keys, &events, &cuts, |parts| case.model(parts))?;
    }
}

/// Three rows on the left, two on the right, of one key and window.
fn five() -> Vec<Event> {
    vec![
        row("1 7 a 1 10"),
        row("2 7 b 5 10"),
        second("3 7 c 4 10"),
        row("4 7 d 9 10"),
        second("5 7 e 0 10"),
        Event::Watermark(9),
    ]
}

#[test]
fn every_type_joins_in_a_nested_loop_and_pads_where_flink_does() {
    let nulls = "NULL NULL NULL NULL NULL";
    let matching = "1 7 a 1 10 3 7 c 4 10".to_owned();
    let left = [format!("2 7 b 5 10 {nulls}"), format!("4 7 d 9 10 {nulls}")];
    let right = format!("{nulls} 5 7 e 0 10");
    let cases = [
        (JoinType::Inner, vec![matching.clone()]),
        (JoinType::Left, [vec![matching.clone()], left.to_vec()].concat()),
        (JoinType::Right, vec![matching.clone(), right.clone()]),
        (JoinType::Full, [vec![matching], left.to_vec(), vec![right]].concat()),
        (JoinType::Semi, vec!["1 7 a 1 10".to_owned()]),
        (JoinType::Anti, vec!["2 7 b 5 10".to_owned(), "4 7 d 9 10".to_owned()]),
    ];
    for (join_type, expected) in cases {
        for sizes in [vec![], vec![2, 1, 1, 1]] {
            assert_eq!(Case::new(join_type, true).run(&five(), &sizes), expected, "{join_type:?}");
        }
    }
}

#[test]
fn a_right_join_goes_through_the_right_rows() {
    let ids = |join_type| -> Vec<String> {
        let id = |row: &String| row.split(' ').step_by(5).collect::<Vec<_>>().join(" ");
        Case::new(join_type, false).run(&five(), &[]).iter().map(id).collect()
    };
    assert_eq!(ids(JoinType::Left), ["1 3", "1 5", "2 3", "2 5", "4 3", "4 5"]);
    assert_eq!(ids(JoinType::Right), ["1 3", "2 3", "4 3", "1 5", "2 5", "4 5"]);
}

#[test]
fn a_null_in_the_key_matches_null_only_if_it_is_not_filtered() {
    let events = [row("1 NULL a 1 10"), second("2 NULL a 1 10"), Event::Watermark(9)];
    let safe = Case { filter_nulls: vec![false], ..Case::new(JoinType::Inner, false) };
    assert_eq!(safe.run(&events, &[]), ["1 NULL a 1 10 2 NULL a 1 10"]);
    assert!(Case::new(JoinType::Inner, false).run(&events, &[]).is_empty());
    assert_eq!(Case::new(JoinType::Full, false).run(&events, &[]).len(), 2);
    assert_eq!(Case::new(JoinType::Anti, false).run(&events, &[]).len(), 1);
}

#[test]
fn a_late_row_is_dropped_on_either_side_and_again_in_time_behind_a_restore() {
    let case = Case::new(JoinType::Inner, false);
    let factory = |context: &StateContext| case.open(context);
    let (mut job, mut out) = (Job::open(&factory, &[1], 1), Vec::new());
    job.run(&[Event::Watermark(9), row("1 7 a 1 10"), second("2 7 a 1 10"), row("3 7 a 1 20")], &[], &mut out);
    assert_eq!(job.late_rows(), 2);
    let mut job = job.restored(2);
    job.run(&[row("4 7 a 1 10"), second("5 7 a 1 10"), Event::Watermark(9)], &[], &mut out);
    assert_eq!((out, job.late_rows()), (vec!["4 7 a 1 10 5 7 a 1 10".to_owned()], 2));
}

#[test]
fn a_pair_that_flink_never_looks_at_cannot_fail() {
    let int = || LogicalType { kind: TypeKind::BigInt, nullable: true };
    // 1 / right.k = 1: of the second right row the divisor is zero
    let call = |name: &str, operands, ty| Rex::Call {
        function: Function::BuiltIn { name: name.to_owned(), version: 1 },
        operands,
        ty,
    };
    let literal = Rex::Literal { value: streamfusion_plan::rex::Literal::Integer(1), ty: int() };
    let quotient = call("/", vec![literal.clone(), Rex::InputRef { index: 6, ty: int() }], int());
    let condition = call("=", vec![quotient, literal], LogicalType { kind: TypeKind::Boolean, nullable: true });
    let open = |join_type| {
        let case = Case { keys: vec![], filter_nulls: vec![], ..Case::new(join_type, false) };
        let mut spec = case.spec();
        spec.join.condition = Some(condition.clone());
        WindowJoin::try_new(&spec, &input_type(), &input_type(), &context()).unwrap()
    };
    let rows = |events: &[Event]| -> Vec<Row> {
        events.iter().map(|event| if let Event::Row(row) = event { row.clone() } else { unreachable!() }).collect()
    };
    let left = rows(&[row("1 1 a 1 10"), row("2 1 a 1 10")]);
    let good = rows(&[second("3 1 a 1 10"), second("4 0 a 1 10")]);
    let bad = rows(&[second("3 2 a 1 10"), second("4 0 a 1 10")]);
    let run = |join_type, right: &[Row]| {
        let mut join = open(join_type);
        join.push(batch(&left)).unwrap();
        join.push_second(batch(right)).unwrap();
        join.watermark(9).unwrap();
        let mut rows = 0;
        loop {
            match join.pull() {
                Ok(Some(batch)) => rows += batch.num_rows(),
                Ok(None) => return Ok(rows),
                Err(error) => return Err(error),
            }
        }
    };
    assert_eq!((run(JoinType::Semi, &good), run(JoinType::Anti, &good)), (Ok(2), Ok(0)));
    assert!(run(JoinType::Semi, &bad).is_err() && run(JoinType::Anti, &bad).is_err());
    assert!(run(JoinType::Inner, &good).is_err());
}

#[test]
fn a_join_that_explodes_is_handed_out_in_batches() {
    let rows = |side| -> Vec<Row> {
        let row = |id| Row { side, id, k: Some(1), v: Some("a".to_owned()), t: Some(1), end: Some(10) };
        (0..1000).map(row).collect()
    };
    for condition in [false, true] {
        let mut join = Case::new(JoinType::Left, condition).open(&context());
        join.push(batch(&rows(0))).unwrap();
        join.push_second(batch(&rows(1))).unwrap();
        join.watermark(9).unwrap();
        let (mut all, mut most) = (0, 0);
        while let Some(batch) = join.pull().unwrap() {
            (all, most) = (all + batch.num_rows(), most.max(join.bundle_bytes()));
        }
        assert_eq!(all, if condition { 1000 } else { 1_000_000 });
        assert!(most < 2 << 20, "{most} bytes");
    }
    let mut out = Vec::new();
    let mut join = Case::new(JoinType::Semi, false).open(&context());
    join.push(batch(&rows(0))).unwrap();
    join.push_second(batch(&rows(1))).unwrap();
    join.watermark(9).unwrap();
    drain(join.as_mut(), &mut out);
    assert_eq!(out.len(), 1000);
}

#[test]
fn keys_of_other_types_are_refused() {
    let mut right = input_type();
    let TypeKind::Row(fields) = &mut right.kind else { unreachable!() };
    let mut changed: Vec<_> = fields.to_vec();
    changed[1].ty.kind = TypeKind::Integer;
    *fields = changed.into();
    let spec = Case::new(JoinType::Inner, false).spec();
    assert!(supports(&spec, &input_type(), &right).is_err());
    assert!(supports(&spec, &input_type(), &input_type()).is_ok());
}
