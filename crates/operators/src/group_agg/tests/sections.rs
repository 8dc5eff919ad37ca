//! The sections of GROUP BY: files that stay readable, and sections that are not this aggregate's.
//!
//! `cargo test -p streamfusion-operators write_golden -- --ignored` writes the files. A file is never written anew for a
//! version that was released.

use std::fs;
use std::path::PathBuf;

use arrow::array::{RecordBatch, UInt32Array};
use arrow::datatypes::Schema;
use proptest::prelude::*;
use streamfusion_plan::types::TimeAttribute;
use streamfusion_row::KeyGroup;
use streamfusion_row::types::arrow_type;
use streamfusion_state::RestoreError;
use streamfusion_state::canonical::{Container, FormatVersion, Section, Sections};

use super::properties::{case, value};
use super::recovery::{Job, sections, through_bytes};
use super::*;

const OPERATOR: &str = "sums-per-channel/groups";

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn all_calls(argument: usize) -> Vec<AggCall> {
    let distinct = |name: &str, filter| AggCall { distinct: true, filter, ..call(name, &[INT]) };
    vec![
        call("COUNT", &[]),
        AggCall { filter: Some(FILTER), ..call("COUNT", &[]) },
        call("SUM", &[INT]),
        call("$SUM0", &[DECIMAL]),
        call("AVG", &[DOUBLE]),
        call("AVG", &[DECIMAL]),
        call("MIN", &[argument]),
        call("MAX", &[DOUBLE]),
        distinct("COUNT", None),
        distinct("SUM", Some(FILTER)),
    ]
}

/// Name of a file, the aggregate whose state it has.
fn golden() -> Vec<(&'static str, GroupAggregate)> {
    let mut expiring = retracting(spec(&[TEXT_KEY, KEY], all_calls(TEXT)));
    expiring.ttl_ms = 1000;
    let positions = vec![call("FIRST_VALUE", &[TEXT]), call("LAST_VALUE", &[INT])];
    vec![
        ("group-by-long-v6.sfcs", spec(&[KEY], all_calls(TEXT))),
        ("group-by-several-retracting-ttl-v6.sfcs", expiring),
        ("group-by-none-retracting-v6.sfcs", retracting(spec(&[], positions))),
    ]
}

fn golden_rows(spec: &GroupAggregate) -> Vec<Row> {
    let row = |i: i32| {
        let nulls = i % 6 == 5;
        let or_null = |datum| if nulls { Datum::Null } else { datum };
        row(
            if spec.need_retraction && i % 5 == 4 { "-U" } else { "+I" },
            &[
                (KEY, or_null(Datum::Long(i64::from(i % 3) - 1))),
                (
                    TEXT_KEY,
                    or_null(Datum::Text(["", "Z\u{fc}rich", "a key of many bytes"][(i % 3) as usize].to_owned())),
                ),
                (INT, or_null(Datum::Int(i % 4))),
                (DOUBLE, Datum::Double([0.5, -0.0, f64::NAN][(i % 3) as usize])),
                (DECIMAL, or_null(Datum::Decimal(i128::from(i) * 1_000_003))),
                (TEXT, or_null(Datum::Text(format!("text {}", i % 7)))),
                (FILTER, Datum::Bool(i % 2 == 0)),
            ],
        )
    };
    (0..40).map(row).collect()
}

/// A job after the first half of the rows.
fn half_way(spec: &GroupAggregate, out: &mut Vec<String>) -> Job {
    let mut job = Job::open(spec, &StateClock::fixed(1_767_225_600_000), 1, 1);
    job.push(&golden_rows(spec)[..20], &[], out);
    job
}

fn dump(spec: &GroupAggregate) -> Vec<u8> {
    let snapshots = half_way(spec, &mut Vec::new()).snapshot();
    let [sections] = &sections(&snapshots)[..] else { panic!("one key group") };
    let (version, deadline) = (sections.format_version, sections.processing_time_deadline);
    let payload = sections.encode().unwrap();
    let mut dump = Vec::new();
    Container::encode(OPERATOR, version, deadline, &payload).unwrap().dump(&mut dump).unwrap();
    dump
}

#[test]
fn golden_files_are_restored() {
    for (name, spec) in golden() {
        let file = fs::read(path(name)).unwrap();
        let container = Container::read_dump(&file).unwrap();
        let (header, payload) = container.decode(Some(KeyGroup(0)), OPERATOR).unwrap();
        assert_eq!(header.format_version, FormatVersion::Asynchronous);
        assert_eq!(header.processing_time_deadline, (spec.ttl_ms > 0).then_some(1_767_225_601_000), "{name}");
        let sections = Sections::decode(&payload, &header, Some(KeyGroup(0))).unwrap();
        let mut expected = Vec::new();
        let mut job = half_way(&spec, &mut expected);
        let begun = expected.len();
        job.push(&golden_rows(&spec)[20..], &[], &mut expected);
        let mut restored = Job::open(&spec, &StateClock::fixed(1_767_225_600_000), 1, 1);
        restored.restore(&sections).unwrap();
        let mut out = Vec::new();
        restored.push(&golden_rows(&spec)[20..], &[], &mut out);
        assert_eq!(out, expected[begun..], "{name}");
    }
}

#[test]
fn golden_files_are_what_is_written() {
    for (name, spec) in golden() {
        assert!(fs::read(path(name)).unwrap() == dump(&spec), "{name} would be written in other bytes");
    }
}

#[test]
#[ignore = "writes the golden files"]
fn write_golden_files() {
    for (name, spec) in golden() {
        fs::write(path(name), dump(&spec)).unwrap();
    }
}

/// The state of `written`, restored by `read`.
fn refusal(written: &GroupAggregate, read: &GroupAggregate) -> String {
    let snapshots = half_way(written, &mut Vec::new()).snapshot();
    let mut job = Job::open(read, &StateClock::fixed(0), 1, 1);
    job.restore(&sections(&snapshots)[0]).unwrap_err().to_string()
}

#[test]
fn state_of_another_aggregate_is_refused_with_what_differs() {
    let of = |grouping: &[usize], calls: &[AggCall]| spec(grouping, calls.to_vec());
    let sum = of(&[KEY], &[call("SUM", &[INT])]);
    let distinct = |name| AggCall { distinct: true, ..call(name, &[INT]) };
    let cases = [
        (
            of(&[KEY], &[call("MAX", &[INT])]),
            "column `call0.sum` of section `groups`: nothing where Int32 of SUM(INT) is expected",
        ),
        (
            of(&[KEY], &[call("$SUM0", &[INT])]),
            "column `call0.sum` of section `groups`: Int32 of $SUM0(INT) where Int32 of SUM(INT) is expected",
        ),
        (
            of(&[KEY], &[AggCall { filter: Some(FILTER), ..call("SUM", &[INT]) }]),
            "column `call0.sum` of section `groups`: Int32 of SUM(INT) with FILTER where Int32 of SUM(INT) is expected",
        ),
        (
            of(&[KEY], &[call("SUM", &[DOUBLE])]),
            "column `call0.sum` of section `groups`: Float64 of SUM(DOUBLE) where Int32 of SUM(INT) is expected",
        ),
        (
            of(&[KEY], &[call("SUM", &[INT]), call("AVG", &[INT])]),
            "column `call1.sum` of section `groups`: Int64 of AVG(INT) where nothing is expected",
        ),
        (of(&[KEY], &[]), "column `call0.sum` of section `groups`: nothing where Int32 of SUM(INT) is expected"),
        (
            of(&[INT], &[call("SUM", &[INT])]),
            "column `key` of section `groups`: Int32 of INT where Int64 of BIGINT is expected",
        ),
        (
            of(&[KEY, TEXT_KEY], &[call("SUM", &[INT])]),
            "column `key` of section `groups`: Binary of BIGINT, VARCHAR where Int64 of BIGINT is expected",
        ),
        (
            of(&[], &[call("SUM", &[INT])]),
            "column `key` of section `groups`: nothing where Int64 of BIGINT is expected",
        ),
        (of(&[KEY], &[distinct("SUM")]), "section `distinct0` is unknown"),
    ];
    for (written, expected) in cases {
        assert_eq!(refusal(&written, &sum), expected);
    }
    assert_eq!(
        refusal(&sum, &of(&[KEY], &[distinct("SUM")])),
        "column `call0.sum` of section `groups`: Int32 of \
         SUM(INT) where Int32 of SUM(DISTINCT INT) is expected"
    );
    let counts = |calls: &[AggCall]| of(&[KEY], calls);
    assert_eq!(
        refusal(&counts(&[distinct("COUNT")]), &retracting(counts(&[distinct("COUNT")]))),
        "column `count0` of section `distinct0`: nothing where Int64 is expected"
    );
}

#[test]
fn state_of_another_type_is_refused_though_its_columns_are_alike() {
    let attribute = TimeAttribute::Regular;
    let pairs = [
        (TypeKind::Timestamp { precision: 3, attribute }, TypeKind::TimestampLtz { precision: 3, attribute }),
        (TypeKind::Timestamp { precision: 9, attribute }, TypeKind::Decimal { precision: 38, scale: 9 }),
        (TypeKind::Timestamp { precision: 9, attribute }, TypeKind::Timestamp { precision: 6, attribute }),
        (TypeKind::Integer, TypeKind::IntervalYearMonth),
        (TypeKind::BigInt, TypeKind::IntervalDayTime),
        (TypeKind::Char(3), TypeKind::VarChar(3)),
    ];
    // as the key, as one of two key columns, as an argument, as a retracted one
    let places: [(&[usize], bool, bool); 4] =
        [(&[0], false, false), (&[0, 1], false, false), (&[1], true, false), (&[1], true, true)];
    for (one, other) in pairs.iter().flat_map(|(one, other)| [(one, other), (other, one)]) {
        for (grouping, argument, retracts) in places {
            let open = |kind: &TypeKind| {
                let field = |kind: &TypeKind| Field { name: "f".to_owned(), ty: nullable(kind.clone()) };
                let fields = [field(kind), field(&TypeKind::BigInt)];
                let input = LogicalType { kind: TypeKind::Row(fields.into()), nullable: false };
                let first = AggCall { args: vec![0], ty: nullable(kind.clone()), ..call("FIRST_VALUE", &[INT]) };
                let spec = spec(grouping, if argument { vec![first] } else { Vec::new() });
                let spec = if retracts { retracting(spec) } else { spec };
                let context = StateContext { key_groups: KeyGroups::all(1), clock: StateClock::fixed(0) };
                GroupAgg::try_new(&spec, &input, &context).unwrap()
            };
            let mut written = open(one);
            let nulls = arrow::array::new_null_array(&arrow_type(&nullable(one.clone())).unwrap(), 1);
            written.push(Batch::try_new(vec![nulls, Arc::new(Int64Array::from(vec![1]))], 1, None).unwrap()).unwrap();
            let state = &sections(&[written.snapshot()])[0];
            open(one).restore(state).unwrap();
            let error = open(other).restore(state).unwrap_err();
            assert!(matches!(error, RestoreError::Column { .. }), "{one:?} for {other:?}: {error}");
        }
    }
}

#[test]
fn no_room_is_made_for_rows_that_cost_a_payload_nothing() {
    let rows = u32::MAX as usize;
    let metadata = [("streamfusion.version".to_owned(), "1".to_owned())].into();
    let schema = Schema::new_with_metadata(vec![arrow::datatypes::Field::new("key", DataType::Null, true)], metadata);
    let batch = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(arrow::array::NullArray::new(rows))]).unwrap();
    let state = Sections {
        key_group: KeyGroup(0),
        format_version: FormatVersion::Asynchronous,
        processing_time_deadline: None,
        sections: vec![Section::try_new("groups", vec![batch]).unwrap()],
    };
    assert!(state.encode().unwrap().len() < 1024);
    let state = through_bytes(&state);
    let cases: [(&[usize], &str); 3] = [
        (&[KEY], "column `key` of section `groups`: Null where Int64 of BIGINT is expected"),
        (&[TEXT_KEY], "column `key` of section `groups`: Null where Binary of VARCHAR is expected"),
        (&[], "section `groups`, row 1: a key for the second time"),
    ];
    for (grouping, expected) in cases {
        let mut job = Job::open(&spec(grouping, Vec::new()), &StateClock::fixed(0), 1, 1);
        assert_eq!(job.restore(&state).unwrap_err().to_string(), expected);
    }
}

#[test]
fn sections_of_another_key_group_or_version_are_refused() {
    let spec = spec(&[KEY], vec![call("SUM", &[INT])]);
    let mut job = Job::open(&spec, &StateClock::fixed(0), 1, 128);
    job.push(&golden_rows(&spec), &[], &mut Vec::new());
    let snapshots = job.snapshot();
    let sections = sections(&snapshots);
    let restore = |sections: &Sections, first, last| {
        let context =
            StateContext { key_groups: KeyGroups { max_parallelism: 128, first, last }, clock: StateClock::fixed(0) };
        GroupAgg::try_new(&spec, &input_type(), &context).unwrap().restore(sections).unwrap_err()
    };
    let group = sections[0].key_group.0;
    assert_eq!(restore(&sections[0], group + 1, 127), RestoreError::KeyGroup { group, first: group + 1, last: 127 });
    let moved = Sections { key_group: KeyGroup(group + 1), ..sections[0].clone() };
    assert_eq!(restore(&moved, 0, 127).to_string(), "section `groups`, row 0: a key of another key group");
    let missing = Sections { sections: Vec::new(), ..sections[0].clone() };
    assert_eq!(restore(&missing, 0, 127).to_string(), "section `groups` is missing");
    let twice = |job: &mut GroupAgg| job.restore(&sections[0]).and_then(|()| job.restore(&sections[0])).unwrap_err();
    assert_eq!(twice(&mut open(&spec)).to_string(), "section `groups`, row 0: a key for the second time");
    let schema = sections[0].sections[0].schema();
    let metadata = [("streamfusion.version".to_owned(), "2".to_owned())].into();
    let newer = Arc::new(Schema::new_with_metadata(schema.fields().clone(), metadata));
    let batch = RecordBatch::try_new(newer, sections[0].sections[0].batches()[0].columns().to_vec()).unwrap();
    let newer = Section::try_new("groups", vec![batch]).unwrap();
    let newer = Sections { sections: vec![newer], ..sections[0].clone() };
    assert_eq!(restore(&newer, 0, 127).to_string(), "section `groups` has the version 2 where 1 is expected");
}

#[test]
fn an_extremum_without_its_value_is_refused() {
    let spec = retracting(spec(&[KEY], vec![call("MIN", &[INT])]));
    let snapshots = half_way(&spec, &mut Vec::new()).snapshot();
    let mut state = sections(&snapshots).swap_remove(0);
    let place = state.sections.iter().position(|section| section.name() == "groups").unwrap();
    let column = state.sections[place].schema().index_of("call0.value").unwrap();
    state.sections[place] = damaged(&state.sections[place], column, &Damage::Nulls);
    let error = Job::open(&spec, &StateClock::fixed(0), 1, 1).restore(&state).unwrap_err().to_string();
    assert_eq!(error, "section `groups`, row 0: values that count, of which none is the current one");
}

/// What becomes of a section: a column is dropped, gets another's name, NULLs, or any values of its type.
#[derive(Debug, Clone)]
enum Damage {
    Drop,
    Rename,
    Nulls,
    Values(Vec<Row>),
    Repeat,
}

fn damage() -> impl Strategy<Value = Damage> {
    let rows = prop::collection::vec((0..column_kinds().len()).map(value).collect::<Vec<_>>(), 1..20);
    let rows = rows.prop_map(|rows| rows.into_iter().map(|values| Row { kind: 0, values }).collect());
    prop_oneof![
        1 => Just(Damage::Drop),
        1 => Just(Damage::Rename),
        1 => Just(Damage::Nulls),
        4 => rows.prop_map(Damage::Values),
        1 => Just(Damage::Repeat),
    ]
}

/// Values of the type of a column: extreme ones where the test input has none of the type.
fn nonsense(ty: &DataType, rows: &[Row], count: usize) -> ArrayRef {
    let numbers = [i64::MAX, i64::MIN, -1, 0, 1];
    let found = (0..column_kinds().len()).map(|column| array(rows, column)).find(|array| array.data_type() == ty);
    let pool: ArrayRef = match (found, ty) {
        (_, DataType::Int64) => Arc::new(Int64Array::from_iter_values(numbers)),
        (Some(found), _) => found,
        (None, DataType::Decimal128(precision, scale)) => {
            let values = Decimal128Array::from(vec![i128::MAX, i128::MIN, 10_i128.pow(38), 0]);
            Arc::new(values.with_data_type(DataType::Decimal128(*precision, *scale)))
        }
        (None, DataType::Binary) => {
            Arc::new(arrow::array::BinaryArray::from_iter_values([&b""[..], b"1234567", b"12345678", &[255; 32]]))
        }
        (None, DataType::UInt32) => Arc::new(UInt32Array::from_iter_values([u32::MAX, 0, 1])),
        (None, DataType::UInt64) => Arc::new(arrow::array::UInt64Array::from_iter_values([u64::MAX, 0, 1])),
        (None, ty) => arrow::array::new_null_array(ty, 3),
    };
    let indices = UInt32Array::from_iter_values((0..count as u32).map(|i| i * 7 % pool.len() as u32));
    arrow::compute::take(&pool, &indices, None).unwrap()
}

fn damaged(section: &Section, column: usize, damage: &Damage) -> Section {
    let schema = section.schema();
    let column = column % schema.fields().len();
    let batch = &section.batches()[0];
    let mut fields: Vec<_> = schema.fields().iter().map(|field| field.as_ref().clone()).collect();
    let mut columns = batch.columns().to_vec();
    match damage {
        Damage::Drop => {
            fields.remove(column);
            columns.remove(column);
        }
        Damage::Rename => fields[column] = fields[column].clone().with_name("key"),
        Damage::Nulls => {
            fields[column] = fields[column].clone().with_nullable(true);
            columns[column] = arrow::array::new_null_array(columns[column].data_type(), batch.num_rows());
        }
        Damage::Values(rows) => {
            fields[column] = fields[column].clone().with_nullable(true);
            columns[column] = nonsense(columns[column].data_type(), rows, batch.num_rows());
        }
        Damage::Repeat => {
            let indices = UInt32Array::from_iter_values((0..batch.num_rows() as u32).map(|row| row / 2));
            columns = columns.iter().map(|column| arrow::compute::take(column, &indices, None).unwrap()).collect();
        }
    }
    let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let batch = RecordBatch::try_new_with_options(schema, columns, &options).unwrap();
    Section::try_new(section.name(), vec![batch]).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn damaged_sections_are_refused_or_restored_and_never_panic(
        (spec, rows) in case(),
        (which, column, damage) in (any::<prop::sample::Index>(), 0_usize..64, damage()),
        sizes in prop::collection::vec(1_usize..20, 0..12),
    ) {
        let mut job = Job::open(&spec, &StateClock::fixed(0), 1, 1);
        job.push(&rows, &sizes, &mut Vec::new());
        let snapshots = job.snapshot();
        for state in sections(&snapshots) {
            let mut state = state.clone();
            let place = which.index(state.sections.len());
            state.sections[place] = damaged(&state.sections[place], column, &damage);
            let mut restored = Job::open(&spec, &StateClock::fixed(0), 1, 1);
            if restored.restore(&state).is_ok() {
                // what it says may be nonsense
                restored.push(&rows, &sizes, &mut Vec::new());
                restored.snapshot();
            }
        }
    }
}
