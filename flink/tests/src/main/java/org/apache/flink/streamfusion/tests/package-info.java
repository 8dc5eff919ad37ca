/**
 * Proof that native runs equal stock Flink, and how much faster they are.
 *
 * <p>{@link org.apache.flink.streamfusion.tests.Parity} compares both engines on one query,
 * {@link org.apache.flink.streamfusion.tests.Demo} on a script, and
 * {@link org.apache.flink.streamfusion.tests.BenchJob} measures them. Inputs come from
 * {@link org.apache.flink.streamfusion.tests.EdgeValues} and {@link org.apache.flink.streamfusion.tests.Changelogs}.
 */
package org.apache.flink.streamfusion.tests;
