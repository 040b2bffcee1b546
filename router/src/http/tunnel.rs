//! Raw bytes both ways once both sides have switched protocols (101).

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional;

/// One side's promise of a raw stream.
#[derive(Debug)]
pub struct Upgrade(OnUpgrade);

impl Upgrade {
    pub(super) fn new(promise: OnUpgrade) -> Upgrade {
        Upgrade(promise)
    }

    /// The promise that came with a backend's 101.
    pub fn of_response<B>(response: &mut http::Response<B>) -> Option<Upgrade> {
        response.extensions_mut().remove::<OnUpgrade>().map(Upgrade)
    }
}

/// Copies until both sides have ended. Returns the bytes from the client and to it.
pub async fn run(client: Upgrade, backend: Upgrade) -> (u64, u64) {
    let (Ok(client), Ok(backend)) = tokio::join!(client.0, backend.0) else {
        return (0, 0);
    };
    let (mut client, mut backend) = (TokioIo::new(client), TokioIo::new(backend));
    copy_bidirectional(&mut client, &mut backend)
        .await
        .unwrap_or((0, 0))
}
