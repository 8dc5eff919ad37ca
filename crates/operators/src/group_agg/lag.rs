//! LAG: the value that a column had some rows before; NULLs are values like others.
//!
//! Only windows that no row leaves have it, and there the last values of a group are all that is kept. How many rows back, and what stands
//! where there are not so many rows, is constant here; Flink asks the last row for it.
//!
//! Follows: LagAggFunction, Flink 2.2. Differences: none.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use streamfusion_expr::{compile, evaluate};
use streamfusion_plan::Reason;
use streamfusion_plan::node::{AggCall, Constant};
use streamfusion_plan::rex::{Function as Name, Literal, Rex};
use streamfusion_plan::types::{LogicalType, TypeKind};
use streamfusion_row::types::arrow_type;
use streamfusion_state::codec::{Codec, Mapped, Required};
use streamfusion_state::{KeyedTable, Value as Stored};

use super::distinct::DistinctKey;
use super::fold::{Aggregate, Folded, Function};
use super::native::{Input, WithNulls};
use super::support::{Argument, Call, FunctionKind, Retraction, is_kept};
use super::two_phase::{Carried, ValueVisitor, begin_list, put_value, read_list, visit_value};
use super::value::Value;
use super::versions::Bytes;
use crate::OperatorError;
use crate::calc::record_batch;

/// The value `offset` rows before, or `default` where there are not so many.
#[derive(Debug)]
struct Lag<V> {
    offset: usize,
    default: Option<V>,
}

/// The value of a row and those of the rows before it, the earliest first: as many as are asked for, or fewer.
#[derive(Debug, Clone)]
struct Last<V>(VecDeque<Option<V>>);

impl<V: Stored> Stored for Last<V> {
    fn heap_bytes(&self) -> usize {
        let of_values = if std::mem::needs_drop::<V>() { self.0.iter().map(Stored::heap_bytes).sum() } else { 0 };
        self.0.capacity() * size_of::<Option<V>>() + of_values
    }
}

impl<I, V> Function for Lag<V>
where
    I: Carried<Key = V>,
    V: DistinctKey<Input = I> + Value<Input = I>,
{
    type Input = WithNulls<I>;
    type Output = V;
    type Accumulator = Last<V>;

    fn codec(&self, _output: &DataType) -> impl Codec<Last<V>> {
        let parts = |last: &Last<V>| -> Bytes {
            let mut cell = Vec::new();
            begin_list(last.0.len(), &mut cell);
            last.0.iter().for_each(|value| put_value::<I>(value.as_ref().map(DistinctKey::item), &mut cell));
            Arc::from(cell)
        };
        let whole = |cell: Bytes| {
            let mut last = VecDeque::new();
            let read = read_list::<I>(&cell, |value| last.push_back(value.map(<V as Value>::own)));
            read.map(|()| Last(last)).map_err(|_| "no list of values")
        };
        Mapped::new(Required::<Bytes>::new("values", DataType::Binary), parts, whole)
    }

    fn create(&self) -> Last<V> {
        Last(VecDeque::new())
    }

    #[inline]
    fn accumulate(&self, last: &mut Last<V>, value: Option<I::Item<'_>>) {
        if last.0.len() > self.offset {
            last.0.pop_front();
        }
        last.0.push_back(value.map(<V as Value>::own));
    }

    /// Flink refuses to plan this, as [`resolve`] does.
    #[inline]
    fn retract(&self, _last: &mut Last<V>, _value: Option<I::Item<'_>>) {}

    #[inline]
    fn value(&self, last: &Last<V>) -> Option<V> {
        if last.0.len() > self.offset { last.0.front().cloned().flatten() } else { self.default.clone() }
    }
}

/// A call with its constant arguments.
#[derive(Debug)]
pub(super) struct LagCall {
    pub(super) call: Call,
    offset: u32,
    default: Option<Constant>,
}

/// The call if it is one of LAG, or why it stays on Flink. Arguments are columns of `input`, the last ones of which are `constants`.
pub(super) fn resolve(
    call: &AggCall,
    input: &LogicalType,
    constants: &[Constant],
    retraction: Retraction,
) -> Result<Option<LagCall>, Reason> {
    if !matches!(&call.function, Name::BuiltIn { name, version: 1 } if name == "LAG") {
        return Ok(None);
    }
    if retraction == Retraction::Applied {
        return Err(Reason::new("Flink has no LAG over a window that rows leave"));
    }
    if call.distinct || call.filter.is_some() || call.approximate || call.ignore_nulls {
        return Err(Reason::new("LAG with DISTINCT, FILTER or IGNORE NULLS is not supported natively"));
    }
    let no_argument = || Reason::new("LAG has no argument");
    let (column, others) = call.args.split_first().ok_or_else(no_argument)?;
    let ty = input.fields().get(*column).map(|field| field.ty.clone()).ok_or_else(no_argument)?;
    let arrow = arrow_type(&ty)?;
    if !is_kept(&ty.kind, Retraction::Applied) {
        return Err(Reason::new("the aggregate function LAG over a value of this type is not supported natively"));
    }
    if arrow_type(&call.ty)? != arrow {
        return Err(Reason::new("the aggregate function LAG has a result of an unexpected type"));
    }
    let columns = input.fields().len().saturating_sub(constants.len());
    let constant = |column: &usize| column.checked_sub(columns).and_then(|number| constants.get(number));
    let constants = others.iter().map(constant).collect::<Option<Vec<_>>>();
    let constants = constants.ok_or_else(|| {
        Reason::new("LAG with an offset or a default that differs from row to row is not supported natively")
    })?;
    let offset = match constants.first() {
        None => 1,
        Some(Constant { value: Literal::Integer(offset), ty }) if ty.kind == TypeKind::Integer => {
            u32::try_from(*offset).map_err(|_| Reason::new("LAG with a negative offset fails in Flink"))?
        }
        Some(_) => return Err(Reason::new("LAG with an offset that is no INT is not supported natively")),
    };
    let default = match constants.get(1) {
        None => None,
        Some(default) if default.value == Literal::Null => None,
        Some(default) if arrow_type(&default.ty)? == arrow => {
            let rex = Rex::Literal { value: default.value.clone(), ty: default.ty.clone() };
            streamfusion_expr::supports(&rex)?;
            Some((*default).clone())
        }
        Some(_) => return Err(Reason::new("LAG with a default of another type than its value fails in Flink")),
    };
    if ty.nullable && !call.ty.nullable {
        // in the place of NULL Flink writes what such a column has instead
        return Err(Reason::new(
            "LAG over values that may be NULL, with a default that may not, is not supported natively",
        ));
    }
    let argument = Argument { column: *column, ty, arrow: arrow.clone() };
    let function = FunctionKind::Lag { offset };
    let call = Call { function, argument: Some(argument), filter: None, distinct: false, output: arrow };
    Ok(Some(LagCall { call, offset, default }))
}

/// The aggregate of a call. Its state is registered with `table`, under `name`.
pub(super) fn register(
    lag: &LagCall,
    table: &mut KeyedTable,
    name: String,
) -> Result<Box<dyn Aggregate>, OperatorError> {
    let default = lag.default.as_ref().map(|default| {
        let literal = compile(&Rex::Literal { value: default.value.clone(), ty: default.ty.clone() }, "", &|_| None)?;
        Ok::<ArrayRef, OperatorError>(evaluate(&literal, &record_batch(&[], 1)?)?)
    });
    let register = Register { lag, default: default.transpose()?, table, name };
    visit_value(&lag.call.output, register).map_err(|reason| OperatorError::Internal(reason.to_string()))?
}

/// Registers a call with a table, under a name.
struct Register<'a> {
    lag: &'a LagCall,
    default: Option<ArrayRef>,
    table: &'a mut KeyedTable,
    name: String,
}

impl ValueVisitor for Register<'_> {
    type Out = Result<Box<dyn Aggregate>, OperatorError>;

    fn visit<I, V>(self) -> Result<Box<dyn Aggregate>, OperatorError>
    where
        I: Carried<Key = V>,
        V: DistinctKey<Input = I> + Value<Input = I>,
    {
        let Self { lag, default, table, name } = self;
        let default = default.map(|default| {
            let column = WithNulls::<I>::column(&default)?;
            Ok::<_, OperatorError>(WithNulls::<I>::get(&column, 0).map(<V as Value>::own))
        });
        let offset = usize::try_from(lag.offset).map_err(|_| OperatorError::TooLarge)?;
        Ok(Folded::boxed(Lag { offset, default: default.transpose()?.flatten() }, &lag.call, table, name))
    }
}
