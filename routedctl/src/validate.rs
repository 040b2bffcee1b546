//! `routedctl validate`: whether a router would take these resources.
//!
//! The verdict comes from the compiler and from the index a router would build: there is no second set of checks
//! here that could disagree with them.

use anyhow::Result;
use routed_policy::{Diag, Report, Resources, Severity};
use routed_snapshot::Index;
use serde::Serialize;

use crate::args::{Format, Validate};
use crate::exit::Exit;
use crate::input::{self, Input, Unusable};
use crate::{output, show};

/// What was found in an input.
pub(crate) struct Findings {
    /// The compiler's report.
    pub(crate) report: Report,
    /// Why a router would refuse the snapshot whole; a fault of the compiler, not of the author.
    pub(crate) refused: Option<String>,
    /// Why a router would refuse it without a flag.
    pub(crate) reservation: Option<String>,
    /// Errors.
    pub(crate) errors: usize,
    /// Warnings.
    pub(crate) warnings: usize,
}

impl Findings {
    /// Compiles what was read.
    pub(crate) fn of(input: &Input) -> Findings {
        let resources = Resources::from_files(input.files.iter().cloned());
        let report = routed_policy::compile(&resources);
        let count = |severity| {
            report
                .diags
                .iter()
                .filter(|diag| diag.severity == severity)
                .count()
        };
        let refused = Index::build(&report.snapshot, None)
            .err()
            .map(|error| error.to_string());
        let reservation = report.snapshot.is_empty().then(|| {
            "a router refuses it: no rule is served; an empty table needs `--allow-empty`".to_owned()
        });
        Findings {
            errors: count(Severity::Error) + usize::from(refused.is_some()),
            warnings: count(Severity::Warning) + usize::from(reservation.is_some()),
            reservation,
            refused,
            report,
        }
    }

    /// Shows everything on stderr.
    pub(crate) fn show(&self, input: &Input) {
        show::diagnostics(input, &self.report.diags);
        if let Some(refused) = &self.refused {
            output::complain(&format!("error: a router would refuse the snapshot: {refused}\n"));
        }
        if let Some(reservation) = &self.reservation {
            output::complain(&format!("warning: {reservation}\n"));
        }
    }
}

/// Validates.
pub(crate) fn run(options: &Validate) -> Result<Exit> {
    let input = input::read(&options.paths);
    let findings = Findings::of(&input);
    let exit = if !input.unusable.is_empty() {
        Exit::Unusable
    } else if findings.errors > 0 || options.strict && findings.warnings > 0 {
        Exit::Invalid
    } else {
        Exit::Fine
    };
    findings.show(&input);
    output::complain(&summary_line(&input, &findings, exit));
    if options.output == Format::Json {
        let mut json = serde_json::to_vec_pretty(&Machine::of(&input, &findings, exit))?;
        json.push(b'\n');
        output::print(&json)?;
    }
    Ok(exit)
}

fn summary_line(input: &Input, findings: &Findings, exit: Exit) -> String {
    let files = count(input.files.len(), "file");
    let (errors, warnings) = (
        count(findings.errors, "error"),
        count(findings.warnings, "warning"),
    );
    format!("{}: {files}, {errors}, {warnings}\n", verdict(exit))
}

fn count(number: usize, of: &str) -> String {
    format!("{number} {of}{}", if number == 1 { "" } else { "s" })
}

fn verdict(exit: Exit) -> &'static str {
    match exit {
        Exit::Fine => "valid",
        Exit::Invalid => "invalid",
        Exit::Unusable => "unusable",
    }
}

/// The report for machines.
#[derive(Debug, Serialize)]
struct Machine<'r> {
    diags: &'r [Diag],
    unusable: &'r [Unusable],
    summary: Summary<'r>,
}

#[derive(Debug, Serialize)]
struct Summary<'r> {
    verdict: &'static str,
    files: usize,
    errors: usize,
    warnings: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reservation: Option<&'r str>,
    /// Hash of the snapshot that the input compiles to.
    hash: String,
}

impl<'r> Machine<'r> {
    fn of(input: &'r Input, findings: &'r Findings, exit: Exit) -> Machine<'r> {
        Machine {
            diags: &findings.report.diags,
            unusable: &input.unusable,
            summary: Summary {
                verdict: verdict(exit),
                files: input.files.len(),
                errors: findings.errors,
                warnings: findings.warnings,
                refused: findings.refused.as_deref(),
                reservation: findings.reservation.as_deref(),
                hash: findings.report.snapshot.hash().to_string(),
            },
        }
    }
}
