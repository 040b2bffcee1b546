//! `routed`: flags, telemetry, run, exit code.
//!
//! Exit codes: 0 ended after a clean drain; 1 failed at run time, or was stopped before every connection had ended;
//! 2 unusable flags.

use std::process::ExitCode;

use clap::Parser;
use routed::args::{Args, Command, LogFormat, LogLevel, ServeArgs};
use routed::config::Config;
use routed::demo::Demo;
use routed::{drain, telemetry};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const FAILED: u8 = 1;
const UNUSABLE: u8 = 2;

fn main() -> ExitCode {
    match Args::parse().command {
        Command::Serve(args) => serve(&args),
        Command::Demo => demo(),
    }
}

fn demo() -> ExitCode {
    telemetry::start(LogFormat::Text, LogLevel::Warn);
    let started = Demo::start().and_then(|demo| {
        demo.greet()?;
        Ok((demo.serve_args()?, demo))
    });
    match started {
        // The demo's folder lives as long as the router follows it.
        Ok((args, _demo)) => serve(&args),
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "the demo can't start");
            ExitCode::from(FAILED)
        }
    }
}

fn serve(args: &ServeArgs) -> ExitCode {
    telemetry::start(args.log_format, args.log_level);
    let config = match Config::new(args) {
        Ok(config) => config,
        Err(errors) => {
            for error in errors {
                tracing::error!(%error, "unusable flags");
            }
            return ExitCode::from(UNUSABLE);
        }
    };
    if rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .is_err()
    {
        tracing::warn!("another TLS provider was installed before ours");
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "no runtime");
            return ExitCode::from(FAILED);
        }
    };
    let ended = runtime.block_on(async {
        let stop = drain::signals()?;
        routed::run(config, stop).await
    });
    // A look at a source that hangs (a network file system) must not hold up the end.
    runtime.shutdown_background();
    match ended {
        Ok(drain::Ended::Clean) => ExitCode::SUCCESS,
        Ok(drain::Ended::Cut) => ExitCode::from(FAILED),
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "ended");
            ExitCode::from(FAILED)
        }
    }
}
