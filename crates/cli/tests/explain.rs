//! The program as a user runs it.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

type TestResult = Result<(), Box<dyn std::error::Error>>;

fn plan(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../plan/tests/data").join(name)
}

fn streamfusion() -> Command {
    Command::new(env!("CARGO_BIN_EXE_streamfusion"))
}

fn stdout(output: Output) -> Result<String, Box<dyn std::error::Error>> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

#[test]
fn a_calc_is_native_between_operators_of_flink() -> TestResult {
    let text = stdout(streamfusion().arg("explain").arg(plan("plan_calc.json")).output()?)?;
    for (id, place) in [(1, "Flink"), (2, "native, stage 0"), (3, "native, stage 0"), (4, "Flink")] {
        assert!(text.lines().any(|line| line.starts_with(&format!("{id}  {place}  "))), "{id} {place}: {text}");
    }
    assert!(text.starts_with("2 of 4 nodes run natively in 1 stage\n"), "{text}");
    assert!(text.contains("in the JVM: UPPER: UPPER depends on the locale of the JVM"), "{text}");
    Ok(())
}

#[test]
fn a_group_by_is_native_from_its_calc_on() -> TestResult {
    let text = stdout(streamfusion().arg("explain").arg(plan("plan_groupagg.json")).output()?)?;
    for (id, place) in [
        (5, "Flink"),
        (6, "native, stage 0"),
        (7, "native, stage 0"),
        (8, "native, stage 0"),
        (9, "native, stage 1"),
        (10, "Flink"),
    ] {
        assert!(text.lines().any(|line| line.starts_with(&format!("{id:>2}  {place}  "))), "{id} {place}: {text}");
    }
    Ok(())
}

#[test]
fn an_unsupported_operator_is_explained() -> TestResult {
    let text = stdout(streamfusion().arg("explain").arg(plan("plan_split_mb.json")).output()?)?;
    assert!(text.contains("stays on Flink: sources stay on Flink"), "{text}");
    Ok(())
}

#[test]
fn standard_input_is_explained_as_json() -> TestResult {
    let mut child =
        streamfusion().args(["explain", "--json", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    child.stdin.take().ok_or("no stdin")?.write_all(&std::fs::read(plan("plan_calc.json"))?)?;
    let json: serde_json::Value = serde_json::from_str(&stdout(child.wait_with_output()?)?)?;
    assert_eq!(json["stages"].as_array().map(Vec::len), Some(1));
    assert_eq!(json["nodes"][0]["reasons"][0], "sources stay on Flink");
    Ok(())
}

#[test]
fn what_cannot_be_read_is_named_and_fails() -> TestResult {
    let missing = streamfusion().args(["explain", "no/such/plan.json"]).output()?;
    assert_eq!(missing.status.code(), Some(1));
    assert!(String::from_utf8(missing.stderr)?.starts_with("streamfusion: cannot read no/such/plan.json: "));

    let no_plan =
        streamfusion().arg("explain").arg(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).output()?;
    assert_eq!(no_plan.status.code(), Some(1));
    let error = String::from_utf8(no_plan.stderr)?;
    assert!(error.contains("Cargo.toml: not a plan: "), "{error}");
    Ok(())
}

#[test]
fn wrong_arguments_exit_with_two() -> TestResult {
    let output = streamfusion().args(["explain"]).output()?;
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr)?.contains("explain needs a plan"));
    let help = stdout(streamfusion().arg("--help").output()?)?;
    assert!(help.contains("Usage: streamfusion explain"), "{help}");
    Ok(())
}
