//! What is asked: a request as a person types it, and the listener that it arrives at.
//!
//! A running router and an offline tool ask by this one function, so they choose the listener, accept or refuse the
//! request, and decide alike. The one thing that a router knows better is which profile it runs.

use std::collections::BTreeSet;

use super::{Explanation, explain, not_found, refused};
use crate::facts::{Availability, Facts};
use crate::index::Index;
use crate::request::Typed;
use crate::request::typed::NoListener;

/// The profile of a router that is told nothing else.
const DEFAULT_PROFILE: &str = "default/default";

/// A question.
#[derive(Debug, Clone, Copy)]
pub struct Question<'q> {
    /// The request.
    pub typed: &'q Typed,
    /// The profile that the router runs, `namespace/name`. Without one the listeners of all are considered, as where
    /// no router has taken the table yet.
    pub profile: Option<&'q str>,
    /// The listener that is meant, by its own name or as `namespace/profile/listener`; needed where several would do.
    pub listener: Option<&'q str>,
    /// The number that chooses among weighted shares.
    pub draw: u64,
}

impl Question<'_> {
    /// The answer on a table: the request is accepted or refused as the listener's profile says, then decided.
    ///
    /// # Errors
    /// Where no listener would do, or several.
    pub fn answer(&self, index: &Index, availability: &Availability<'_>) -> Result<Explanation, NoListener> {
        let listener = self.listener(index)?;
        let Question { typed, draw, .. } = *self;
        let unmatched = |host: String, path: String, outcome| Explanation {
            snapshot: index.hash().to_string(),
            listener: listener.clone(),
            host,
            path,
            candidates: Vec::new(),
            more_candidates: 0,
            outcome,
        };
        let profile = listener.rsplit_once('/').map_or("", |(profile, _)| profile);
        let target = match typed.accepted(&index.profile_run(profile)) {
            Ok(target) => target,
            Err(refusal) => {
                let outcome = refused(refusal);
                return Ok(unmatched(typed.authority.clone(), typed.path.clone(), outcome));
            }
        };
        let Some(id) = index.listener(&listener) else {
            return Ok(unmatched(target.host.name, target.path, not_found()));
        };
        let lines = typed.lines();
        let facts = Facts {
            listener: id,
            https: typed.https,
            method: &typed.method,
            host: &target.host.name,
            path: &target.path,
            query: target.query.as_deref(),
            headers: &lines,
        };
        Ok(explain(index, &facts, draw, availability))
    }

    /// The full name of the listener.
    fn listener(&self, index: &Index) -> Result<String, NoListener> {
        let names = self.profiles(index).into_iter();
        let profiles: Vec<_> = names.map(|name| (name, index.profile_run(name))).collect();
        let listeners = profiles.iter().flat_map(|(name, profile)| {
            let own = profile.listeners.iter();
            own.map(move |(listener, settings)| (format!("{name}/{listener}"), settings))
        });
        self.typed.listener(listeners, self.listener)
    }

    /// The profiles whose listeners are considered. The default one exists in any table, and one that is named as part
    /// of a listener is run as the built-in one where the table lacks it.
    fn profiles<'s>(&'s self, index: &'s Index) -> BTreeSet<&'s str> {
        if let Some(profile) = self.profile {
            return BTreeSet::from([profile]);
        }
        let named = self.listener.and_then(|listener| listener.rsplit_once('/'));
        let named = named
            .map(|(profile, _)| profile)
            .filter(|name| name.contains('/'));
        index
            .profile_names()
            .chain([DEFAULT_PROFILE])
            .chain(named)
            .collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test may fail
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use crate::ir::{Profile, ProfilesPart};
    use crate::snapshot::PartContent;
    use crate::{Part, PartName, Snapshot};

    /// The built-in profile under these names.
    fn index(names: &[&str]) -> Index {
        let profiles = names.iter().map(|name| ((*name).to_owned(), Profile::built_in()));
        let part = ProfilesPart {
            profiles: profiles.collect(),
        };
        let part = Part::from_content(PartContent::Profiles(part)).unwrap();
        let parts = BTreeMap::from([(PartName::Profiles, Arc::new(part))]);
        Index::build(&Snapshot::new(parts, None), None).unwrap()
    }

    #[test]
    fn a_router_is_asked_about_its_own_profile_and_a_table_about_all() {
        let typed = Typed::new("GET", "http://a.test:8080/", Vec::new()).unwrap();
        let ask = |profiles: &[&str], profile, listener| {
            let question = Question {
                typed: &typed,
                profile,
                listener,
                draw: 0,
            };
            let answer = question.answer(&index(profiles), &Availability::default());
            answer.map(|explanation| explanation.listener)
        };
        let several = ["default/default", "edge/public"];
        assert_eq!(
            ask(&several, Some("edge/public"), None).unwrap(),
            "edge/public/http"
        );
        assert_eq!(
            ask(&["edge/public"], Some("default/default"), None).unwrap(),
            "default/default/http"
        );
        let all = NoListener::Several(vec!["default/default/http".into(), "edge/public/http".into()]);
        assert_eq!(ask(&several, None, None), Err(all));
        assert_eq!(
            ask(&several, None, Some("edge/public/http")).unwrap(),
            "edge/public/http"
        );
        assert_eq!(ask(&[], None, None).unwrap(), "default/default/http");
        assert_eq!(
            ask(&[], None, Some("edge/other/http")).unwrap(),
            "edge/other/http"
        );
        let foreign = ask(&several, Some("edge/public"), Some("default/default/http"));
        assert_eq!(foreign, Err(NoListener::Unknown("default/default/http".into())));
    }
}
