//! The port: one thread with a small runtime of its own, a bounded number of connections.
//!
//! In: an address, connections. Out: requests for `answer`. Never here: a peer that holds a connection for ever.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use accounts::{Accounts, LoginGuard, Origin, ServerTls};
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

use crate::Watched;
use crate::answer::Site;
use crate::places::{Doing, Places};
use crate::token::Token;

/// Time for a TLS handshake and a request's headers together, from the first byte of a later request on.
const ASKED_WITHIN: Duration = Duration::from_secs(5);
/// Time between two requests.
const IDLE_MAX: Duration = Duration::from_secs(10);
/// Time of a whole connection: also one that reads its answer slowly ends.
const CONNECTION_MAX: Duration = Duration::from_secs(600);
/// Bytes of a request's line and headers, at most.
const HEADER_BYTES_MAX: usize = 16 << 10;
/// Pause after a failed accept, which is mostly for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebConfig {
    /// Address and port; port 0 is any free one.
    pub address: SocketAddr,
    /// Names of this server besides addresses and `localhost`.
    pub names: Vec<String>,
}

impl WebConfig {
    /// True if TLS and an account or token are needed: where others than this machine may connect.
    #[must_use]
    pub fn is_guarded(&self) -> bool {
        !self.address.ip().is_loopback()
    }
}

/// The open port; closed when dropped.
pub struct Web {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Web {
    /// Opens the port. `tls` is used if the address is not loopback.
    ///
    /// # Errors
    /// The address cannot be listened on, or there is no certificate for one that needs it.
    pub fn open(
        config: &WebConfig,
        accounts: Arc<Accounts>,
        token: Option<Arc<Token>>,
        tls: Option<Arc<ServerTls>>,
        watched: Arc<dyn Watched>,
    ) -> io::Result<Web> {
        let tls = if config.is_guarded() {
            Some(tls.ok_or_else(|| io::Error::other("an address that is not loopback needs TLS"))?)
        } else {
            None
        };
        let listener = TcpListener::bind(config.address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(2)
            .thread_name("http-work")
            .build()?;
        let site = Arc::new(Site {
            watched,
            accounts,
            token,
            guard: LoginGuard::default(),
            is_guarded: tls.is_some(),
            names: config.names.iter().map(|name| name.to_ascii_lowercase()).collect(),
            last: std::sync::Mutex::default(),
            making: tokio::sync::Mutex::default(),
        });
        let (stop, stopped) = oneshot::channel();
        let run = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = accept(listener, tls, site) => {}
                    _ = stopped => {}
                }
            });
            // A report that hangs must not keep the process.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("http".into()).spawn(run)?;
        Ok(Web { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Address and port that are listened on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(listener: TcpListener, tls: Option<Arc<ServerTls>>, site: Arc<Site>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let places = Arc::new(Mutex::new(Places::default()));
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(_) => {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (seat, lost) = Seat::take(&places, peer.ip());
        let (site, acceptor) = (Arc::clone(&site), tls.as_ref().map(|tls| TlsAcceptor::from(tls.config())));
        tokio::spawn(async move {
            let seat = Arc::new(seat);
            let whole = async {
                match acceptor {
                    None => serve(stream, peer.ip(), site, &seat).await,
                    Some(acceptor) => {
                        if let Ok(stream) = acceptor.accept(stream).await {
                            serve(stream, peer.ip(), site, &seat).await;
                        }
                    }
                }
            };
            tokio::select! {
                _ = tokio::time::timeout(CONNECTION_MAX, whole) => {}
                () = seat.asks_too_slowly() => {}
                _ = lost => {}
            }
        });
        // Who has just lost its place is closed before another one is accepted.
        tokio::task::yield_now().await;
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, peer: IpAddr, site: Arc<Site>, seat: &Arc<Seat>) {
    let service = service_fn(|request| {
        let (site, seat) = (Arc::clone(&site), Arc::clone(seat));
        seat.is(Doing::Answering);
        async move {
            let mut answer = site.answer(request, peer).await;
            if seat.places().are_short() {
                answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            seat.is(Doing::Idle);
            Ok::<_, std::convert::Infallible>(answer)
        }
    });
    // What a peer does wrong is its own trouble.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE_MAX)
        .max_buf_size(HEADER_BYTES_MAX)
        .serve_connection(TokioIo::new(Heard { stream, seat: Arc::clone(seat) }), service)
        .await;
}

/// The place of one connection; given back when dropped.
struct Seat {
    id: u64,
    places: Arc<Mutex<Places<oneshot::Sender<()>>>>,
}

impl Seat {
    /// Takes a place. The receiver ends when it is lost to another connection.
    fn take(places: &Arc<Mutex<Places<oneshot::Sender<()>>>>, ip: IpAddr) -> (Seat, oneshot::Receiver<()>) {
        let (keeps, lost) = oneshot::channel();
        let mut held = places.lock().unwrap_or_else(PoisonError::into_inner);
        let id = held.admit(Origin::of(ip), keeps, Instant::now());
        (Seat { id, places: Arc::clone(places) }, lost)
    }

    fn places(&self) -> MutexGuard<'_, Places<oneshot::Sender<()>>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is(&self, doing: Doing) {
        self.places().is(self.id, doing, Instant::now());
    }

    /// Ends when a request has been on its way for too long.
    async fn asks_too_slowly(&self) {
        loop {
            let asking_since = self.places().asking_since(self.id);
            match asking_since.map(|since| since.elapsed()) {
                Some(span) if span >= ASKED_WITHIN => return,
                Some(span) => tokio::time::sleep(ASKED_WITHIN - span).await,
                // What begins meanwhile is not too slow before this.
                None => tokio::time::sleep(ASKED_WITHIN).await,
            }
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.places().leave(self.id);
    }
}

/// A connection whose bytes tell when a request begins.
struct Heard<S> {
    stream: S,
    seat: Arc<Seat>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Heard<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.seat.places().hears(self.seat.id, Instant::now());
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Heard<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
