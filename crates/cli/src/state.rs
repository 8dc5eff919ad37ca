//! Shows a canonical container: what its header says, and the tables in it with their first rows.
//!
//! Everything that can be checked without the job is: the container is decoded as a restore would do it, for the operator
//! and the key group that it names itself.

use std::fmt::Write;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use serde_json::{Value, json};
use streamfusion_state::canonical::{CanonicalError, Container, Fault, Header, Section, Sections};

use crate::args::Format;

/// How many rows of each section are shown.
const SHOWN_ROWS: usize = 10;
/// Characters of a value that are shown as text.
const SHOWN_CHARS: usize = 40;

/// The container in a dump, as text or JSON.
pub fn show(dump: &[u8], format: &Format) -> Result<String, CanonicalError> {
    let anywhere = |fault| CanonicalError { key_group: None, fault };
    let container = Container::read_dump(dump).map_err(anywhere)?;
    let operator_id = Header::decode(&container.header).map_err(anywhere)?.operator_id;
    let (header, payload) = container.decode(None, &operator_id)?;
    // nothing at all is a payload, though not one that native operators write
    let sections = if payload.is_empty() { None } else { Some(Sections::decode(&payload, &header, None)?) };
    match format {
        Format::Text => as_text(&header, sections.as_ref()),
        Format::Json => as_json(&header, sections.as_ref()).map(|json| format!("{json:#}\n")),
    }
}

fn as_text(header: &Header, sections: Option<&Sections>) -> Result<String, CanonicalError> {
    let version = header.format_version;
    let deadline = header.processing_time_deadline.map(|ms| format!("{ms} ms since the epoch"));
    let key_group = sections.map(|sections| sections.key_group.0.to_string());
    let none = || "none".to_owned();
    let mut text = String::new();
    for (name, value) in [
        ("format version", format!("{} ({version:?})", version.number())),
        ("operator id", printable(&header.operator_id)),
        ("key group", key_group.unwrap_or_else(none)),
        ("processing-time deadline", deadline.unwrap_or_else(none)),
        ("chunks", header.chunk_count.to_string()),
        ("payload", format!("{} bytes", header.payload_length)),
        ("CRC32C", format!("{:08x}", header.crc32c)),
        ("sections", sections.map_or(0, |sections| sections.sections.len()).to_string()),
    ] {
        line(&mut text, format_args!("{name:<26}{value}"));
    }
    for section in sections.iter().flat_map(|sections| &sections.sections) {
        let (rows, batches) = (counted(section.num_rows(), "row", "rows"), section.batches().len());
        let batches = counted(batches, "batch", "batches");
        line(&mut text, format_args!("\nsection {}: {rows} in {batches}", printable(section.name())));
        let schema = section.schema();
        let names = schema.fields().iter().map(|field| shortened(field.name()));
        let types = schema.fields().iter().map(|field| {
            let not_null = if field.is_nullable() { "" } else { " NOT NULL" };
            shortened(&format!("{}{not_null}", field.data_type()))
        });
        let mut lines: Vec<Vec<String>> = vec![names.collect(), types.collect()];
        let cell = |value: Option<String>| value.map_or_else(|| "NULL".to_owned(), |value| shortened(&value));
        lines.extend(first_rows(section)?.into_iter().map(|row| row.into_iter().map(cell).collect()));
        aligned(&mut text, &lines);
        match section.num_rows().saturating_sub(SHOWN_ROWS) {
            0 => {}
            more => line(&mut text, format_args!("  and {} more", counted(more, "row", "rows"))),
        }
    }
    Ok(text)
}

fn as_json(header: &Header, sections: Option<&Sections>) -> Result<Value, CanonicalError> {
    let mut tables = Vec::new();
    for section in sections.iter().flat_map(|sections| &sections.sections) {
        let columns = section.schema().fields().iter().map(|field| {
            json!({"name": field.name(), "type": field.data_type().to_string(), "nullable": field.is_nullable()})
        }).collect::<Vec<_>>();
        tables.push(json!({
            "name": section.name(),
            "rows": section.num_rows(),
            "batches": section.batches().len(),
            "metadata": section.schema().metadata(),
            "columns": columns,
            "firstRows": first_rows(section)?,
        }));
    }
    Ok(json!({
        "formatVersion": header.format_version.number(),
        "operatorId": header.operator_id,
        "keyGroup": sections.map(|sections| sections.key_group.0),
        "processingTimeDeadline": header.processing_time_deadline,
        "chunks": header.chunk_count,
        "payloadBytes": header.payload_length,
        "crc32c": format!("{:08x}", header.crc32c),
        "sections": tables,
    }))
}

/// The first rows of a section: each value as text, or nothing for NULL.
fn first_rows(section: &Section) -> Result<Vec<Vec<Option<String>>>, CanonicalError> {
    let mut rows = Vec::new();
    for batch in section.batches() {
        let count = batch.num_rows().min(SHOWN_ROWS - rows.len());
        rows_of(batch, count, &mut rows).map_err(|error| CanonicalError {
            key_group: None,
            fault: Fault::Arrow { section: section.name().to_owned(), error },
        })?;
    }
    Ok(rows)
}

fn rows_of(
    batch: &RecordBatch,
    count: usize,
    rows: &mut Vec<Vec<Option<String>>>,
) -> Result<(), arrow::error::ArrowError> {
    let options = FormatOptions::new().with_null("NULL");
    let columns = batch.columns().iter().map(|column| Ok((column, ArrayFormatter::try_new(column, &options)?)));
    let columns = columns.collect::<Result<Vec<_>, arrow::error::ArrowError>>()?;
    rows.extend((0..count).map(|row| {
        let value = |(column, formatter): &(_, ArrayFormatter<'_>)| {
            let column: &dyn Array = column;
            let null = column.data_type() == &DataType::Null || column.is_null(row);
            (!null).then(|| formatter.value(row).to_string())
        };
        columns.iter().map(value).collect()
    }));
    Ok(())
}

/// Lines of cells, one under the other.
fn aligned(text: &mut String, lines: &[Vec<String>]) {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|cells| cells.get(column));
        cells.map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<_> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    for cells in lines {
        let mut out = String::new();
        for (cell, width) in cells.iter().zip(&widths) {
            out.push_str("  ");
            out.push_str(cell);
            out.extend(std::iter::repeat_n(' ', width - cell.chars().count()));
        }
        line(text, format_args!("{}", out.trim_end()));
    }
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    // a String takes everything
    let _ = writeln!(text, "{line}");
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// A value that fits into a line.
fn shortened(value: &str) -> String {
    match value.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => printable(&value[..end]) + "...",
        None => printable(value),
    }
}

/// Text that cannot move the cursor: whoever wrote the state chose it.
fn printable(value: &str) -> String {
    value.chars().fold(String::new(), |mut text, c| {
        if c.is_control() {
            text.extend(c.escape_default())
        } else {
            text.push(c)
        }
        text
    })
}
