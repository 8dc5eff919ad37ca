//! Native twins of Flink's streaming operators.
