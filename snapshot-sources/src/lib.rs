//! How a snapshot reaches a process.
//!
//! - [`live`]: the one published value: [`live::Publisher`] (one owner) and [`live::Live`] (readers).
//! - [`keys`]: private keys, which travel beside the snapshot and never in it.
#![deny(unsafe_code)]

pub mod keys;
pub mod live;
