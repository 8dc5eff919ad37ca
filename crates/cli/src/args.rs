//! The arguments of the command line.

use std::ffi::OsString;
use std::path::PathBuf;

/// What `--help` prints.
pub const HELP: &str = "\
Looks into the files of native Flink jobs, without a cluster.

Usage: streamfusion explain [--json] PLAN
       streamfusion state show [--json] FILE

  explain     says which operators of a compiled plan run natively, and why the others do not
  state show  prints the header and the tables of native state

  PLAN        a file written by COMPILE PLAN; - reads standard input
  FILE        a dumped container of canonical state; - reads standard input
  --json      print JSON instead of text
  --help      print this
  --version   print the version

Exit status: 0 if all was printed, 1 if the file could not be read, 2 if the arguments are wrong.
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
    /// Print the state in a container.
    ShowState {
        /// Where it is.
        container: Source,
        /// How to print it.
        format: Format,
    },
}

/// Where a plan or a container is.
#[derive(Debug, PartialEq, Eq)]
pub enum Source {
    /// Standard input.
    Stdin,
    /// A file.
    File(PathBuf),
}

/// How it is printed.
#[derive(Debug, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// For programs.
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
    /// `state` without a command of its own.
    #[error("state is followed by show")]
    NoStateCommand,
    /// An option that is not known.
    #[error("`{option}` is not an option of {command}")]
    UnknownOption {
        /// The command.
        command: &'static str,
        /// The option.
        option: String,
    },
    /// A command without its file.
    #[error("{command} needs a {what}")]
    NoFile {
        /// The command.
        command: &'static str,
        /// What kind of file.
        what: &'static str,
    },
    /// More than one file.
    #[error("{command} takes one {what}, `{second}` is a second one")]
    SecondFile {
        /// The command.
        command: &'static str,
        /// What kind of file.
        what: &'static str,
        /// The second one.
        second: String,
    },
}

/// Reads the arguments, without the program's name. After `--` everything is a file.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Command, UsageError> {
    let mut args = args.into_iter();
    let first = args.next().ok_or(UsageError::NoCommand)?;
    match first.to_str() {
        Some("--help" | "-h" | "help") => Ok(Command::Help),
        Some("--version" | "-V") => Ok(Command::Version),
        Some("explain") => {
            let file = parse_file(args, "explain", "plan")?;
            Ok(file.map_or(Command::Help, |(plan, format)| Command::Explain { plan, format }))
        }
        Some("state") => match args.next().as_ref().and_then(|arg| arg.to_str()) {
            Some("show") => {
                let file = parse_file(args, "state show", "file")?;
                Ok(file.map_or(Command::Help, |(container, format)| Command::ShowState { container, format }))
            }
            Some("--help" | "-h") => Ok(Command::Help),
            _ => Err(UsageError::NoStateCommand),
        },
        _ => Err(UsageError::UnknownCommand(first.to_string_lossy().into_owned())),
    }
}

/// The one file of a command and how to print it. None where help is asked for.
fn parse_file(
    args: impl Iterator<Item = OsString>,
    command: &'static str,
    what: &'static str,
) -> Result<Option<(Source, Format)>, UsageError> {
    let (mut file, mut format, mut options) = (None, Format::Text, true);
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
            Some("--help" | "-h") if options => return Ok(None),
            Some(text) if options && text.len() > 1 && text.starts_with('-') => {
                return Err(UsageError::UnknownOption { command, option: text.to_owned() });
            }
            _ => {}
        }
        if file.is_some() {
            return Err(UsageError::SecondFile { command, what, second: arg.to_string_lossy().into_owned() });
        }
        file = Some(if options && arg == "-" { Source::Stdin } else { Source::File(arg.into()) });
    }
    Ok(Some((file.ok_or(UsageError::NoFile { command, what })?, format)))
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
        for (words, command, what) in
            [(vec!["explain"], "explain", "plan"), (vec!["state", "show"], "state show", "file")]
        {
            let parse = |more: &[&str]| parse_all(&[&words, more].concat());
            assert_eq!(parse(&[]), Err(UsageError::NoFile { command, what }));
            let option = "--yaml".to_owned();
            assert_eq!(parse(&["--yaml", "p"]), Err(UsageError::UnknownOption { command, option }));
            let second = "q".to_owned();
            assert_eq!(parse(&["p", "q"]), Err(UsageError::SecondFile { command, what, second }));
        }
        assert_eq!(parse_all(&["state"]), Err(UsageError::NoStateCommand));
        assert_eq!(parse_all(&["state", "x.sfcs"]), Err(UsageError::NoStateCommand));
    }

    #[test]
    fn state_is_shown_as_text_unless_json_is_asked_for() {
        let show = |container, format| Ok(Command::ShowState { container, format });
        assert_eq!(parse_all(&["state", "show", "x"]), show(Source::File("x".into()), Format::Text));
        assert_eq!(parse_all(&["state", "show", "--json", "-"]), show(Source::Stdin, Format::Json));
        assert_eq!(parse_all(&["state", "--help"]), Ok(Command::Help));
    }
}
