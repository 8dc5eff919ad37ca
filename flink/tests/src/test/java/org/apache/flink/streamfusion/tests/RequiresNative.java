package org.apache.flink.streamfusion.tests;

import org.junit.jupiter.api.condition.EnabledIfSystemProperty;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/** Skipped where the build names no native library; with one, the tests fail if it cannot be used. */
@Target(ElementType.TYPE)
@Retention(RetentionPolicy.RUNTIME)
@EnabledIfSystemProperty(named = "streamfusion.native.library", matches = ".+")
@interface RequiresNative {}
