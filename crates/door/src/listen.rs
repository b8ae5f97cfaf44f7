//! The listening sockets.
//!
//! In: the configuration. Out: sockets that are bound. Never here: a socket of another process that still listens is
//! not taken over.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use crate::config::DoorConfig;
use crate::server::DoorError;

/// Longest path of a socket in bytes: `sun_path` has 108 with its terminator.
const SOCKET_PATH_MAX: usize = 107;

/// What the port listens on.
#[derive(Debug)]
pub(crate) struct Listeners {
    pub(crate) tcp: Option<TcpListener>,
    pub(crate) unix: Option<UnixListener>,
    /// The TCP listener's address.
    pub(crate) address: Option<SocketAddr>,
    /// Removes the socket's file at the end.
    pub(crate) file: Option<SocketFile>,
}

/// A socket's file, removed when dropped.
#[derive(Debug)]
pub(crate) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Listeners {
    /// Binds what the configuration names.
    ///
    /// # Errors
    /// A port or path that is taken or cannot be used, by name.
    pub(crate) fn bind(config: &DoorConfig) -> Result<Listeners, DoorError> {
        let tcp = config.port.map(|port| bind_tcp(SocketAddr::new(config.bind_address, port))).transpose()?;
        let address = tcp.as_ref().and_then(|listener| listener.local_addr().ok());
        let unix = config.socket.as_deref().map(bind_unix).transpose()?;
        let (unix, file) = unix.map_or((None, None), |(listener, file)| (Some(listener), Some(file)));
        Ok(Listeners { tcp, unix, address, file })
    }
}

fn bind_tcp(address: SocketAddr) -> Result<TcpListener, DoorError> {
    let bound = TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    bound.map_err(|source| DoorError::Bind { what: address.to_string(), source })
}

fn bind_unix(path: &Path) -> Result<(UnixListener, SocketFile), DoorError> {
    let failed = |source| DoorError::Bind { what: path.display().to_string(), source };
    if path.as_os_str().len() > SOCKET_PATH_MAX {
        return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "a socket's path has 107 bytes at most")));
    }
    match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_left_over(path) => {
            std::fs::remove_file(path).map_err(failed)?;
            UnixListener::bind(path)
        }
        bound => bound,
    }
    .and_then(|listener| {
        let file = SocketFile(path.to_owned());
        listener.set_nonblocking(true)?;
        // Open to all, as MySQL's: the account decides.
        base::own_files::set_socket_mode(path, 0o777)?;
        Ok((listener, file))
    })
    .map_err(failed)
}

/// True for the socket of a process that is gone.
fn is_left_over(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    is_socket && UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_socket_left_over_is_taken_and_one_in_use_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.sock");
        drop(UnixListener::bind(&path).unwrap());
        let (first, file) = bind_unix(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o777);
        let error = bind_unix(&path).unwrap_err().to_string();
        assert!(error.contains("s.sock"), "{error}");
        drop((first, file));
        assert!(!path.exists());
        std::fs::write(&path, "text").unwrap();
        assert!(bind_unix(&path).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "text", "no other file is removed");
    }
}
