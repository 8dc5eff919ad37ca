/** Tables of tests and benchmarks: rows of this JVM as sources, collectors of this JVM as sinks. */
package org.apache.flink.streamfusion.tests.connector;
