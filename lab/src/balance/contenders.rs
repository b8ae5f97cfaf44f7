//! Replicas whose balanced replay speed is searched for: stock ones and ours.
//!
//! In: a contender, a folder, a source's port. Out: a replica that follows, what it shows, its rows when it is done.
//! Never here: a rate, a verdict.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result, bail};
use base::GtidSet;
use client::Connection;

use crate::contenders::{Contender, Whose};
use crate::hash::{HashReport, hash, hash_stopped};
use crate::ourselves;
use crate::reported::{Reported, variable_of};
use crate::servers::{NO_MYSQLD, Programs, Server};

/// Where a replica finds its source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub port: u16,
    /// True for a stock server, whose only account is root's.
    pub is_stock: bool,
}

impl Place {
    fn user(self) -> &'static str {
        if self.is_stock { "root" } else { "replica" }
    }
}

/// A replica that follows.
pub(super) struct Following {
    replica: Replica,
    connection: Connection,
    data: PathBuf,
}

enum Replica {
    Mysql(Server),
    Slipstream(ourselves::Replica),
}

/// Options that every stock replica here needs.
fn needed(buffer_pool: &str) -> Vec<String> {
    vec![
        format!("--innodb-buffer-pool-size={buffer_pool}"),
        "--gtid-mode=ON".into(),
        "--enforce-gtid-consistency=ON".into(),
        "--max-allowed-packet=1G".into(),
        "--relay-log=relay-log".into(),
        "--skip-replica-start".into(),
        "--server-id=4294000003".into(),
    ]
}

impl Contender {
    /// Starts it on a folder, which exists for a stock server and need not for ours, and has it follow.
    pub(super) fn follow(
        &self,
        programs: Option<&Programs>,
        data: &Path,
        source: Place,
        buffer_pool: &str,
        stop: &AtomicBool,
    ) -> Result<Following> {
        let data = data.to_owned();
        if self.whose == Whose::Slipstream {
            let url = format!("mysql://{}@127.0.0.1:{}", source.user(), source.port);
            let mut replica = ourselves::Replica::start(&url, &data, &self.options, self.cpus.as_deref())?;
            // While tables are copied, nobody can read.
            let begun = ["running", "caught_up"];
            replica.await_status("the copy's end", stop, &|status| {
                status["replay"]["state"].as_str().is_some_and(|state| begun.contains(&state))
            })?;
            let connection = replica.session(stop)?;
            return Ok(Following { replica: Replica::Slipstream(replica), connection, data });
        }
        let programs = self.programs(programs.context(NO_MYSQLD)?)?;
        let server = Server::start(&programs, &data, &[needed(buffer_pool), self.options.clone()].concat(), stop)?;
        let mut connection = server.connect()?;
        connection.exec("STOP REPLICA")?;
        connection.exec("RESET REPLICA ALL")?;
        connection.exec(&format!(
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={}, SOURCE_USER='{}', SOURCE_PASSWORD='', \
             SOURCE_AUTO_POSITION=1, SOURCE_SSL=0, SOURCE_CONNECT_RETRY=1",
            source.port,
            source.user()
        ))?;
        connection.exec("START REPLICA")?;
        Ok(Following { replica: Replica::Mysql(server), connection, data })
    }
}

impl Following {
    /// Number of transactions that a new reader sees.
    ///
    /// # Errors
    /// The replica does not answer, or has stopped.
    pub(super) fn shown(&mut self) -> Result<u64> {
        let asked = self.connection.query_value("SELECT @@GLOBAL.gtid_executed");
        if let (Err(_), Replica::Slipstream(replica)) = (&asked, &mut self.replica) {
            replica.check()?;
        }
        let set: GtidSet = asked?.unwrap_or_default().replace('\n', "").parse()?;
        Ok(set.count())
    }

    /// Fails if a stock replica has stopped.
    pub(super) fn check(&mut self) -> Result<()> {
        match &mut self.replica {
            Replica::Slipstream(replica) => replica.check(),
            Replica::Mysql(_) => {
                let status = self.connection.query("SHOW REPLICA STATUS")?;
                let text = |name: &str| status.column(name).and_then(|at| status.text(0, at)).unwrap_or_default();
                if text("Replica_SQL_Running") != "Yes" || !text("Last_IO_Error").is_empty() {
                    bail!("the replica stopped: {} {}", text("Last_SQL_Error"), text("Last_IO_Error"));
                }
                Ok(())
            }
        }
    }

    /// Lag by its own account, seconds: of ours the 99th percentile of the last ten seconds, of MySQL the largest of
    /// its workers' last transactions by performance_schema. None if it does not tell.
    pub(super) fn own_lag_s(&mut self) -> Option<f64> {
        let us = match &self.replica {
            Replica::Slipstream(replica) => replica.status().ok()?["lag"]["last_10s"]["p99_us"].as_f64(),
            Replica::Mysql(_) => {
                let sql = "SELECT MAX(TIMESTAMPDIFF(MICROSECOND, LAST_APPLIED_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP,
                                                    LAST_APPLIED_TRANSACTION_END_APPLY_TIMESTAMP))
                           FROM performance_schema.replication_applier_status_by_worker
                           WHERE LAST_APPLIED_TRANSACTION <> ''";
                self.connection.query_value(sql).ok()?.and_then(|us| us.parse().ok())
            }
        };
        us.map(|us: f64| us / 1e6)
    }

    /// Number of cuts that ours has made; None of a stock server, or if it cannot be asked.
    pub(super) fn cuts(&self) -> Option<u64> {
        match &self.replica {
            Replica::Slipstream(replica) => replica.status().ok()?["store"]["cuts"].as_u64(),
            Replica::Mysql(_) => None,
        }
    }

    pub(super) fn cpu_s(&self) -> f64 {
        match &self.replica {
            Replica::Slipstream(replica) => replica.cpu_s(),
            Replica::Mysql(server) => server.cpu_s(),
        }
    }

    /// Number, name and CPU seconds of each of its threads.
    pub(super) fn threads_cpu_s(&self) -> Vec<(u32, String, f64)> {
        match &self.replica {
            Replica::Slipstream(replica) => crate::servers::threads_cpu_s(replica.pid()),
            Replica::Mysql(server) => server.threads_cpu_s(),
        }
    }

    /// Its options and allocator, as it reports them.
    pub(super) fn settings(&mut self, contender: &Contender, buffer_pool: &str) -> Result<String> {
        let cpus = contender.cpus.as_ref().map_or(String::new(), |cpus| format!(" CPUS={cpus}"));
        Ok(match &self.replica {
            Replica::Slipstream(_) if contender.options.is_empty() => format!("as it ships{cpus}"),
            Replica::Slipstream(_) => contender.options.join(" ") + &cpus,
            Replica::Mysql(server) => {
                let known: Vec<String> = needed(buffer_pool).iter().map(|option| variable_of(option)).collect();
                let given = Reported::read(&mut self.connection)?.text_without(&known);
                format!("{given}{cpus}, {}", server.allocator())
            }
        })
    }

    /// Stops it and hashes its rows.
    pub(super) fn rows(self, stop: &AtomicBool) -> Result<HashReport> {
        let Following { replica, connection, data } = self;
        drop(connection);
        match replica {
            Replica::Mysql(server) => hash(&server.address(), &[]),
            Replica::Slipstream(replica) => {
                replica.stop(stop)?;
                hash_stopped(&data)
            }
        }
    }

    /// Stops it cleanly: its folder can be copied.
    pub(super) fn stop(self, stop: &AtomicBool) -> Result<()> {
        let Following { replica, mut connection, data } = self;
        match replica {
            Replica::Mysql(server) => {
                connection.exec("STOP REPLICA")?;
                connection.exec("RESET REPLICA ALL")?;
                drop(connection);
                server.shut_down(stop)?;
                let _ = std::fs::remove_file(data.join("auto.cnf"));
                Ok(())
            }
            Replica::Slipstream(replica) => {
                drop(connection);
                replica.stop(stop)
            }
        }
    }
}
