#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use proptest::prelude::*;
use streamfusion_row::KeyGroup;

use super::*;

const ID: &str = "agg-7/groups";
const GROUP: Option<KeyGroup> = Some(KeyGroup(7));

/// Bytes without a period, so that no two chunks are the same.
fn bytes(length: usize, seed: u64) -> Vec<u8> {
    let mut words = (0..).map(|word: u64| crate::mix(word ^ seed).to_le_bytes());
    let mut bytes: Vec<u8> = words.by_ref().take(length.div_ceil(8)).flatten().collect();
    bytes.truncate(length);
    bytes
}

fn encode(payload: &[u8]) -> Container<'_> {
    Container::encode(ID, FormatVersion::Synchronous, Some(1_000), payload).unwrap()
}

fn sections() -> Sections {
    let keys: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]));
    let names: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), Some("b"), None]));
    let batch = RecordBatch::try_from_iter_with_nullable([("key", keys, true), ("name", names, true)]).unwrap();
    Sections {
        key_group: KeyGroup(7),
        format_version: FormatVersion::Synchronous,
        processing_time_deadline: Some(1_000),
        sections: vec![Section::try_new("groups", vec![batch]).unwrap()],
    }
}

/// As a restore does it: envelope, then sections.
fn restore(container: &Container<'_>) -> Result<Sections, CanonicalError> {
    let (header, payload) = container.decode(GROUP, ID)?;
    Sections::decode(&payload, &header, GROUP)
}

#[test]
fn the_header_has_the_specified_bytes() {
    let payload = b"123456789";
    let header = Header::of("op\u{e4}", FormatVersion::Asynchronous, Some(0x0102_0304_0506_0708), payload).unwrap();
    let mut expected = b"SFCS".to_vec();
    expected.extend([0, 0, 0, 6, 0, 0, 0, 4, b'o', b'p', 0xc3, 0xa4, 1, 2, 3, 4, 5, 6, 7, 8]);
    // the check value of CRC-32C (Castagnoli)
    expected.extend([0, 0, 0, 1, 0, 0, 0, 9, 0xe3, 0x06, 0x92, 0x83]);
    assert_eq!(header.encode().unwrap(), expected);
    assert_eq!(Header::decode(&expected).unwrap(), header);
    let none = Header { processing_time_deadline: None, ..header };
    assert_eq!(none.encode().unwrap()[16..24], i64::MAX.to_be_bytes());
    assert_eq!(Header::decode(&none.encode().unwrap()).unwrap(), none);
}

#[test]
fn the_states_have_the_specified_names() {
    assert_eq!(HEADER_STATE, "__streamfusion_canonical_native_state_v1");
    assert_eq!(chunk_state(12), "__streamfusion_canonical_native_state_v1_chunk_12");
}

#[test]
fn payloads_of_all_sizes_come_back() {
    let mib4 = CHUNK_BYTES;
    for (length, chunks) in [
        (0, vec![]),
        (1, vec![1]),
        (mib4, vec![mib4]),
        (mib4 + 1, vec![mib4, 1]),
        (3 * mib4 - 1, vec![mib4, mib4, mib4 - 1]),
    ] {
        let payload = bytes(length, 1);
        let container = encode(&payload);
        assert_eq!(container.chunks.iter().map(|chunk| chunk.len()).collect::<Vec<_>>(), chunks);
        let (header, decoded) = container.decode(GROUP, ID).unwrap();
        assert!(decoded.as_slice() == payload);
        assert_eq!((header.chunk_count as usize, header.payload_length as usize), (chunks.len(), length));

        let mut dump = Vec::new();
        container.dump(&mut dump).unwrap();
        assert!(Container::read_dump(&dump).unwrap() == container);
    }
}

#[test]
fn a_payload_above_two_gibibytes_is_refused_before_it_is_cut() {
    // zeros that nobody touches take no memory
    let payload = vec![0; 1 << 31];
    let fault = Container::encode(ID, FormatVersion::Synchronous, None, &payload).unwrap_err();
    assert!(matches!(fault, Fault::PayloadTooLarge { bytes: 0x8000_0000, limit: 0x7fff_ffff }), "{fault}");
}

#[test]
fn every_byte_of_a_header_may_take_any_value_but_restores_nothing() {
    let payload = sections().encode().unwrap();
    let container = encode(&payload);
    assert_eq!(restore(&container).unwrap(), sections());
    for at in 0..container.header.len() {
        for value in (0..=255).filter(|value| *value != container.header[at]) {
            let mut damaged = container.clone();
            damaged.header.to_mut()[at] = value;
            let error = restore(&damaged).unwrap_err();
            let fits = match at {
                0..4 => matches!(error.fault, Fault::Magic),
                4..7 => matches!(error.fault, Fault::Version { .. }),
                7 => matches!(error.fault, Fault::Version { .. } | Fault::Altered { field: "format version", .. }),
                8..12 => matches!(error.fault, Fault::HeaderLength { .. }),
                12..24 => matches!(error.fault, Fault::OperatorId { .. } | Fault::OperatorIdText),
                24..32 => matches!(error.fault, Fault::Altered { field: "processing-time deadline", .. }),
                32..36 => matches!(error.fault, Fault::ChunkCount { .. }),
                36..40 => matches!(error.fault, Fault::ChunkCount { .. } | Fault::ChunkLength { .. }),
                _ => matches!(error.fault, Fault::Checksum { .. }),
            };
            assert!(fits, "byte {at} = {value}: {error}");
        }
    }
}

#[test]
fn a_header_of_another_length_is_refused() {
    let payload = sections().encode().unwrap();
    let container = encode(&payload);
    for length in 0..container.header.len() {
        let damaged = Container { header: container.header[..length].into(), ..container.clone() };
        assert!(matches!(restore(&damaged).unwrap_err().fault, Fault::HeaderLength { .. }));
    }
    let mut damaged = container;
    damaged.header.to_mut().push(0);
    assert!(matches!(restore(&damaged).unwrap_err().fault, Fault::HeaderLength { .. }));
}

#[test]
fn state_of_another_operator_or_key_group_is_refused() {
    let payload = sections().encode().unwrap();
    let container = encode(&payload);
    let error = container.decode(GROUP, "agg-8/groups").unwrap_err();
    assert_eq!(
        error.to_string(),
        "native state of key group 7: the state belongs to the operator `agg-7/groups`, not to `agg-8/groups`; give the \
         operators of the job the uids they had when the savepoint was taken, or start the job without this state"
    );
    let (header, payload) = container.decode(GROUP, ID).unwrap();
    let error = Sections::decode(&payload, &header, Some(KeyGroup(8))).unwrap_err();
    assert!(matches!(error.fault, Fault::Altered { field: "key group", header: 8, payload: 7 }), "{error}");
}

#[test]
fn a_damaged_payload_is_not_looked_at() {
    // a checksum that fits to no payload that has sections
    let payload = b"no sections at all".to_vec();
    let container = encode(&payload);
    let (header, decoded) = container.decode(GROUP, ID).unwrap();
    assert!(matches!(Sections::decode(&decoded, &header, GROUP).unwrap_err().fault, Fault::Payload { at: 0, .. }));
    let mut damaged = payload.clone();
    damaged[3] ^= 1;
    let damaged = Container { chunks: vec![&damaged], ..container };
    assert!(matches!(restore(&damaged).unwrap_err().fault, Fault::Checksum { .. }));
}

/// What can happen to the chunks of a container.
#[derive(Debug, Clone)]
enum Damage {
    Drop(usize),
    Swap(usize, usize),
    Repeat(usize),
    Truncate(usize, usize),
    Extend(usize, usize),
    Flip(usize, usize),
}

fn damage() -> impl Strategy<Value = Damage> {
    let any = || any::<usize>();
    prop_oneof![
        any().prop_map(Damage::Drop),
        (any(), any()).prop_map(|(a, b)| Damage::Swap(a, b)),
        any().prop_map(Damage::Repeat),
        (any(), any()).prop_map(|(a, b)| Damage::Truncate(a, b)),
        (any(), 1..100usize).prop_map(|(a, b)| Damage::Extend(a, b)),
        (any(), any()).prop_map(|(a, b)| Damage::Flip(a, b)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn damaged_chunks_restore_nothing(last in 1..CHUNK_BYTES, full in 0usize..3, seed: u64, damage in damage()) {
        let payload = bytes(full * CHUNK_BYTES + last, seed);
        let container = encode(&payload);
        let mut chunks: Vec<Vec<u8>> = container.chunks.iter().map(|chunk| chunk.to_vec()).collect();
        let count = chunks.len();
        match damage {
            Damage::Drop(at) => drop(chunks.remove(at % count)),
            Damage::Swap(a, b) => chunks.swap(a % count, b % count),
            Damage::Repeat(at) => chunks.insert(at % count, chunks[at % count].clone()),
            Damage::Truncate(at, length) => {
                let chunk = &mut chunks[at % count];
                chunk.truncate(length % chunk.len());
            }
            Damage::Extend(at, by) => {
                let chunk = &mut chunks[at % count];
                chunk.resize(chunk.len() + by, 0);
            }
            Damage::Flip(at, bit) => {
                let chunk = &mut chunks[at % count];
                let bit = bit % (8 * chunk.len());
                chunk[bit / 8] ^= 1 << (bit % 8);
            }
        }
        let damaged = Container { header: container.header.clone(), chunks: chunks.iter().map(Vec::as_slice).collect() };
        match damaged.decode(GROUP, ID) {
            // a chunk swapped with itself
            Ok((_, decoded)) => prop_assert!(damaged == container && decoded.as_slice() == payload),
            Err(error) => {
                prop_assert!(damaged != container);
                let expected = matches!(
                    (&damage, &error.fault),
                    (Damage::Drop(_), Fault::ChunkMissing { .. } | Fault::ChunkLength { .. })
                        | (Damage::Repeat(_), Fault::ChunkExtra { .. } | Fault::ChunkLength { .. } | Fault::Checksum { .. })
                        | (Damage::Swap(..), Fault::ChunkLength { .. } | Fault::Checksum { .. })
                        | (Damage::Truncate(..) | Damage::Extend(..), Fault::ChunkLength { .. })
                        | (Damage::Flip(..), Fault::Checksum { .. })
                );
                prop_assert!(expected, "{damage:?}: {error}");
            }
        }
    }

    #[test]
    fn noise_is_no_container(noise in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Header::decode(&noise).is_err());
        prop_assert!(decode(&noise, |_| Some(&noise), GROUP, ID).is_err());
        if let Ok(container) = Container::read_dump(&noise) {
            prop_assert!(restore(&container).is_err());
        }
    }
}

#[test]
fn a_truncated_dump_is_refused_or_lacks_a_chunk() {
    let payload = sections().encode().unwrap();
    let container = encode(&payload);
    let mut dump = Vec::new();
    container.dump(&mut dump).unwrap();
    let header_end = 4 + container.header.len();
    for length in 0..dump.len() {
        match Container::read_dump(&dump[..length]) {
            Ok(read) => {
                assert_eq!(length, header_end);
                assert!(matches!(restore(&read).unwrap_err().fault, Fault::ChunkMissing { index: 0, chunks: 1 }));
            }
            Err(fault) => assert!(matches!(fault, Fault::Dump { .. })),
        }
    }
    dump[0] = 0x80;
    let fault = Container::read_dump(&dump).unwrap_err();
    assert!(matches!(fault, Fault::Dump { at: 0, what: "a negative length" }), "{fault}");
}
