//! The arguments of the command line.

use std::ffi::OsString;
use std::path::PathBuf;

/// What `--help` prints.
pub const HELP: &str = "\
Says which operators of a Flink compiled plan run natively, and why the others do not.

Usage: streamfusion explain [--json] PLAN

  PLAN        a file written by COMPILE PLAN; - reads standard input
  --json      print JSON instead of text
  --help      print this
  --version   print the version

Exit status: 0 if the plan was explained, 1 if it could not be read, 2 if the arguments are wrong.
";

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    /// Print [`HELP`].
    Help,
    /// Print the version.
    Version,
    /// Explain a plan.
    Explain {
        /// Where it is.
        plan: Source,
        /// How to print it.
        format: Format,
    },
}

/// Where a plan is.
#[derive(Debug, PartialEq, Eq)]
pub enum Source {
    /// Standard input.
    Stdin,
    /// A file.
    File(PathBuf),
}

/// How a plan is printed.
#[derive(Debug, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// For programs: what the Java side gets.
    Json,
}

/// Arguments that mean nothing.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum UsageError {
    /// No command was given.
    #[error("no command was given")]
    NoCommand,
    /// The first argument is no command.
    #[error("`{0}` is not a command")]
    UnknownCommand(String),
    /// An option that is not known.
    #[error("`{0}` is not an option of explain")]
    UnknownOption(String),
    /// `explain` without a plan.
    #[error("explain needs a plan")]
    NoPlan,
    /// More than one plan.
    #[error("explain takes one plan, `{0}` is a second one")]
    SecondPlan(String),
}

/// Reads the arguments, without the program's name. After `--` everything is a plan.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Command, UsageError> {
    let mut args = args.into_iter();
    let first = args.next().ok_or(UsageError::NoCommand)?;
    match first.to_str() {
        Some("--help" | "-h" | "help") => return Ok(Command::Help),
        Some("--version" | "-V") => return Ok(Command::Version),
        Some("explain") => {}
        _ => return Err(UsageError::UnknownCommand(first.to_string_lossy().into_owned())),
    }
    let (mut plan, mut format, mut options) = (None, Format::Text, true);
    for arg in args {
        match arg.to_str() {
            Some("--") if options => {
                options = false;
                continue;
            }
            Some("--json") if options => {
                format = Format::Json;
                continue;
            }
            Some("--help" | "-h") if options => return Ok(Command::Help),
            Some(text) if options && text.len() > 1 && text.starts_with('-') => {
                return Err(UsageError::UnknownOption(text.to_owned()));
            }
            _ => {}
        }
        if plan.is_some() {
            return Err(UsageError::SecondPlan(arg.to_string_lossy().into_owned()));
        }
        plan = Some(if options && arg == "-" { Source::Stdin } else { Source::File(arg.into()) });
    }
    Ok(Command::Explain { plan: plan.ok_or(UsageError::NoPlan)?, format })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_all(args: &[&str]) -> Result<Command, UsageError> {
        parse(args.iter().map(OsString::from))
    }

    #[test]
    fn a_plan_is_explained_as_text_unless_json_is_asked_for() {
        let explain = |plan, format| Ok(Command::Explain { plan, format });
        let file = |name: &str| Source::File(name.into());
        assert_eq!(parse_all(&["explain", "p.json"]), explain(file("p.json"), Format::Text));
        assert_eq!(parse_all(&["explain", "p.json", "--json"]), explain(file("p.json"), Format::Json));
        assert_eq!(parse_all(&["explain", "--json", "-"]), explain(Source::Stdin, Format::Json));
        assert_eq!(parse_all(&["explain", "--", "--json"]), explain(file("--json"), Format::Text));
        assert_eq!(parse_all(&["explain", "x", "--help"]), Ok(Command::Help));
        assert_eq!(parse_all(&["--version"]), Ok(Command::Version));
    }

    #[test]
    fn what_is_not_understood_is_named() {
        assert_eq!(parse_all(&[]), Err(UsageError::NoCommand));
        assert_eq!(parse_all(&["run"]), Err(UsageError::UnknownCommand("run".to_owned())));
        assert_eq!(parse_all(&["explain"]), Err(UsageError::NoPlan));
        assert_eq!(parse_all(&["explain", "--yaml", "p"]), Err(UsageError::UnknownOption("--yaml".to_owned())));
        assert_eq!(parse_all(&["explain", "p", "q"]), Err(UsageError::SecondPlan("q".to_owned())));
    }
}
