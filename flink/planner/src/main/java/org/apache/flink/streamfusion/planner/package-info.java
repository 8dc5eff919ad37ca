/** The hook into the planner of Flink SQL: hands exec nodes to Rust and runs what comes back as native stages. */
package org.apache.flink.streamfusion.planner;
