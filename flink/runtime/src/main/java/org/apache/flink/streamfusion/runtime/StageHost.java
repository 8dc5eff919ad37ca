package org.apache.flink.streamfusion.runtime;

import java.io.Serializable;

/** What a stage calls in the JVM, once per batch. */
public sealed interface StageHost extends Serializable permits HostFunction, HostLookup {}
