#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, clippy::cast_possible_wrap)]

use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::{DataType, Field, Int32Type, Schema, TimeUnit};
use proptest::prelude::*;

use super::*;
use crate::canonical::Container;

const GROUP: Option<KeyGroup> = Some(KeyGroup(127));

/// Columns of every type, with these values or what comes nearest.
fn columns(values: &[Option<i64>]) -> Vec<ArrayRef> {
    let decimal: Decimal128Array = values.iter().map(|v| v.map(|v| i128::from(v) * 1_000_000_007)).collect();
    let text: StringArray = values.iter().map(|v| v.map(|v| format!("\u{e4}{v}"))).collect();
    let binary: BinaryArray = values.iter().map(|v| v.map(i64::to_be_bytes)).collect();
    let fixed = values.iter().map(|v| v.map(i64::to_le_bytes));
    let lists = values.iter().map(|v| v.map(|v| (0..v.rem_euclid(4)).map(|i| (i != 2).then_some(i as i32))));
    let longs: Int64Array = values.iter().copied().collect();
    let structs = StructArray::new(
        vec![Field::new("long", DataType::Int64, true), Field::new("text", DataType::Utf8, true)].into(),
        vec![Arc::new(longs.clone()), Arc::new(text.clone())],
        longs.nulls().cloned(),
    );
    vec![
        Arc::new(NullArray::new(values.len())),
        Arc::new(values.iter().map(|v| v.map(|v| v % 2 == 0)).collect::<BooleanArray>()),
        Arc::new(values.iter().map(|v| v.map(|v| v as i8)).collect::<Int8Array>()),
        Arc::new(values.iter().map(|v| v.map(|v| v as i16)).collect::<Int16Array>()),
        Arc::new(values.iter().map(|v| v.map(|v| v as i32)).collect::<Int32Array>()),
        Arc::new(longs),
        Arc::new(values.iter().map(|v| v.map(|v| v as u8)).collect::<UInt8Array>()),
        Arc::new(values.iter().map(|v| v.map(|v| v as u16)).collect::<UInt16Array>()),
        Arc::new(values.iter().map(|v| v.map(|v| v as u32)).collect::<UInt32Array>()),
        Arc::new(values.iter().map(|v| v.map(|v| v as u64)).collect::<UInt64Array>()),
        Arc::new(values.iter().map(|v| v.map(|v| v as f32)).collect::<Float32Array>()),
        Arc::new(values.iter().map(|v| v.map(|v| v as f64)).collect::<Float64Array>()),
        Arc::new(decimal.with_precision_and_scale(38, 9).unwrap()),
        Arc::new(text),
        Arc::new(binary),
        Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(fixed, 8).unwrap()),
        Arc::new(values.iter().map(|v| v.map(|v| v as i32)).collect::<Date32Array>()),
        Arc::new(values.iter().map(|v| v.map(|v| v as i32)).collect::<Time32MillisecondArray>()),
        Arc::new(values.iter().copied().collect::<TimestampMillisecondArray>()),
        Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists)),
        Arc::new(structs),
    ]
}

fn batch(values: &[Option<i64>], chosen: &[usize]) -> RecordBatch {
    let all = columns(values);
    let columns: Vec<_> = chosen.iter().map(|column| all[column % all.len()].clone()).collect();
    let fields: Vec<_> = columns.iter().map(|c| Field::new("c", c.data_type().clone(), true)).collect();
    let rows = RecordBatchOptions::new().with_row_count(Some(values.len()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &rows).unwrap()
}

fn of(sections: Vec<Section>) -> Sections {
    Sections {
        key_group: KeyGroup(127),
        format_version: FormatVersion::Asynchronous,
        processing_time_deadline: None,
        sections,
    }
}

/// The header that the writer of a payload, damaged or not, would have made.
fn header(payload: &[u8]) -> Header {
    Header::of("op", FormatVersion::Asynchronous, None, payload).unwrap()
}

fn decode(payload: &[u8]) -> Result<Sections, CanonicalError> {
    Sections::decode(&Buffer::from_slice_ref(payload), &header(payload), GROUP)
}

/// Claims that sections can be used without any danger, whatever they hold.
fn assert_valid(sections: &Sections) {
    for section in &sections.sections {
        assert!(!section.batches().is_empty());
        for batch in section.batches() {
            assert_eq!(batch.schema(), section.schema());
            for column in batch.columns() {
                assert_eq!(column.len(), batch.num_rows());
                column.to_data().validate_full().unwrap();
            }
        }
    }
}

fn values() -> impl Strategy<Value = Vec<Option<i64>>> {
    prop::collection::vec(prop::option::weighted(0.8, any::<i64>()), 0..40)
}

prop_compose! {
    fn random_sections()(
        sections in prop::collection::vec((
            prop::collection::vec(any::<usize>(), 0..5),
            prop::collection::vec(values(), 1..4),
            any::<usize>(),
        ), 0..4)
    ) -> Sections {
        of(sections.into_iter().enumerate().map(|(i, (columns, batches, cut))| {
            let batches = batches.iter().map(|values| {
                // a slice, as the rows of a key group are one
                let batch = batch(values, &columns);
                let from = cut % (batch.num_rows() + 1);
                batch.slice(from, batch.num_rows() - from)
            });
            Section::try_new(format!("section {i}"), batches.collect()).unwrap()
        }).collect())
    }
}

proptest! {
    #[test]
    fn sections_come_back_as_they_were_written(sections in random_sections()) {
        let payload = sections.encode()?;
        prop_assert!(payload.len().is_multiple_of(ALIGNMENT));
        let decoded = decode(&payload)?;
        assert_valid(&decoded);
        prop_assert_eq!(&decoded, &sections);
        // also from where nothing is aligned
        let shifted = Buffer::from([&[0], payload.as_slice()].concat()).slice(1);
        prop_assert_eq!(Sections::decode(&shifted, &header(&payload), GROUP)?, sections);
    }

    #[test]
    fn sections_come_back_through_a_container(sections in random_sections()) {
        let payload = sections.encode()?;
        let container = Container::encode("op", sections.format_version, None, &payload).unwrap();
        let (header, payload) = container.decode(GROUP, "op")?;
        prop_assert_eq!(Sections::decode(&payload, &header, GROUP)?, sections);
    }

    #[test]
    fn truncated_or_extended_sections_are_refused(sections in random_sections(), longer in 1usize..40) {
        let mut payload = sections.encode()?;
        for length in (0..payload.len()).step_by(7) {
            prop_assert!(decode(&payload[..length]).is_err());
        }
        payload.resize(payload.len() + longer, 0);
        prop_assert!(decode(&payload).is_err());
    }

    #[test]
    fn flipped_bits_never_yield_invalid_sections(sections in random_sections(), seed: u64) {
        let payload = sections.encode()?;
        let mut random = (0..).map(|i: u64| crate::mix(seed ^ i) as usize);
        let mut below = |limit: usize| random.next().unwrap_or_default() % limit;
        for _ in 0..100 {
            let mut damaged = payload.clone();
            for _ in 0..=below(3) {
                let at = below(damaged.len());
                damaged[at] = if below(2) == 0 { damaged[at] ^ (1 << below(8)) } else { below(256) as u8 };
            }
            if let Ok(decoded) = decode(&damaged) {
                assert_valid(&decoded);
            }
        }
    }

    #[test]
    fn noise_has_no_sections(noise in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(decode(&noise).is_err());
    }
}

#[test]
fn every_byte_of_sections_may_take_any_value() {
    let values = [Some(1), None, Some(-3), Some(7)];
    for column in 0..columns(&values).len() {
        let payload = of(vec![Section::try_new("s", vec![batch(&values, &[column])]).unwrap()]).encode().unwrap();
        for at in 0..payload.len() {
            for value in
                [0, 1, 0x7f, 0x80, 0xff, payload[at].wrapping_add(1), payload[at].wrapping_sub(1), !payload[at]]
            {
                let mut damaged = payload.clone();
                damaged[at] = value;
                if let Ok(decoded) = decode(&damaged) {
                    assert_valid(&decoded);
                }
            }
        }
    }
}

#[test]
fn columns_lie_in_the_payload() {
    let values: Vec<_> = (0..1_000).map(Some).collect();
    let all: Vec<_> = (0..columns(&values).len()).collect();
    let payload = Buffer::from(of(vec![Section::try_new("s", vec![batch(&values, &all)]).unwrap()]).encode().unwrap());
    let decoded = Sections::decode(&payload, &header(&payload), GROUP).unwrap();
    let memory = payload.as_ptr_range();
    for column in decoded.sections[0].batches()[0].columns() {
        for buffer in column.to_data().buffers() {
            assert!(memory.contains(&buffer.as_ptr()) || buffer.is_empty(), "{}", column.data_type());
        }
    }
}

#[test]
fn the_layout_is_the_documented_one() {
    let mut sections = of(vec![Section::try_new("names", vec![batch(&[Some(1)], &[5])]).unwrap()]);
    sections.processing_time_deadline = Some(0x0102_0304_0506_0708);
    let payload = sections.encode().unwrap();
    let mut expected = b"SFSN".to_vec();
    expected.extend([0, 1, 0, 127, 0, 0, 0, 6, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0]);
    // the end-of-stream marker leaves 8 bytes to fill
    let stream = payload.len() - 48 - 8;
    expected.extend([0, 0, 0, 5, 0, 0, (stream >> 8) as u8, stream as u8]);
    expected.extend(b"names\0\0\0");
    // the stream begins with the marker of a message
    expected.extend([0xff; 4]);
    assert_eq!(payload[..52], expected);
}

#[test]
fn arrow_itself_reads_the_streams() {
    let values = [Some(5), None];
    let all: Vec<_> = (0..columns(&values).len()).collect();
    let sections = of(vec![Section::try_new("s", vec![batch(&values, &all), batch(&[], &all)]).unwrap()]);
    let payload = sections.encode().unwrap();
    let reader = arrow_ipc::reader::StreamReader::try_new(&payload[48..], None).unwrap();
    assert_eq!(reader.collect::<Result<Vec<_>, _>>().unwrap(), sections.sections[0].batches());
}

#[test]
fn what_sections_do_not_have_is_not_written() {
    let refused = |name: &str, batches| Section::try_new(name, batches).unwrap_err().to_string();
    assert_eq!(refused("s", vec![]), "a section without a batch cannot be written");
    assert_eq!(refused("", vec![batch(&[], &[5])]), "a section without a name cannot be written");
    assert_eq!(refused("s", vec![batch(&[], &[5]), batch(&[], &[6])]), "a section with two schemas cannot be written");
    let large: ArrayRef = Arc::new(LargeStringArray::from(vec!["x"]));
    let large = RecordBatch::try_from_iter([("c", large)]).unwrap();
    assert_eq!(refused("s", vec![large]), "a column of this type cannot be written");
    let section = Section::try_new("s", vec![batch(&[], &[5])]).unwrap();
    let twice = of(vec![section.clone(), section]).encode().unwrap_err();
    assert!(twice.to_string().contains("two sections of the same name cannot be written"), "{twice}");
}

#[test]
fn a_second_section_of_the_same_name_is_refused() {
    let section = |name| Section::try_new(name, vec![batch(&[], &[5])]).unwrap();
    let mut payload = of(vec![section("a"), section("b")]).encode().unwrap();
    let second = payload.len() - (payload.len() - 32) / 2;
    assert_eq!(payload[second + 8], b'b');
    payload[second + 8] = b'a';
    let error = decode(&payload).unwrap_err();
    assert!(matches!(error.fault, Fault::Payload { what: "a second section of the same name", .. }), "{error}");
}

#[test]
fn a_payload_that_reaches_two_gibibytes_is_refused_there() {
    // zeros that nobody touches take no memory
    let mut payload = Payload { bytes: vec![0; 0x7fff_fff0], refused: None };
    let section = Section::try_new("s", vec![batch(&[Some(1)], &[5])]).unwrap();
    let fault = payload.section(&section).unwrap_err();
    assert!(matches!(fault, Fault::PayloadTooLarge { limit: 0x7fff_ffff, .. }), "{fault}");
    // it is found as well where Arrow writes
    let mut payload = Payload { bytes: vec![0; 0x7fff_ffc0], refused: None };
    let fault = payload.section(&section).unwrap_err();
    assert!(matches!(fault, Fault::PayloadTooLarge { limit: 0x7fff_ffff, .. }), "{fault}");
}

#[test]
fn types_that_no_section_has_are_told_apart() {
    let list = |child| DataType::List(Arc::new(Field::new("item", child, true)));
    for ty in columns(&[]).iter().map(|column| column.data_type().clone()) {
        assert!(supported(&ty) && supported(&list(ty.clone())), "{ty}");
    }
    for ty in [
        DataType::Decimal128(0, 0),
        DataType::Decimal128(39, 0),
        DataType::Decimal128(10, 11),
        DataType::Decimal128(10, -1),
        DataType::FixedSizeBinary(0),
        DataType::Timestamp(TimeUnit::Nanosecond, None),
        DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
        DataType::Time32(TimeUnit::Second),
        DataType::LargeUtf8,
        DataType::Utf8View,
        DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
    ] {
        assert!(!supported(&ty) && !supported(&list(ty.clone())), "{ty}");
    }
}
