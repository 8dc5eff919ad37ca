//! The fold against models that are too simple to be wrong, and changelogs spelled out.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod algebra;
mod equality;
mod output;
mod pairs;

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringArray, UInt8Array};
use arrow::datatypes::Int64Type;
use streamfusion_row::Batch;

/// What a row holds besides its key.
type Content = (i64, Option<String>);

/// A row of the test input: key, number, text.
#[derive(Debug, Clone, PartialEq)]
struct Change {
    kind: u8,
    key: Option<i64>,
    content: Content,
}

const KINDS: [&str; 4] = ["+I", "-U", "+U", "-D"];

/// From "+U 1 20 a"; `null` is NULL.
fn change(text: &str) -> Change {
    let words: Vec<&str> = text.split(' ').collect();
    let [kind, key, number, text] = words[..] else { panic!("{text}") };
    Change {
        kind: KINDS.iter().position(|name| *name == kind).unwrap() as u8,
        key: key.parse().ok(),
        content: (number.parse().unwrap(), (text != "null").then(|| text.to_owned())),
    }
}

fn line(change: &Change) -> String {
    let key = change.key.map_or("null".to_owned(), |key| key.to_string());
    let text = change.content.1.as_deref().unwrap_or("null");
    format!("{} {key} {} {text}", KINDS[change.kind as usize], change.content.0)
}

fn batch<'a>(rows: impl IntoIterator<Item = &'a Change>) -> Batch {
    let rows: Vec<&Change> = rows.into_iter().collect();
    let keys: ArrayRef = Arc::new(rows.iter().map(|row| row.key).collect::<Int64Array>());
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.content.0)));
    let texts: ArrayRef = Arc::new(rows.iter().map(|row| row.content.1.clone()).collect::<StringArray>());
    let kinds: Vec<u8> = rows.iter().map(|row| row.kind).collect();
    let kinds = kinds.iter().any(|kind| *kind != 0).then(|| UInt8Array::from(kinds));
    Batch::try_new(vec![keys, numbers, texts], rows.len(), kinds).unwrap()
}

fn changes(batch: &Batch) -> Vec<Change> {
    let (keys, texts) = (batch.columns()[0].as_primitive::<Int64Type>(), batch.columns()[2].as_string::<i32>());
    (0..batch.num_rows())
        .map(|row| Change {
            kind: batch.kinds().map_or(0, |kinds| kinds.value(row)),
            key: keys.is_valid(row).then(|| keys.value(row)),
            content: (
                batch.columns()[1].as_primitive::<Int64Type>().value(row),
                texts.is_valid(row).then(|| texts.value(row).to_owned()),
            ),
        })
        .collect()
}

/// Numbers the keys of one bundle, as an operator does.
#[derive(Debug, Default)]
struct Numbers {
    keys: Vec<Option<i64>>,
    numbers: HashMap<Option<i64>, u32>,
}

impl Numbers {
    fn assign<'a>(&mut self, rows: impl IntoIterator<Item = &'a Change>) -> Vec<u32> {
        rows.into_iter()
            .map(|row| {
                *self.numbers.entry(row.key).or_insert_with(|| {
                    self.keys.push(row.key);
                    self.keys.len() as u32 - 1
                })
            })
            .collect()
    }
}
