//! Unary gRPC calls over one HTTP/2 connection, as many at once as are given together.
//!
//! It runs on the caller's thread and only while a call waits: a client of the benchmark has one thread, here
//! as with other stores. Between calls nothing answers the server's pings, which etcd sends after two hours.

use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use h2::client::{Builder, ResponseFuture, SendRequest};
use h2::{Reason, RecvStream};
use prost::Message;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use crate::driver::TargetError;

/// Before each message: whether it is compressed, and its length.
const PREFIX: usize = 5;
/// Longest message taken.
const MESSAGE_MAX: usize = (64 << 20) + 4096;
/// Answers may come in any order and are taken in one: no window may close meanwhile.
const WINDOW: u32 = (1 << 31) - 1;
/// Calls under way before the server has said how many it takes (etcd: any number).
const CALLS_FIRST: usize = 1 << 10;

/// One call.
pub struct Call {
    method: &'static str,
    frame: Bytes,
}

impl Call {
    /// A call of `method` with `request`.
    pub fn new(method: &'static str, request: &impl Message) -> Call {
        let len = request.encoded_len();
        let mut frame = BytesMut::with_capacity(PREFIX + len);
        frame.put_u8(0);
        frame.put_u32(u32::try_from(len).expect("a request of a benchmark is short"));
        request.encode(&mut frame).expect("room was made");
        Call { method, frame: frame.freeze() }
    }
}

/// The message that answers a call, or what the server says instead.
pub type Answer = Result<Bytes, String>;

/// A connection.
pub struct Channel {
    runtime: Runtime,
    requests: SendRequest<Bytes>,
    name: String,
    timeout: Duration,
}

impl Channel {
    /// Connects to `host:port` within `timeout`, which also bounds every later wait.
    pub fn connect(host: &str, port: u16, name: &str, timeout: Duration) -> Result<Channel, TargetError> {
        let failed = |e: &dyn std::fmt::Display| {
            TargetError::lost(format!("cannot connect to {name}: {e} (is the server running there?)"))
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| failed(&e))?;
        let opened = runtime.block_on(async {
            let open = async {
                let stream = TcpStream::connect((host, port)).await.map_err(|e| failed(&e))?;
                stream.set_nodelay(true).map_err(|e| failed(&e))?;
                let mut builder = Builder::new();
                builder.initial_window_size(WINDOW).initial_connection_window_size(WINDOW);
                builder.initial_max_send_streams(CALLS_FIRST).enable_push(false);
                builder.handshake(stream).await.map_err(|e| failed(&e))
            };
            tokio::time::timeout(timeout, open).await
        });
        let (requests, connection) =
            opened.unwrap_or_else(|_| Err(failed(&format!("nothing moved for {timeout:?}"))))?;
        // What ends it is reported by the calls.
        runtime.spawn(async move { drop(connection.await) });
        Ok(Channel { runtime, requests, name: name.to_string(), timeout })
    }

    /// Has all calls under way at once; `take` is given each answer, in the order of the calls.
    pub fn call(
        &mut self,
        calls: Vec<Call>,
        take: &mut dyn FnMut(usize, Answer) -> Result<(), TargetError>,
    ) -> Result<(), TargetError> {
        let Channel { runtime, requests, name, timeout } = self;
        let name = &*name;
        runtime.block_on(async {
            let exchange = async {
                let mut answers = Vec::with_capacity(calls.len());
                for call in calls {
                    answers.push(send(requests, name, call).await.map_err(|e| broken(name, &e))?);
                }
                for (i, answer) in answers.into_iter().enumerate() {
                    take(i, receive(answer, name).await?)?;
                }
                Ok(())
            };
            let late = || TargetError::lost(format!("receive from {name}: no answer for {timeout:?}"));
            tokio::time::timeout(*timeout, exchange).await.unwrap_or_else(|_| Err(late()))
        })
    }

    /// One call, whose answer is a message of the kind `M`.
    pub fn ask<M: Message + Default>(
        &mut self,
        method: &'static str,
        request: &impl Message,
    ) -> Result<M, TargetError> {
        let mut found = None;
        self.call(vec![Call::new(method, request)], &mut |_, answer| {
            found = Some(answer);
            Ok(())
        })?;
        let answer = found.ok_or_else(|| TargetError::lost("a call without an answer"))?;
        decode(answer.map_err(TargetError::Refused)?, &self.name)
    }

    /// Where it goes.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// The message in the bytes of an answer.
pub fn decode<M: Message + Default>(bytes: Bytes, name: &str) -> Result<M, TargetError> {
    M::decode(bytes).map_err(|e| TargetError::lost(format!("{name} does not answer as etcd does: {e}")))
}

async fn send(
    requests: &mut SendRequest<Bytes>,
    name: &str,
    call: Call,
) -> Result<ResponseFuture, h2::Error> {
    let mut ready = requests.clone().ready().await?;
    let authority = name.strip_prefix("etcd://").unwrap_or(name);
    let request = http::Request::post(format!("http://{authority}{}", call.method))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .map_err(|_| Reason::INTERNAL_ERROR)?;
    let (response, mut stream) = ready.send_request(request, false)?;
    stream.send_data(call.frame, true)?;
    Ok(response)
}

async fn receive(response: ResponseFuture, name: &str) -> Result<Answer, TargetError> {
    let strange = |what: String| TargetError::lost(format!("{name} does not answer as gRPC does: {what}"));
    let (head, mut body) = response.await.map_err(|e| broken(name, &e))?.into_parts();
    if head.status != http::StatusCode::OK {
        return Err(strange(format!("HTTP status {}", head.status)));
    }
    // A call that fails at once has its status here and no message.
    if let Some(refusal) = refusal(&head.headers) {
        return Ok(Err(refusal));
    }
    let mut bytes = take_body(&mut body, name).await?;
    let trailers = body.trailers().await.map_err(|e| broken(name, &e))?;
    let trailers = trailers.ok_or_else(|| strange("no status after the message".into()))?;
    if let Some(refusal) = refusal(&trailers) {
        return Ok(Err(refusal));
    }
    let whole = bytes.len() >= PREFIX && bytes.get_u8() == 0 && bytes.get_u32() as usize == bytes.len();
    if whole { Ok(Ok(bytes)) } else { Err(strange("a message that is not of the length it says".into())) }
}

/// All bytes of an answer; mostly they come at once and are not copied.
async fn take_body(body: &mut RecvStream, name: &str) -> Result<Bytes, TargetError> {
    let mut all = Bytes::new();
    while let Some(piece) = body.data().await {
        let piece = piece.map_err(|e| broken(name, &e))?;
        body.flow_control().release_capacity(piece.len()).map_err(|e| broken(name, &e))?;
        if all.len() + piece.len() > MESSAGE_MAX {
            return Err(TargetError::lost(format!("{name} sent a message of more than {MESSAGE_MAX} bytes")));
        }
        all = if all.is_empty() { piece } else { [all, piece].concat().into() };
    }
    Ok(all)
}

/// What a status other than OK says.
fn refusal(headers: &http::HeaderMap) -> Option<String> {
    let code = headers.get("grpc-status")?.to_str().unwrap_or("?");
    let text = headers.get("grpc-message").and_then(|text| text.to_str().ok()).unwrap_or("no reason given");
    (code != "0").then(|| format!("{text} (gRPC status {code})"))
}

fn broken(name: &str, error: &h2::Error) -> TargetError {
    TargetError::lost(format!("{name}: {error} (is it etcd, without TLS?)"))
}
