//! Backends and Services: pools and their endpoints.
//!
//! A Service's endpoints are those of its EndpointSlices that are ready; where none is, those that still serve while
//! they terminate, as kube-proxy does. A Service without any compiles to a backend without endpoints (503).

use std::net::IpAddr;

use routed_snapshot::ir::{self, BackendTls, Endpoint};
use routed_snapshot::limits;

use super::check;
use super::tls;
use super::world::{Findings, World};
use crate::diag::Reason;
use crate::kinds::backend::{BackendProtocol, BackendSpec, BackendTls as BackendTlsSpec, CaKind};
use crate::kinds::kubernetes::{EndpointSlice, ServicePort, ServiceSpec, SliceEndpoint, SlicePort};
use crate::resources::{Body, Kind, Object, ObjectKey};

/// Most addresses of a Backend.
const MAX_ADDRESSES: usize = 4096;

/// A backend of the snapshot with its endpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pool {
    pub(crate) backend: ir::Backend,
    pub(crate) endpoints: Vec<Endpoint>,
}

/// Name of a Backend in the snapshot.
pub(crate) fn backend_name(namespace: &str, name: &str) -> String {
    format!("Backend/{namespace}/{name}")
}

/// Name of a Service's port in the snapshot.
pub(crate) fn service_name(namespace: &str, name: &str, port: u16) -> String {
    format!("Service/{namespace}/{name}/{port}")
}

/// Compiles a Backend; none where it can't be used at all.
pub(crate) fn backend(
    object: &Object,
    spec: &BackendSpec,
    world: &World<'_>,
    findings: &mut Findings<'_>,
) -> Option<Pool> {
    let mut refused = findings.not_built("spec.dns", spec.dns.is_some());
    refused |= findings.not_built("spec.health", spec.health.is_some());
    refused |= findings.not_built("spec.limits", spec.limits.is_some());
    let protocol = spec.protocol.unwrap_or_default();
    if protocol != BackendProtocol::H1 {
        findings.error(Reason::NotBuilt, "spec.protocol", "only `h1` is built yet");
        refused = true;
    }
    if let Some(hostname) = &spec.hostname {
        let checked = check::hostname(hostname, false);
        refused |= findings
            .check(Reason::InvalidHostname, "spec.hostname", checked)
            .is_none();
    }
    let tls = match &spec.tls {
        Some(written) => {
            let tls = backend_tls(object, written, world, findings);
            refused |= tls.is_none();
            tls
        }
        None => None,
    };
    let endpoints = endpoints(object, spec, world, findings)?;
    let ports = || spec.addresses.iter().flatten().map(|address| address.port);
    let port = spec.service.as_ref().map(|service| service.port).or_else(|| {
        let first = ports().next()?;
        ports().all(|port| port == first).then_some(first)
    });
    let backend = ir::Backend {
        hostname: spec.hostname.clone(),
        port,
        tls,
        ..ir::Backend::default()
    };
    (!refused).then_some(Pool { backend, endpoints })
}

/// The endpoints that a Backend names; none where it names nothing.
fn endpoints(
    object: &Object,
    spec: &BackendSpec,
    world: &World<'_>,
    findings: &mut Findings<'_>,
) -> Option<Vec<Endpoint>> {
    Some(match (&spec.addresses, &spec.service) {
        (Some(_), None) => addresses(spec, findings),
        (None, Some(service)) => {
            let namespace = &object.key().namespace;
            let found = world
                .get(Kind::Service, namespace, &service.name)
                .map(|object| object.body());
            let port = match found {
                Some(Body::Service(found)) => port_of(found, service.port),
                _ => None,
            };
            let Some(port) = port else {
                let message = format!(
                    "no Service `{namespace}/{}` with port {}",
                    service.name, service.port
                );
                findings.error(Reason::ServiceNotFound, "spec.service", message);
                return None;
            };
            service_endpoints(
                &ObjectKey::new(Kind::Service, Some(namespace), &service.name),
                port,
                world,
            )
        }
        _ if spec.dns.is_some() => return None,
        _ => {
            findings.error(
                Reason::InvalidValue,
                "spec",
                "one of `addresses` and `service` is needed",
            );
            return None;
        }
    })
}

fn addresses(spec: &BackendSpec, findings: &mut Findings<'_>) -> Vec<Endpoint> {
    let written = spec.addresses.as_deref().unwrap_or_default();
    if written.len() > MAX_ADDRESSES {
        let message = format!("{} addresses; {MAX_ADDRESSES} are taken", written.len());
        findings.error(Reason::TooMany, "spec.addresses", message);
    }
    let mut endpoints = Vec::with_capacity(written.len());
    for (at, address) in written.iter().take(MAX_ADDRESSES).enumerate() {
        let field = format!("spec.addresses[{at}]");
        let Ok(ip) = address.address.parse::<IpAddr>() else {
            let message = format!("`{}` is no IP address", address.address);
            findings.error(Reason::InvalidAddress, &format!("{field}.address"), message);
            continue;
        };
        if let Err(message) = check::within(address.port, limits::PORT) {
            findings.error(Reason::InvalidAddress, &format!("{field}.port"), message);
            continue;
        }
        let weight = address.weight.unwrap_or(1);
        if !limits::WEIGHT.contains(weight) {
            findings.error(
                Reason::InvalidValue,
                &format!("{field}.weight"),
                limits::WEIGHT.to_string(),
            );
            continue;
        }
        endpoints.push(Endpoint {
            address: ip.to_string(),
            port: address.port,
            weight,
        });
    }
    // One address written twice has the sum of its weights.
    endpoints.sort();
    endpoints.dedup_by(|later, first| {
        let same = later.address == first.address && later.port == first.port;
        if same {
            first.weight = first.weight.saturating_add(later.weight);
        }
        same
    });
    endpoints
}

fn backend_tls(
    object: &Object,
    written: &BackendTlsSpec,
    world: &World<'_>,
    findings: &mut Findings<'_>,
) -> Option<BackendTls> {
    if let Some(sni) = &written.sni {
        findings.check(
            Reason::InvalidHostname,
            "spec.tls.sni",
            check::hostname(sni, false),
        )?;
    }
    let (field, bundle) = match (&written.ca, &written.ca_ref) {
        (None, None) => {
            return Some(BackendTls {
                sni: written.sni.clone(),
                ca_pem: None,
            });
        }
        (Some(_), Some(_)) => {
            findings.error(
                Reason::InvalidValue,
                "spec.tls",
                "`ca` and `caRef` exclude one another",
            );
            return None;
        }
        (Some(ca), None) => ("spec.tls.ca.pem", tls::bundle(&ca.pem)),
        (None, Some(reference)) => {
            let key = reference.key.as_deref().unwrap_or("ca.crt");
            let pem = ca_text(object, reference.kind, &reference.name, key, world);
            ("spec.tls.caRef", pem.and_then(|pem| tls::bundle(&pem)))
        }
    };
    match bundle {
        Ok(pem) => Some(BackendTls {
            sni: written.sni.clone(),
            ca_pem: Some(pem),
        }),
        Err((reason, message)) => {
            findings.error(reason, field, message);
            None
        }
    }
}

fn ca_text(
    object: &Object,
    kind: CaKind,
    name: &str,
    key: &str,
    world: &World<'_>,
) -> Result<String, tls::Fault> {
    let namespace = &object.key().namespace;
    let kind = match kind {
        CaKind::ConfigMap => Kind::ConfigMap,
        CaKind::Secret => Kind::Secret,
    };
    let text = match world.get(kind, namespace, name).map(|object| object.body()) {
        Some(Body::ConfigMap(map)) => map.data.as_ref().and_then(|data| data.get(key)).cloned(),
        Some(Body::Secret(secret)) => {
            tls::value_of(secret, key)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        }
        _ => None,
    };
    text.ok_or_else(|| {
        let reason = match kind {
            Kind::ConfigMap => Reason::ConfigMapNotFound,
            _ => Reason::SecretNotFound,
        };
        (reason, format!("no {kind} `{namespace}/{name}` with `{key}`"))
    })
}

/// The TCP port of a Service.
pub(crate) fn port_of(service: &ServiceSpec, port: u16) -> Option<&ServicePort> {
    let tcp = |protocol: &Option<String>| protocol.as_deref().is_none_or(|protocol| protocol == "TCP");
    service
        .ports
        .iter()
        .find(|candidate| candidate.port == port && tcp(&candidate.protocol))
}

/// Every TCP port of a Service as a pool.
pub(crate) fn service(object: &Object, spec: &ServiceSpec, world: &World<'_>) -> Vec<(String, Pool)> {
    let key = object.key();
    let pool = |port: &ServicePort| {
        let backend = ir::Backend {
            hostname: Some(format!("{}.{}", key.name, key.namespace)),
            port: Some(port.port),
            ..ir::Backend::default()
        };
        let endpoints = service_endpoints(key, port, world);
        (
            service_name(&key.namespace, &key.name, port.port),
            Pool { backend, endpoints },
        )
    };
    let ports = spec
        .ports
        .iter()
        .filter(|port| port_of(spec, port.port) == Some(port));
    ports.map(pool).collect()
}

fn service_endpoints(service: &ObjectKey, port: &ServicePort, world: &World<'_>) -> Vec<Endpoint> {
    let (mut ready, mut leaving) = (Vec::new(), Vec::new());
    let keys = world.slices.get(service).into_iter().flatten();
    for object in keys.filter_map(|key| world.resources.get(key)) {
        let Body::EndpointSlice(slice) = object.body() else {
            continue;
        };
        for target in target_ports(slice, port) {
            for endpoint in slice.endpoints.iter().flatten() {
                let Some(at) = address_of(endpoint, target) else {
                    continue;
                };
                let conditions = endpoint.conditions.clone().unwrap_or_default();
                let is_ready = conditions.ready.unwrap_or(true);
                let terminating = conditions.terminating.unwrap_or(false);
                if is_ready {
                    ready.push(at);
                } else if terminating && conditions.serving.unwrap_or(false) {
                    leaving.push(at);
                }
            }
        }
    }
    let mut endpoints = if ready.is_empty() { leaving } else { ready };
    endpoints.sort();
    endpoints.dedup();
    endpoints
}

/// The target ports of a slice for a Service's port: matched by name, as EndpointSlices carry it.
fn target_ports<'a>(slice: &'a EndpointSlice, port: &'a ServicePort) -> impl Iterator<Item = u16> + 'a {
    let name = port.name.as_deref().unwrap_or("");
    let fits = move |candidate: &&SlicePort| {
        let tcp = candidate
            .protocol
            .as_deref()
            .is_none_or(|protocol| protocol == "TCP");
        tcp && candidate.name.as_deref().unwrap_or("") == name
    };
    let ip = slice.address_type != "FQDN";
    let ports = slice.ports.iter().flatten().filter(move |_| ip);
    ports
        .filter(fits)
        .filter_map(|port| port.port)
        .filter(|port| *port != 0)
}

fn address_of(endpoint: &SliceEndpoint, port: u16) -> Option<Endpoint> {
    let ip = endpoint.addresses.first()?.parse::<IpAddr>().ok()?;
    Some(Endpoint {
        address: ip.to_string(),
        port,
        weight: 1,
    })
}
