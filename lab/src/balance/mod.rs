//! `lab balance`: the highest rate at which a replica follows its source for good, by bisection. The unit of chapter 10
//! of *How to Make MySQL Better*, with a definition: in a window the backlog grows by at most 0.5 % of the rate, the
//! 99th percentile of the lag is within the limit, the backlog drains within twice that after the load, and rows are
//! equal.
//!
//! In: a recorded log, or the location of MySQL's programs for a primary under TPC-C; contenders. Out: rates, the
//! lowest failing rate, every try. Never here: a rate of a replica whose rows were not compared.

mod contenders;
mod feed;
mod report;
pub mod search;
pub mod series;
mod sources;

use std::fs;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::{Args, ValueEnum};
use replay::conditions::Conditions;
use replay::turns::turns;
use serde::Serialize;

pub use crate::contenders::{Contender, Whose};
pub use report::{BalanceReport, Balanced, Search, Try};

use crate::servers::{NO_MYSQLD, PATIENCE, Programs, Scratch, Server, UNSYNCED, check_stop, copy_folder, empty_folder};
use crate::tpcc::{self, TpccOptions};
use contenders::Following;
use feed::Feed;
use search::{Exactness, Step, Tried};
use series::{Look, Shown, Verdict, Window};
use sources::{Load, Log, Primary, Source};

/// Interval between looks at both sides: what the lag is known to.
const LOOK: Duration = Duration::from_millis(20);
/// Between two lines about a try, where they are not written over each other.
const SAY: Duration = Duration::from_secs(10);
/// Longest log that ours is searched over: a folder holds it twice, as relay log and as rows.
const LOG_BYTES_MAX: u64 = 20_000_000_000;
/// Bytes on disk for each byte of log: a relay log, and the replica's own log or rows.
const DISK_PER_BYTE: f64 = 2.2;
/// Seconds in which the first rate is found, as fast as the replica goes.
const PROBE: Duration = Duration::from_secs(6);
/// First rate that is asked of a primary under TPC-C.
const PRIMARY_FROM: f64 = 200.0;

/// How long a try takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
pub enum Length {
    /// Windows of 300 seconds: what the result's name stands for
    Full,
    /// Windows of 60 seconds
    Standard,
    /// Windows of 15 seconds, to 10 % instead of 2 %, one try a rate
    Quick,
}

impl Length {
    pub(crate) fn window_s(self) -> f64 {
        match self {
            Length::Full => 300.0,
            Length::Standard => 60.0,
            Length::Quick => 15.0,
        }
    }

    fn window(self) -> Window {
        let warm_up_s = self.window_s() / 5.0;
        Window { from_s: warm_up_s, to_s: warm_up_s + self.window_s() }
    }

    fn exactness(self) -> Exactness {
        match self {
            Length::Quick => Exactness { within: 0.1, edge_tries: 1 },
            Length::Full | Length::Standard => Exactness { within: 0.02, edge_tries: 3 },
        }
    }

    /// Tries that a search takes, more or less.
    fn tries(self) -> u32 {
        match self {
            Length::Quick => 8,
            Length::Full | Length::Standard => 14,
        }
    }
}

/// Options of `lab balance`.
#[derive(Debug, Clone, Args)]
pub struct BalanceArgs {
    /// Binlog files to feed, or index files that list them, in order
    #[arg(value_name = "LOG", required_unless_present = "primary", conflicts_with = "primary")]
    pub logs: Vec<PathBuf>,
    /// Binlog or index file that replicas have before the first try; may be repeated
    #[arg(long, value_name = "LOG")]
    pub load: Vec<PathBuf>,
    /// Follow a stock primary under TPC-C instead of a log; it shares the cores with the replica
    #[arg(long)]
    pub primary: bool,
    /// With --primary: one try for each of these numbers of terminals, instead of a search over rates
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "primary")]
    pub terminals: Vec<usize>,
    /// With --primary: warehouses
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub warehouses: u32,
    /// With --primary: fraction of items, stock, customers and orders
    #[arg(long, default_value_t = 0.2)]
    pub scale: f64,
    /// A replica: a name that begins with mysql or slipstream, and its options, LD_PRELOAD=FILE and CPUS=LIST among
    /// them; may be repeated [default: mysql: and slipstream:]
    #[arg(long, value_name = "NAME:OPTIONS")]
    pub contender: Vec<Contender>,
    /// Length of a try
    #[arg(long, value_enum, default_value = "standard")]
    pub length: Length,
    /// Limit of the 99th percentile of the lag, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    pub lag_max: f64,
    /// First rate to try, transactions a second [default: 0.7 of the replica's full speed; of a primary 200]
    #[arg(long, value_name = "TPS", value_parser = crate::log_source::rate)]
    pub from: Option<f64>,
    /// Searches of each contender, by turns
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=20))]
    pub searches: u32,
    /// Refuse what would take longer than that (90m, 3h)
    #[arg(long, value_name = "TIME", value_parser = crate::duration::parse)]
    pub within: Option<Duration>,
    /// innodb_buffer_pool_size of every stock server
    #[arg(long, value_name = "SIZE", default_value = "1G")]
    pub buffer_pool: String,
    /// Folder with mysqld [default: SLIPSTREAM_TEST_MYSQLD, PATH, the testbed's]
    #[arg(long, value_name = "DIR")]
    pub mysqld_bin: Option<PathBuf>,
    /// New folder for servers and logs, removed afterwards [default: a temporary one in TMPDIR]
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// Searches, or tries by terminals. `told` receives a line for each try and step.
///
/// # Errors
/// What was asked for does not fit, a server does not start, a replica stops, rows differ, or `stop` is raised.
pub fn balance(args: &BalanceArgs, stop: &AtomicBool, told: &dyn Fn(&str)) -> Result<BalanceReport> {
    let programs = Programs::find(args.mysqld_bin.as_deref())?;
    let mut contenders = args.contender.clone();
    if contenders.is_empty() {
        let whose = [("mysql", programs.is_some()), ("slipstream", true)];
        contenders = whose.iter().filter(|(_, is_there)| *is_there).flat_map(|(name, _)| name.parse().ok()).collect();
    }
    let scratch = Scratch(empty_folder(args.folder.as_deref(), "balance")?);
    let mut conditions = Conditions::begin();
    let (load, run) = (replay::expand(&args.load)?, replay::expand(&args.logs)?);
    let plan = Plan { args, programs: programs.as_ref(), folder: &scratch.0, stop, told };
    plan.refuse_what_cannot_be(&contenders)?;
    plan.refuse_what_does_not_fit(contenders.len(), &[load.clone(), run.clone()].concat())?;
    let mut source = match args.primary {
        true => {
            plan.load_primary()?;
            None
        }
        false => Some(Source::Log(Log { feed: Feed::start(&load, &run)?, load, run })),
    };
    let source_text = match &source {
        Some(Source::Log(log)) => format!(
            "a log of {} transactions, {:.1} MB, after a load of {}",
            log.feed.transactions - log.feed.load,
            log.feed.bytes as f64 / 1e6,
            log.feed.load
        ),
        _ => "a stock primary under TPC-C, which shares the cores with the replica".to_owned(),
    };
    let mut found: Vec<Balanced> = Vec::new();
    for contender in &contenders {
        plan.prepare(contender, source.as_mut())?;
        found.push(Balanced {
            contender: contender.name.clone(),
            options: String::new(),
            searches: Vec::new(),
            together: None,
        });
    }
    let searches = if args.terminals.is_empty() { args.searches } else { 1 };
    for round in 0..searches {
        for (contender, found) in turns(contenders.iter().zip(&mut found), round) {
            told(&format!("{}, search {} of {}", contender.name, round + 1, searches));
            let (search, options) = plan.search(contender, source.as_mut()).with_context(|| contender.name.clone())?;
            found.options = options;
            found.searches.push(search);
        }
    }
    for one in &mut found {
        let answers: Option<Vec<_>> = one.searches.iter().map(|search| search.answer).collect();
        one.together = answers.and_then(|answers| search::together(&answers));
    }
    conditions.end();
    Ok(BalanceReport {
        source: source_text,
        window_s: args.length.window_s(),
        lag_max_s: args.lag_max,
        contenders: found,
        mysql_version: programs.as_ref().map(Programs::version).transpose()?,
        conditions,
    })
}

/// Has a replica of ours follow a served log to its end, as fast as it goes, and returns its threads: number, name, CPU
/// seconds.
///
/// # Errors
/// The replica stops, or `stop` is raised.
pub(crate) fn threads_after(
    load: &Path,
    run: &Path,
    data: &Path,
    stop: &AtomicBool,
) -> Result<Vec<(u32, String, f64)>> {
    let feed = Feed::start(&[load.to_owned()], &[run.to_owned()])?;
    feed.turn_to_replica_with(0);
    let contender: Contender = "slipstream".parse().map_err(anyhow::Error::msg)?;
    let place = contenders::Place { port: feed.port, is_stock: false };
    let mut replica = contender.follow(None, data, place, "", stop)?;
    feed.open(None);
    let until = Instant::now() + PATIENCE;
    while replica.shown()? < feed.transactions {
        check_stop(stop)?;
        ensure!(Instant::now() < until, "the replica has not reached the log's end after {PATIENCE:?}");
        std::thread::sleep(LOOK);
    }
    let threads = replica.threads_cpu_s();
    replica.stop(stop)?;
    Ok(threads)
}

/// One command's options, and where it works.
struct Plan<'a> {
    args: &'a BalanceArgs,
    programs: Option<&'a Programs>,
    folder: &'a Path,
    stop: &'a AtomicBool,
    told: &'a dyn Fn(&str),
}

/// A replica and its source, between tries.
struct Pair<'s> {
    source: Owned<'s>,
    replica: Following,
}

/// A log is served for all contenders; each search has a primary of its own.
enum Owned<'s> {
    Shared(&'s mut Source),
    Own(Source),
}

impl Owned<'_> {
    fn get(&mut self) -> &mut Source {
        match self {
            Owned::Shared(source) => source,
            Owned::Own(source) => source,
        }
    }
}

impl Plan<'_> {
    fn tell(&self, line: &str) {
        (self.told)(line);
    }

    fn programs(&self) -> Result<&Programs> {
        self.programs.context(NO_MYSQLD)
    }

    /// Refuses options that no run can begin with.
    fn refuse_what_cannot_be(&self, contenders: &[Contender]) -> Result<()> {
        let args = self.args;
        ensure!(args.lag_max.is_finite() && args.lag_max > 0.0, "--lag-max: seconds, above 0");
        ensure!(args.scale > 0.0 && args.scale <= 1.0, "--scale: a fraction above 0, at most 1");
        ensure!(args.terminals.iter().all(|&terminals| terminals > 0), "--terminals: each is 1 at least");
        if args.primary {
            self.programs()?;
        }
        for contender in contenders.iter().filter(|one| one.whose == Whose::Mysql) {
            contender.programs(self.programs()?)?;
        }
        Ok(())
    }

    /// Says beforehand what it takes, and refuses what the disk or the given time does not hold.
    fn refuse_what_does_not_fit(&self, contenders: usize, files: &[PathBuf]) -> Result<()> {
        let args = self.args;
        let window = args.length.window();
        let try_s = window.to_s + 2.0 * args.lag_max + 2.0;
        let tries = match args.terminals.len() {
            0 => args.searches * args.length.tries(),
            count => u32::try_from(count)?,
        };
        let minutes = f64::from(tries) * contenders as f64 * try_s / 60.0;
        let bytes: u64 = files.iter().map(|path| fs::metadata(path).map_or(0, |data| data.len())).sum();
        let needed = (bytes as f64 * DISK_PER_BYTE) as u64;
        let facts = rustix::fs::statvfs(self.folder)?;
        let free = facts.f_bavail * facts.f_frsize;
        self.tell(&format!(
            "contenders: {contenders}, tries of each: {tries}, of {try_s:.0} s: about {minutes:.0} min; {:.1} MB of log; {:.1} \
             of {:.1} GB free on disk",
            bytes as f64 / 1e6,
            needed as f64 / 1e9,
            free as f64 / 1e9
        ));
        ensure!(bytes <= LOG_BYTES_MAX, "the log has {bytes} bytes, of {LOG_BYTES_MAX} at most: give a part of it");
        ensure!(
            needed < free,
            "{}: {needed} bytes are needed, {free} are free: a shorter log, or --folder on another disk",
            self.folder.display()
        );
        if let Some(within) = args.within {
            ensure!(
                minutes * 60.0 <= within.as_secs_f64(),
                "about {minutes:.0} min, more than --within allows: a shorter --length, fewer --searches or contenders"
            );
        }
        Ok(())
    }

    fn tpcc(&self, server: &Server) -> TpccOptions {
        TpccOptions {
            warehouses: self.args.warehouses,
            scale: self.args.scale,
            load_threads: 2,
            reconnect_for: Duration::from_secs(1),
            ..TpccOptions::new(server.address())
        }
    }

    fn primary_options(&self) -> Vec<String> {
        let mut options: Vec<String> =
            ["--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--server-id=1"].map(str::to_owned).to_vec();
        options.push(format!("--innodb-buffer-pool-size={}", self.args.buffer_pool));
        options
    }

    /// Loads TPC-C once, into the folder that primaries and stock replicas are copied from.
    fn load_primary(&self) -> Result<()> {
        self.tell("loading TPC-C into a stock primary");
        let data = self.folder.join("primary-loaded");
        self.programs()?.initialise(&data, self.stop)?;
        let options = [self.primary_options(), UNSYNCED.map(str::to_owned).to_vec()].concat();
        let server = Server::start(self.programs()?, &data, &options, self.stop)?;
        tpcc::prepare(&self.tpcc(&server), &mut std::io::sink())?;
        let mut connection = server.connect()?;
        connection.exec("FLUSH BINARY LOGS")?;
        connection.exec("PURGE BINARY LOGS BEFORE NOW() + INTERVAL 1 DAY")?;
        drop(connection);
        server.shut_down(self.stop)
    }

    /// Where a contender's folder with the load is; None: it begins with an initial copy.
    fn loaded(&self, contender: &Contender) -> Option<PathBuf> {
        match (self.args.primary, contender.whose) {
            (true, Whose::Mysql) => Some(self.folder.join("primary-loaded")),
            (true, Whose::Slipstream) => None,
            (false, whose) => Some(self.folder.join(format!("loaded-{whose:?}"))),
        }
    }

    /// Brings the load into a folder that searches of all contenders of one kind begin with.
    fn prepare(&self, contender: &Contender, source: Option<&mut Source>) -> Result<()> {
        let (Some(Source::Log(log)), Some(loaded)) = (source, self.loaded(contender)) else { return Ok(()) };
        if loaded.exists() {
            return Ok(());
        }
        self.tell(&format!("{}: the load, {} transactions", contender.name, log.feed.load));
        if contender.whose == Whose::Mysql {
            self.programs()?.initialise(&loaded, self.stop)?;
        }
        log.feed.turn_to_replica_with(0);
        // Its rows do not depend on when it syncs.
        let plain = Contender {
            options: match contender.whose {
                Whose::Mysql => UNSYNCED.map(str::to_owned).to_vec(),
                Whose::Slipstream => Vec::new(),
            },
            preload: None,
            cpus: None,
            ..contender.clone()
        };
        let port = contenders::Place { port: log.feed.port, is_stock: false };
        let mut replica = plain.follow(self.programs, &loaded, port, &self.args.buffer_pool, self.stop)?;
        while replica.shown()? < log.feed.load {
            check_stop(self.stop)?;
            replica.check()?;
            std::thread::sleep(Duration::from_millis(100));
        }
        replica.stop(self.stop)
    }

    /// A replica with the load, that follows, and what it follows.
    fn pair<'s>(&self, contender: &Contender, source: Option<&'s mut Source>) -> Result<Pair<'s>> {
        let data = self.folder.join("replica");
        if data.exists() {
            fs::remove_dir_all(&data)?;
        }
        if let Some(loaded) = self.loaded(contender) {
            copy_folder(&loaded, &data, self.stop)?;
            if contender.whose == Whose::Mysql {
                // A copy of the primary's folder is another server.
                let _ = fs::remove_file(data.join("auto.cnf"));
            }
        }
        let mut source = match source {
            Some(source) => Owned::Shared(source),
            None => {
                let data = self.folder.join("primary");
                if data.exists() {
                    fs::remove_dir_all(&data)?;
                }
                let primary = Primary::start(
                    self.programs()?,
                    &self.folder.join("primary-loaded"),
                    &data,
                    &self.primary_options(),
                    &|server| self.tpcc(server),
                    self.stop,
                )?;
                Owned::Own(Source::Primary(Box::new(primary)))
            }
        };
        if let Source::Log(log) = source.get() {
            log.feed.turn_to_replica_with(log.feed.load);
        }
        let place = source.get().place();
        let replica = contender.follow(self.programs, &data, place, &self.args.buffer_pool, self.stop)?;
        let mut pair = Pair { source, replica };
        self.drain(&mut pair)?;
        Ok(pair)
    }

    /// Waits until the replica shows all that is committed.
    fn drain(&self, pair: &mut Pair<'_>) -> Result<()> {
        let (mut most, mut until) = (0, Instant::now() + PATIENCE);
        loop {
            let shown = pair.replica.shown()?;
            if shown >= pair.source.get().committed()? {
                return Ok(());
            }
            if shown > most {
                (most, until) = (shown, Instant::now() + PATIENCE);
            }
            check_stop(self.stop)?;
            pair.replica.check()?;
            ensure!(Instant::now() < until, "the replica has not moved from {shown} transactions for {PATIENCE:?}");
            std::thread::sleep(LOOK);
        }
    }

    /// Ends a pair and returns the hash of its rows, which are equal.
    fn finish(&self, pair: Pair<'_>) -> Result<String> {
        let Pair { mut source, replica } = pair;
        let found = replica.rows(self.stop)?.hash;
        let wanted = source.get().rows(self.folder, self.stop)?;
        ensure!(found == wanted, "rows differ: hash {found}, of what it followed {wanted}");
        Ok(found)
    }

    fn search(&self, contender: &Contender, mut source: Option<&mut Source>) -> Result<(Search, String)> {
        let mut pair = self.pair(contender, source.as_deref_mut())?;
        let options = pair.replica.settings(contender, &self.args.buffer_pool)?;
        let mut search = Search { tries: Vec::new(), answer: None, hash: String::new() };
        for &terminals in &self.args.terminals {
            search.tries.push(self.attempt(&mut pair, Load::Terminals(terminals))?);
        }
        if !self.args.terminals.is_empty() {
            search.hash = self.finish(pair)?;
            return Ok((search, options));
        }
        let from = match self.args.from {
            Some(from) => from,
            None => self.probe(&mut pair)?,
        };
        let mut tried: Vec<Tried> = Vec::new();
        loop {
            match search::next(&tried, from, self.args.length.exactness()) {
                Step::Done(answer) => {
                    search.answer = Some(answer);
                    search.hash = self.finish(pair)?;
                    return Ok((search, options));
                }
                Step::Try(rate) => {
                    let needed = (rate * self.args.length.window().to_s).ceil() as u64;
                    if pair.source.get().left().is_some_and(|left| left < needed) {
                        let whole = self.whole(&mut pair);
                        if whole.is_some_and(|whole| whole >= needed) {
                            self.tell("the log is at its end: from a copied folder again");
                            self.finish(pair)?;
                            pair = self.pair(contender, source.as_deref_mut())?;
                        } else {
                            tried.push(Tried { rate, verdict: Verdict::NotSent });
                            self.tell(&format!(
                                "{rate:.0}/s: the log has too few transactions for a window: not tried"
                            ));
                            continue;
                        }
                    }
                    let one = self.attempt(&mut pair, Load::Rate(rate))?;
                    tried.push(Tried { rate, verdict: one.verdict });
                    search.tries.push(one);
                }
            }
        }
    }

    /// Transactions of the log's run; None of a primary.
    fn whole(&self, pair: &mut Pair<'_>) -> Option<u64> {
        match pair.source.get() {
            Source::Log(log) => Some(log.feed.transactions - log.feed.load),
            Source::Primary(_) => None,
        }
    }

    /// A rate that is likely to be followed: most of the replica's full speed.
    fn probe(&self, pair: &mut Pair<'_>) -> Result<f64> {
        if pair.source.get().left().is_none() {
            return Ok(PRIMARY_FROM);
        }
        let (begun, before) = (Instant::now(), pair.replica.shown()?);
        pair.source.get().begin(Load::Unbound, PROBE);
        // A replica that receives faster than it applies must not use up the log.
        let enough = pair.source.get().left().unwrap_or(0) / 5;
        let mut shown = before;
        while begun.elapsed() < PROBE && shown - before < enough {
            check_stop(self.stop)?;
            std::thread::sleep(LOOK);
            shown = pair.replica.shown()?;
            if pair.source.get().committed()?.saturating_sub(before) > enough {
                pair.source.get().end()?;
            }
        }
        let rate = 0.7 * (shown - before) as f64 / begun.elapsed().as_secs_f64().max(1e-9);
        pair.source.get().end()?;
        self.drain(pair)?;
        self.tell(&format!("at full speed {:.0} transactions/s; the first rate is {rate:.0}", rate / 0.7));
        Ok(rate.max(1.0))
    }

    /// One try: warm-up, window, drain.
    fn attempt(&self, pair: &mut Pair<'_>, load: Load) -> Result<Try> {
        let (window, lag_max_s) = (self.args.length.window(), self.args.lag_max);
        let asked = if let (Load::Rate(rate), None) = (load, self.primary(pair)) { Some(rate) } else { None };
        let cuts = pair.replica.cuts();
        let mut looks: Vec<Look> = Vec::new();
        let (mut said, mut cpu) = (Instant::now(), (0.0, 0.0));
        pair.source.get().begin(load, Duration::from_secs_f64(window.to_s));
        let begun = Instant::now();
        let mut ended_s = None;
        let (mut tpmc, mut own_lag_s) = (None, None);
        loop {
            // The replica first: what it shows was committed before.
            let (at_s, shown) = (begun.elapsed().as_secs_f64(), pair.replica.shown()?);
            let committed = pair.source.get().committed()?;
            looks.push(Look { at_s, committed, shown: shown.min(committed) });
            check_stop(self.stop)?;
            let used = pair.replica.cpu_s();
            cpu = if at_s <= window.from_s {
                (used, used)
            } else if at_s <= window.to_s {
                (cpu.0, used)
            } else {
                cpu
            };
            let is_lost = asked.is_some_and(|rate| series::is_lost(&looks, window, rate, lag_max_s));
            match ended_s {
                None if at_s >= window.to_s || is_lost => {
                    // It takes a moment, which must not count as drain.
                    own_lag_s = pair.replica.own_lag_s();
                    tpmc = pair.source.get().end()?;
                    ended_s = Some(begun.elapsed().as_secs_f64());
                }
                None => {}
                Some(ended_s) if shown >= committed || at_s > ended_s + 2.0 * lag_max_s + 1.0 => break,
                Some(_) => {}
            }
            self.live(&looks, window, load, &mut said);
            std::thread::sleep(LOOK);
        }
        let ended_s = ended_s.unwrap_or(window.to_s);
        let judged = Window { from_s: window.from_s.min(ended_s / 2.0), to_s: window.to_s.min(ended_s) };
        let shown = Shown {
            drain_s: Shown::of(&looks, Window { to_s: ended_s, ..judged }).drain_s,
            ..Shown::of(&looks, judged)
        };
        pair.replica.check()?;
        // Whatever became of it, the next try begins without a backlog.
        self.drain(pair)?;
        let flushes = pair.replica.cuts().zip(cuts).map(|(after, before)| after.saturating_sub(before));
        let one = Try {
            rate: if let Load::Rate(rate) = load { Some(rate) } else { None },
            terminals: if let Load::Terminals(terminals) = load { Some(terminals) } else { None },
            verdict: shown.verdict(asked, lag_max_s),
            verdict_100_ms: shown.verdict(asked, 0.1),
            flushes,
            own_lag_s,
            cpus: (cpu.1 - cpu.0) / (judged.to_s - judged.from_s).max(1e-9),
            tpmc,
            shown,
        };
        self.clear();
        self.tell(&one.to_string());
        Ok(one)
    }

    fn primary(&self, pair: &mut Pair<'_>) -> Option<()> {
        matches!(pair.source.get(), Source::Primary(_)).then_some(())
    }

    /// A line about the running try: on a terminal always, elsewhere now and then.
    fn live(&self, looks: &[Look], window: Window, load: Load, said: &mut Instant) {
        let is_terminal = std::io::stderr().is_terminal();
        if said.elapsed() < if is_terminal { Duration::from_millis(500) } else { SAY } {
            return;
        }
        *said = Instant::now();
        let Some(now) = looks.last() else { return };
        let so_far = Window { from_s: window.from_s.min(now.at_s / 2.0), to_s: now.at_s };
        let backlog = now.committed - now.shown;
        let rate = series::rate(looks, so_far);
        let line = format!(
            "  {load}: {rate:.0}/s, slope {:+.1}/s, {backlog} behind ({:.2} s), {:.0} s left",
            series::slope(looks, so_far),
            backlog as f64 / rate.max(1.0),
            (window.to_s - now.at_s).max(0.0)
        );
        match is_terminal {
            true => eprint!("\r\x1b[K{line}"),
            false => self.tell(&line),
        }
    }

    /// Ends the line that is written over.
    fn clear(&self) {
        if std::io::stderr().is_terminal() {
            eprint!("\r\x1b[K");
        }
    }
}
