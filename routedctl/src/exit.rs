//! Exit codes. They are a contract: pipelines decide by them.

use std::process::ExitCode;

/// How it went, from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// 0: done; for `validate`, a router would take it.
    Fine,
    /// 1: the input was read and is wrong (or has warnings, with `--strict`).
    Invalid,
    /// 2: there was nothing to judge: an input can't be read, is too large or holds no document, the command line
    /// is wrong, or the output can't be written.
    Unusable,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Fine => 0,
            Exit::Invalid => 1,
            Exit::Unusable => 2,
        })
    }
}
