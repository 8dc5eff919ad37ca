//! The shared library that the JVM loads.
