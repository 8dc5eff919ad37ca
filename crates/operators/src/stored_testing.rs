//! What tests of operators with keyed state share to run them on a database, from which every key is read anew that may be.
#![allow(clippy::unwrap_used)]

use streamfusion_state::Store;
use streamfusion_state::rocksdb::testing::TestDatabase;

use crate::{Operator, Residence};

thread_local! {
    /// The database of this thread's tests. Opening one takes far longer than what they do with it.
    static DATABASE: TestDatabase = TestDatabase::new();
}

/// Keeps the state of an operator, which has not begun, in a database that must live longer.
pub(crate) fn attach(operator: &mut dyn Operator) -> TestDatabase {
    let database = database();
    attach_to(operator, &database);
    database
}

/// As [`attach`], to a database that may have something already.
pub(crate) fn attach_to(operator: &mut dyn Operator, database: &TestDatabase) {
    let resident = match operator.residence() {
        Residence::Memory => return,
        Residence::Resident => true,
        Residence::Cached => false,
    };
    let store = Store { database: database.open().clone(), operator_id: "uid".to_owned(), resident };
    assert!(operator.state().unwrap().attach(&store).unwrap(), "the state stays in memory");
}

/// An empty database. The subtasks of a job may share one, in which each has key groups of its own.
pub(crate) fn database() -> TestDatabase {
    DATABASE.with(TestDatabase::another)
}

/// Lets everything leave memory that may. To be called when everything has been pulled.
pub(crate) fn evict(operator: &mut dyn Operator) {
    if let Some(state) = operator.state() {
        // each time half of the keys
        (0..4).for_each(|_| state.evict().unwrap());
    }
}
