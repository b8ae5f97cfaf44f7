//! A longer way to a server: a proxy that passes on every byte a fixed time after it came.
//!
//! In: a server's port of 127.0.0.1. Out: the same port of ::1, which leads there. Never here: a byte changed, a bound
//! on bandwidth.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

/// Bytes that are read at once.
const CHUNK: usize = 64 << 10;
/// Chunks on the way in one direction; 16 MiB, which 10 ms of a 10 Gbit/s link do not fill.
const CHUNKS_MAX: usize = 256;

/// Bytes, and when they are due at the other end.
type Sent = (Instant, Vec<u8>);

/// Listens until dropped. Connections end with one of their ends.
#[derive(Debug)]
pub(crate) struct Delay {
    port: u16,
    ended: Arc<AtomicBool>,
}

impl Delay {
    /// Every byte takes `delay` in each direction.
    ///
    /// # Errors
    /// ::1 has no such port to give.
    pub(crate) fn start(port: u16, delay: Duration) -> Result<Delay> {
        let listener = TcpListener::bind((Ipv6Addr::LOCALHOST, port)).with_context(|| {
            format!("cannot listen at [::1], port: {port}; a delay between members needs IPv6's ::1")
        })?;
        let ended = Arc::new(AtomicBool::new(false));
        let is_ended = Arc::clone(&ended);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if is_ended.load(Ordering::Relaxed) {
                    return;
                }
                // A server that is not there refuses: the client sees its connection end.
                if let (Ok(client), Ok(server)) = (client, TcpStream::connect((Ipv4Addr::LOCALHOST, port))) {
                    let _ = connect(&client, &server, delay);
                }
            }
        });
        Ok(Delay { port, ended })
    }
}

impl Drop for Delay {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        // Wakes the listener.
        let _ = TcpStream::connect((Ipv6Addr::LOCALHOST, self.port));
    }
}

fn connect(client: &TcpStream, server: &TcpStream, delay: Duration) -> std::io::Result<()> {
    for (from, to) in [(client, server), (server, client)] {
        from.set_nodelay(true)?;
        let (from, to) = (from.try_clone()?, to.try_clone()?);
        let (sender, receiver) = sync_channel(CHUNKS_MAX);
        std::thread::spawn(move || take(from, &sender, delay));
        std::thread::spawn(move || give(to, &receiver));
    }
    Ok(())
}

fn take(mut from: TcpStream, sent: &SyncSender<Sent>, delay: Duration) {
    let mut buffer = vec![0; CHUNK];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        let bytes = buffer.get(..read).unwrap_or_default().to_vec();
        if sent.send((Instant::now() + delay, bytes)).is_err() {
            break;
        }
    }
}

fn give(mut to: TcpStream, sent: &Receiver<Sent>) {
    for (due, bytes) in sent {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only the least time can be asserted: a busy machine adds to it.
    #[test]
    fn bytes_arrive_whole_and_not_before_their_time() {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = server.local_addr().unwrap().port();
        let echo = std::thread::spawn(move || {
            let (mut stream, _) = server.accept().unwrap();
            let mut all = Vec::new();
            stream.read_to_end(&mut all).unwrap();
            stream.write_all(&all).unwrap();
        });
        let delay = Duration::from_millis(30);
        let _way = Delay::start(port, delay).unwrap();
        let mut client = TcpStream::connect((Ipv6Addr::LOCALHOST, port)).unwrap();
        let (begun, sent) = (Instant::now(), vec![7; 3 * CHUNK + 1]);
        client.write_all(&sent).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut back = Vec::new();
        client.read_to_end(&mut back).unwrap();
        assert!(begun.elapsed() >= 2 * delay, "there and back");
        assert!(back == sent, "{} bytes of {}", back.len(), sent.len());
        echo.join().unwrap();
    }
}
