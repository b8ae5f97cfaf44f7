//! The port: one thread with a small runtime of its own, a bounded number of connections.
//!
//! In: an address, connections. Out: requests for `answer`. Never here: a peer that holds a connection for ever.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use accounts::{Accounts, LoginGuard, ServerTls};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, oneshot};
use tokio_rustls::TlsAcceptor;

use crate::Watched;
use crate::answer::Site;
use crate::token::Token;

/// Connections at a time; further ones wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 64;
/// Time for a TLS handshake, for a request's headers, and between two requests.
const HEADERS_WITHIN: Duration = Duration::from_secs(10);
/// Time of a whole connection: also one that reads its answer slowly ends.
const CONNECTION_MAX: Duration = Duration::from_secs(600);
/// Bytes of a request's line and headers, at most.
const HEADER_BYTES_MAX: usize = 16 << 10;
/// Pause after a failed accept, which is mostly for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Where is listened.
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
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(_) => {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (site, acceptor) = (Arc::clone(&site), tls.as_ref().map(|tls| TlsAcceptor::from(tls.config())));
        tokio::spawn(async move {
            let whole = async {
                match acceptor {
                    None => serve(stream, peer.ip(), site).await,
                    Some(acceptor) => {
                        let handshake = tokio::time::timeout(HEADERS_WITHIN, acceptor.accept(stream)).await;
                        if let Ok(Ok(stream)) = handshake {
                            serve(stream, peer.ip(), site).await;
                        }
                    }
                }
            };
            let _ = tokio::time::timeout(CONNECTION_MAX, whole).await;
            drop(place);
        });
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, peer: IpAddr, site: Arc<Site>) {
    let service = service_fn(move |request| {
        let site = Arc::clone(&site);
        async move { Ok::<_, std::convert::Infallible>(site.answer(request, peer).await) }
    });
    // What a peer does wrong is its own trouble.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .max_buf_size(HEADER_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}
