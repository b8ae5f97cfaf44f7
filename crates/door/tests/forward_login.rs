//! Connections to the source over several sessions, and logins there by the client's own name.

use std::sync::atomic::Ordering::SeqCst;

use accounts::{PasswordPlugin, SourceLogin};
use door::Forward;
use testkit::Server;

use crate::forward::{Tier, direct, error, status_value, value, wait_until};
use crate::support::{CAPABILITIES, RawClient, account};

/// Answers of a session that are others in each session of a server.
const OF_ONE: &str = "'gtid_executed', 'pseudo_thread_id', 'statement_id', 'timestamp', 'session_track_state_change'";

/// What a session is like.
fn looks(client: &mut RawClient) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for statement in [
        "SELECT FOUND_ROWS(), ROW_COUNT(), LAST_INSERT_ID(), @@warning_count",
        "SELECT DATABASE(), CURRENT_USER(), CURRENT_ROLE(), @a, @@transaction_isolation, @@autocommit",
        &format!("SHOW SESSION VARIABLES WHERE Variable_name NOT IN ({OF_ONE})"),
        "SELECT RESOURCE_GROUP FROM performance_schema.threads WHERE PROCESSLIST_ID = CONNECTION_ID()",
        "SELECT COUNT(*) FROM performance_schema.metadata_locks WHERE LOCK_DURATION <> 'TRANSACTION' \
         AND OWNER_THREAD_ID = PS_CURRENT_THREAD_ID()",
        "SELECT COUNT(*) FROM performance_schema.user_variables_by_thread WHERE THREAD_ID = PS_CURRENT_THREAD_ID()",
        "SELECT COUNT(*) FROM performance_schema.prepared_statements_instances \
         WHERE OWNER_THREAD_ID = PS_CURRENT_THREAD_ID()",
        "SELECT IS_USED_LOCK('held')",
        "SELECT * FROM shop.hidden",
        "EXECUTE s",
        "HANDLER t READ FIRST",
        "SHOW WARNINGS",
    ] {
        all.extend(client.query(statement));
    }
    all
}

#[test]
fn a_session_on_a_used_connection_is_as_after_a_login() {
    let Some(source) = Server::or_skip("forward-pool", &[]) else { return };
    let tier = Tier::open(source, Forward::All, 1);
    tier.source.sql(
        "CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY, a INT); INSERT INTO shop.t VALUES (1, 0);
         CREATE TABLE shop.hidden (id INT); CREATE ROLE extra; GRANT extra TO app; SET DEFAULT ROLE extra TO app;
         CREATE RESOURCE GROUP other TYPE = USER VCPU = 0",
    );
    let expected = looks(&mut direct(&tier.source, CAPABILITIES));
    let mut boss = tier.boss();
    let mut used = Vec::new();
    // The second time on the connection of the first.
    for state in [
        "SELECT 1",
        "SET @a = 1, sql_mode = 'ANSI_QUOTES', autocommit = 0, sql_select_limit = 3",
        "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        "SET NAMES latin1 COLLATE latin1_bin",
        "USE shop",
        "BEGIN; UPDATE shop.t SET a = 1",
        "CREATE TEMPORARY TABLE shop.hidden AS SELECT 7 AS x",
        "SELECT GET_LOCK('held', 0)",
        "LOCK TABLES shop.t WRITE",
        "LOCK INSTANCE FOR BACKUP",
        "FLUSH TABLES shop.t FOR EXPORT",
        "PREPARE s FROM 'SELECT 1'",
        "USE shop; HANDLER t OPEN",
        "SET ROLE NONE",
        "SET RESOURCE GROUP other",
        "INSERT INTO shop.missing VALUES (1)",
        "SET session_track_schema = OFF, session_track_gtids = OWN_GTID, session_track_state_change = ON",
        "SET @@max_join_size = 9, @@long_query_time = 3, @@wait_timeout = 77",
        "SELECT SQL_CALC_FOUND_ROWS * FROM shop.t LIMIT 0",
        "XA START 'x'; UPDATE shop.t SET a = 2",
    ] {
        let mut client = tier.client(CAPABILITIES);
        let number = value(&client.query("SELECT CONNECTION_ID()"));
        client.query(state);
        drop(client);
        let mut next = tier.client(CAPABILITIES);
        let looked = looks(&mut next);
        let same = looked.iter().zip(&expected).find(|(ours, theirs)| ours != theirs);
        assert!(looked == expected, "after {state}: {same:?}");
        // What others wait for is free.
        assert_eq!(error(&next.query("UPDATE shop.t SET a = 3")), None, "{state}");
        used.push((number, value(&next.query("SELECT CONNECTION_ID()"))));
    }
    let first = used[0].0.clone();
    assert!(used.iter().all(|(before, after)| *before == first && *after == first), "one connection: {used:?}");
    wait_until("it is given back", || status_value(&mut boss, "Slipstream_forward_idle") == "1");
    assert_eq!(status_value(&mut boss, "Slipstream_forward_connections"), "1");
}

#[test]
fn what_a_session_held_is_free_as_soon_as_it_has_ended() {
    let Some(source) = Server::or_skip("forward-pool-locks", &[]) else { return };
    let tier = Tier::open(source, Forward::All, 10);
    tier.source
        .sql("CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY, a INT); INSERT INTO shop.t VALUES (1, 0)");
    for state in ["BEGIN; UPDATE shop.t SET a = a + 1", "LOCK TABLES shop.t WRITE", "SELECT GET_LOCK('held', 0)"] {
        let mut client = tier.client(CAPABILITIES);
        client.query(state);
        drop(client);
        let mut other = direct(&tier.source, CAPABILITIES);
        assert_eq!(error(&other.query("UPDATE shop.t SET a = a + 10")), None, "{state}");
        assert_eq!(value(&other.query("SELECT GET_LOCK('held', 50)")), "1", "{state}");
    }
    assert_eq!(tier.source.sql("SELECT a FROM shop.t").trim(), "30", "what was not committed is gone");
}

#[test]
fn an_idle_connection_makes_way_and_a_dead_one_is_not_used() {
    let Some(source) = Server::or_skip("forward-pool-way", &[]) else { return };
    let tier = Tier::open(source, Forward::All, 1);
    tier.source.sql("CREATE USER other IDENTIFIED BY 'there'");
    let other = account("other", "forward", PasswordPlugin::CachingSha2);
    tier.door.accounts.add_with(other, Some(SourceLogin::new("other", "there").unwrap())).unwrap();
    let user = |name: &str| {
        let mut client = RawClient::with_password(&tier.door.socket, name, name, CAPABILITIES);
        value(&client.query("SELECT CURRENT_USER()"))
    };
    for name in ["app", "other", "app", "app"] {
        assert_eq!(user(name), format!("{name}@%"));
    }
    let mut boss = tier.boss();
    let idle = |boss: &mut RawClient| status_value(boss, "Slipstream_forward_idle");
    wait_until("it is idle", || idle(&mut boss) == "1");
    // The source ends it: it is closed here too, and a session that comes first does not notice.
    let killed = "SELECT CONCAT('KILL ', ID) FROM information_schema.PROCESSLIST WHERE USER = 'app'";
    tier.source.sql(tier.source.sql(killed).trim());
    assert_eq!(user("app"), "app@%");
    wait_until("it is idle", || idle(&mut boss) == "1");
    tier.source.sql(tier.source.sql(killed).trim());
    wait_until("it is closed", || idle(&mut boss) == "0");
    assert_eq!(user("app"), "app@%");
    // Another source is followed.
    wait_until("it is idle", || idle(&mut boss) == "1");
    tier.facts.number.store(2, SeqCst);
    wait_until("it is closed", || idle(&mut boss) == "0");
}

#[test]
fn idle_connections_are_closed_where_the_source_has_no_more_for_their_user() {
    let Some(source) = Server::or_skip("forward-pool-limit", &[]) else { return };
    let tier = Tier::open(source, Forward::All, 2);
    tier.source.sql("ALTER USER app WITH MAX_USER_CONNECTIONS 1");
    let mut boss = tier.boss();
    for more in [0, FOUND_ROWS, 0] {
        let mut client = tier.client(CAPABILITIES | more);
        assert_eq!(error(&client.query("SELECT 1")), None);
        drop(client);
        wait_until("it is idle", || status_value(&mut boss, "Slipstream_forward_idle") == "1");
    }
}

const FOUND_ROWS: u32 = wire::handshake::capability::FOUND_ROWS;

#[test]
fn a_used_connection_is_logged_in_again() {
    let Some(source) = Server::or_skip("forward-pool-login", &[]) else { return };
    let tier = Tier::open(source, Forward::All, 10);
    assert_eq!(error(&tier.client(CAPABILITIES).query("SELECT 1")), None);
    let mut boss = tier.boss();
    wait_until("it is idle", || status_value(&mut boss, "Slipstream_forward_idle") == "1");
    tier.source.sql("ALTER USER app ACCOUNT LOCK");
    let mut client = tier.client(CAPABILITIES);
    assert_eq!(error(&client.query("SELECT 1")), Some(3118));
    assert!(client.is_closed());
}

#[test]
fn what_a_source_does_at_each_login_is_done() {
    let Some(source) = Server::or_skip("forward-pool-init", &[]) else { return };
    source.sql("CREATE USER other IDENTIFIED BY 'there'");
    let tier = Tier::open(source, Forward::All, 10);
    let other = account("other", "forward", PasswordPlugin::CachingSha2);
    tier.door.accounts.add_with(other, Some(SourceLogin::new("other", "there").unwrap())).unwrap();
    let client = || RawClient::with_password(&tier.door.socket, "other", "other", CAPABILITIES);
    let mut boss = tier.boss();
    assert_eq!(value(&client().query("SELECT COALESCE(@seen, 'none')")), "none");
    wait_until("it is idle", || status_value(&mut boss, "Slipstream_forward_idle") == "1");
    tier.source.sql("SET GLOBAL init_connect = 'SET @seen = 7'");
    for _ in 0..3 {
        assert_eq!(value(&client().query("SELECT COALESCE(@seen, 'none')")), "7");
    }
    assert_eq!(status_value(&mut boss, "Slipstream_forward_idle"), "0");
}

/// A tier whose account `own` logs in at the source by its own name.
fn own(name: &str) -> Option<Tier> {
    let source = Server::or_skip(name, &[])?;
    source.sql("CREATE USER own IDENTIFIED BY 'own'");
    let tier = Tier::open(source, Forward::All, 10);
    tier.door.accounts.add(account("own", "forward", PasswordPlugin::CachingSha2)).unwrap();
    Some(tier)
}

fn own_client(tier: &Tier) -> RawClient {
    RawClient::with_password(&tier.door.socket, "own", "own", CAPABILITIES)
}

#[test]
fn a_client_s_own_name_and_password_log_in_at_the_source() {
    let Some(tier) = own("forward-own") else { return };
    let user = |client: &mut RawClient| value(&client.query("SELECT CURRENT_USER()"));
    // A full login here, and a source that has never seen the password: it gets it over TLS that is verified.
    tier.facts.verifies.store(true, SeqCst);
    assert_eq!(user(&mut own_client(&tier)), "own@%");
    // Fast logins here, and there.
    tier.facts.verifies.store(false, SeqCst);
    for _ in 0..3 {
        assert_eq!(user(&mut own_client(&tier)), "own@%");
    }
    // The source has forgotten it, and may not be told.
    tier.source.sql("FLUSH PRIVILEGES");
    let told = |client: &mut RawClient| {
        let packets = client.query("SELECT 1");
        assert_eq!(error(&packets), Some(1429));
        assert!(client.is_closed());
        String::from_utf8_lossy(&packets[0]).into_owned()
    };
    let text = told(&mut own_client(&tier));
    assert!(text.contains("VERIFY_CA") && text.contains("--source-login"), "{text}");
    // It may, and the login here did not tell it: the next one does.
    tier.facts.verifies.store(true, SeqCst);
    let text = told(&mut own_client(&tier));
    assert!(text.contains("log in again") && text.contains("--source-login"), "{text}");
    assert_eq!(user(&mut own_client(&tier)), "own@%");
    tier.facts.verifies.store(false, SeqCst);
    assert_eq!(user(&mut own_client(&tier)), "own@%");
}

#[test]
fn what_the_source_refuses_ends_the_client_and_is_forgotten() {
    let Some(tier) = own("forward-own-refused") else { return };
    tier.facts.verifies.store(true, SeqCst);
    assert_eq!(error(&own_client(&tier).query("SELECT 1")), None);
    let proved = || std::fs::read_to_string(tier.door.folder().join("accounts-proved")).is_ok();
    for (change, number) in [
        ("ALTER USER own ACCOUNT LOCK", 3118),
        ("ALTER USER own IDENTIFIED BY 'another'", 1045),
        ("DROP USER own", 1045),
    ] {
        assert!(proved());
        tier.source.sql(change);
        let mut client = own_client(&tier);
        // Of another password the source knows no hash yet: it asks for what this login has not told.
        let told = error(&client.query("SELECT 1"));
        assert!(told == Some(number) || (number == 1045 && told == Some(1429)), "{change}: {told:?}");
        assert!(client.is_closed());
        assert!(!proved(), "{change}");
        // A full login here, which proves it again; the source decides again.
        assert_eq!(error(&own_client(&tier).query("SELECT 1")), Some(number), "{change}");
        tier.source.sql("DROP USER IF EXISTS own; CREATE USER own IDENTIFIED BY 'own'");
        assert_eq!(error(&own_client(&tier).query("SELECT 1")), None, "as soon as it accepts it");
    }
}
