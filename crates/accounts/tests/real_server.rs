//! What a MySQL server does with the same accounts; run with SLIPSTREAM_TEST_SERVER=1.

use std::sync::Arc;

use accounts::{AccountName, Accounts, HostPattern, NewAccount, PasswordPlugin, Requirement, Rights, StoredPassword};
use testkit::Server;

/// Hosts that match 127.0.0.1, no two of them of one rank: among those the server goes by the order of creation.
const HOSTS: &[&str] = &[
    "%",
    "%.0.0.1",
    "1__.0.0.1",
    "127.%",
    "127.0.%",
    "127.0.0._",
    "127.0.0.0/255.0.0.0",
    "127.0.0.0/255.255.255.0",
    "127.0.0.0/8",
    "127.0.0.0/24",
    "127.0.0.1",
];

/// Removes one account after the other; the server says each time which one a login gets.
#[test]
fn the_most_specific_host_is_mysqls() {
    let Some(server) = Server::or_skip("accounts-hosts", &["--skip-name-resolve"]) else { return };
    for host in HOSTS {
        server.sql(&format!("CREATE USER who@'{host}' IDENTIFIED BY 'who'"));
    }
    let mut ours: Vec<HostPattern> = HOSTS.iter().map(|host| host.parse().unwrap()).collect();
    ours.sort_by(HostPattern::by_specificity);
    for host in ours {
        let mut connection = client::Connection::connect(&server.login("who")).unwrap();
        let account = connection.query_value("SELECT CURRENT_USER()").unwrap().unwrap();
        assert_eq!(account, format!("who@{host}"));
        server.sql(&format!("DROP USER who@'{host}'"));
    }
}

fn open(folder: &tempfile::TempDir) -> Arc<Accounts> {
    Accounts::open(&folder.path().join("accounts")).unwrap()
}

fn new(name: &AccountName, rights: Rights, schemas: Option<Vec<String>>) -> NewAccount {
    let password = StoredPassword::new(PasswordPlugin::CachingSha2, "who").unwrap();
    NewAccount {
        name: name.clone(),
        rights,
        schemas,
        requirement: Requirement::None,
        reads: Default::default(),
        max_connections: None,
        password,
    }
}

/// What SHOW GRANTS prints here can be carried out there, and prints the same.
#[test]
fn grants_print_as_mysqls() {
    let Some(server) = Server::or_skip("accounts-grants", &[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let accounts = open(&folder);
    let some = || Some(vec!["shop_1".to_owned(), "a`b".to_owned(), "x%y".to_owned()]);
    for bits in 0..16u8 {
        let bit = |at: u8| bits >> at & 1 == 1;
        let rights = Rights { monitor: bit(0), read: bit(1), replicate: bit(2), admin: bit(3), forward: false };
        let schemas = if rights.read && !rights.replicate { [None, some()] } else { [None, None] };
        for (index, schemas) in schemas.into_iter().enumerate() {
            let name: AccountName = format!("a`{bits}_{index}@10.%").parse().unwrap();
            accounts.add(new(&name, rights, schemas)).unwrap();
            let lines = accounts.grants(&name).unwrap();
            server.sql(&format!("CREATE USER '{}'@'10.%'; {};", name.user, lines.join("; ")));
            let shown = server.sql(&format!("SHOW GRANTS FOR '{}'@'10.%'", name.user));
            assert_eq!(shown.lines().collect::<Vec<_>>(), lines, "{rights}");
        }
    }
}

/// A hash that was made here lets in there, and one made there is checked here.
#[test]
fn hashes_go_both_ways() {
    let Some(server) = Server::or_skip("accounts-hashes", &[]) else { return };
    for (number, password) in ["secret", "Grüße 🎉", &"x".repeat(100)].into_iter().enumerate() {
        let hash = StoredPassword::new(PasswordPlugin::CachingSha2, password).unwrap().to_text();
        server.sql(&format!("CREATE USER ours{number} IDENTIFIED WITH caching_sha2_password AS '{hash}'"));
        let login = |user: String, password: &str| {
            let password = Some(password.to_owned());
            client::Connection::connect(&client::ConnectOptions { password, ..server.login(&user) }).is_ok()
        };
        assert!(login(format!("ours{number}"), password) && !login(format!("ours{number}"), "other"));
        server.sql(&format!("CREATE USER theirs{number} IDENTIFIED BY '{password}'"));
        let query = format!("SELECT HEX(authentication_string) FROM mysql.user WHERE user = 'theirs{number}'");
        let hex = server.sql(&query);
        let bytes =
            hex.trim().as_bytes().chunks(2).map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16));
        let text = String::from_utf8(bytes.map(Result::unwrap).collect()).unwrap();
        let stored = StoredPassword::from_text(PasswordPlugin::CachingSha2, &text).unwrap();
        assert!(stored.is(password.as_bytes()) && !stored.is(b"other"));
    }
}
