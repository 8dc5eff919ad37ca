//! From values in tables to Arrow columns and back.
//!
//! A codec knows which columns a value takes; values are appended to them one by one, column by column, without an
//! allocation per row where they are of fixed width. Codecs are put together: a [`Required`] or [`Nullable`] column of a
//! [`Leaf`] type, pairs of codecs, and [`Mapped`] for values that are made of others. Bits are kept: NaN keeps its payload,
//! zero its sign.
//!
//! Reading checks every value, since a section may hold anything that Arrow can.

mod columns;
mod leaf;

use std::fmt::Debug;
use std::marker::PhantomData;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field};

pub use columns::SectionColumns;
pub(crate) use columns::with_definition;
pub use leaf::Leaf;
pub(crate) use leaf::{BytesReader, BytesWriter, fixed_array, fixed_values};

use crate::canonical::Fault;
use crate::keyed::RestoreError;

/// How values of the type `T` lie in columns.
pub trait Codec<T>: Debug + Send + Sync + 'static {
    /// Columns being written.
    type Writer;
    /// Columns being read.
    type Reader;

    /// Adds the fields of the columns; their names begin with `prefix`.
    fn fields(&self, prefix: &str, out: &mut Vec<Field>);

    /// Columns for about so many rows.
    fn writer(&self, rows: usize) -> Self::Writer;

    /// Appends a value.
    fn write(&self, writer: &mut Self::Writer, value: &T);

    /// Adds the columns, in the order of the fields. Errors if they have more bytes than Arrow can address.
    fn finish(&self, writer: Self::Writer, out: &mut Vec<ArrayRef>) -> Result<(), Fault>;

    /// The columns in a section. Errors if one is missing or of another type.
    fn reader(&self, prefix: &str, columns: &mut SectionColumns<'_>) -> Result<Self::Reader, RestoreError>;

    /// The value in a row of the columns, or what is wrong with it.
    fn read(&self, reader: &Self::Reader, row: usize) -> Result<T, &'static str>;
}

fn full_name(prefix: &str, name: &str) -> String {
    if name.is_empty() { prefix.to_owned() } else { format!("{prefix}.{name}") }
}

/// A column without NULLs.
#[derive(Debug, Clone)]
pub struct Required<L> {
    name: &'static str,
    ty: DataType,
    leaf: PhantomData<fn() -> L>,
}

impl<L: Leaf> Required<L> {
    /// A column of the Arrow type `ty`, called `name` behind the prefix; just the prefix if `name` is empty.
    pub fn new(name: &'static str, ty: DataType) -> Self {
        Self { name, ty, leaf: PhantomData }
    }
}

impl<L: Leaf> Codec<L> for Required<L> {
    type Writer = L::Writer;
    type Reader = L::Reader;

    fn fields(&self, prefix: &str, out: &mut Vec<Field>) {
        out.push(Field::new(full_name(prefix, self.name), self.ty.clone(), false));
    }

    fn writer(&self, rows: usize) -> L::Writer {
        L::writer(rows)
    }

    #[inline]
    fn write(&self, writer: &mut L::Writer, value: &L) {
        L::write(writer, value);
    }

    fn finish(&self, writer: L::Writer, out: &mut Vec<ArrayRef>) -> Result<(), Fault> {
        out.push(L::finish(writer, None, &self.ty)?);
        Ok(())
    }

    fn reader(&self, prefix: &str, columns: &mut SectionColumns<'_>) -> Result<L::Reader, RestoreError> {
        let name = full_name(prefix, self.name);
        let array = columns.column(&name, &self.ty)?;
        columns.refuse_nulls(&array)?;
        L::reader(&array).ok_or_else(|| columns.type_error(&name, &array, &self.ty))
    }

    #[inline]
    fn read(&self, reader: &L::Reader, row: usize) -> Result<L, &'static str> {
        L::read(reader, row)
    }
}

/// A column in which a value may be absent: NULL.
#[derive(Debug, Clone)]
pub struct Nullable<L> {
    name: &'static str,
    ty: DataType,
    leaf: PhantomData<fn() -> L>,
}

impl<L: Leaf> Nullable<L> {
    /// A column of the Arrow type `ty`, called `name` behind the prefix; just the prefix if `name` is empty.
    pub fn new(name: &'static str, ty: DataType) -> Self {
        Self { name, ty, leaf: PhantomData }
    }
}

/// Values with what says which of them are NULL.
#[derive(Debug)]
pub struct NullableColumn<V> {
    values: V,
    valid: Vec<bool>,
}

impl<L: Leaf> Codec<Option<L>> for Nullable<L> {
    type Writer = NullableColumn<L::Writer>;
    type Reader = (L::Reader, Option<arrow::buffer::NullBuffer>);

    fn fields(&self, prefix: &str, out: &mut Vec<Field>) {
        out.push(Field::new(full_name(prefix, self.name), self.ty.clone(), true));
    }

    fn writer(&self, rows: usize) -> Self::Writer {
        NullableColumn { values: L::writer(rows), valid: Vec::with_capacity(rows) }
    }

    #[inline]
    fn write(&self, writer: &mut Self::Writer, value: &Option<L>) {
        writer.valid.push(value.is_some());
        match value {
            Some(value) => L::write(&mut writer.values, value),
            None => L::write_null(&mut writer.values),
        }
    }

    fn finish(&self, writer: Self::Writer, out: &mut Vec<ArrayRef>) -> Result<(), Fault> {
        let nulls = writer.valid.contains(&false).then(|| arrow::buffer::NullBuffer::from(writer.valid));
        out.push(L::finish(writer.values, nulls, &self.ty)?);
        Ok(())
    }

    fn reader(&self, prefix: &str, columns: &mut SectionColumns<'_>) -> Result<Self::Reader, RestoreError> {
        let name = full_name(prefix, self.name);
        let array = columns.column(&name, &self.ty)?;
        let reader = L::reader(&array).ok_or_else(|| columns.type_error(&name, &array, &self.ty))?;
        Ok((reader, array.nulls().filter(|nulls| nulls.null_count() > 0).cloned()))
    }

    #[inline]
    fn read(&self, (values, nulls): &Self::Reader, row: usize) -> Result<Option<L>, &'static str> {
        match nulls {
            Some(nulls) if nulls.is_null(row) => Ok(None),
            _ => L::read(values, row).map(Some),
        }
    }
}

/// No columns.
impl Codec<()> for () {
    type Writer = ();
    type Reader = ();

    fn fields(&self, _prefix: &str, _out: &mut Vec<Field>) {}

    fn writer(&self, _rows: usize) {}

    #[inline]
    fn write(&self, _writer: &mut (), _value: &()) {}

    fn finish(&self, _writer: (), _out: &mut Vec<ArrayRef>) -> Result<(), Fault> {
        Ok(())
    }

    fn reader(&self, _prefix: &str, _columns: &mut SectionColumns<'_>) -> Result<(), RestoreError> {
        Ok(())
    }

    #[inline]
    fn read(&self, _reader: &(), _row: usize) -> Result<(), &'static str> {
        Ok(())
    }
}

/// The columns of one value behind those of another.
impl<A, B, CA: Codec<A>, CB: Codec<B>> Codec<(A, B)> for (CA, CB) {
    type Writer = (CA::Writer, CB::Writer);
    type Reader = (CA::Reader, CB::Reader);

    fn fields(&self, prefix: &str, out: &mut Vec<Field>) {
        self.0.fields(prefix, out);
        self.1.fields(prefix, out);
    }

    fn writer(&self, rows: usize) -> Self::Writer {
        (self.0.writer(rows), self.1.writer(rows))
    }

    #[inline]
    fn write(&self, writer: &mut Self::Writer, value: &(A, B)) {
        self.0.write(&mut writer.0, &value.0);
        self.1.write(&mut writer.1, &value.1);
    }

    fn finish(&self, writer: Self::Writer, out: &mut Vec<ArrayRef>) -> Result<(), Fault> {
        self.0.finish(writer.0, out)?;
        self.1.finish(writer.1, out)
    }

    fn reader(&self, prefix: &str, columns: &mut SectionColumns<'_>) -> Result<Self::Reader, RestoreError> {
        Ok((self.0.reader(prefix, columns)?, self.1.reader(prefix, columns)?))
    }

    #[inline]
    fn read(&self, reader: &Self::Reader, row: usize) -> Result<(A, B), &'static str> {
        Ok((self.0.read(&reader.0, row)?, self.1.read(&reader.1, row)?))
    }
}

/// The columns of a value that is made of values with a codec.
pub struct Mapped<T, P, C> {
    codec: C,
    parts: fn(&T) -> P,
    whole: Whole<T, P>,
}

/// Makes a value of its parts, or says what is wrong with them.
type Whole<T, P> = Box<dyn Fn(P) -> Result<T, &'static str> + Send + Sync>;

impl<T, P, C: Debug> Debug for Mapped<T, P, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Mapped").field(&self.codec).finish()
    }
}

impl<T, P, C: Codec<P>> Mapped<T, P, C> {
    /// `parts` takes a value to pieces, `whole` puts it together and refuses what no value has as pieces.
    pub fn new(
        codec: C,
        parts: fn(&T) -> P,
        whole: impl Fn(P) -> Result<T, &'static str> + Send + Sync + 'static,
    ) -> Self {
        Self { codec, parts, whole: Box::new(whole) }
    }
}

impl<T: 'static, P: 'static, C: Codec<P>> Codec<T> for Mapped<T, P, C> {
    type Writer = C::Writer;
    type Reader = C::Reader;

    fn fields(&self, prefix: &str, out: &mut Vec<Field>) {
        self.codec.fields(prefix, out);
    }

    fn writer(&self, rows: usize) -> C::Writer {
        self.codec.writer(rows)
    }

    #[inline]
    fn write(&self, writer: &mut C::Writer, value: &T) {
        self.codec.write(writer, &(self.parts)(value));
    }

    fn finish(&self, writer: C::Writer, out: &mut Vec<ArrayRef>) -> Result<(), Fault> {
        self.codec.finish(writer, out)
    }

    fn reader(&self, prefix: &str, columns: &mut SectionColumns<'_>) -> Result<C::Reader, RestoreError> {
        self.codec.reader(prefix, columns)
    }

    #[inline]
    fn read(&self, reader: &C::Reader, row: usize) -> Result<T, &'static str> {
        (self.whole)(self.codec.read(reader, row)?)
    }
}
