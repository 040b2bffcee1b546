//! `routed-loadtest decide`: what a decision costs, and the index it is made on.
//!
//! Order of the measurement: the index is built and its memory taken before anything else is allocated that stays;
//! then edits; then allocations and instructions in untimed loops; then the timed decisions.
//!
//! - [`shape`]: the tables. [`requests`]: what is decided on them. [`edit`]: a changed route.
//! - [`timing`]: percentiles. [`perf`] and [`callgrind`]: instructions. [`report`]: what is printed.

mod callgrind;
mod edit;
mod perf;
pub(crate) mod report;
mod requests;
mod shape;
mod timing;

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use arc_swap::ArcSwap;
use routed_snapshot::{Availability, Facts, Index, decide};

use self::report::Report;
use self::requests::Request;
use self::shape::{LISTENER, Table};
use self::timing::Percentiles;
use crate::alloc;
use crate::args::{Counter, Decide};
use crate::machine::Machine;
use crate::measurement::{Measurement, Outcome};

/// Decisions of an untimed loop.
const UNTIMED: u64 = 100_000;
/// Pause between two publications of `--alternate`.
const SWAP_EVERY: Duration = Duration::from_millis(10);

/// Measures and prints.
pub(crate) fn run(options: &Decide) -> Result<()> {
    let machine = Machine::look();
    let table = Table {
        routes: options.routes,
        shape: options.shape,
    };
    if let Some(count) = options.count_loop {
        return count_only(&table, options.seed, count);
    }
    let report = measure(options, &table)?;
    let same = report.rebuild_check != Some(false);
    Measurement::new(machine, Outcome::Decide(report)).print(options.json)?;
    ensure!(
        same,
        "the edited index decides otherwise than one built from zero"
    );
    Ok(())
}

fn measure(options: &Decide, table: &Table) -> Result<Report> {
    let (index, build_ms, bytes_per_route) = build(table)?;
    let edit = edit::edit(table, &index)?;
    let requests = requests::random(table, options.seed);
    let rebuild_check = options
        .rebuild_check
        .then(|| edit.same_as_rebuilt(&requests))
        .transpose()?;
    let facts = facts_of(&requests, &index)?;
    let hits = facts
        .iter()
        .filter(|(facts, draw)| one(&index, facts, *draw))
        .count();
    let wanted = requests.iter().filter(|request| request.hit).count();
    ensure!(hits == wanted, "{hits} requests met a rule, {wanted} should have");

    let before = alloc::allocations();
    many(&index, &facts, UNTIMED);
    let allocations = alloc::allocations() - before;
    let counted = count_instructions(options, &index, &facts);
    let touch = |at: usize| requests[at % requests.len()].touch();
    let (time, swaps) = if options.alternate {
        alternate(options.seconds, index.clone(), edit.index.clone(), &facts, touch)?
    } else {
        let step = |at: usize| {
            let (facts, draw) = &facts[at % facts.len()];
            one(&index, facts, *draw);
        };
        (timing::time(options.seconds, touch, step)?, 0)
    };
    Ok(Report {
        routes: options.routes,
        shape: options.shape,
        seed: options.seed,
        route_count: index.route_count(),
        alternate: options.alternate,
        swaps,
        time,
        hit_ratio: hits as f64 / facts.len() as f64,
        instructions_per_decision: counted.as_ref().ok().copied(),
        instructions_reason: counted.err(),
        allocations_per_decision: allocations as f64 / UNTIMED as f64,
        bytes_per_route,
        build_ms,
        edit_ms: edit.median_ms,
        rebuild_check,
    })
}

/// One decision; whether it met a rule.
fn one(index: &Index, facts: &Facts<'_>, draw: u64) -> bool {
    let decision = decide(black_box(index), black_box(facts), draw, &Availability::default());
    black_box(&decision).matched.is_some()
}

/// The requests as decisions on this index see them, each with its draw.
fn facts_of<'r>(requests: &'r [Request], index: &Index) -> Result<Vec<(Facts<'r>, u64)>> {
    let listener = index.listener(LISTENER).context("the index lacks the listener")?;
    let facts = |request: &'r Request| (request.facts(listener), request.draw);
    Ok(requests.iter().map(facts).collect())
}

fn many(index: &Index, facts: &[(Facts<'_>, u64)], count: u64) {
    let requests = facts.iter().cycle();
    for ((facts, draw), _) in requests.zip(0..count) {
        one(index, facts, *draw);
    }
}

fn count_only(table: &Table, seed: u64, count: u64) -> Result<()> {
    let index = Index::build(&table.snapshot()?, None)?;
    let listener = index.listener(LISTENER).context("the index lacks the listener")?;
    let requests = requests::random(table, seed);
    let facts = requests
        .iter()
        .map(|request| (request.facts(listener), request.draw))
        .collect::<Vec<_>>();
    many(&index, &facts, count);
    Ok(())
}

/// The index, the milliseconds it took, and its bytes per route once the snapshot is dropped.
fn build(table: &Table) -> Result<(Arc<Index>, f64, f64)> {
    let before = alloc::live_bytes();
    let snapshot = table.snapshot()?;
    let start = Instant::now();
    let index = Arc::new(Index::build(&snapshot, None)?);
    let taken = start.elapsed();
    drop(snapshot);
    let bytes = alloc::live_bytes().saturating_sub(before);
    Ok((
        index,
        timing::millis(taken),
        bytes as f64 / f64::from(table.routes),
    ))
}

fn count_instructions(options: &Decide, index: &Index, facts: &[(Facts<'_>, u64)]) -> Result<f64, String> {
    match options.instructions {
        Counter::None => Err("not asked for".to_owned()),
        Counter::Valgrind => callgrind::instructions(options).map_err(|error| format!("{error:#}")),
        Counter::Perf => perf::instructions(|| many(index, facts, UNTIMED))
            .map(|count| count as f64 / UNTIMED as f64)
            .map_err(|error| format!("perf_event_open: {error}; --instructions valgrind needs no counter")),
    }
}

/// Times decisions, each on the index published at that moment, while another thread publishes. The second index is
/// built upon the first, so the listener's number holds in both.
fn alternate(
    seconds: f64,
    first: Arc<Index>,
    second: Arc<Index>,
    facts: &[(Facts<'_>, u64)],
    touch: impl Fn(usize),
) -> Result<(Percentiles, u64)> {
    let published = ArcSwap::new(first.clone());
    let done = AtomicBool::new(false);
    let publish = || {
        let mut swaps = 0;
        while !done.load(Relaxed) {
            let next = if swaps % 2 == 0 { &second } else { &first };
            published.store(next.clone());
            swaps += 1;
            thread::sleep(SWAP_EVERY);
        }
        swaps
    };
    thread::scope(|scope| {
        let publisher = scope.spawn(publish);
        let time = timing::time(seconds, touch, |at| {
            let (facts, draw) = &facts[at % facts.len()];
            one(&published.load(), facts, *draw);
        });
        done.store(true, Relaxed);
        let swaps = publisher
            .join()
            .map_err(|_| anyhow::anyhow!("the publisher ended early"))?;
        Ok((time?, swaps))
    })
}
