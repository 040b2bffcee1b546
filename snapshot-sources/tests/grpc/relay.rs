//! A TCP relay that can be frozen: connections stay open and nothing passes, as after a silent cut. New connections
//! go where it points at that moment, as behind the address of a Service.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// The relay.
pub struct Relay {
    address: SocketAddr,
    target: watch::Sender<u16>,
    /// Connections made before this number of freezes pass nothing.
    frozen: watch::Sender<bool>,
    runtime: Option<Runtime>,
}

impl Relay {
    /// In front of a port of 127.0.0.1.
    pub fn to(port: u16) -> Relay {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let (target, frozen) = (watch::Sender::new(port), watch::Sender::new(false));
        let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let (to, freeze) = (target.subscribe(), frozen.subscribe());
        runtime.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (port, freeze) = (*to.borrow(), freeze.clone());
                tokio::spawn(async move {
                    let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else {
                        return;
                    };
                    let (client_in, client_out) = client.into_split();
                    let (server_in, server_out) = server.into_split();
                    tokio::select! {
                        () = copy(client_in, server_out, freeze.clone()) => {}
                        () = copy(server_in, client_out, freeze) => {}
                    }
                });
            }
        });
        Relay {
            address,
            target,
            frozen,
            runtime: Some(runtime),
        }
    }

    /// As `--snapshot-addr` takes it.
    pub fn address(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Nothing passes from now on, on no connection.
    pub fn freeze(&self) {
        self.frozen.send_replace(true);
    }

    /// Everything passes.
    pub fn thaw(&self) {
        self.frozen.send_replace(false);
    }

    /// New connections go to this port.
    pub fn point_to(&self, port: u16) {
        self.target.send_replace(port);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn copy(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    mut frozen: watch::Receiver<bool>,
) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let Ok(count) = from.read(&mut buffer).await else {
            return;
        };
        if frozen.wait_for(|frozen| !frozen).await.is_err() {
            return;
        }
        if count == 0 || to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
