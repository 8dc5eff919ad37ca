//! The command line: explains a compiled plan without a cluster.
//!
//! It plans with the options that the nodes of the plan carry; the session that will run the plan may set others.
#![forbid(unsafe_code)]

mod args;

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::process::ExitCode;

use streamfusion_plan::{Graph, PlanError, plan_job};

use args::{Command, Format, HELP, Source};

/// A plan that cannot be explained.
#[derive(Debug, thiserror::Error)]
enum ExplainError {
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
        Command::Help => HELP.to_owned(),
        Command::Version => format!("streamfusion {}\n", env!("CARGO_PKG_VERSION")),
        Command::Explain { plan, format } => match explain(&plan, &format) {
            Ok(text) => text,
            Err(error) => {
                eprintln!("streamfusion: {error}");
                return ExitCode::FAILURE;
            }
        },
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

fn explain(plan: &Source, format: &Format) -> Result<String, ExplainError> {
    let (name, text) = match plan {
        Source::File(path) => (path.display().to_string(), fs::read_to_string(path)),
        Source::Stdin => {
            let mut text = String::new();
            ("standard input".to_owned(), io::stdin().read_to_string(&mut text).map(|_| text))
        }
    };
    let text = text.map_err(|source| ExplainError::Read { name: name.clone(), source })?;
    let graph = Graph::read(&text).map_err(|source| ExplainError::NoPlan { name, source })?;
    let job = plan_job(&graph, &streamfusion_engine::capabilities());
    Ok(match format {
        Format::Text => job.explain(),
        Format::Json => format!("{:#}\n", job.to_json()),
    })
}
