//! Writes ARRAYs, MAPs and ROWs byte by byte, as Flink does, for tests.
#![allow(clippy::unwrap_used)]

use crate::binary::null_word_bytes;

/// A value that is not NULL.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Of fixed width: its bytes, little-endian.
    Fixed(Vec<u8>),
    /// A text or binary value.
    Bytes(Vec<u8>),
    /// A ROW, ARRAY, MAP or MULTISET.
    Nested(Vec<u8>),
    /// A DECIMAL of more than 18 digits.
    WideDecimal(i128),
    /// A timestamp of more than 3 digits: milliseconds, and nanoseconds of the last one.
    Nanos(i64, u32),
}

impl From<i32> for Value {
    fn from(value: i32) -> Self {
        Self::Fixed(value.to_le_bytes().to_vec())
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Fixed(value.to_le_bytes().to_vec())
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Bytes(value.as_bytes().to_vec())
    }
}

/// An ARRAY whose slots are `width` wide.
pub fn array(width: usize, values: &[Option<Value>]) -> Vec<u8> {
    let slots = 4 + values.len().div_ceil(32) * 4;
    let mut bytes = vec![0; (slots + width * values.len()).next_multiple_of(8)];
    bytes[..4].copy_from_slice(&i32::try_from(values.len()).unwrap().to_le_bytes());
    write(&mut bytes, 8 * 4, slots, width, values);
    bytes
}

/// A MAP, or a MULTISET, of ARRAYs.
pub fn map(keys: &[u8], values: &[u8]) -> Vec<u8> {
    let length = i32::try_from(keys.len()).unwrap().to_le_bytes();
    [&length, keys, values].concat()
}

/// A ROW of kind +I.
pub fn row(values: &[Option<Value>]) -> Vec<u8> {
    let slots = null_word_bytes(values.len());
    let mut bytes = vec![0; slots + 8 * values.len()];
    write(&mut bytes, 8, slots, 8, values);
    bytes
}

/// Writes NULL bits from bit `first_bit` on, slots, and parts behind what is there.
fn write(bytes: &mut Vec<u8>, first_bit: usize, slots: usize, width: usize, values: &[Option<Value>]) {
    for (number, value) in values.iter().enumerate() {
        let bit = first_bit + number;
        let slot = slots + width * number;
        let offset = u64::try_from(bytes.len()).unwrap() << 32;
        let (slot_bytes, part) = match value {
            None => {
                bytes[bit / 8] |= 1 << (bit % 8);
                continue;
            }
            Some(Value::Fixed(value)) => (value.clone(), Vec::new()),
            Some(Value::Bytes(value)) if value.len() <= 7 => {
                let mut slot = value.clone();
                slot.resize(7, 0);
                slot.push(0x80 | u8::try_from(value.len()).unwrap());
                (slot, Vec::new())
            }
            Some(Value::Bytes(value) | Value::Nested(value)) => {
                ((offset | u64::try_from(value.len()).unwrap()).to_le_bytes().to_vec(), value.clone())
            }
            Some(Value::WideDecimal(value)) => {
                let magnitude = if *value < 0 { !*value } else { *value };
                let length = (128 - magnitude.leading_zeros()) / 8 + 1;
                let start = 16 - usize::try_from(length).unwrap();
                let mut part = value.to_be_bytes()[start..].to_vec();
                part.resize(16, 0);
                ((offset | u64::from(length)).to_le_bytes().to_vec(), part)
            }
            Some(Value::Nanos(millis, nanos)) => {
                ((offset | u64::from(*nanos)).to_le_bytes().to_vec(), millis.to_le_bytes().to_vec())
            }
        };
        bytes[slot..slot + slot_bytes.len()].copy_from_slice(&slot_bytes);
        bytes.extend(&part);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
}
