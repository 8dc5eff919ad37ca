//! The command line: explains a compiled plan without a cluster.
fn main() {}
