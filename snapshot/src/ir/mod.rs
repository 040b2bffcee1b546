//! What a snapshot says, as serde types: the content of each part.
//!
//! Rules that hold for every type here: maps are sorted, numbers are integers ≤ 2^53−1, durations are whole
//! milliseconds, absent optional values and empty lists are left out of the JSON, and unknown fields are ignored when
//! read (a newer compiler may add optional ones; what must not be ignored is named in `requires`).
//!
//! Names: objects are `namespace/name`; a listener is `namespace/profile/listener`; a rule is
//! `EdgeRoute/namespace/name/<index>`; a backend is `Backend/namespace/name` or `Service/namespace/name/<port>`.

pub mod backend;
pub mod filter;
pub mod profile;
pub mod route;

pub use backend::{Backend, BackendTls, BackendsPart, Balancing, Endpoint, EndpointsPart, Protocol};
pub use filter::{
    Cors, DirectResponse, HeaderEdits, HeaderPair, Mirror, PathModifier, Redirect, RedirectToHttps, Rewrite,
};
pub use profile::{
    AccessLog, CertificateFiles, CertificateRef, EscapedSlashes, Limits, Listener, ListenerProtocol,
    ListenerTls, LogFormat, Normalization, Profile, ProfilesPart, Timeouts, TrustedProxies,
};
pub use route::{
    Action, FieldMatch, HttpMatch, HttpTable, PathMatch, Retry, RoutesPart, Rule, RuleTimeouts, Target,
    ValueMatch, WeightedBackend,
};

/// True for a default value: such fields are left out of the JSON.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
