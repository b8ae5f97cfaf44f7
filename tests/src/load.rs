//! TPC-C that goes on beside a test.

use std::process::{Child, Command, Stdio};

use crate::{Server, binary};

/// TPC-C against a server until dropped.
pub struct Load(Child);

impl Load {
    /// Starts it against the database `tpcc`, as the user `load` with the password `repl`.
    ///
    /// # Panics
    /// The program cannot be started.
    #[must_use]
    pub fn start(server: &Server) -> Load {
        let mut command = Command::new(binary());
        command.args(["lab", "tpcc", "run", "--server", &server.url("load"), "--database", "tpcc"]);
        command.args(["--terminals=2", "--duration=24h", "--reconnect-for=60s"]).stdin(Stdio::null());
        command.env("MYSQL_PWD", "repl").stdout(Stdio::null()).stderr(Stdio::null());
        Load(command.spawn().unwrap())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
