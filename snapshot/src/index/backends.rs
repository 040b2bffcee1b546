//! The backends of one bucket, with their endpoints.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64;

use super::{BackendEntry, BackendId, EndpointEntry, IndexError};
use crate::ir::{BackendsPart, EndpointsPart};
use crate::snapshot::{Hash, PartName, bucket_of};

/// Most slots of one bucket: a number has 24 bits for them.
const MAX_SLOTS: usize = 1 << 24;

/// The hashes of the two parts that a table is made of.
pub(super) type Sources = (Option<Hash>, Option<Hash>);

/// A table of slots; the slot of a backend that went stays empty.
#[derive(Debug)]
pub(crate) struct BackendTable {
    sources: Sources,
    slots: Box<[Option<Arc<BackendEntry>>]>,
    names: HashTable<u32>,
}

impl BackendTable {
    /// True where it was made of parts with these hashes.
    pub(super) fn is_of(&self, sources: Sources) -> bool {
        self.sources == sources
    }

    pub(super) fn at(&self, slot: u32) -> Option<&Arc<BackendEntry>> {
        self.slots.get(slot as usize)?.as_ref()
    }

    pub(super) fn named(&self, hash: u64, name: &str) -> Option<&Arc<BackendEntry>> {
        let slot = self.names.find(hash, |slot| {
            self.at(*slot).is_some_and(|entry| *entry.name == *name)
        })?;
        self.at(*slot)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &Arc<BackendEntry>> {
        self.slots.iter().flatten()
    }

    /// Slots in all, and those in use.
    pub(super) fn slots_and_live(&self) -> (usize, usize) {
        (self.slots.len(), self.names.len())
    }

    /// Builds a bucket's table. Backends keep their slot, and their entry where nothing of it changed.
    pub(super) fn build(
        bucket: u8,
        sources: Sources,
        backends: &BackendsPart,
        endpoints: Option<&EndpointsPart>,
        previous: Option<&BackendTable>,
    ) -> Result<BackendTable, IndexError> {
        check_endpoint_names(bucket, endpoints)?;
        let mut slots: Vec<Option<Arc<BackendEntry>>> =
            vec![None; previous.map_or(0, |table| table.slots.len())];
        let mut names = HashTable::with_capacity(backends.backends.len());
        for (name, config) in &backends.backends {
            let hash = xxh3_64(name.as_bytes());
            if bucket_of(name) != bucket {
                return Err(IndexError::at(
                    PartName::Backends(bucket),
                    format!("backends.{name}"),
                    "stands in the wrong bucket",
                ));
            }
            let addresses = read_endpoints(bucket, name, endpoints)?;
            let held = previous.and_then(|table| table.named(hash, name));
            let slot = match held {
                Some(held) => held.id.place().1,
                None => {
                    slots.push(None);
                    (slots.len() - 1) as u32
                }
            };
            if slots.len() > MAX_SLOTS {
                return Err(IndexError::at(
                    PartName::Backends(bucket),
                    String::new(),
                    "has too many backends",
                ));
            }
            slots[slot as usize] = Some(match held {
                Some(held) if *held.config == *config && *held.endpoints == *addresses => Arc::clone(held),
                _ => Arc::new(BackendEntry {
                    id: BackendId::new(bucket, slot),
                    name: name.as_str().into(),
                    config: match held {
                        Some(held) if *held.config == *config => Arc::clone(&held.config),
                        _ => Arc::new(config.clone()),
                    },
                    endpoints: addresses.into(),
                }),
            });
            let held_names = &slots;
            names.insert_unique(hash, slot, |slot| {
                let entry = held_names[*slot as usize].as_ref();
                entry.map_or(0, |entry| xxh3_64(entry.name.as_bytes()))
            });
        }
        Ok(BackendTable {
            sources,
            slots: slots.into_boxed_slice(),
            names,
        })
    }
}

/// Endpoints in another bucket than their backend's would never be found.
fn check_endpoint_names(bucket: u8, endpoints: Option<&EndpointsPart>) -> Result<(), IndexError> {
    let mut names = endpoints.iter().flat_map(|part| part.endpoints.keys());
    match names.find(|name| bucket_of(name) != bucket) {
        Some(name) => Err(IndexError::at(
            PartName::Endpoints(bucket),
            format!("endpoints.{name}"),
            "stands in the wrong bucket",
        )),
        None => Ok(()),
    }
}

fn read_endpoints(
    bucket: u8,
    name: &str,
    endpoints: Option<&EndpointsPart>,
) -> Result<Vec<EndpointEntry>, IndexError> {
    let listed = endpoints.and_then(|part| part.endpoints.get(name));
    let listed = listed.map_or(&[][..], |listed| listed.as_slice());
    let read = listed.iter().enumerate().map(|(at, endpoint)| {
        let address: IpAddr = endpoint.address.parse().map_err(|_| {
            IndexError::at(
                PartName::Endpoints(bucket),
                format!("endpoints.{name}[{at}].address"),
                format!("`{}` is not an IP address", endpoint.address),
            )
        })?;
        Ok(EndpointEntry {
            address: SocketAddr::new(address, endpoint.port),
            weight: endpoint.weight,
        })
    });
    read.collect()
}
