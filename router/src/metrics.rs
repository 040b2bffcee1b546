//! Counters, and how they are shown.
//!
//! Labels come from configuration only (listener, route, backend), from the class of the status, and from a fixed
//! set of methods: a client can't create series. A route's series begins with its first request and ends with the
//! swap that removes the route, the backend or the listener. A request that is still under way then may begin it anew;
//! that one ends within a second (see [`crate::shared::Shared::tidy`]).
//!
//! Rejected: the crates `metrics` and `metrics-exporter-prometheus`. Their registry has no call that ends a series
//! (only an idle time-out, which also ends a configured route that is merely quiet), their histograms keep each
//! sample until somebody calls for upkeep, and looking a counter up hashes all labels of each at each request. Here a
//! request hashes one name, takes the lock of one shard and adds to three atomics; memory is bounded by the
//! configuration.

use std::collections::{HashMap, HashSet};
use std::fmt::{self, Write as _};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Every metric's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name {
    /// Requests by listener, route, backend, method and class of the status.
    Requests,
    /// Time from a request's head to the end of its response.
    RequestDuration,
    /// Client connections accepted.
    Connections,
    /// Client connections open now.
    ConnectionsOpen,
    /// Client connections that were cut.
    ConnectionsCut,
    /// Heads that took too long.
    HeadTimeouts,
    /// Connections opened to endpoints, by result.
    UpstreamConnects,
    /// Requests sent again.
    Retries,
    /// Copies of requests sent, and those not made.
    Mirrors,
    /// Access log lines that could not be written.
    LogDrops,
}

impl Name {
    fn parts(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Name::Requests => ("routed_requests_total", "counter", "Requests answered."),
            Name::RequestDuration => (
                "routed_request_duration_seconds",
                "histogram",
                "Time from a request's head to the end of its response.",
            ),
            Name::Connections => (
                "routed_connections_total",
                "counter",
                "Client connections accepted.",
            ),
            Name::ConnectionsOpen => ("routed_connections_open", "gauge", "Client connections open."),
            Name::ConnectionsCut => (
                "routed_connections_cut_total",
                "counter",
                "Client connections cut with work under way, as the time to drain was over.",
            ),
            Name::HeadTimeouts => (
                "routed_head_timeouts_total",
                "counter",
                "Request heads that took too long.",
            ),
            Name::UpstreamConnects => (
                "routed_upstream_connects_total",
                "counter",
                "Connections to endpoints, by result.",
            ),
            Name::Retries => ("routed_retries_total", "counter", "Requests sent again."),
            Name::Mirrors => (
                "routed_mirrors_total",
                "counter",
                "Copies of requests, by result.",
            ),
            Name::LogDrops => (
                "routed_access_log_drops_total",
                "counter",
                "Access log lines dropped.",
            ),
        }
    }
}

/// Upper bounds of the duration histogram in microseconds.
const BUCKETS: [u64; 14] = [
    500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000, 10_000_000,
];

/// Methods that are labels of their own; any other is `other`.
const METHODS: [&str; 8] = [
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "other",
];

/// Classes of status; a request that was never answered counts as `cancelled`.
const CLASSES: [&str; 6] = ["cancelled", "1xx", "2xx", "3xx", "4xx", "5xx"];

const SHARDS: usize = 16;

/// One request, as it is counted.
#[derive(Debug, Clone, Copy)]
pub struct Observed<'a> {
    /// `namespace/profile/listener`.
    pub listener: &'a str,
    /// Name of the rule; empty where none was met.
    pub route: &'a str,
    /// Name of the backend; empty where none was chosen.
    pub backend: &'a str,
    /// Method as received.
    pub method: &'a str,
    /// Status; 0 where the client left before there was one.
    pub status: u16,
    /// From the head to the end of the response.
    pub duration: Duration,
}

#[derive(Debug, Default)]
struct Series {
    requests: [[AtomicU64; CLASSES.len()]; METHODS.len()],
    buckets: [AtomicU64; BUCKETS.len() + 1],
    sum_us: AtomicU64,
}

/// The series of one route: by listener and backend, few in number.
type RouteSeries = Vec<(Box<str>, Box<str>, Arc<Series>)>;

/// All counters of the data plane.
#[derive(Debug, Default)]
pub struct Metrics {
    hasher: RandomState,
    shards: [Mutex<HashMap<Box<str>, RouteSeries>>; SHARDS],
    listeners: Mutex<HashMap<Box<str>, Arc<ListenerSeries>>>,
    connections_cut: AtomicU64,
    head_timeouts: AtomicU64,
    connects: [AtomicU64; 2],
    retries: AtomicU64,
    mirrors: [AtomicU64; 2],
    log_drops: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct ListenerSeries {
    accepted: AtomicU64,
    open: AtomicI64,
}

/// A client connection that counts as open until this is dropped.
#[derive(Debug)]
pub struct OpenConnection(Arc<ListenerSeries>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}

/// A counter can't be left half-changed, so a poisoned lock is as good as any.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Metrics {
    /// Counts a request. The answer says whether its series began with it.
    pub fn observe(&self, request: &Observed<'_>) -> bool {
        let (series, begun) = self.series(request);
        let method = METHODS
            .iter()
            .position(|method| *method == request.method)
            .unwrap_or(METHODS.len() - 1);
        let class = usize::from(request.status / 100).min(CLASSES.len() - 1);
        if let Some(count) = series.requests.get(method).and_then(|classes| classes.get(class)) {
            count.fetch_add(1, Relaxed);
        }
        let us = u64::try_from(request.duration.as_micros()).unwrap_or(u64::MAX);
        let bucket = BUCKETS.partition_point(|bound| *bound < us);
        if let Some(count) = series.buckets.get(bucket) {
            count.fetch_add(1, Relaxed);
        }
        series.sum_us.fetch_add(us, Relaxed);
        begun
    }

    fn series(&self, request: &Observed<'_>) -> (Arc<Series>, bool) {
        let shard = self.hasher.hash_one(request.route) as usize % SHARDS;
        let mut routes = lock(&self.shards[shard]);
        if !routes.contains_key(request.route) {
            routes.insert(request.route.into(), RouteSeries::new());
        }
        let Some(of_route) = routes.get_mut(request.route) else {
            return (Arc::default(), false);
        };
        let found = of_route
            .iter()
            .find(|(listener, backend, _)| **listener == *request.listener && **backend == *request.backend);
        if let Some((_, _, series)) = found {
            return (series.clone(), false);
        }
        let series = Arc::<Series>::default();
        of_route.push((request.listener.into(), request.backend.into(), series.clone()));
        (series, true)
    }

    /// Counts a client connection, open until the answer is dropped.
    pub fn connection(&self, listener: &str) -> OpenConnection {
        let series = lock(&self.listeners).entry(listener.into()).or_default().clone();
        series.accepted.fetch_add(1, Relaxed);
        series.open.fetch_add(1, Relaxed);
        OpenConnection(series)
    }

    /// Counts a connection that was cut.
    pub fn connection_cut(&self) {
        self.connections_cut.fetch_add(1, Relaxed);
    }

    /// Connections cut so far.
    pub fn connections_cut(&self) -> u64 {
        self.connections_cut.load(Relaxed)
    }

    /// Counts a head that took too long.
    pub fn head_timeout(&self) {
        self.head_timeouts.fetch_add(1, Relaxed);
    }

    /// Counts a connection to an endpoint.
    pub fn upstream_connect(&self, succeeded: bool) {
        self.connects[usize::from(succeeded)].fetch_add(1, Relaxed);
    }

    /// Counts a request sent again.
    pub fn retry(&self) {
        self.retries.fetch_add(1, Relaxed);
    }

    /// Counts a copy of a request, made or not made.
    pub fn mirror(&self, sent: bool) {
        self.mirrors[usize::from(sent)].fetch_add(1, Relaxed);
    }

    /// The counter of log lines dropped, for the log's writer.
    pub fn log_drops(&self) -> Arc<AtomicU64> {
        self.log_drops.clone()
    }

    /// Ends the series of routes, backends and listeners that are no more.
    pub fn retain(
        &self,
        routes: &HashSet<&str>,
        backends: &HashSet<&str>,
        is_listener: impl Fn(&str) -> bool,
    ) {
        for shard in &self.shards {
            lock(shard).retain(|route, of_route| {
                of_route.retain(|(listener, backend, _)| {
                    is_listener(listener) && (backend.is_empty() || backends.contains(&**backend))
                });
                !of_route.is_empty() && (route.is_empty() || routes.contains(&**route))
            });
        }
        self.retain_listeners(is_listener);
    }

    /// Ends the series of listeners that are no more, once their connections have ended.
    pub fn retain_listeners(&self, is_listener: impl Fn(&str) -> bool) {
        lock(&self.listeners).retain(|name, series| is_listener(name) || series.open.load(Relaxed) > 0);
    }

    /// The counters in Prometheus' text format.
    pub fn render(&self) -> String {
        let mut out = String::new();
        // Writing to a String does not fail.
        let _ = self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) -> fmt::Result {
        let mut all = Vec::new();
        for shard in &self.shards {
            for (route, of_route) in lock(shard).iter() {
                for (listener, backend, series) in of_route {
                    all.push((route.clone(), listener.clone(), backend.clone(), series.clone()));
                }
            }
        }
        all.sort_by(|a, b| (&a.0, &a.1, &a.2).cmp(&(&b.0, &b.1, &b.2)));
        heading(out, Name::Requests)?;
        for (route, listener, backend, series) in &all {
            write_requests(out, &labels(listener, route, backend), series)?;
        }
        heading(out, Name::RequestDuration)?;
        for (route, listener, backend, series) in &all {
            write_durations(out, &labels(listener, route, backend), series)?;
        }
        let mut listeners: Vec<_> = lock(&self.listeners)
            .iter()
            .map(|(name, series)| (name.clone(), series.clone()))
            .collect();
        listeners.sort_by(|a, b| a.0.cmp(&b.0));
        for (name, read) in [
            (
                Name::Connections,
                (|series| series.accepted.load(Relaxed).to_string()) as fn(&ListenerSeries) -> String,
            ),
            (Name::ConnectionsOpen, |series| {
                series.open.load(Relaxed).to_string()
            }),
        ] {
            heading(out, name)?;
            for (listener, series) in &listeners {
                let value = read(series);
                writeln!(
                    out,
                    "{}{{listener=\"{}\"}} {value}",
                    name.parts().0,
                    Escaped(listener)
                )?;
            }
        }
        self.write_plain(out)
    }

    fn write_plain(&self, out: &mut String) -> fmt::Result {
        for (name, counter) in [
            (Name::ConnectionsCut, &self.connections_cut),
            (Name::HeadTimeouts, &self.head_timeouts),
            (Name::Retries, &self.retries),
            (Name::LogDrops, &*self.log_drops),
        ] {
            heading(out, name)?;
            writeln!(out, "{} {}", name.parts().0, counter.load(Relaxed))?;
        }
        for (name, [failed, succeeded], words) in [
            (Name::UpstreamConnects, &self.connects, ["failed", "ok"]),
            (Name::Mirrors, &self.mirrors, ["skipped", "sent"]),
        ] {
            heading(out, name)?;
            for (word, counter) in words.iter().zip([failed, succeeded]) {
                writeln!(
                    out,
                    "{}{{result=\"{word}\"}} {}",
                    name.parts().0,
                    counter.load(Relaxed)
                )?;
            }
        }
        Ok(())
    }
}

fn heading(out: &mut String, name: Name) -> fmt::Result {
    let (name, kind, help) = name.parts();
    writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}")
}

fn labels(listener: &str, route: &str, backend: &str) -> String {
    let (listener, route, backend) = (Escaped(listener), Escaped(route), Escaped(backend));
    format!("listener=\"{listener}\",route=\"{route}\",backend=\"{backend}\"")
}

fn write_requests(out: &mut String, labels: &str, series: &Series) -> fmt::Result {
    let name = Name::Requests.parts().0;
    for (method, classes) in METHODS.iter().zip(&series.requests) {
        for (class, count) in CLASSES.iter().zip(classes) {
            let count = count.load(Relaxed);
            if count > 0 {
                writeln!(
                    out,
                    "{name}{{{labels},method=\"{method}\",code=\"{class}\"}} {count}"
                )?;
            }
        }
    }
    Ok(())
}

fn write_durations(out: &mut String, labels: &str, series: &Series) -> fmt::Result {
    let name = Name::RequestDuration.parts().0;
    let mut total = 0;
    for (at, count) in series.buckets.iter().enumerate() {
        total += count.load(Relaxed);
        match BUCKETS.get(at) {
            Some(bound) => {
                let seconds = Duration::from_micros(*bound).as_secs_f64();
                writeln!(out, "{name}_bucket{{{labels},le=\"{seconds}\"}} {total}")?;
            }
            None => writeln!(out, "{name}_bucket{{{labels},le=\"+Inf\"}} {total}")?,
        }
    }
    let sum = Duration::from_micros(series.sum_us.load(Relaxed)).as_secs_f64();
    writeln!(
        out,
        "{name}_sum{{{labels}}} {sum}\n{name}_count{{{labels}}} {total}"
    )
}

/// A label value with backslash, quote and line feed escaped.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test may fail
mod tests {
    use super::*;

    fn observed<'a>(route: &'a str, method: &'a str) -> Observed<'a> {
        Observed {
            listener: "default/default/http",
            route,
            backend: "Backend/a/b",
            method,
            status: 200,
            duration: Duration::from_millis(3),
        }
    }

    #[test]
    fn strangers_make_no_series() {
        let metrics = Metrics::default();
        for method in ["GET", "BREW", "X1", "X2"] {
            metrics.observe(&observed("EdgeRoute/a/\"b\"/0", method));
        }
        let text = metrics.render();
        assert!(text.contains("route=\"EdgeRoute/a/\\\"b\\\"/0\""), "{text}");
        assert!(text.contains("method=\"other\",code=\"2xx\"} 3"), "{text}");
        assert!(text.contains("le=\"0.005\"} 4"), "{text}");
        assert!(!text.contains("BREW"));
    }

    #[test]
    fn the_series_of_a_route_end_with_it() {
        let metrics = Metrics::default();
        metrics.observe(&observed("EdgeRoute/a/b/0", "GET"));
        metrics.observe(&observed("EdgeRoute/a/c/0", "GET"));
        let (routes, backends) = (HashSet::from(["EdgeRoute/a/c/0"]), HashSet::from(["Backend/a/b"]));
        metrics.retain(&routes, &backends, |_| true);
        let text = metrics.render();
        assert!(!text.contains("EdgeRoute/a/b/0"));
        assert!(text.contains("EdgeRoute/a/c/0"));
    }

    #[test]
    fn the_series_of_a_backend_or_listener_end_with_it_in_a_route_that_stays() {
        let routes = HashSet::from(["EdgeRoute/a/b/0"]);
        let metrics = Metrics::default();
        metrics.observe(&observed("EdgeRoute/a/b/0", "GET"));
        metrics.retain(&routes, &HashSet::from(["Backend/a/other"]), |_| true);
        assert!(!metrics.render().contains("Backend/a/b"));
        metrics.observe(&observed("EdgeRoute/a/b/0", "GET"));
        let open = metrics.connection("default/default/http");
        let backends = HashSet::from(["Backend/a/b"]);
        metrics.retain(&routes, &backends, |_| false);
        assert!(!metrics.render().contains("Backend/a/b"));
        assert!(metrics.render().contains("default/default/http"));
        drop(open);
        metrics.retain(&routes, &backends, |_| false);
        assert!(!metrics.render().contains("default/default/http"));
    }
}
