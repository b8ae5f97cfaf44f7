//! Groups of servers (Group Replication), created and run by `testbed/mysql group`.

use std::collections::BTreeSet;
use std::process::Output;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::server::{servers, testbed};
use crate::{Ran, Server, scratch};

/// Time for all members to be ONLINE in one view.
const MENDED_WITHIN: Duration = Duration::from_secs(120);
/// Interval between two looks.
const LOOK: Duration = Duration::from_millis(200);

/// A group, whose members are destroyed with their data on drop.
pub struct Group {
    name: String,
    members: Vec<Server>,
}

/// A member in a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its `server_uuid`.
    pub server_uuid: String,
    /// Its TCP port for clients.
    pub port: u16,
    /// `ONLINE`, `RECOVERING`, `OFFLINE`, `ERROR` or `UNREACHABLE`.
    pub state: String,
    /// `PRIMARY`, `SECONDARY`, or empty where it is not ONLINE.
    pub role: String,
    /// The view's id; empty for a member that has left.
    pub view: String,
}

impl Group {
    /// Starts a group of this many members, with options of the testbed's `group start`: a mode, and mysqld's. None,
    /// with a message, if this run may not use [`servers`]. Prints how long it took.
    #[must_use]
    pub fn or_skip(name: &str, count: usize, options: &[&str]) -> Option<Group> {
        servers().then(|| Group::start(name, count, options))
    }

    fn start(name: &str, count: usize, options: &[&str]) -> Group {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("{name}-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        // Before they start: they end also where one of them does not.
        let members = (1..=count).map(|number| Server::of_group(&format!("{name}-{number}"))).collect();
        let mut group = Group { name, members };
        let number = count.to_string();
        let options = [&["start", &number, "--sync-binlog=0", "--innodb-flush-log-at-trx-commit=2"], options].concat();
        let begun = Instant::now();
        group.run(&options);
        println!("{count} members ONLINE after {:.1} s", begun.elapsed().as_secs_f64());
        group.members.iter_mut().for_each(Server::find_port);
        group
    }

    /// The group that the tests of this process share, for one of them: all members run and are ONLINE. None, with a
    /// message, if this run may not use [`servers`].
    pub fn borrowed(
        place: &'static Mutex<Option<Group>>,
        start: impl FnOnce() -> Option<Group>,
    ) -> Option<MutexGuard<'static, Option<Group>>> {
        if !servers() {
            return None;
        }
        let mut place = place.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        match &*place {
            Some(group) => group.mend(),
            None => *place = start(),
        }
        Some(place)
    }

    /// Its members, ONLINE or not.
    #[must_use]
    pub fn members(&self) -> &[Server] {
        &self.members
    }

    /// The only primary; None in a group that has several.
    #[must_use]
    pub fn primary(&self) -> Option<&Server> {
        let primaries: Vec<Member> = self.view().into_iter().filter(|member| member.role == "PRIMARY").collect();
        match &primaries[..] {
            [one] => self.members.iter().find(|member| member.port() == one.port),
            _ => None,
        }
    }

    /// The view of the first member that answers.
    #[must_use]
    pub fn view(&self) -> Vec<Member> {
        rows(&self.run(&["view"]))
    }

    /// The view that this member has.
    #[must_use]
    pub fn view_of(&self, member: usize) -> Vec<Member> {
        rows(&self.run(&["view", self.members[member].name()]))
    }

    /// Kills a member with SIGKILL.
    pub fn kill(&self, member: usize) {
        self.members[member].kill();
    }

    /// Makes a member leave; its server stays.
    pub fn leave(&self, member: usize) {
        self.run(&["leave", self.members[member].name()]);
    }

    /// Shuts a member down cleanly.
    pub fn stop(&self, member: usize) {
        self.members[member].stop();
    }

    /// Stops a member's process until the value is dropped.
    pub fn freeze(&self, member: usize) -> Frozen<'_> {
        self.run(&["freeze", self.members[member].name()]);
        Frozen { group: self, member }
    }

    /// Freezes a member until the others have expelled it, then lets it run: it need not know yet.
    pub fn expel(&self, member: usize) {
        self.run(&["expel", self.members[member].name()]);
    }

    /// Starts a member if it is down, and lets it join again; returns once it is ONLINE.
    pub fn join(&self, member: usize) {
        self.run(&["join", self.members[member].name()]);
    }

    /// Starts what is down, and lets all join that are not ONLINE; bootstraps the group if none is.
    pub fn mend(&self) {
        let ports: BTreeSet<u16> = self.members.iter().map(Server::port).collect();
        let online = |member: &Member| (member.state == "ONLINE").then_some(member.port);
        let until = Instant::now() + MENDED_WITHIN;
        loop {
            self.run(&["start"]);
            let members: BTreeSet<u16> = self.view().iter().filter_map(online).collect();
            if members == ports {
                return;
            }
            // A member that was frozen calls itself ONLINE until it learns that it was expelled.
            assert!(Instant::now() < until, "ONLINE in the group's view: {members:?} of {ports:?}");
            std::thread::sleep(LOOK);
        }
    }

    fn run(&self, arguments: &[&str]) -> String {
        let ran = Ran::from(self.output(arguments));
        assert_eq!(ran.code, 0, "testbed group {arguments:?}: {}{}", ran.out, ran.err);
        eprint!("{}", ran.err);
        ran.out
    }

    fn output(&self, arguments: &[&str]) -> Output {
        let mut command = testbed("mysql");
        command.arg("group").args(arguments);
        command.env("SLIPSTREAM_TESTBED_RUN", scratch().join("run")).env("SLIPSTREAM_TESTBED_GROUP", &self.name);
        command.output().unwrap()
    }
}

/// A member that is stopped by a signal.
pub struct Frozen<'a> {
    group: &'a Group,
    member: usize,
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        // A test that fails has its own message.
        let _ = self.group.output(&["thaw", self.group.members[self.member].name()]);
    }
}

fn rows(text: &str) -> Vec<Member> {
    let member = |row: &str| {
        let fields: Vec<&str> = row.split('\t').collect();
        let text = |at: usize| fields.get(at).filter(|text| **text != "NULL").unwrap_or(&"").to_string();
        Member {
            server_uuid: text(0),
            port: text(1).parse().unwrap_or(0),
            state: text(2),
            role: text(3),
            view: text(4),
        }
    };
    text.lines().filter(|row| !row.is_empty()).map(member).collect()
}
