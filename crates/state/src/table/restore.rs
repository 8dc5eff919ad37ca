//! A table out of the sections of a key group.
//!
//! What comes in is valid Arrow, but may be anything else: the state of another aggregate, of another key group, or values
//! that no run leaves behind. Everything is checked; after an error the table is not used.

use arrow::array::{Array, RecordBatch};

use super::KeyedTable;
use super::keys::KEY;
use super::snapshot::{VERSION, VERSION_KEY};
use crate::canonical::{Section, Sections};
use crate::codec::SectionColumns;
use crate::keyed::RestoreError;
use crate::ttl::last_writes;

impl KeyedTable {
    /// Takes over the sections of one key group, of which the table has no key yet.
    pub fn restore(&mut self, sections: &Sections) -> Result<(), RestoreError> {
        let groups = self.key_groups();
        if !groups.contains(sections.key_group) {
            let (first, last) = (groups.first, groups.last);
            return Err(RestoreError::KeyGroup { group: sections.key_group.0, first, last });
        }
        if let Some(unknown) = sections.sections.iter().find(|section| !self.has_section(section.name())) {
            return Err(RestoreError::Section { section: unknown.name().to_owned(), what: "unknown" });
        }
        let main = find(sections, self.name)?;
        let now = self.clock.now();
        self.entries.iter_mut().for_each(|entries| entries.begin(now));
        // rows without columns cost a payload nothing: room is made for what was read
        let mut slots = Vec::new();
        self.keys.reserve(keys(main));
        for_each_batch(main, |columns| {
            let before = slots.len();
            self.keys.restore(columns, &mut self.slots, sections.key_group, &mut slots)?;
            let added = &slots[before..];
            for column in &mut self.columns {
                column.restore(columns, added)?;
            }
            let written = last_writes(columns)?;
            if let Some(writes) = &mut self.writes {
                for (row, slot) in added.iter().enumerate() {
                    // without a time-to-live before, values are as old as the job
                    writes.set(*slot, written.as_ref().map_or(now, |written| written[row]));
                }
            }
            Ok(())
        })?;
        if let Some(store) = &mut self.store {
            slots.iter().for_each(|slot| store.mark(*slot));
        }
        for entries in &mut self.entries {
            let section = find(sections, entries.name())?;
            for_each_batch(section, |columns| entries.restore(columns, &self.slots, &slots))?;
            entries.restored();
        }
        Ok(())
    }
}

/// Rows that are restored at once: their values stay near while column after column is read.
const PIECE_ROWS: usize = 4096;

fn find<'a>(sections: &'a Sections, name: &str) -> Result<&'a Section, RestoreError> {
    let section = sections.get(name);
    let section = section.ok_or_else(|| RestoreError::Section { section: name.to_owned(), what: "missing" })?;
    match section.schema().metadata().get(VERSION_KEY).map(String::as_str) {
        Some(VERSION) => Ok(section),
        found => Err(RestoreError::Version {
            section: name.to_owned(),
            found: found.unwrap_or("none").to_owned(),
            expected: VERSION,
        }),
    }
}

/// How many keys a section has that were really read.
fn keys(main: &Section) -> usize {
    let column = |batch: &RecordBatch| batch.column_by_name(KEY).map_or(0, |keys| keys.get_buffer_memory_size());
    main.batches().iter().filter(|batch| column(batch) >= batch.num_rows()).map(RecordBatch::num_rows).sum()
}

fn for_each_batch(
    section: &Section,
    mut each: impl FnMut(&mut SectionColumns<'_>) -> Result<(), RestoreError>,
) -> Result<(), RestoreError> {
    let mut first_row = 0;
    for batch in section.batches() {
        // one piece at least, so that columns are compared
        for start in (0..batch.num_rows().max(1)).step_by(PIECE_ROWS) {
            let piece = batch.slice(start, PIECE_ROWS.min(batch.num_rows() - start));
            let mut columns = SectionColumns::new(section.name(), &piece, first_row + start);
            each(&mut columns)?;
            columns.finish()?;
        }
        first_row += batch.num_rows();
    }
    Ok(())
}
