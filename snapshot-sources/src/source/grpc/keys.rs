//! Key tables as they come in, in one or several chunks.

use std::collections::BTreeMap;
use std::sync::Arc;

use routed_proto as proto;

use crate::assemble::AssembleError;
use crate::keys::{KeyPair, KeyTable};
use crate::pem;
use crate::wire;

/// Most bytes that the pairs of a profile may have together.
const MAX_BYTES: usize = 64 << 20;

/// Most pairs of a profile.
const MAX_PAIRS: usize = 100_000;

/// A table of which not all has come.
#[derive(Debug, Default)]
pub(super) struct IncomingKeys {
    /// Name to fingerprint.
    named: BTreeMap<String, String>,
    /// A pair, or what is wrong with it.
    pairs: BTreeMap<String, Result<Arc<KeyPair>, String>>,
    bytes: usize,
}

/// A table that came whole.
#[derive(Debug)]
pub(super) struct CompleteKeys {
    pub(super) pairs: KeyTable,
    /// The first thing that is wrong with it.
    pub(super) problem: Option<String>,
}

impl IncomingKeys {
    /// Takes a chunk; `Some` where it is the last.
    ///
    /// A damaged pair hurts only itself: the one held under its name stays.
    pub(super) fn take(
        &mut self,
        chunk: proto::KeyTable,
        held: &KeyTable,
    ) -> Result<Option<CompleteKeys>, AssembleError> {
        let sizes = chunk
            .pairs
            .iter()
            .map(|pair| pair.certificate_pem.len() + pair.key_pem.len());
        self.bytes = self.bytes.saturating_add(sizes.sum());
        let entries = self.named.len() + chunk.table.len() + self.pairs.len() + chunk.pairs.len();
        if self.bytes > MAX_BYTES || entries > 2 * MAX_PAIRS {
            return Err(AssembleError::Field("the keys are more than is taken"));
        }
        for entry in chunk.table {
            let fingerprint = wire::hash(&entry.fingerprint);
            let fingerprint =
                fingerprint.ok_or(AssembleError::Field("a fingerprint does not have 32 bytes"))?;
            self.named.insert(entry.name, fingerprint.to_string());
        }
        for pair in chunk.pairs {
            let read = pem::pair(pair.certificate_pem.into(), pair.key_pem.into());
            self.pairs.insert(pair.name, read.map(Arc::new));
        }
        Ok(chunk.complete.then(|| std::mem::take(self).complete(held)))
    }

    fn complete(mut self, held: &KeyTable) -> CompleteKeys {
        let mut complete = CompleteKeys {
            pairs: KeyTable::new(),
            problem: None,
        };
        for (name, fingerprint) in self.named {
            let sent = self.pairs.remove(&name);
            let problem = match sent {
                Some(Ok(pair)) if pair.fingerprint == fingerprint => {
                    complete.pairs.insert(name, pair);
                    continue;
                }
                Some(Ok(_)) => "its certificate is another than was promised".to_owned(),
                Some(Err(problem)) => problem,
                None => "it was not sent".to_owned(),
            };
            let held = held.get(&name);
            let fits = held.is_some_and(|pair| pair.fingerprint == fingerprint);
            if let Some(pair) = held {
                complete.pairs.insert(name.clone(), pair.clone());
            }
            if !fits {
                complete.problem.get_or_insert(format!("{name}: {problem}"));
            }
        }
        if let Some(name) = self.pairs.into_keys().next() {
            complete
                .problem
                .get_or_insert(format!("{name}: it was sent, but is not in the table"));
        }
        complete
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(name: &str) -> (proto::KeyRef, proto::KeyPair, KeyTable) {
        let certified = rcgen::generate_simple_self_signed([format!("{name}.test")]).unwrap();
        let certificate = certified.cert.pem().into_bytes();
        let key = certified.signing_key.serialize_pem().into_bytes();
        let pair = pem::pair(certificate.clone(), key.clone()).unwrap();
        let fingerprint = wire::hash_bytes(pair.fingerprint.parse().unwrap());
        let name = format!("default/{name}");
        let sent = proto::KeyPair {
            name: name.clone(),
            fingerprint: fingerprint.clone(),
            certificate_pem: certificate.into(),
            key_pem: key.into(),
        };
        let named = proto::KeyRef {
            name: name.clone(),
            fingerprint,
        };
        (named, sent, KeyTable::from([(name, Arc::new(pair))]))
    }

    fn chunk(table: &[&proto::KeyRef], pairs: &[&proto::KeyPair], complete: bool) -> proto::KeyTable {
        proto::KeyTable {
            table: table.iter().map(|entry| (*entry).clone()).collect(),
            pairs: pairs.iter().map(|pair| (*pair).clone()).collect(),
            complete,
        }
    }

    #[test]
    fn a_table_comes_in_pieces_and_takes_what_is_held() {
        let ((a, sent, pair_a), (b, _, held)) = (made("a"), made("b"));
        let mut keys = IncomingKeys::default();
        assert!(keys.take(chunk(&[&a], &[], false), &held).unwrap().is_none());
        let complete = keys.take(chunk(&[&b], &[&sent], true), &held).unwrap().unwrap();
        assert_eq!(complete.problem, None);
        let names: Vec<&String> = complete.pairs.keys().collect();
        assert_eq!(names, ["default/a", "default/b"]);
        assert_eq!(complete.pairs["default/a"], pair_a["default/a"]);
        // The next table begins anew.
        let complete = keys.take(chunk(&[], &[], true), &held).unwrap().unwrap();
        assert!(complete.pairs.is_empty());
    }

    #[test]
    fn a_damaged_pair_leaves_the_one_held_in_use_and_is_told() {
        let ((a, mut sent, held), (other, _, _)) = (made("a"), made("a"));
        sent.key_pem = bytes::Bytes::from_static(b"nothing");
        let wrong = [
            (chunk(&[&other], &[&sent], true), "private key"),
            (
                chunk(&[&other], &[&made("a").1], true),
                "another than was promised",
            ),
            (chunk(&[&other], &[], true), "not sent"),
            (chunk(&[&a], &[&made("z").1], true), "not in the table"),
        ];
        for (table, why) in wrong {
            let complete = IncomingKeys::default().take(table, &held).unwrap().unwrap();
            assert!(
                complete
                    .problem
                    .as_ref()
                    .is_some_and(|problem| problem.contains(why)),
                "{why}: {complete:?}"
            );
            assert_eq!(complete.pairs, held, "{why}");
        }
    }

    #[test]
    fn more_than_the_limit_is_refused() {
        let (_, mut sent, held) = made("a");
        sent.certificate_pem = vec![b' '; MAX_BYTES].into();
        let taken = IncomingKeys::default().take(chunk(&[], &[&sent], true), &held);
        assert!(matches!(taken, Err(AssembleError::Field(_))));
    }
}
