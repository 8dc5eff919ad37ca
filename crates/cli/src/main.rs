//! The command line: explains a compiled plan, or shows native state, without a cluster.
//!
//! Explaining plans with the options that the nodes of the plan carry; the session that will run the plan may set others.
#![forbid(unsafe_code)]

mod args;
mod state;

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::process::ExitCode;

use streamfusion_plan::{Graph, PlanError, plan_job};
use streamfusion_state::canonical::CanonicalError;

use args::{Command, Format, HELP, Source};

/// A file that cannot be explained or shown.
#[derive(Debug, thiserror::Error)]
enum CommandError {
    /// It cannot be read at all.
    #[error("cannot read {name}: {source}")]
    Read {
        /// The file, or `standard input`.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// It is no plan.
    #[error("{name}: {source}")]
    NoPlan {
        /// The file, or `standard input`.
        name: String,
        /// Why.
        source: PlanError,
    },
    /// It is no state.
    #[error("{name}: {source}")]
    NoState {
        /// The file, or `standard input`.
        name: String,
        /// Why.
        source: CanonicalError,
    },
}

fn main() -> ExitCode {
    let command = match args::parse(std::env::args_os().skip(1)) {
        Ok(command) => command,
        Err(error) => {
            eprintln!("streamfusion: {error}\nTry `streamfusion --help`.");
            return ExitCode::from(2);
        }
    };
    let text = match command {
        Command::Help => Ok(HELP.to_owned()),
        Command::Version => Ok(format!("streamfusion {}\n", env!("CARGO_PKG_VERSION"))),
        Command::Explain { plan, format } => explain(&plan, &format),
        Command::ShowState { container, format } => show_state(&container, &format),
    };
    let text = match text {
        Ok(text) => text,
        Err(error) => {
            eprintln!("streamfusion: {error}");
            return ExitCode::FAILURE;
        }
    };
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads has seen enough, as `| head` does.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("streamfusion: cannot write: {error}");
            ExitCode::FAILURE
        }
    }
}

fn explain(plan: &Source, format: &Format) -> Result<String, CommandError> {
    let (name, bytes) = read(plan)?;
    let text = String::from_utf8(bytes).map_err(|error| CommandError::Read {
        name: name.clone(),
        source: io::Error::new(ErrorKind::InvalidData, error.utf8_error()),
    })?;
    let graph = Graph::read(&text).map_err(|source| CommandError::NoPlan { name, source })?;
    let job = plan_job(&graph, &streamfusion_engine::capabilities());
    Ok(match format {
        Format::Text => job.explain(),
        Format::Json => format!("{:#}\n", job.to_json()),
    })
}

fn show_state(container: &Source, format: &Format) -> Result<String, CommandError> {
    let (name, bytes) = read(container)?;
    state::show(&bytes, format).map_err(|source| CommandError::NoState { name, source })
}

/// What a file is called, and what it holds.
fn read(source: &Source) -> Result<(String, Vec<u8>), CommandError> {
    let (name, bytes) = match source {
        Source::File(path) => (path.display().to_string(), fs::read(path)),
        Source::Stdin => {
            let mut bytes = Vec::new();
            ("standard input".to_owned(), io::stdin().read_to_end(&mut bytes).map(|_| bytes))
        }
    };
    match bytes {
        Ok(bytes) => Ok((name, bytes)),
        Err(source) => Err(CommandError::Read { name, source }),
    }
}
