//! Calls whose result depends on an order that Flink leaves to a hash map.
//!
//! Where maps of values are merged, and where the buckets of a key are, Flink goes through a Java HashMap. Numbers that wrap, and sums that
//! cannot outgrow their decimals, are the same in any order; other calls stay on Flink.

use arrow::datatypes::DataType;
use streamfusion_plan::Reason;

use crate::group_agg::support::{Call, FunctionKind, Retraction};

/// So many digits may the values of a sum have that is added up in any order: 10^10 values of 28 digits have 38, and there are not so many in
/// a set.
const DIGITS_OF_SETS: u8 = 28;
/// The same for rows, of which there are no more than 10^19 in a bundle of bundles.
const DIGITS_OF_ROWS: u8 = 19;

/// Whether a DISTINCT call may take its values in any order.
pub(in crate::group_agg) fn check_distinct(call: &Call) -> Result<(), Reason> {
    match call.function {
        FunctionKind::Count | FunctionKind::Sum(_) | FunctionKind::Sum0 | FunctionKind::Avg => {
            match unordered(call, DIGITS_OF_SETS) {
                true => Ok(()),
                false => Err(Reason::new(
                    "SUM and AVG of DISTINCT values of FLOAT, of DOUBLE and of decimals of more than 28 digits are not supported natively in \
                     two phases, where Flink adds them in the order of a hash map",
                )),
            }
        }
        FunctionKind::Extremum(..) | FunctionKind::Position(..) | FunctionKind::Lag { .. } => {
            Err(Reason::new("only COUNT, SUM and AVG of DISTINCT values are supported natively in two phases"))
        }
    }
}

/// Whether the accumulators of the buckets of a key may be merged in any order.
pub(super) fn check_buckets(call: &Call) -> Result<(), Reason> {
    let merged = match call.function {
        _ if call.distinct => true,
        FunctionKind::Sum(_) | FunctionKind::Sum0 | FunctionKind::Avg | FunctionKind::Extremum(_, Retraction::None) => {
            unordered(call, DIGITS_OF_ROWS)
        }
        _ => true,
    };
    if merged {
        return Ok(());
    }
    Err(Reason::new(
        "SUM, AVG, MIN and MAX of FLOAT and DOUBLE, and SUM and AVG of decimals of more than 19 digits, are not supported natively where DISTINCT \
         aggregates are split: Flink merges them in the order of a hash map",
    ))
}

/// Whether the values of a call can be taken in any order; decimals have at most so many digits.
fn unordered(call: &Call, digits: u8) -> bool {
    let adds = matches!(call.function, FunctionKind::Sum(_) | FunctionKind::Sum0 | FunctionKind::Avg);
    match call.argument.as_ref().map(|argument| &argument.arrow) {
        _ if call.function == FunctionKind::Count => true,
        Some(DataType::Float32 | DataType::Float64) => false,
        Some(DataType::Decimal128(precision, _)) => !adds || *precision <= digits,
        _ => true,
    }
}
