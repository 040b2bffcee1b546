//! Diagnostics for people: the message, and the source lines it is about with the place marked.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{IsTerminal, stderr};

use miette::{
    Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteError, MietteSpanContents,
    SourceCode, SourceSpan, SpanContents,
};
use routed_policy::{Diag, Place, Severity};

use crate::input::{Input, Unusable};
use crate::output::complain;

/// Most diagnostics shown with their lines; the report for machines has all.
const MAX_SHOWN: usize = 100;
/// Longest source line shown, in bytes: a document written as one line would fill the screen.
const MAX_LINE: usize = 400;
/// Lines shown before and after the place.
const CONTEXT: usize = 2;

/// Shows everything found on stderr.
pub(crate) fn diagnostics(input: &Input, diags: &[Diag]) {
    input.unusable.iter().for_each(unusable);
    let theme = match stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        true => GraphicalTheme::unicode(),
        false => GraphicalTheme::unicode_nocolor(),
    };
    let handler = GraphicalReportHandler::new_themed(theme)
        .with_width(110)
        .with_context_lines(CONTEXT);
    let sources = Sources::of(input);
    let mut text = String::new();
    for diag in diags.iter().take(MAX_SHOWN) {
        // Writing into a string fails only where miette can't read its own excerpt; then the plain line does.
        if handler
            .render_report(&mut text, &Shown::new(diag, &sources))
            .is_err()
        {
            text.push_str(&format!("{diag}\n"));
        }
    }
    if diags.len() > MAX_SHOWN {
        text.push_str(&format!("... and {} more\n", diags.len() - MAX_SHOWN));
    }
    complain(&text);
}

/// One line about an input that can't be used.
fn unusable(input: &Unusable) {
    complain(&format!("error: {}: {}\n", input.file, input.message));
}

/// The lines of the files that are text.
struct Sources<'i>(BTreeMap<&'i str, Vec<&'i str>>);

impl<'i> Sources<'i> {
    fn of(input: &'i Input) -> Sources<'i> {
        let text = |(name, content): &'i (String, Vec<u8>)| {
            let content = std::str::from_utf8(content).ok()?;
            Some((name.as_str(), content.split('\n').collect()))
        };
        Sources(input.files.iter().filter_map(text).collect())
    }

    /// The lines around a place, where it is one of these files.
    fn excerpt(&self, place: &Place) -> Option<Excerpt> {
        let lines = self.0.get(place.file.as_str())?;
        let at = (place.line as usize)
            .checked_sub(1)
            .filter(|at| *at < lines.len())?;
        let first = at.saturating_sub(CONTEXT);
        let shown = &lines[first..lines.len().min(at + CONTEXT + 1)];
        if shown.iter().any(|line| line.len() > MAX_LINE) {
            return None;
        }
        let line = lines[at];
        let column = (place.column as usize).saturating_sub(1);
        let column = line
            .char_indices()
            .nth(column)
            .map_or(line.len(), |(byte, _)| byte);
        let before = lines[first..at].iter().map(|line| line.len() + 1).sum::<usize>();
        Some(Excerpt {
            file: place.file.clone(),
            text: shown.join("\n"),
            first,
            mark: SourceSpan::new((before + column).into(), word_length(&line[column..])),
        })
    }
}

/// How much is marked: to the end of the word, or of the line's text where it begins with a quote.
fn word_length(rest: &str) -> usize {
    let end = match rest.starts_with(['"', '\'']) {
        true => rest.trim_end().len(),
        false => rest.find([' ', ',', ':', '\t', '\r']).unwrap_or(rest.len()),
    };
    // Inside a character nothing may end; one column is marked at least where there is one.
    end.max(rest.chars().next().map_or(0, char::len_utf8))
}

/// A few lines of a file that know which lines they are. Handing miette the whole file would make it count lines
/// from the top for every diagnostic.
#[derive(Debug)]
struct Excerpt {
    file: String,
    text: String,
    first: usize,
    mark: SourceSpan,
}

impl SourceCode for Excerpt {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        before: usize,
        after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let lines = self.text.read_span(span, before, after)?;
        Ok(Box::new(MietteSpanContents::new_named(
            self.file.clone(),
            lines.data(),
            *lines.span(),
            lines.line() + self.first,
            lines.column(),
            lines.line_count(),
        )))
    }
}

/// A diagnostic as miette wants it.
#[derive(Debug)]
struct Shown<'d> {
    diag: &'d Diag,
    excerpt: Option<Excerpt>,
}

impl<'d> Shown<'d> {
    fn new(diag: &'d Diag, sources: &Sources<'_>) -> Shown<'d> {
        let excerpt = diag.place.as_ref().and_then(|place| sources.excerpt(place));
        Shown { diag, excerpt }
    }
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // With an excerpt the place stands above the lines.
        if let (None, Some(place)) = (&self.excerpt, &self.diag.place) {
            write!(f, "{}:{}:{}: ", place.file, place.line, place.column)?;
        }
        f.write_str(&self.diag.message)
    }
}

impl std::error::Error for Shown<'_> {}

impl Diagnostic for Shown<'_> {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        let severity = match self.diag.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        Some(Box::new(format!("{severity}[{}]", self.diag.reason)))
    }

    fn severity(&self) -> Option<miette::Severity> {
        Some(match self.diag.severity {
            Severity::Error => miette::Severity::Error,
            Severity::Warning => miette::Severity::Warning,
        })
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        let Diag {
            kind, object, field, ..
        } = self.diag;
        let words = [kind.as_str(), object, field]
            .into_iter()
            .filter(|word| !word.is_empty());
        let words = words.collect::<Vec<_>>().join(" ");
        (!words.is_empty()).then(|| Box::new(format!("in {words}")) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.excerpt.as_ref().map(|excerpt| excerpt as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let mark = self.excerpt.as_ref()?.mark;
        Some(Box::new(std::iter::once(LabeledSpan::underline(mark))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_place_gives_an_excerpt_or_none_but_no_panic() {
        let input = Input {
            files: vec![("ä.yaml".to_owned(), "käse: \"ü\"\r\n\n  x: y".into())],
            ..Input::default()
        };
        let sources = Sources::of(&input);
        for line in 0..6 {
            for column in 0..20 {
                let file = "ä.yaml".to_owned();
                let excerpt = sources.excerpt(&Place { file, line, column });
                assert_eq!(excerpt.is_some(), (1..=3).contains(&line));
                if let Some(excerpt) = excerpt {
                    assert!(excerpt.read_span(&excerpt.mark, CONTEXT, CONTEXT).is_ok());
                }
            }
        }
    }
}
