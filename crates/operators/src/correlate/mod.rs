//! UNNEST: each row with the elements of one of its ARRAYs, MAPs or MULTISETs.
//!
//! The elements of a batch are read where they lie and become columns; the columns of the input are gathered beside them. A batch that
//! explodes leaves in pieces of the usual size, cut also within a row.
//!
//! - The elements of a row come in their order, and with the row's kind.
//! - An element that is a NULL ROW is left out; any other NULL is an element like others.
//! - LEFT: a row of which no element is left, or passes the condition, goes out once, with NULLs.
//!
//! Follows: CorrelateCodeGenerator, UnnestRowsFunctionBase, Flink 2.2. Differences: WITH ORDINALITY, a NULL ROW of several fields fails; in
//! Flink it fails where the number of the element is read.

mod elements;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, BooleanArray, UInt32Array};
use arrow::compute::take;
use datafusion_physical_expr::PhysicalExpr;
use streamfusion_expr::host::HostFunction;
use streamfusion_expr::{compile, evaluate, host_calls};
use streamfusion_plan::Reason;
use streamfusion_plan::node::{self, JoinType};
use streamfusion_row::Batch;

use self::elements::{Elements, Piece, Position};
use crate::calc::{like, record_batch};
use crate::join::limits::{Limits, RowBytes};
use crate::{Operator, OperatorError};

/// The JSON pointer of the condition.
const CONDITION: &str = "/condition";

/// Whether it runs natively, given that what is unnested does.
pub fn supports(spec: &node::Correlate) -> Result<(), Reason> {
    Elements::try_new(spec)?;
    match spec.condition.as_ref().map(|condition| host_calls(condition, CONDITION)).transpose()?.as_deref() {
        None | Some([]) => Ok(()),
        Some([call, ..]) => Err(Reason::new(format!("its condition is not native: {}", call.reason))),
    }
}

/// See the [module](self).
#[derive(Debug)]
pub struct Correlate {
    collection: Arc<dyn PhysicalExpr>,
    elements: Elements,
    join_type: JoinType,
    condition: Option<Arc<dyn PhysicalExpr>>,
    limits: Limits,
    pending: Option<Pending>,
}

/// What of a pushed batch has not gone out yet.
#[derive(Debug)]
struct Pending {
    batch: Batch,
    collections: BinaryArray,
    bytes: RowBytes,
    /// The next element.
    position: Position,
    /// Whether an element of its row has gone out.
    matched: bool,
}

impl Pending {
    fn is_done(&self) -> bool {
        self.position.row() >= self.collections.len()
    }
}

impl Correlate {
    /// `hosts` finds the host function of what is unnested, by its JSON pointer. Errors if an expression is neither native nor among
    /// `hosts`.
    pub fn try_new(
        spec: &node::Correlate,
        hosts: &dyn Fn(&str) -> Option<Arc<dyn HostFunction>>,
    ) -> Result<Self, OperatorError> {
        let condition = spec.condition.as_ref().map(|rex| compile(rex, CONDITION, &|_| None)).transpose()?;
        Ok(Self {
            collection: compile(&spec.collection, node::Correlate::COLLECTION, hosts)?,
            elements: Elements::try_new(spec).map_err(|reason| OperatorError::Internal(reason.to_string()))?,
            join_type: spec.join_type,
            condition,
            limits: Limits::default(),
            pending: None,
        })
    }

    /// The rows of a piece, of which `matched` says whether its first row has got an element before.
    fn join(&self, batch: &Batch, piece: &Piece<'_>, matched: &mut bool) -> Result<Option<Batch>, OperatorError> {
        let mut columns = self.elements.columns(piece)?;
        let passes = self.passes(&columns, piece.rows.len())?;
        let picked = match (self.join_type, &passes) {
            (JoinType::Left, _) => with_unmatched(piece, passes.as_ref(), matched),
            (_, Some(passes)) => passes.values().set_indices().map(|element| Picked::element(piece, element)).collect(),
            (_, None) => None,
        };
        let rows = match picked {
            None => UInt32Array::from(piece.rows.clone()),
            Some(picked) => {
                let elements: UInt32Array = picked.iter().map(|picked| picked.element).collect();
                columns = columns.iter().map(|column| take(column, &elements, None)).collect::<Result<_, _>>()?;
                UInt32Array::from_iter_values(picked.iter().map(|picked| picked.row))
            }
        };
        if rows.is_empty() {
            return Ok(None);
        }
        let left = batch.take(&rows)?;
        let columns = left.columns().iter().cloned().chain(columns).collect();
        Ok(Some(like(batch, Batch::try_new(columns, rows.len(), left.kinds().cloned())?)))
    }

    /// For each element whether it passes the condition, where there is one.
    fn passes(&self, columns: &[ArrayRef], elements: usize) -> Result<Option<BooleanArray>, OperatorError> {
        let Some(condition) = &self.condition else { return Ok(None) };
        let passes = evaluate(condition, &record_batch(columns, elements)?)?;
        let passes = passes.as_boolean_opt().ok_or_else(|| {
            OperatorError::Internal(format!("a condition of type {} instead of BOOLEAN", passes.data_type()))
        })?;
        // NULL is false
        let bits = match passes.nulls() {
            Some(nulls) => passes.values() & nulls.inner(),
            None => passes.values().clone(),
        };
        Ok(Some(BooleanArray::new(bits, None)))
    }
}

/// A row that goes out.
#[derive(Debug, Clone, Copy)]
struct Picked {
    row: u32,
    /// The element of the piece; `None` for a row without one.
    element: Option<u32>,
}

impl Picked {
    fn element(piece: &Piece<'_>, element: usize) -> Option<Self> {
        Some(Self { row: *piece.rows.get(element)?, element: Some(u32::try_from(element).ok()?) })
    }
}

/// The elements that pass and, where their row ends, the rows without any; `None` where these are all elements and nothing else.
fn with_unmatched(piece: &Piece<'_>, passes: Option<&BooleanArray>, matched: &mut bool) -> Option<Vec<Picked>> {
    let mut picked = Vec::with_capacity(piece.rows.len());
    let mut complete = true;
    let mut ends = piece.ends.iter().peekable();
    for element in 0..=piece.rows.len() {
        while let Some((_, row)) = ends.next_if(|(at, _)| *at == element) {
            if !*matched {
                complete = false;
                picked.push(Picked { row: *row, element: None });
            }
            *matched = false;
        }
        if passes.is_none_or(|passes| element < passes.len() && passes.value(element)) {
            if let Some(element) = Picked::element(piece, element) {
                *matched = true;
                picked.push(element);
            }
        } else {
            complete = false;
        }
    }
    (!complete).then_some(picked)
}

impl Operator for Correlate {
    fn push(&mut self, batch: Batch) -> Result<(), OperatorError> {
        let collections = evaluate(&self.collection, &record_batch(batch.columns(), batch.num_rows())?)?;
        let collections = collections.as_binary_opt::<i32>().cloned().ok_or_else(|| {
            OperatorError::Internal(format!("UNNEST of a column of type {}", collections.data_type()))
        })?;
        let bytes = RowBytes::of(batch.columns(), batch.num_rows(), &self.limits);
        self.pending = Some(Pending { batch, collections, bytes, position: Position::default(), matched: false });
        Ok(())
    }

    fn pull(&mut self) -> Result<Option<Batch>, OperatorError> {
        while let Some(mut pending) = self.pending.take().filter(|pending| !pending.is_done()) {
            let piece =
                self.elements.next(&pending.collections, &mut pending.position, &pending.bytes, &self.limits)?;
            let rows = self.join(&pending.batch, &piece, &mut pending.matched)?;
            drop(piece);
            self.pending = Some(pending);
            if rows.is_some() {
                return Ok(rows);
            }
        }
        Ok(None)
    }
}
