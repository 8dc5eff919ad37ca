//! The columns of a section, as its owner asks for them.

use std::collections::HashMap;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::{ArrowNativeType, DataType, Field};

use crate::keyed::RestoreError;

/// Metadata of a field: what its column holds, in words. Two aggregates with columns of one type differ in it.
pub(crate) const DEFINITION: &str = "streamfusion.definition";

/// A record batch of a section. Columns are asked for by name; in the end none must be left.
#[derive(Debug)]
pub struct SectionColumns<'a> {
    section: &'a str,
    batch: &'a RecordBatch,
    /// Rows of the section before this batch.
    first_row: usize,
    taken: Vec<bool>,
    /// Definition of the columns that are asked for.
    definition: Option<String>,
}

fn describe(ty: &DataType, definition: Option<&str>) -> String {
    definition.map_or_else(|| ty.to_string(), |definition| format!("{ty} of {definition}"))
}

/// The field with a definition.
pub(crate) fn with_definition(field: Field, definition: Option<&str>) -> Field {
    match definition {
        None => field,
        Some(definition) => field.with_metadata(HashMap::from([(DEFINITION.to_owned(), definition.to_owned())])),
    }
}

impl<'a> SectionColumns<'a> {
    /// The columns of a batch.
    pub fn new(section: &'a str, batch: &'a RecordBatch, first_row: usize) -> Self {
        Self { section, batch, first_row, taken: vec![false; batch.num_columns()], definition: None }
    }

    /// Sets the definition that the columns asked for next must have.
    pub fn define(&mut self, definition: Option<&str>) {
        self.definition = definition.map(str::to_owned);
    }

    /// The number of rows.
    pub fn num_rows(&self) -> usize {
        self.batch.num_rows()
    }

    /// The column of that name. Errors if there is none, or it has another type or definition.
    pub fn column(&mut self, name: &str, ty: &DataType) -> Result<ArrayRef, RestoreError> {
        let schema = self.batch.schema_ref();
        let error = |found: String| RestoreError::Column {
            section: self.section.to_owned(),
            column: name.to_owned(),
            found,
            expected: describe(ty, self.definition.as_deref()),
        };
        let found = schema.fields().iter().enumerate().find(|(_, field)| field.name() == name);
        let (place, field) = found.ok_or_else(|| error("nothing".to_owned()))?;
        let definition = field.metadata().get(DEFINITION).map(String::as_str);
        if field.data_type() != ty || definition != self.definition.as_deref() {
            return Err(error(describe(field.data_type(), definition)));
        }
        if let Some(taken) = self.taken.get_mut(place) {
            *taken = true;
        }
        Ok(ArrayRef::clone(self.batch.column(place)))
    }

    /// The values of a column of fixed width without NULLs.
    pub fn required<T: ArrowNativeType>(&mut self, name: &str, ty: &DataType) -> Result<ScalarBuffer<T>, RestoreError> {
        let array = self.column(name, ty)?;
        self.refuse_nulls(&array)?;
        super::fixed_values(&array).ok_or_else(|| self.type_error(name, &array, ty))
    }

    /// Errors if there is a NULL in the column.
    pub fn refuse_nulls(&self, array: &ArrayRef) -> Result<(), RestoreError> {
        match array.nulls().and_then(|nulls| nulls.iter().position(|valid| !valid)) {
            Some(row) => Err(self.value_error(row, "a NULL where there cannot be one")),
            None => Ok(()),
        }
    }

    /// Whether there is a column of that name.
    pub fn has(&self, name: &str) -> bool {
        self.batch.schema_ref().fields().iter().any(|field| field.name() == name)
    }

    /// Errors if a column is left that nobody asked for.
    pub fn finish(&self) -> Result<(), RestoreError> {
        let left = self.batch.schema_ref().fields().iter().zip(&self.taken).find(|(_, taken)| !**taken);
        let Some((field, _)) = left else { return Ok(()) };
        Err(RestoreError::Column {
            section: self.section.to_owned(),
            column: field.name().clone(),
            found: describe(field.data_type(), field.metadata().get(DEFINITION).map(String::as_str)),
            expected: "nothing".to_owned(),
        })
    }

    /// A value that cannot be, in a row of this batch.
    pub fn value_error(&self, row: usize, what: &'static str) -> RestoreError {
        RestoreError::Value { section: self.section.to_owned(), row: self.first_row + row, what }
    }

    /// A column of another type.
    pub fn type_error(&self, column: &str, found: &ArrayRef, expected: &DataType) -> RestoreError {
        RestoreError::Column {
            section: self.section.to_owned(),
            column: column.to_owned(),
            found: found.data_type().to_string(),
            expected: expected.to_string(),
        }
    }
}
