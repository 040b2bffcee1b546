//! WebSocket messages that come back as they are.

use futures_util::{SinkExt, StreamExt};
use http::{HeaderMap, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::server::create_response_with_body;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::body::Filler;

/// Whether a WebSocket is asked for.
pub(crate) fn is_handshake(headers: &HeaderMap) -> bool {
    headers
        .get(header::UPGRADE)
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

/// Takes a handshake, or says what is wrong with it.
pub(crate) fn switch(request: &mut Request<Incoming>) -> Response<Filler> {
    let response = match create_response_with_body(request, || Filler::of(0)) {
        Ok(response) => response,
        Err(error) => {
            let mut response = Response::new(Filler::text(format!("{error}\n")));
            *response.status_mut() = StatusCode::BAD_REQUEST;
            return response;
        }
    };
    let promise = hyper::upgrade::on(request);
    tokio::task::spawn_local(async move {
        // A client that goes away is its own affair.
        if let Ok(stream) = promise.await {
            echo(stream).await;
        }
    });
    response
}

async fn echo(stream: Upgraded) {
    let mut socket = WebSocketStream::from_raw_socket(TokioIo::new(stream), Role::Server, None).await;
    // Pings and closes are answered by the library.
    while let Some(Ok(message)) = socket.next().await {
        let is_data = message.is_text() || message.is_binary();
        if is_data && socket.send(message).await.is_err() {
            return;
        }
    }
}
