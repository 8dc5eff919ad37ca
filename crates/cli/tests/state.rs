//! `state show` as a user runs it.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

type TestResult = Result<(), Box<dyn std::error::Error>>;

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../state/tests/golden").join(name)
}

fn show() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_streamfusion"));
    command.args(["state", "show"]);
    command
}

fn show_bytes(bytes: &[u8], options: &[&str]) -> Result<Output, std::io::Error> {
    let mut child =
        show().args(options).arg("-").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(bytes)?;
    }
    child.wait_with_output()
}

fn stdout(output: Output) -> Result<String, Box<dyn std::error::Error>> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

#[test]
fn header_and_sections_are_printed() -> TestResult {
    let text = stdout(show().arg(golden("canonical-v5.sfcs")).output()?)?;
    let expected = "\
format version            5 (Synchronous)
operator id               bids-per-auction/groups
key group                 42
processing-time deadline  none
";
    assert!(text.starts_with(expected), "{text}");
    let expected = "
section groups: 3 rows in 2 batches
  key                   sum                                      name
  Int64                 Decimal128(38, 2)                        Utf8
  1                     999999999999999999999999999999999999.99  Z\u{fc}rich
  NULL                  NULL
  -9223372036854775808  -0.05                                    NULL

section other: 2 rows in 1 batch
";
    assert!(text.contains(expected), "{text}");
    Ok(())
}

#[test]
fn json_has_the_same() -> TestResult {
    let json = stdout(show_bytes(&fs::read(golden("canonical-v6.sfcs"))?, &["--json"])?)?;
    let json: serde_json::Value = serde_json::from_str(&json)?;
    assert_eq!(json["formatVersion"], 6);
    assert_eq!(json["operatorId"], "bids-per-auction/groups");
    assert_eq!(json["keyGroup"], 42);
    assert_eq!(json["processingTimeDeadline"], 1_767_225_600_000_i64);
    let groups = &json["sections"][0];
    assert_eq!((&groups["name"], &groups["rows"], &groups["batches"]), (&"groups".into(), &3.into(), &2.into()));
    assert_eq!(groups["columns"][1]["type"], "Decimal128(38, 2)");
    assert_eq!(groups["firstRows"][1], serde_json::json!([null, null, ""]));
    assert_eq!(json["sections"][1]["metadata"]["kind"], "example");
    Ok(())
}

#[test]
fn what_is_damaged_is_named_and_fails() -> TestResult {
    let good = fs::read(golden("canonical-v5.sfcs"))?;
    let damaged = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        bytes
    };
    for (bytes, error) in [
        (
            damaged(4),
            "standard input: the header does not begin with SFCS; the snapshot is damaged, restore an older one\n",
        ),
        (damaged(10), "the canonical format version 261 is not known, versions 5 and 6 are; restore it with"),
        (damaged(good.len() - 1), "the payload's CRC32C is "),
        (good[..100].to_vec(), "the file is no dumped container: a length beyond the end of the file at byte "),
        (vec![], "the file is no dumped container: no length at byte 0; a dump is a header and its chunks"),
    ] {
        let output = show_bytes(&bytes, &[])?;
        assert_eq!(output.status.code(), Some(1));
        let message = String::from_utf8(output.stderr)?;
        assert!(message.starts_with("streamfusion: standard input: ") && message.contains(error), "{message}");
        assert!(output.stdout.is_empty());
    }
    let missing = show().arg("no/such/state").output()?;
    assert_eq!(missing.status.code(), Some(1));
    assert!(String::from_utf8(missing.stderr)?.starts_with("streamfusion: cannot read no/such/state: "));
    assert_eq!(show().output()?.status.code(), Some(2));
    Ok(())
}
