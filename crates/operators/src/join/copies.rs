//! What is kept beside each of several rows of a join key.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field};
use streamfusion_state::canonical::Fault;
use streamfusion_state::codec::{Codec, Required, SectionColumns};
use streamfusion_state::{RestoreError, Value};

/// How often an entry is there, and its degree.
#[derive(Debug, Clone, Copy)]
pub(super) struct Copies {
    pub(super) count: i32,
    pub(super) degree: i32,
}

impl Value for Copies {}

/// The columns of [`Copies`] that are not the same for all rows.
#[derive(Debug)]
pub(super) struct CopiesCodec {
    count: Option<Required<i32>>,
    degree: Option<Required<i32>>,
}

impl CopiesCodec {
    /// Whether copies are counted, and degrees kept.
    pub(super) fn new(counts: bool, degrees: bool) -> Self {
        let column = |name| Required::new(name, DataType::Int32);
        Self { count: counts.then(|| column("count")), degree: degrees.then(|| column("degree")) }
    }
}

type Writer = <Required<i32> as Codec<i32>>::Writer;
type Reader = <Required<i32> as Codec<i32>>::Reader;

impl Codec<Copies> for CopiesCodec {
    type Writer = (Option<Writer>, Option<Writer>);
    type Reader = (Option<Reader>, Option<Reader>);

    fn fields(&self, prefix: &str, out: &mut Vec<Field>) {
        self.count.iter().chain(&self.degree).for_each(|column| column.fields(prefix, out));
    }

    fn writer(&self, rows: usize) -> Self::Writer {
        let writer = |column: &Required<i32>| column.writer(rows);
        (self.count.as_ref().map(writer), self.degree.as_ref().map(writer))
    }

    fn write(&self, writer: &mut Self::Writer, value: &Copies) {
        if let (Some(column), Some(writer)) = (&self.count, &mut writer.0) {
            column.write(writer, &value.count);
        }
        if let (Some(column), Some(writer)) = (&self.degree, &mut writer.1) {
            column.write(writer, &value.degree);
        }
    }

    fn finish(&self, writer: Self::Writer, out: &mut Vec<ArrayRef>) -> Result<(), Fault> {
        let columns = [(&self.count, writer.0), (&self.degree, writer.1)];
        for (column, writer) in columns {
            if let (Some(column), Some(writer)) = (column, writer) {
                column.finish(writer, out)?;
            }
        }
        Ok(())
    }

    fn reader(&self, prefix: &str, columns: &mut SectionColumns<'_>) -> Result<Self::Reader, RestoreError> {
        let count = self.count.as_ref().map(|column| column.reader(prefix, columns)).transpose()?;
        Ok((count, self.degree.as_ref().map(|column| column.reader(prefix, columns)).transpose()?))
    }

    fn read(&self, reader: &Self::Reader, row: usize) -> Result<Copies, &'static str> {
        let value = |column: &Option<Required<i32>>, reader: &Option<Reader>, absent| match (column, reader) {
            (Some(column), Some(reader)) => column.read(reader, row),
            _ => Ok(absent),
        };
        let count = value(&self.count, &reader.0, 1)?;
        if count < 1 {
            return Err("a row that is there less than once");
        }
        Ok(Copies { count, degree: value(&self.degree, &reader.1, 0)? })
    }
}
