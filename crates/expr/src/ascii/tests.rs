//! Which patterns are taken and what they find, against what Java found; and that what is not ASCII goes to the JVM.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray};
use streamfusion_plan::rex::{Function, Literal, Rex};
use streamfusion_plan::types::{LogicalType, TypeKind};

use super::pattern::Pattern;
use crate::{ExprError, HostFunction, compile, evaluate, host_calls};

type TestResult = Result<(), Box<dyn std::error::Error>>;

fn text() -> LogicalType {
    LogicalType { nullable: true, kind: TypeKind::VarChar(1 << 20) }
}

fn call(name: &str, operands: Vec<Rex>) -> Rex {
    Rex::Call { function: Function::BuiltIn { name: name.to_owned(), version: 1 }, operands, ty: text() }
}

fn column() -> Rex {
    Rex::InputRef { index: 0, ty: text() }
}

fn pattern(java: &str) -> Rex {
    Rex::Literal { value: Literal::String(java.to_owned()), ty: LogicalType { nullable: false, ..text() } }
}

/// What the JVM would be asked for; it answers `JVM`.
#[derive(Debug)]
struct Jvm {
    plain_case: bool,
    calls: AtomicUsize,
}

impl HostFunction for Jvm {
    fn call(&self, input: &RecordBatch) -> Result<ArrayRef, ExprError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(StringArray::from(vec!["JVM"; input.num_rows()])))
    }

    fn changes_ascii_case_plainly(&self) -> bool {
        self.plain_case
    }
}

/// The values of `rex` over a column of these texts, and how often the JVM was asked.
fn run(rex: &Rex, texts: &StringArray, plain_case: bool) -> Result<(Vec<Option<String>>, usize), ExprError> {
    let jvm = Arc::new(Jvm { plain_case, calls: AtomicUsize::new(0) });
    let host = Arc::clone(&jvm);
    let expr = compile(rex, "/projection/0", &|pointer| {
        (pointer == "/projection/0").then(|| Arc::clone(&host) as Arc<dyn HostFunction>)
    })?;
    let batch = RecordBatch::try_from_iter([("$0", Arc::new(texts.clone()) as ArrayRef)])?;
    let values = evaluate(&expr, &batch)?;
    let values = values.as_string::<i32>().iter().map(|value| value.map(str::to_owned)).collect();
    Ok((values, jvm.calls.load(Ordering::Relaxed)))
}

fn owned<const N: usize>(values: [Option<&str>; N]) -> Vec<Option<String>> {
    values.iter().map(|value| value.map(str::to_owned)).collect()
}

fn unescaped(field: &str) -> Option<String> {
    (field != "\\N").then(|| {
        field.replace("\\\\", "\0").replace("\\n", "\n").replace("\\r", "\r").replace("\\t", "\t").replace('\0', "\\")
    })
}

#[test]
fn groups_are_those_that_java_finds() -> TestResult {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/regexp_extract.tsv");
    let mut lines = 0;
    for line in std::fs::read_to_string(file)?.lines() {
        let fields: Vec<_> = line.split('\t').map(unescaped).collect();
        let [Some(java), Some(group), Some(value), expected] = fields.as_slice() else { return Err(line.into()) };
        let found = Pattern::of(java, group.parse()?).ok_or_else(|| format!("{java} is not taken"))?;
        assert_eq!(found.search().group(value), expected.as_deref(), "{line}");
        lines += 1;
    }
    assert!(lines > 3000, "{lines} lines");
    Ok(())
}

#[test]
fn a_pattern_that_may_mean_something_else_in_java_is_left_to_it() {
    let left = [
        "a$", "(a)*", "(a|b)+", "(?:a){2}", "a*+", "a++", "a?+", "a**", "(?i)a", "(?=a)", "(?<n>a)", "(a)\\1", "\\bx",
        "\\Qa\\E", "\\p{L}", "\\x41", "\\u0041", "\\h", "[a&&b]", "[a[b]]", "[]a]", "[^]", "[a-]", "[-a]", "[a^b]",
        "[\\d-z]", "[z-a]", "[\\D]", "x{", "x{,2}", "x{2,1}", "x{1001}", "}", "]", "*", "(", ")", "a(", "[a", "\\",
        "ä", "\t", "^*", "a{1}{2}", "a|*",
    ];
    for java in left {
        assert!(Pattern::of(java, 0).is_none(), "{java}");
    }
    assert!(Pattern::of("(a)", 1).is_some() && Pattern::of("(a)", 2).is_none());
}

#[test]
fn case_changes_here_where_all_is_ascii() -> TestResult {
    let texts = StringArray::from(vec![Some("skipped Ä"), Some("Ab1 z"), None, Some("")]).slice(1, 3);
    let (values, calls) = run(&call("LOWER", vec![column()]), &texts, true)?;
    assert_eq!((values, calls), (owned([Some("ab1 z"), None, Some("")]), 0));
    let (values, calls) = run(&call("UPPER", vec![column()]), &texts, true)?;
    assert_eq!((values, calls), (owned([Some("AB1 Z"), None, Some("")]), 0));
    Ok(())
}

#[test]
fn what_is_not_ascii_goes_to_the_jvm() -> TestResult {
    let ascii = StringArray::from(vec!["a", "b"]);
    let other = StringArray::from(vec!["a", "é"]);
    let jvm = owned([Some("JVM"), Some("JVM")]);
    let lower = call("LOWER", vec![column()]);
    let extract = call("REGEXP_EXTRACT", vec![column(), pattern("[a-b]")]);
    assert_eq!(run(&lower, &other, true)?, (jvm.clone(), 1));
    assert_eq!(run(&extract, &other, true)?, (jvm.clone(), 1));
    // a locale with rules of its own for ASCII
    assert_eq!(run(&lower, &ascii, false)?, (jvm.clone(), 1));
    assert_eq!(run(&extract, &ascii, false)?, (owned([Some("a"), Some("b")]), 0));
    let back_reference = call("REGEXP_EXTRACT", vec![column(), pattern("(a)\\1")]);
    assert_eq!(run(&back_reference, &ascii, true)?, (jvm, 1));
    Ok(())
}

#[test]
fn a_call_whose_operand_is_the_jvms_stays_whole() -> TestResult {
    let inner = call("REGEXP_EXTRACT", vec![column(), pattern("(a)\\1")]);
    let outer = call("LOWER", vec![inner]);
    let calls = host_calls(&outer, "/projection/0").map_err(|reason| reason.to_string())?;
    assert_eq!(calls.iter().map(|call| call.pointer.as_str()).collect::<Vec<_>>(), ["/projection/0"]);
    assert_eq!(run(&outer, &StringArray::from(vec!["a"]), true)?, (owned([Some("JVM")]), 1));
    let ascii = host_calls(&call("LOWER", vec![column()]), "/projection/0").map_err(|reason| reason.to_string())?;
    assert!(ascii.iter().all(|call| call.reason.to_string().contains("for text that is not ASCII")));
    Ok(())
}
