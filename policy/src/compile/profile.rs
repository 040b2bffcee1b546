//! RouterProfiles: listeners, and which routes they admit.

use std::collections::BTreeMap;
use std::net::IpAddr;

use routed_snapshot::ir::{
    self, AccessLog, CertificateFiles, CertificateRef, EscapedSlashes, Listener, ListenerProtocol,
    ListenerTls, LogFormat, Profile, RedirectToHttps, TrustedProxies,
};
use routed_snapshot::limits;

use super::world::{Findings, World};
use super::{TlsPair, check, tls};
use crate::diag::Reason;
use crate::kinds::router_profile::{
    AllowedRoutes, EscapedSlashesSpec, LimitsSpec, ListenerProtocolSpec, ListenerSpec, ListenerTlsSpec,
    LogFormatSpec, ProfileTimeouts, RouterProfileSpec, SecretRef, TrustedProxiesSpec,
};

/// Most listeners of a profile.
const MAX_LISTENERS: usize = 64;

/// A compiled profile.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ProfileFragment {
    pub(crate) profile: Profile,
    /// Which routes it admits, as written.
    pub(crate) allowed: AllowedRoutes,
    pub(crate) keys: BTreeMap<String, TlsPair>,
}

impl ProfileFragment {
    /// The profile where no object says otherwise.
    pub(crate) fn built_in() -> ProfileFragment {
        ProfileFragment {
            profile: Profile::built_in(),
            allowed: AllowedRoutes::default(),
            keys: BTreeMap::new(),
        }
    }

    /// Whether routes see no difference between the two.
    pub(crate) fn admits_like(&self, other: &ProfileFragment) -> bool {
        self.allowed == other.allowed && self.profile.listeners.keys().eq(other.profile.listeners.keys())
    }
}

/// Compiles a profile. What is bad is left out or has its default.
pub(crate) fn profile(
    spec: &RouterProfileSpec,
    world: &World<'_>,
    findings: &mut Findings<'_>,
) -> ProfileFragment {
    findings.not_built("spec.tenant", spec.tenant.is_some());
    findings.not_built("spec.agent", spec.agent.is_some());
    findings.not_built("spec.traces", spec.traces.is_some());
    findings.not_built("spec.policies", spec.policies.is_some());
    let mut context = Context {
        world,
        findings,
        keys: BTreeMap::new(),
    };
    let listeners = context.listeners(spec);
    let keys = context.keys;
    let normalization = spec.normalization.clone().unwrap_or_default();
    let log = spec.access_log.clone().unwrap_or_default();
    let profile = Profile {
        listeners,
        trusted_proxies: trusted_proxies(spec.trusted_proxies.as_ref(), findings),
        normalization: ir::Normalization {
            merge_slashes: normalization.merge_slashes.unwrap_or_default(),
            escaped_slashes: match normalization.escaped_slashes {
                None | Some(EscapedSlashesSpec::Keep) => EscapedSlashes::Keep,
                Some(EscapedSlashesSpec::Reject) => EscapedSlashes::Reject,
                Some(EscapedSlashesSpec::Decode) => EscapedSlashes::Decode,
            },
        },
        limits: limits_of(&spec.limits.clone().unwrap_or_default(), findings),
        timeouts: timeouts(&spec.timeouts.clone().unwrap_or_default(), findings),
        access_log: AccessLog {
            enabled: log.enabled.unwrap_or_default(),
            format: match log.format {
                None | Some(LogFormatSpec::Json) => LogFormat::Json,
                Some(LogFormatSpec::Text) => LogFormat::Text,
            },
        },
        decision_headers: spec.decision_headers.unwrap_or_default(),
    };
    let allowed = spec.allowed_routes.clone().unwrap_or_default();
    for (at, hostname) in allowed.hostnames.iter().enumerate() {
        let field = format!("spec.allowedRoutes.hostnames[{at}]");
        findings.check(Reason::InvalidHostname, &field, check::hostname(hostname, true));
    }
    ProfileFragment {
        profile,
        allowed,
        keys,
    }
}

/// What the listeners of one profile are compiled with.
struct Context<'c, 'o, 'w> {
    world: &'c World<'w>,
    findings: &'c mut Findings<'o>,
    /// The pairs of the certificates that they name.
    keys: BTreeMap<String, TlsPair>,
}

impl Context<'_, '_, '_> {
    fn listeners(&mut self, spec: &RouterProfileSpec) -> BTreeMap<String, Listener> {
        if spec.listeners.is_empty() {
            let message = "at least one listener is needed";
            self.findings
                .error(Reason::InvalidValue, "spec.listeners", message);
        }
        if spec.listeners.len() > MAX_LISTENERS {
            let message = format!("{} listeners; {MAX_LISTENERS} are taken", spec.listeners.len());
            self.findings.error(Reason::TooMany, "spec.listeners", message);
        }
        let mut listeners: BTreeMap<String, Listener> = BTreeMap::new();
        for (at, written) in spec.listeners.iter().take(MAX_LISTENERS).enumerate() {
            let field = format!("spec.listeners[{at}]");
            let Some(listener) = self.listener(written, &field) else {
                continue;
            };
            let taken = |known: &Listener| {
                listener.port != 0 && known.port == listener.port && known.address == listener.address
            };
            if listeners.contains_key(&written.name) || listeners.values().any(taken) {
                let message = "the name or the address is another listener's";
                self.findings.error(Reason::DuplicateListener, &field, message);
                continue;
            }
            listeners.insert(written.name.clone(), listener);
        }
        listeners
    }

    fn listener(&mut self, written: &ListenerSpec, field: &str) -> Option<Listener> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if !(1..=63).contains(&written.name.len()) || !written.name.bytes().all(plain) {
            let message = format!(
                "`{}`: lower-case letters, digits and `-`, at most 63",
                written.name
            );
            self.findings
                .error(Reason::InvalidName, &format!("{field}.name"), message);
            return None;
        }
        let address = written.address.as_deref().unwrap_or("0.0.0.0");
        let Ok(address) = address.parse::<IpAddr>() else {
            let message = format!("`{address}` is no IP address");
            self.findings
                .error(Reason::InvalidAddress, &format!("{field}.address"), message);
            return None;
        };
        let protocol = match written.protocol {
            ListenerProtocolSpec::Http => ListenerProtocol::Http,
            ListenerProtocolSpec::Https => ListenerProtocol::Https,
        };
        let https = protocol == ListenerProtocol::Https;
        if https != written.tls.is_some() {
            let message = if https {
                "HTTPS needs `tls`"
            } else {
                "HTTP has no `tls`"
            };
            self.findings
                .error(Reason::InvalidValue, &format!("{field}.tls"), message);
            return None;
        }
        let redirect_to_https = redirect_to_https(written, field, self.findings)?;
        Some(Listener {
            address: address.to_string(),
            port: written.port,
            protocol,
            tls: written.tls.as_ref().map(|tls| self.tls(tls, field)),
            redirect_to_https,
        })
    }

    /// A certificate whose Secret is missing or damaged stays, without a fingerprint: a router that holds a pair of
    /// its name serves that on and reports it, and one that doesn't says which is missing.
    fn tls(&mut self, written: &ListenerTlsSpec, field: &str) -> ListenerTls {
        let mut certificates = Vec::new();
        for (at, reference) in written.certificate_refs.iter().enumerate() {
            let certificate = self.certificate(reference, &format!("{field}.tls.certificateRefs[{at}]"));
            certificates.extend(certificate.filter(|certificate| !certificates.contains(certificate)));
        }
        if written.certificate_refs.is_empty() && written.certificate_files.is_empty() {
            let message = "a certificate is needed";
            self.findings
                .error(Reason::InvalidValue, &format!("{field}.tls"), message);
        }
        let files = written.certificate_files.iter().map(|files| CertificateFiles {
            certificate: files.certificate.clone(),
            key: files.key.clone(),
        });
        ListenerTls {
            certificates,
            certificate_files: files.collect(),
        }
    }

    fn certificate(&mut self, reference: &SecretRef, field: &str) -> Option<CertificateRef> {
        let own = &self.findings.object.key().namespace;
        let namespace = reference.namespace.as_deref().unwrap_or(own);
        if namespace != own {
            let message = format!("a Secret of namespace `{namespace}`; only the profile's own are allowed");
            self.findings
                .error(Reason::CrossNamespace, &format!("{field}.namespace"), message);
            return None;
        }
        let name = format!("{namespace}/{}", reference.name);
        match tls::pair(self.world, namespace, &reference.name) {
            Ok(pair) => {
                let fingerprint = pair.fingerprint.clone();
                self.keys.insert(name.clone(), pair);
                Some(CertificateRef { name, fingerprint })
            }
            Err((reason, message)) => {
                self.findings.error(reason, field, message);
                let fingerprint = String::new();
                Some(CertificateRef { name, fingerprint })
            }
        }
    }
}

/// The outer option is none where the redirect is invalid.
fn redirect_to_https(
    written: &ListenerSpec,
    field: &str,
    findings: &mut Findings<'_>,
) -> Option<Option<RedirectToHttps>> {
    let Some(redirect) = &written.redirect_to_https else {
        return Some(None);
    };
    let field = format!("{field}.redirectToHttps");
    if written.protocol == ListenerProtocolSpec::Https {
        findings.error(Reason::InvalidValue, &field, "for HTTP listeners");
        return None;
    }
    let port = check::within(redirect.port.unwrap_or(443), limits::PORT);
    let port = findings.check(Reason::InvalidValue, &format!("{field}.port"), port)?;
    let status = check::one_of(
        redirect.status_code.unwrap_or(301),
        limits::REDIRECT_TO_HTTPS_STATUS,
    );
    let status = findings.check(Reason::InvalidValue, &format!("{field}.statusCode"), status)?;
    Some(Some(RedirectToHttps { port, status }))
}

fn trusted_proxies(written: Option<&TrustedProxiesSpec>, findings: &mut Findings<'_>) -> TrustedProxies {
    let Some(written) = written else {
        return TrustedProxies::default();
    };
    let mut cidrs = Vec::with_capacity(written.cidrs.len());
    for (at, cidr) in written.cidrs.iter().enumerate() {
        if is_cidr(cidr) {
            cidrs.push(cidr.clone());
        } else {
            let field = format!("spec.trustedProxies.cidrs[{at}]");
            findings.error(
                Reason::InvalidCidr,
                &field,
                format!("`{cidr}` is no network (`10.0.0.0/8`)"),
            );
        }
    }
    let hops = check::within(written.hops.unwrap_or(0), limits::HOPS);
    let hops = findings.check(Reason::InvalidValue, "spec.trustedProxies.hops", hops);
    TrustedProxies {
        cidrs,
        hops: hops.unwrap_or(0),
    }
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else {
        return false;
    };
    let most = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    length.len() <= 3
        && length.bytes().all(|d| d.is_ascii_digit())
        && length.parse::<u8>().is_ok_and(|bits| bits <= most)
}

/// What is out of its range has its default.
fn limits_of(written: &LimitsSpec, findings: &mut Findings<'_>) -> ir::Limits {
    let default = ir::Limits::default();
    let mut number = |written: Option<u32>, default: u32, range, member: &str| {
        let checked = check::within(written.unwrap_or(default), range);
        let checked = findings.check(Reason::InvalidValue, &format!("spec.limits.{member}"), checked);
        checked.unwrap_or(default)
    };
    ir::Limits {
        target_bytes: number(
            written.target_bytes,
            default.target_bytes,
            limits::TARGET_BYTES,
            "targetBytes",
        ),
        header_bytes: number(
            written.header_bytes,
            default.header_bytes,
            limits::HEADER_BYTES,
            "headerBytes",
        ),
        header_count: number(
            written.header_count,
            default.header_count,
            limits::HEADER_COUNT,
            "headerCount",
        ),
        http2_streams: number(
            written.http2_streams,
            default.http2_streams,
            limits::HTTP2_STREAMS,
            "http2Streams",
        ),
        body_bytes: written
            .body_bytes
            .unwrap_or(default.body_bytes)
            .min(limits::BODY_BYTES.most),
    }
}

fn timeouts(written: &ProfileTimeouts, findings: &mut Findings<'_>) -> ir::Timeouts {
    let default = ir::Timeouts::default();
    let mut time = |written: &Option<String>, default: u64, member: &str| {
        let Some(written) = written else {
            return default;
        };
        let field = format!("spec.timeouts.{member}");
        findings
            .check(Reason::InvalidDuration, &field, check::duration(written))
            .unwrap_or(default)
    };
    ir::Timeouts {
        request_head_ms: time(&written.request_head, default.request_head_ms, "requestHead"),
        idle_ms: time(&written.idle, default.idle_ms, "idle"),
        handshake_ms: time(&written.handshake, default.handshake_ms, "handshake"),
        connect_ms: time(&written.connect, default.connect_ms, "connect"),
        upstream_idle_ms: time(&written.upstream_idle, default.upstream_idle_ms, "upstreamIdle"),
        drain_ms: time(&written.drain, default.drain_ms, "drain"),
    }
}
