//! A group of stock MySQL members (Group Replication) on this machine.
//!
//! In: a folder that each member begins with a copy of, options. Out: members that accept what they may, and what each
//! of them has executed. Never here: a load; a member that outlives its value.
//!
//! Members speak MySQL's own protocol (`group_replication_communication_stack=MYSQL`): a member's address in its group
//! is then that of its server, which listens at 127.0.0.1 only, so that a delay can stand at the same port of ::1.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use base::GtidSet;
use client::Connection;

use crate::delay::Delay;
use crate::hash::hash;
use crate::reported::{Reported, variable_of};
use crate::servers::{PATIENCE, PORT_TRIES, Programs, Server, check_stop, copy_folder, errors_in};

/// Name of every group here, which its transactions have for a UUID. Groups that do not know each other's addresses do
/// not meet.
const NAME: &str = "5e1f6f1c-4a0e-4d43-9f0b-2f6c9c7d8a11";
/// The account by which members speak to each other, and its password.
const ACCOUNT: &str = "members";
/// Interval between looks at a member that is joining.
const LOOK: Duration = Duration::from_millis(50);

/// Options of every member. The cache of messages at its minimum, since a member has one of 1 GB by default.
const OPTIONS: [&str; 12] = [
    "--plugin-load-add=group_replication.so",
    "--gtid-mode=ON",
    "--enforce-gtid-consistency=ON",
    "--log-bin=binlog",
    "--relay-log=relay-log",
    "--report-host=127.0.0.1",
    "--performance-schema-digests-size=100",
    "--group-replication-start-on-boot=OFF",
    "--group-replication-communication-stack=MYSQL",
    "--group-replication-message-cache-size=134217728",
    "--group-replication-recovery-get-public-key=ON",
    // Queues are to be seen, not kept short.
    "--group-replication-flow-control-mode=DISABLED",
];

/// What a group is to be.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub members: usize,
    pub is_single_primary: bool,
    /// How long every byte takes from one member to another.
    pub delay: Option<Duration>,
    /// Options of all members, added to those of every group.
    pub options: Vec<String>,
}

impl Wanted {
    fn options(&self, at: usize) -> Vec<String> {
        let (single, checks) = if self.is_single_primary { ("ON", "OFF") } else { ("OFF", "ON") };
        let mut given: Vec<String> = OPTIONS.map(str::to_owned).to_vec();
        given.push(format!("--group-replication-group-name={NAME}"));
        given.push(format!("--group-replication-single-primary-mode={single}"));
        given.push(format!("--group-replication-enforce-update-everywhere-checks={checks}"));
        given.push(format!("--server-id={}", at + 1));
        given.extend(self.options.iter().cloned());
        given
    }
}

/// Options of a server whose stopped folder members are copied from.
pub(crate) fn options_of_the_first() -> Vec<String> {
    OPTIONS.into_iter().chain(["--server-id=1"]).map(str::to_owned).collect()
}

/// Gives a server the members' account, and purges its log. All of its copies have executed the same, so that no one
/// keeps another out; a replica of theirs sees that it has to copy.
///
/// # Errors
/// The server cannot be asked.
pub(crate) fn make_ready(server: &Server) -> Result<()> {
    let mut connection = server.connect()?;
    connection.exec(&format!("CREATE USER {ACCOUNT} IDENTIFIED BY '{ACCOUNT}'"))?;
    connection.exec(&format!(
        "GRANT REPLICATION SLAVE, BACKUP_ADMIN, CONNECTION_ADMIN, GROUP_REPLICATION_STREAM ON *.* TO {ACCOUNT}"
    ))?;
    connection.exec("FLUSH BINARY LOGS")?;
    connection.exec("PURGE BINARY LOGS BEFORE NOW() + INTERVAL 1 DAY")?;
    Ok(())
}

/// Members that are in their group; killed on drop.
#[derive(Debug)]
pub(crate) struct Group {
    members: Vec<Member>,
    folder: PathBuf,
    wanted: Wanted,
}

#[derive(Debug)]
struct Member {
    server: Server,
    connection: Connection,
    /// Its address for the others.
    address: String,
    log: PathBuf,
    _way: Option<Delay>,
}

impl Member {
    fn start(programs: &Programs, data: &Path, wanted: &Wanted, at: usize, stop: &AtomicBool) -> Result<Member> {
        let mut tries = 1;
        loop {
            let server = Server::start(programs, data, &wanted.options(at), stop)?;
            let port = server.address().port;
            let way = wanted.delay.map(|delay| Delay::start(port, delay)).transpose();
            match way {
                Ok(way) => {
                    let host = if way.is_some() { "[::1]" } else { "127.0.0.1" };
                    let (address, log) = (format!("{host}:{port}"), data.with_extension("log"));
                    return Ok(Member { connection: server.connect()?, server, address, log, _way: way });
                }
                // Somebody else has it there.
                Err(error) if tries == PORT_TRIES => return Err(error),
                Err(_) => tries += 1,
            }
        }
    }

    fn join(&mut self, seeds: &str, is_first: bool) -> Result<()> {
        let bootstrap = if is_first { "ON" } else { "OFF" };
        let Member { connection, address, .. } = self;
        connection.exec(&format!(
            "SET GLOBAL group_replication_local_address = '{address}', group_replication_group_seeds = '{seeds}',
                        group_replication_bootstrap_group = {bootstrap}"
        ))?;
        let started = connection.exec(&format!("START GROUP_REPLICATION USER = '{ACCOUNT}', PASSWORD = '{ACCOUNT}'"));
        started.with_context(|| format!("a member did not join its group: {}", errors_in(&self.log)))?;
        self.connection.exec("SET GLOBAL group_replication_bootstrap_group = OFF")?;
        Ok(())
    }

    fn executed(&mut self) -> Result<GtidSet> {
        let text = self.connection.query_value("SELECT @@GLOBAL.gtid_executed")?.unwrap_or_default();
        Ok(text.replace('\n', "").parse()?)
    }

    fn takes_writes(&mut self) -> Result<bool> {
        Ok(self.connection.query_value("SELECT @@GLOBAL.super_read_only")?.as_deref() == Some("0"))
    }

    fn wait_until(&mut self, what: &str, stop: &AtomicBool, is_so: &dyn Fn(&mut Member) -> Result<bool>) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        while !is_so(self)? {
            check_stop(stop)?;
            ensure!(Instant::now() < until, "no {what} after {PATIENCE:?}: {}", errors_in(&self.log));
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

impl Group {
    /// Copies a stopped folder for each member, and starts them; when this returns, each has executed what was
    /// committed after it joined, and takes writes if it is to.
    ///
    /// # Errors
    /// A member does not start or join, or `stop` is raised.
    pub(crate) fn start(
        programs: &Programs,
        from: &Path,
        folder: &Path,
        wanted: &Wanted,
        stop: &AtomicBool,
    ) -> Result<Group> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let start = |at: usize| {
            let data = folder.join(format!("member-{}", at + 1));
            copy_folder(from, &data, stop)?;
            let _ = fs::remove_file(data.join("auto.cnf"));
            Member::start(programs, &data, wanted, at, stop)
        };
        let started: Vec<Result<Member>> = std::thread::scope(|scope| {
            let start = &start;
            let all: Vec<_> = (0..wanted.members).map(|at| scope.spawn(move || start(at))).collect();
            all.into_iter().map(|one| one.join().map_err(|_| anyhow!("a start panicked"))?).collect()
        });
        let mut members = started.into_iter().collect::<Result<Vec<Member>>>()?;
        let seeds: Vec<String> = members.iter().map(|member| member.address.clone()).collect();
        for (at, member) in members.iter_mut().enumerate() {
            check_stop(stop)?;
            member.join(&seeds.join(","), at == 0)?;
            if at == 0 || !wanted.is_single_primary {
                member.wait_until("member that takes writes", stop, &Member::takes_writes)?;
            }
        }
        let mut group = Group { members, folder: folder.to_owned(), wanted: wanted.clone() };
        group.connection(0)?.exec("CREATE DATABASE joined")?;
        group.connection(0)?.exec("DROP DATABASE joined")?;
        group.settle(stop)?;
        Ok(group)
    }

    fn connection(&mut self, at: usize) -> Result<&mut Connection> {
        Ok(&mut self.members.get_mut(at).context("no such member")?.connection)
    }

    /// A member's server, counted from 0; the first one bootstrapped the group, and is the primary of one with one.
    pub(crate) fn server(&self, at: usize) -> Result<&Server> {
        Ok(&self.members.get(at).context("no such member")?.server)
    }

    /// Options of all members, as the first one reports them, but for those of every group.
    pub(crate) fn options(&mut self) -> Result<String> {
        let own: Vec<String> = self.wanted.options.iter().map(|option| variable_of(option)).collect();
        let known = self.wanted.options(0).iter().map(|option| variable_of(option)).collect::<Vec<_>>();
        let known: Vec<String> = known.into_iter().filter(|name| !own.contains(name)).collect();
        Ok(Reported::read(self.connection(0)?)?.text_without(&known))
    }

    /// Numbers of transactions: those that any member has committed, and of them those that the slowest one has.
    pub(crate) fn committed(&mut self) -> Result<(u64, u64)> {
        let sets = self.members.iter_mut().map(Member::executed).collect::<Result<Vec<GtidSet>>>()?;
        Ok(counts(&sets))
    }

    /// The longest queue of an applier, as each member itself tells, which needs no Performance Schema; None if none
    /// does.
    pub(crate) fn queue(&mut self) -> Result<Option<u64>> {
        let sql = "SELECT COUNT_TRANSACTIONS_REMOTE_IN_APPLIER_QUEUE
                   FROM performance_schema.replication_group_member_stats WHERE MEMBER_ID = @@server_uuid";
        let mut most = None;
        for member in &mut self.members {
            let queue = member.connection.query_value(sql)?;
            most = most.max(queue.and_then(|text| text.parse().ok()));
        }
        Ok(most)
    }

    /// Waits until every member has executed all.
    ///
    /// # Errors
    /// One does not, or `stop` is raised.
    pub(crate) fn settle(&mut self, stop: &AtomicBool) -> Result<()> {
        let mut all = GtidSet::new();
        for member in &mut self.members {
            all.union_with(&member.executed()?);
        }
        for member in &mut self.members {
            member.wait_until("end of a member's queue", stop, &|member| Ok(all.is_subset_of(&member.executed()?)))?;
        }
        Ok(())
    }

    /// Waits until every member has all, compares their rows, and ends the group; hash of the rows.
    ///
    /// # Errors
    /// A member's rows differ from the first one's.
    pub(crate) fn finish(mut self, stop: &AtomicBool) -> Result<String> {
        self.settle(stop)?;
        let mut hashes = Vec::new();
        for member in &self.members {
            check_stop(stop)?;
            hashes.push(hash(&member.server.address(), &[])?.hash);
        }
        let first = hashes.first().context("no member")?.clone();
        ensure!(hashes.iter().all(|hash| *hash == first), "members have different rows: {}", hashes.join(", "));
        let folder = self.folder.clone();
        drop(self);
        fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
        Ok(first)
    }
}

/// Numbers of transactions in all sets together, and in the smallest one.
fn counts(sets: &[GtidSet]) -> (u64, u64) {
    let mut all = GtidSet::new();
    sets.iter().for_each(|set| all.union_with(set));
    (all.count(), sets.iter().map(GtidSet::count).min().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_any_member_has_is_committed_and_the_slowest_one_has_the_fewest() {
        let set = |text: &str| format!("{NAME}:{text}").parse::<GtidSet>().unwrap();
        // Two writers, each with a block of numbers of its own; neither has the other's last ones.
        assert_eq!(counts(&[set("1-10:1000001-1000003"), set("1-8:1000001-1000007")]), (17, 13));
        assert_eq!(counts(&[set("1-4"), set("1-4")]), (4, 4));
        assert_eq!(counts(&[]), (0, 0));
    }

    #[test]
    fn an_option_of_its_own_goes_after_those_of_every_group() {
        let own = vec!["--group-replication-flow-control-mode=QUOTA".to_owned()];
        let wanted = Wanted { members: 2, is_single_primary: false, delay: None, options: own };
        let options = wanted.options(1);
        assert_eq!(options.last().map(String::as_str), Some("--group-replication-flow-control-mode=QUOTA"));
        assert!(options.contains(&"--server-id=2".to_owned()), "{options:?}");
        assert!(options.contains(&"--group-replication-enforce-update-everywhere-checks=ON".to_owned()));
    }
}
