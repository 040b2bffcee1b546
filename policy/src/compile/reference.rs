//! References from rules to Services and Backends.
//!
//! An invalid one answers for its share only: 500 with a reason.

use routed_snapshot::ir::{Mirror, Target, WeightedBackend};
use routed_snapshot::limits;

use super::backend::{backend_name, port_of, service_name};
use super::filter::{Filters, filters};
use super::world::{Findings, World};
use crate::diag::Reason;
use crate::kinds::edge_route::{BackendRef, RequestMirror};
use crate::resources::{Body, Kind, ObjectKey};

/// One share of a rule's traffic.
pub(super) fn share(
    written: &BackendRef,
    field: &str,
    world: &World<'_>,
    findings: &mut Findings<'_>,
) -> WeightedBackend {
    let mut target = match target(&Reference::from(written), field, world, findings) {
        Ok(name) => Target::Backend(name),
        Err(reason) => Target::Invalid(reason.to_string()),
    };
    let mut weight = written.weight.unwrap_or(1);
    if !limits::WEIGHT.contains(weight) {
        findings.error(
            Reason::InvalidValue,
            &format!("{field}.weight"),
            limits::WEIGHT.to_string(),
        );
        weight = limits::WEIGHT.most as u32;
        target = Target::Invalid(Reason::InvalidValue.to_string());
    }
    let mut refused = None;
    for (at, filter) in written.filters.iter().enumerate() {
        if filter.request_header_modifier.is_none() && filter.response_header_modifier.is_none() {
            let message = "a backend takes RequestHeaderModifier and ResponseHeaderModifier only";
            findings.error(Reason::InvalidFilter, &format!("{field}.filters[{at}]"), message);
            refused = Some(());
        }
    }
    let filters = match refused {
        Some(()) => None,
        None => filters(&written.filters, &format!("{field}.filters"), false, findings),
    };
    let filters = filters.unwrap_or_else(|| {
        target = Target::Invalid(Reason::InvalidFilter.to_string());
        Filters::default()
    });
    WeightedBackend {
        weight,
        target,
        request_headers: filters.request_headers,
        response_headers: filters.response_headers,
    }
}

/// A reference as both backends and mirrors write it.
struct Reference<'a> {
    service: Option<&'a str>,
    port: Option<u16>,
    backend: Option<&'a str>,
    namespace: Option<&'a str>,
}

impl<'a> From<&'a BackendRef> for Reference<'a> {
    fn from(written: &'a BackendRef) -> Reference<'a> {
        Reference {
            service: written.service.as_deref(),
            port: written.port,
            backend: written.backend.as_deref(),
            namespace: written.namespace.as_deref(),
        }
    }
}

/// Why a reference is none: the reason, the member it is about, and the message.
type Fault = (Reason, &'static str, String);

/// The snapshot's name of what is referred to.
fn target(
    reference: &Reference<'_>,
    field: &str,
    world: &World<'_>,
    findings: &mut Findings<'_>,
) -> Result<String, Reason> {
    let own = findings.object.key().namespace.as_str();
    let found = match (reference.service, reference.backend) {
        _ if reference.namespace.is_some_and(|namespace| namespace != own) => {
            let message = "backends of other namespaces are not allowed yet".to_owned();
            Err((Reason::CrossNamespace, "namespace", message))
        }
        (Some(name), None) => service(own, name, reference.port, world),
        (None, Some(name)) => backend(own, name, "backend", world).unwrap_or_else(|| {
            let message = format!("no Backend `{own}/{name}`");
            Err((Reason::BackendNotFound, "backend", message))
        }),
        _ => {
            let message = "one of `service` and `backend` is needed".to_owned();
            Err((Reason::InvalidValue, "", message))
        }
    };
    found.map_err(|(reason, member, message)| {
        let dot = if member.is_empty() { "" } else { "." };
        findings.error(reason, &format!("{field}{dot}{member}"), message);
        reason
    })
}

/// A Service's port; where no Service has the name, the Backend that has it.
fn service(own: &str, name: &str, port: Option<u16>, world: &World<'_>) -> Result<String, Fault> {
    let Some(Body::Service(spec)) = world.get(Kind::Service, own, name).map(|object| object.body()) else {
        return backend(own, name, "service", world).unwrap_or_else(|| {
            let message = format!("no Service (and no Backend) `{own}/{name}`");
            Err((Reason::ServiceNotFound, "service", message))
        });
    };
    let Some(port) = port else {
        return Err((Reason::InvalidValue, "", "a `service` needs a `port`".into()));
    };
    if port_of(spec, port).is_none() {
        let message = format!("Service `{own}/{name}` has no TCP port {port}");
        return Err((Reason::ServiceNotFound, "port", message));
    }
    Ok(service_name(own, name, port))
}

/// A Backend, where there is one of the name.
fn backend(own: &str, name: &str, member: &'static str, world: &World<'_>) -> Option<Result<String, Fault>> {
    let key = ObjectKey::new(Kind::Backend, Some(own), name);
    let written = world.get(Kind::Backend, own, name);
    if written.is_none() && !world.is_unread(&key) {
        return None;
    }
    if world.backend_is_usable(&key) {
        return Some(Ok(backend_name(own, name)));
    }
    let fault = match written {
        Some(_) => "is in error",
        None => "can't be read",
    };
    let message = format!("Backend `{own}/{name}` {fault}");
    Some(Err((Reason::BackendNotFound, member, message)))
}

/// A copy; none where it is in error, since the request itself is not.
pub(super) fn mirror(
    written: &RequestMirror,
    field: &str,
    world: &World<'_>,
    findings: &mut Findings<'_>,
) -> Option<Mirror> {
    let reference = Reference {
        service: written.backend.service.as_deref(),
        port: written.backend.port,
        backend: written.backend.backend.as_deref(),
        namespace: written.backend.namespace.as_deref(),
    };
    let backend = target(&reference, &format!("{field}.backend"), world, findings).ok()?;
    let (numerator, denominator) = match (written.percent, &written.fraction) {
        (None, None) => (100, 100),
        (Some(percent), None) => (percent, 100),
        (None, Some(fraction)) => (fraction.numerator, fraction.denominator.unwrap_or(100)),
        (Some(_), Some(_)) => {
            findings.error(
                Reason::InvalidFilter,
                field,
                "`percent` and `fraction` exclude one another",
            );
            return None;
        }
    };
    if denominator == 0 || numerator > denominator {
        findings.error(Reason::InvalidFilter, field, "a share is between 0 and 1");
        return None;
    }
    Some(Mirror {
        backend,
        numerator,
        denominator,
    })
}
