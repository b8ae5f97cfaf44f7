//! Clients whose reads the oracle judges: sessions through a replica's port and at its source, that connect again.
//!
//! In: where to connect, what they may do next. Out: pairs of a read and what was known before it, whole transactions,
//! for the log to judge. Never here: a fault, the log.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use client::connection::Statement;
use client::{ClientError, ConnectOptions, Connection, Param, ResultSet};
use testkit::Random;

use crate::oracle::{Known, Outcome, Seen, Step, TABLES, Transaction};

/// What a read follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pair {
    /// A write that was acknowledged; the read is plain, through the port.
    Written,
    /// A read at the source; the read is plain, through the port.
    SeenThere,
    /// A plain read through the port; the read is one that only the source answers, in the same session.
    SeenHere,
    /// The same, in another session through the port.
    SeenHereByAnother,
    /// A plain read through the port; the read is at the source itself.
    SeenHereThenThere,
}

pub const PAIRS: [Pair; 5] =
    [Pair::Written, Pair::SeenThere, Pair::SeenHere, Pair::SeenHereByAnother, Pair::SeenHereThenThere];

/// How a transaction runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Reads, then writes, then reads.
    Split,
    WritesFirst,
    /// A locking read, a write of the same row, reads.
    Locks,
    Savepoint,
    Snapshot,
    ReadOnly,
    ReadCommitted,
    /// Under autocommit = 0.
    Implicit,
}

pub const FORMS: [Form; 8] = [
    Form::Split,
    Form::WritesFirst,
    Form::Locks,
    Form::Savepoint,
    Form::Snapshot,
    Form::ReadOnly,
    Form::ReadCommitted,
    Form::Implicit,
];

/// Of so many changes each table gets one, unless a table before it does.
const WRITTEN_OF_1000: [u32; TABLES as usize] = [700, 700, 800, 800, 1_000];
/// One of this many plain reads outside transactions is held against the log too.
const KEPT_ONE_IN: u64 = 16;
/// Of one of this many it is asked who answered it.
const SAMPLED_ONE_IN: u64 = 32;
/// One of this many rounds of readers looks at the clock.
const CLOCK_ONE_IN: u64 = 8;
/// Time until a client that could not connect tries again.
const AGAIN_AFTER: Duration = Duration::from_millis(20);

/// All clients' knowledge and goals.
pub struct Trial {
    pub port: ConnectOptions,
    pub source: ConnectOptions,
    pub known: Known,
    /// Number of pairs of each kind that are wanted, and of transactions.
    pub wanted: (u64, u64),
    /// Reads at the source itself are judged too: nobody is shown what it has not committed.
    pub judges_source: bool,
    pub pairs: [AtomicU64; PAIRS.len()],
    pub transactions: [AtomicU64; FORMS.len()],
    /// Plain reads through the port, and commands there that only the source answers.
    pub plain: AtomicU64,
    pub forced: AtomicU64,
    /// Plain reads of which it was asked who answered them, and those that the replica did.
    pub sampled: (AtomicU64, AtomicU64),
    pub ended: AtomicBool,
    ids: AtomicU64,
    kept: Mutex<Vec<Transaction>>,
    wrong: Mutex<Vec<String>>,
    errors: Mutex<BTreeMap<String, u64>>,
}

impl Trial {
    #[must_use]
    pub fn new(port: ConnectOptions, source: ConnectOptions, keys: u32, wanted: (u64, u64)) -> Trial {
        Trial {
            port,
            source,
            known: Known::new(keys),
            wanted,
            judges_source: true,
            pairs: Default::default(),
            transactions: Default::default(),
            plain: AtomicU64::new(0),
            forced: AtomicU64::new(0),
            sampled: Default::default(),
            ended: AtomicBool::new(false),
            ids: AtomicU64::new(1),
            kept: Mutex::default(),
            wrong: Mutex::default(),
            errors: Mutex::default(),
        }
    }

    /// True once all is done, or something was wrong.
    #[must_use]
    pub fn is_done(&self) -> bool {
        let of = |counts: &[AtomicU64], wanted| counts.iter().all(|count| count.load(SeqCst) >= wanted);
        of(&self.pairs, self.wanted.0) && of(&self.transactions, self.wanted.1) || !self.wrong().is_empty()
    }

    /// Number of pairs and transactions so far.
    #[must_use]
    pub fn progress(&self) -> u64 {
        self.pairs.iter().chain(&self.transactions).map(|count| count.load(SeqCst)).sum()
    }

    /// What clients saw at once to be wrong.
    #[must_use]
    pub fn wrong(&self) -> Vec<String> {
        self.wrong.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Errors of clients, by number.
    #[must_use]
    pub fn errors(&self) -> BTreeMap<String, u64> {
        self.errors.lock().unwrap().clone()
    }

    /// What the log is to judge.
    #[must_use]
    pub fn take_kept(&self) -> Vec<Transaction> {
        std::mem::take(&mut *self.kept.lock().unwrap())
    }

    fn keep(&self, transaction: Transaction) {
        self.kept.lock().unwrap().push(transaction);
    }

    fn is_wrong(&self, what: String) {
        self.wrong.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }

    fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, SeqCst)
    }

    /// A row: most often one that others change too, of some tables hardly ever.
    fn key(&self, random: &mut Random) -> u32 {
        let table = WRITTEN_OF_1000.iter().position(|below| random.below(1_000) < *below);
        random.below(self.known.keys() / TABLES) * TABLES + u32::try_from(table.unwrap_or_default()).unwrap()
    }

    /// A row of any table.
    fn any_key(&self, random: &mut Random) -> u32 {
        random.below(self.known.keys())
    }

    fn counts(&self, pair: Pair) {
        self.pairs[PAIRS.iter().position(|of| *of == pair).unwrap()].fetch_add(1, SeqCst);
    }

    fn wants(&self, pair: Pair) -> bool {
        self.pairs[PAIRS.iter().position(|of| *of == pair).unwrap()].load(SeqCst) < self.wanted.0
    }

    /// Writes until all is done: at the source or through the port, and reads through the port what it wrote.
    pub fn writes(&self, seed: u64) {
        let mut random = Random::new(seed);
        let (mut there, mut here, mut reader) =
            (Session::at(self, &self.source), Session::at(self, &self.port), Session::at(self, &self.port));
        while !self.ended.load(SeqCst) {
            let through_port = random.one_in(4);
            if through_port {
                self.forced.fetch_add(1, SeqCst);
            }
            let writer = if through_port { &mut here } else { &mut there };
            if random.one_in(3) {
                writer.writes_several(&mut random);
                continue;
            }
            let key = self.key(&mut random);
            if writer.writes_alone(key).is_none() || !self.wants(Pair::Written) {
                continue;
            }
            let by = if through_port && random.one_in(2) { writer } else { &mut reader };
            if by.reads_plainly(&mut random, key).is_some() {
                self.counts(Pair::Written);
            }
        }
    }

    /// Reads in pairs until all is done.
    pub fn reads(&self, seed: u64) {
        let mut random = Random::new(seed);
        let (mut here, mut another, mut there) =
            (Session::at(self, &self.port), Session::at(self, &self.port), Session::at(self, &self.source));
        let mut last = String::new();
        while !self.ended.load(SeqCst) {
            if random.one_in(CLOCK_ONE_IN) {
                // What fails is counted.
                _ = self.looks_at_clock(&mut here, &mut there, &mut last);
            }
            let pair = random.pick(&PAIRS[1..]);
            let key = self.key(&mut random);
            let went = if pair == Pair::SeenThere {
                there.reads(&[key], &Session::point(key)).and_then(|()| here.reads_plainly(&mut random, key))
            } else {
                here.reads_plainly(&mut random, key).and_then(|()| match pair {
                    Pair::SeenHere => here.reads_there(key),
                    Pair::SeenHereByAnother => another.reads_there(key),
                    _ => there.reads(&[key], &Session::point(key)),
                })
            };
            if went.is_some() {
                self.counts(pair);
            }
        }
    }

    /// NOW() through the port is the source's, and never goes back.
    fn looks_at_clock(&self, here: &mut Session<'_>, there: &mut Session<'_>, last: &mut String) -> Option<()> {
        let before = there.value("SELECT NOW(6)")?;
        let read = here.value("SELECT NOW(6) FROM o.t0 WHERE id = 0")?;
        let after = there.value("SELECT NOW(6)")?;
        if !(before <= read && read <= after && *last <= read) {
            self.is_wrong(format!("NOW() {read} is not between {before} and {after}, or before {last}"));
        }
        *last = read;
        Some(())
    }

    /// Runs transactions through the port until all is done.
    pub fn transacts(&self, seed: u64) {
        let mut random = Random::new(seed);
        let mut session = Session::at(self, &self.port);
        while !self.ended.load(SeqCst) {
            let form = random.pick(&FORMS);
            if session.transacts(form, &mut random) {
                self.transactions[FORMS.iter().position(|of| *of == form).unwrap()].fetch_add(1, SeqCst);
            }
        }
    }
}

/// A connection that is made again when it was lost.
pub struct Session<'a> {
    trial: &'a Trial,
    to: &'a ConnectOptions,
    open: Option<Open>,
}

struct Open {
    connection: Connection,
    /// A prepared look at one row, for each table.
    points: [Option<Statement>; TABLES as usize],
}

impl<'a> Session<'a> {
    #[must_use]
    pub fn at(trial: &'a Trial, to: &'a ConnectOptions) -> Session<'a> {
        Session { trial, to, open: None }
    }

    fn table(key: u32) -> String {
        format!("o.t{}", key % TABLES)
    }

    fn point(key: u32) -> String {
        format!("SELECT id, n, w FROM {} WHERE id = {key}", Session::table(key))
    }

    /// Does something there; None if that fails, which is counted.
    fn run<T>(&mut self, work: impl FnOnce(&mut Open) -> client::Result<T>) -> Option<T> {
        let open = match self.open.take() {
            Some(open) => Ok(open),
            None => Connection::connect(self.to).map(|connection| Open { connection, points: Default::default() }),
        };
        let mut open = open.map_err(|error| self.failed(&error)).ok();
        if open.is_none() {
            std::thread::sleep(AGAIN_AFTER);
        }
        let result = work(open.as_mut()?);
        let keeps = result.as_ref().err().is_none_or(|error| error.server_code().is_some());
        self.open = open.filter(|open| keeps && !open.connection.is_broken());
        result.map_err(|error| self.failed(&error)).ok()
    }

    fn failed(&self, error: &ClientError) {
        let name = match error.server_code() {
            Some(code) => format!("{code} {error}"),
            None => error.to_string(),
        };
        // Without what differs from one to the next.
        let name: String = name.chars().take(90).collect();
        *self.trial.errors.lock().unwrap().entry(name).or_default() += 1;
    }

    fn exec(&mut self, sql: &str) -> Option<u64> {
        self.run(|open| open.connection.exec(sql)).map(|ok| ok.last_insert_id)
    }

    fn value(&mut self, sql: &str) -> Option<String> {
        self.run(|open| open.connection.query_value(sql)).flatten()
    }

    fn rows(answer: &ResultSet) -> Vec<Seen> {
        let rows = 0..answer.rows.len();
        rows.map(|row| Seen {
            key: answer.told(row, 0, "a row").unwrap(),
            version: answer.told(row, 1, "a version").unwrap(),
            by: answer.told(row, 2, "a writer").unwrap(),
        })
        .collect()
    }

    fn prepared(&mut self, key: u32) -> Option<Vec<Seen>> {
        self.run(|open| {
            let place = &mut open.points[(key % TABLES) as usize];
            let statement = match place.take() {
                Some(statement) => statement,
                None => {
                    let sql = format!("SELECT id, n, w FROM {} WHERE id = ?", Session::table(key));
                    open.connection.prepare(&sql)?
                }
            };
            let mut rows = open.connection.execute(&statement, &[Param::Int(i64::from(key))])?;
            let mut all = Vec::new();
            while let Some(mut row) = rows.next_row()? {
                let mut next = || row.next_int().map(|value| value.unwrap_or(-1));
                let (key, version, by) = (next()?, next()?, next()?);
                let number = |value: i64| u32::try_from(value).unwrap_or(u32::MAX);
                all.push(Seen { key: number(key), version: number(version), by: by.unsigned_abs() });
            }
            rows.finish()?;
            *place = Some(statement);
            Ok(all)
        })
    }

    /// Judges rows of a statement of its own view: each is there, and none is older than what was known before.
    fn judges(&mut self, keys: &[u32], known: Vec<u32>, rows: Vec<Seen>, sql: &str) -> Option<()> {
        let trial = self.trial;
        if !rows.iter().map(|seen| seen.key).eq(keys.iter().copied()) {
            trial.is_wrong(format!("{sql}: {rows:?} instead of rows {keys:?}"));
        }
        for seen in &rows {
            let before = known[seen.key as usize];
            let is_port = self.to.socket.is_some();
            if seen.version < before && (is_port || trial.judges_source) {
                let place = if is_port { "through the port" } else { "at the source" };
                trial.is_wrong(format!("stale {place}: {seen:?}, and {before} was known before\n  {sql}"));
            }
            trial.known.raise(seen.key, seen.version);
        }
        let is_judged = self.to.socket.is_some() || trial.judges_source;
        if is_judged && rows.iter().any(|seen| (seen.by ^ u64::from(seen.version)).is_multiple_of(KEPT_ONE_IN)) {
            let steps = vec![Step::Read { known: Some(known), rows }];
            trial.keep(Transaction { id: 0, steps, outcome: Outcome::RolledBack });
        }
        Some(())
    }

    /// A SELECT alone, of these rows.
    fn reads(&mut self, keys: &[u32], sql: &str) -> Option<()> {
        let known = self.trial.known.all();
        let answer = self.run(|open| open.connection.query(sql))?;
        self.judges(keys, known, Session::rows(&answer), sql)
    }

    /// A SELECT that a replica may answer, of this row and perhaps others.
    fn reads_plainly(&mut self, random: &mut Random, key: u32) -> Option<()> {
        self.trial.plain.fetch_add(1, SeqCst);
        if random.one_in(3) {
            let known = self.trial.known.all();
            let rows = self.prepared(key)?;
            self.judges(&[key], known, rows, "a prepared one")?;
        } else {
            let (keys, sql) = plain(self.trial.known.keys(), random, key);
            self.reads(&keys, &sql)?;
        }
        if random.one_in(SAMPLED_ONE_IN) {
            let by = self.value("SELECT @@slipstream_last_served_by")?;
            self.trial.sampled.0.fetch_add(1, SeqCst);
            self.trial.sampled.1.fetch_add(u64::from(by == "replica"), SeqCst);
        }
        Some(())
    }

    /// A SELECT that only the source answers, and that leaves nothing there.
    fn reads_there(&mut self, key: u32) -> Option<()> {
        self.trial.forced.fetch_add(1, SeqCst);
        let table = Session::table(key);
        let sql = format!("SELECT id, n, w FROM {table} JOIN (SELECT UUID() AS one) AS any_ WHERE id = {key}");
        self.reads(&[key], &sql)
    }

    /// Changes a row; returns its version.
    fn update(&mut self, id: u64, key: u32) -> Option<u32> {
        let table = Session::table(key);
        let version = self.exec(&format!("UPDATE {table} SET n = LAST_INSERT_ID(n + 1), w = {id} WHERE id = {key}"))?;
        Some(u32::try_from(version).unwrap())
    }

    fn writes_alone(&mut self, key: u32) -> Option<()> {
        let id = self.trial.next_id();
        let version = self.update(id, key)?;
        self.trial.known.raise(key, version);
        let steps = vec![Step::Wrote { key, version }];
        if version.is_multiple_of(8) {
            self.trial.keep(Transaction { id, steps, outcome: Outcome::Committed });
        }
        Some(())
    }

    /// A transaction that changes several rows and reads none.
    fn writes_several(&mut self, random: &mut Random) {
        let mut script = Script::new(self);
        let went = script.begins("BEGIN").and_then(|()| script.writes(random, 3));
        script.ends(went, "COMMIT");
    }

    fn transacts(&mut self, form: Form, random: &mut Random) -> bool {
        let mut script = Script::new(self);
        let went = script.runs(form, random);
        let end = if random.one_in(8) { "ROLLBACK" } else { "COMMIT" };
        let has_ended = script.ends(went, end);
        if form == Form::Implicit && self.exec("SET autocommit = 1").is_none() {
            self.open = None;
        }
        has_ended
    }
}

/// A plain SELECT with this row, and the rows that it shows.
fn plain(keys: u32, random: &mut Random, key: u32) -> (Vec<u32>, String) {
    let table = Session::table(key);
    match random.below(4) {
        0 => {
            let mut list = [key, key % TABLES, key % TABLES + TABLES * random.below(keys / TABLES)].to_vec();
            list.sort_unstable();
            list.dedup();
            let text: Vec<String> = list.iter().map(u32::to_string).collect();
            let sql = format!("SELECT id, n, w FROM {table} WHERE id IN ({}) ORDER BY id", text.join(", "));
            (list, sql)
        }
        1 => {
            let all: Vec<u32> = (0..keys).filter(|of| of % TABLES == key % TABLES && *of >= key).take(4).collect();
            let last = all.last().unwrap();
            let sql = format!("SELECT id, n, w FROM {table} WHERE id BETWEEN {key} AND {last} ORDER BY id");
            (all, sql)
        }
        _ => (vec![key], Session::point(key)),
    }
}

/// A transaction while it runs.
struct Script<'s, 'a> {
    session: &'s mut Session<'a>,
    id: u64,
    steps: Vec<Step>,
    /// Each plain read has a view of its own.
    renews: bool,
    /// What was known before the view that the next plain read has.
    known: Option<Vec<u32>>,
    has_view: bool,
}

impl<'s, 'a> Script<'s, 'a> {
    fn new(session: &'s mut Session<'a>) -> Script<'s, 'a> {
        let id = session.trial.next_id();
        Script { session, id, steps: Vec::new(), renews: false, known: None, has_view: false }
    }

    fn begins(&mut self, sql: &str) -> Option<()> {
        self.session.exec(sql).map(drop)
    }

    fn key(&self, random: &mut Random) -> u32 {
        self.session.trial.key(random)
    }

    fn reads(&mut self, random: &mut Random, times: u32) -> Option<()> {
        for _ in 0..times {
            let trial = self.session.trial;
            let key = trial.any_key(random);
            trial.plain.fetch_add(1, SeqCst);
            let begins = self.renews || !self.has_view;
            let known = begins.then(|| self.known.take().unwrap_or_else(|| trial.known.all()));
            let (keys, rows) = if random.one_in(4) {
                (vec![key], self.session.prepared(key)?)
            } else {
                let (keys, mut sql) = plain(trial.known.keys(), random, key);
                if !self.has_view {
                    // After a conflict transactions that begin with a read of the same form are the source's.
                    sql = sql.replacen(" w ", &format!(" w AS w{} ", self.id), 1);
                } else if random.one_in(4) {
                    let table = Session::table(key);
                    sql = sql.replacen(&table, &format!("{table} JOIN (SELECT UUID() AS one) AS any_"), 1);
                }
                let answer = self.session.run(|open| open.connection.query(&sql))?;
                (keys, Session::rows(&answer))
            };
            self.has_view = true;
            if !rows.iter().map(|seen| seen.key).eq(keys.iter().copied()) {
                trial.is_wrong(format!("in a transaction: {rows:?} instead of rows {keys:?}"));
            }
            rows.iter().filter(|seen| seen.by != self.id).for_each(|seen| trial.known.raise(seen.key, seen.version));
            self.steps.push(Step::Read { known, rows });
        }
        Some(())
    }

    /// Changes some rows, in their order, so that two never wait for each other.
    fn writes(&mut self, random: &mut Random, most: u32) -> Option<()> {
        let mut keys: Vec<u32> = (0..=random.below(most)).map(|_| self.key(random)).collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            self.session.trial.forced.fetch_add(1, SeqCst);
            let version = self.session.update(self.id, key)?;
            self.steps.push(Step::Wrote { key, version });
        }
        Some(())
    }

    /// Locks a row, and most often changes it.
    fn locks(&mut self, random: &mut Random) -> Option<()> {
        let key = self.key(random);
        let known = self.session.trial.known.all()[key as usize];
        let how = random.pick(&["FOR UPDATE", "FOR UPDATE NOWAIT", "FOR SHARE"]);
        self.session.trial.forced.fetch_add(1, SeqCst);
        let sql = format!("{} {how}", Session::point(key));
        let answer = self.session.run(|open| open.connection.query(&sql))?;
        let [row] = Session::rows(&answer)[..] else {
            self.session.trial.is_wrong(format!("{sql}: {} rows", answer.rows.len()));
            return None;
        };
        if row.by != self.id {
            self.session.trial.known.raise(key, row.version);
        }
        self.steps.push(Step::Locked { known, row });
        if how != "FOR SHARE" && !random.one_in(4) {
            let version = self.session.update(self.id, key)?;
            self.steps.push(Step::Wrote { key, version });
        }
        Some(())
    }

    fn step(&mut self, sql: &str, step: Step) -> Option<()> {
        self.session.exec(sql)?;
        self.steps.push(step);
        Some(())
    }

    fn runs(&mut self, form: Form, random: &mut Random) -> Option<()> {
        match form {
            Form::Split => {
                self.begins("BEGIN")?;
                self.reads(random, 2)?;
                self.writes(random, 3)?;
                self.reads(random, 3)?;
                if random.one_in(2) {
                    self.writes(random, 1)?;
                    self.reads(random, 2)?;
                }
                Some(())
            }
            Form::WritesFirst => {
                self.begins("START TRANSACTION")?;
                self.writes(random, 2)?;
                self.reads(random, 3)
            }
            Form::Locks => {
                self.begins("START TRANSACTION READ WRITE")?;
                if random.one_in(2) {
                    self.reads(random, 1)?;
                }
                self.locks(random)?;
                self.reads(random, 2)
            }
            Form::Savepoint => {
                self.begins("BEGIN")?;
                if random.one_in(2) {
                    self.reads(random, 1)?;
                }
                self.step("SAVEPOINT one", Step::Savepoint)?;
                self.writes(random, 2)?;
                self.reads(random, 1)?;
                let had_view = self.steps.first().is_some_and(|step| *step != Step::Savepoint);
                self.step("ROLLBACK TO one", Step::RolledBack)?;
                // An engine that had no part in the transaction at the savepoint gives up all of it, its view too.
                self.has_view = had_view;
                self.reads(random, 2)?;
                self.writes(random, 1)?;
                self.reads(random, 1)
            }
            Form::Snapshot => {
                self.known = Some(self.session.trial.known.all());
                self.begins("START TRANSACTION WITH CONSISTENT SNAPSHOT")?;
                if random.one_in(2) {
                    self.writes(random, 2)?;
                }
                self.reads(random, 3)
            }
            Form::ReadOnly => {
                self.begins("START TRANSACTION READ ONLY")?;
                self.reads(random, 4)
            }
            Form::ReadCommitted => {
                self.renews = true;
                self.begins("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")?;
                if self.begins("BEGIN").is_none() {
                    // The level is still that of the next transaction.
                    self.session.open = None;
                    return None;
                }
                self.reads(random, 3)?;
                if random.one_in(2) {
                    self.writes(random, 2)?;
                    self.reads(random, 2)?;
                }
                Some(())
            }
            Form::Implicit => {
                self.begins("SET autocommit = 0")?;
                self.reads(random, 2)?;
                if random.one_in(2) {
                    self.writes(random, 2)?;
                    self.reads(random, 1)?;
                }
                Some(())
            }
        }
    }

    /// Ends it, as wanted if all went well; true if it then ended so.
    fn ends(mut self, went: Option<()>, how: &str) -> bool {
        let how = if went.is_some() { how } else { "ROLLBACK" };
        let was_connected = self.session.open.is_some();
        // One that lost its connection before was rolled back with it.
        let ended = was_connected && self.session.exec(how).is_some();
        let outcome = match (how, ended) {
            ("COMMIT", true) => Outcome::Committed,
            ("COMMIT", false) if was_connected => Outcome::Unknown,
            _ => Outcome::RolledBack,
        };
        if !ended {
            self.session.open = None;
        }
        if outcome == Outcome::Committed {
            for step in committed(&self.steps) {
                self.session.trial.known.raise(step.0, step.1);
            }
        }
        let steps = std::mem::take(&mut self.steps);
        self.session.trial.keep(Transaction { id: self.id, steps, outcome });
        went.is_some() && ended
    }
}

/// Changes that were not taken back.
fn committed(steps: &[Step]) -> Vec<(u32, u32)> {
    let (mut own, mut savepoint) = (Vec::new(), 0);
    for step in steps {
        match step {
            Step::Wrote { key, version } => own.push((*key, *version)),
            Step::Savepoint => savepoint = own.len(),
            Step::RolledBack => own.truncate(savepoint),
            Step::Read { .. } | Step::Locked { .. } => {}
        }
    }
    own
}
