//! Generates the module from `snapshot.proto`, without protoc.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=snapshot.proto");
    let files = protox::compile(["snapshot.proto"], ["."])?;
    let mut config = prost_build::Config::new();
    // Data is cut out of the message instead of copied; a private key never shows in a log.
    config
        .bytes(["."])
        .btree_map(["."])
        .skip_debug([".routed.v1.KeyPair"]);
    tonic_prost_build::configure().compile_fds_with_config(files, config)?;
    Ok(())
}
