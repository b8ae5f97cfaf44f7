//! Tests of the accounts and their file.

use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::reads::Consistency;

const SOCKET: Peer = Peer::Socket { uid: 7 };

fn tcp(text: &str) -> Peer {
    Peer::Tcp(text.parse().unwrap())
}

fn password(text: &str) -> StoredPassword {
    StoredPassword::new(PasswordPlugin::Native, text).unwrap()
}

fn new(name: &str, rights: &str) -> NewAccount {
    NewAccount {
        name: name.parse().unwrap(),
        rights: rights.parse().unwrap(),
        schemas: None,
        requirement: Requirement::None,
        reads: Reads::default(),
        max_connections: None,
        password: password(name),
    }
}

fn open(folder: &tempfile::TempDir) -> Arc<Accounts> {
    Accounts::open(&folder.path().join("accounts")).unwrap()
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn names(accounts: &Accounts) -> Vec<String> {
    accounts.list().iter().map(|account| account.name.to_string()).collect()
}

/// The identity that a login would give.
fn identity(accounts: &Accounts, user: &str, peer: &Peer) -> Identity {
    let entry = accounts.candidate(user, peer).entry.unwrap();
    let account = &entry.kept.account;
    Identity {
        account: account.name.to_string(),
        user: user.to_owned(),
        peer_host: peer.host(),
        rights: account.rights,
        schemas: account.schemas.clone(),
        reads: account.reads,
        max_connections: account.max_connections,
        source_login: account.source_login.clone(),
        transport: Transport { is_secure: false, has_certificate: false },
        password: Some(entry.password_number),
    }
}

#[test]
fn accounts_come_back_as_they_were() {
    let folder = folder();
    let accounts = open(&folder);
    assert_eq!((accounts.list(), accounts.generation()), (Vec::new(), 1));
    accounts.add(new("app@10.%", "read,monitor")).unwrap();
    let schemas = Some(vec!["a".to_owned(), "Grüße".to_owned()]);
    let salted = StoredPassword::new(PasswordPlugin::CachingSha2, "secret").unwrap();
    let reads = Reads { consistency: Consistency::Bounded, staleness_ms: Some(250) };
    let more = NewAccount {
        schemas,
        requirement: Requirement::Tls,
        reads,
        max_connections: Some(7),
        password: salted,
        ..new("ümit@::1", "read")
    };
    accounts.add(more).unwrap();
    let certificate = NewAccount { requirement: Requirement::Certificate, ..new("repl", "replicate,admin") };
    accounts.add(certificate).unwrap();
    assert_eq!(accounts.generation(), 4);
    let again = open(&folder);
    assert_eq!(again.list(), accounts.list());
    assert_eq!(names(&again), ["app@10.%", "repl@%", "ümit@::1"]);
    let found = again.candidate("ümit", &tcp("::1"));
    assert!(found.stored.is(b"secret") && found.entry.is_some());
    // A name that nobody has looks the same before and after.
    assert_eq!(again.candidate("nobody", &SOCKET).stored, accounts.candidate("nobody", &SOCKET).stored);
}

#[test]
fn the_file_is_for_its_owner_only_and_replaced_whole() {
    let folder = folder();
    let path = folder.path().join("accounts");
    std::fs::write(folder.path().join("accounts.tmp"), "left by a crash").unwrap();
    let accounts = open(&folder);
    for name in ["a", "b"] {
        accounts.add(new(name, "read")).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains("\"a\":") && text.contains("\"slipstream_accounts\": 1"), "{text}");
}

#[test]
fn a_failed_write_changes_nothing() {
    let folder = folder();
    let accounts = open(&folder);
    accounts.add(new("a", "read")).unwrap();
    let generation = accounts.generation();
    // A folder in the place of the temporary file.
    std::fs::create_dir(folder.path().join("accounts.tmp")).unwrap();
    let error = accounts.add(new("b", "read")).unwrap_err();
    assert!(matches!(error, AccountsError::Io { .. }) && error.to_string().contains("accounts"), "{error}");
    assert!(accounts.remove(&"a".parse().unwrap()).is_err());
    assert_eq!((names(&accounts), accounts.generation()), (vec!["a@%".to_owned()], generation));
    std::fs::remove_dir(folder.path().join("accounts.tmp")).unwrap();
    assert_eq!(names(&open(&folder)), ["a@%"]);
}

#[test]
fn a_damaged_file_is_an_error_that_names_it() {
    let folder = folder();
    let path = folder.path().join("accounts");
    open(&folder).add(new("a", "read")).unwrap();
    let good = std::fs::read_to_string(&path).unwrap();
    let mut texts = vec![
        String::new(),
        "{}".to_owned(),
        good.replace("\"slipstream_accounts\": 1", "\"slipstream_accounts\": 2"),
        good.replace("\"read\"", "\"write\""),
        good.replace("\"all\"", "\"some\""),
        good.replace("mysql_native_password", "mysql_clear_password"),
        good.replace("\"*", "\""),
        good.replace("\"%\"", "\"\""),
        good.replace("decoy_key", "decoy_keys"),
        good.replace("\"may\":", "\"max_connections\": 0, \"may\":"),
        good.replace("\"may\":", "\"max_connections\": -1, \"may\":"),
    ];
    // Every field must be there, and the file must be whole.
    texts.extend(good.lines().filter(|line| line.contains(':')).map(|line| good.replace(line, "")));
    texts.extend((0..good.len() - 2).map(|len| good[..len].to_owned()));
    for text in texts {
        std::fs::write(&path, &text).unwrap();
        let error = Accounts::open(&path).map(|accounts| accounts.list()).unwrap_err();
        let AccountsError::Damaged { .. } = &error else { panic!("{error}: {text}") };
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    }
    std::fs::write(&path, &good).unwrap();
    assert_eq!(names(&open(&folder)), ["a@%"]);
}

#[test]
fn an_account_that_is_there_twice_is_damage() {
    let folder = folder();
    let path = folder.path().join("accounts");
    let accounts = open(&folder);
    accounts.add(new("a", "read")).unwrap();
    accounts.add(new("b", "read")).unwrap();
    let text = std::fs::read_to_string(&path).unwrap().replace("\"b\"", "\"a\"");
    std::fs::write(&path, text).unwrap();
    assert!(Accounts::open(&path).unwrap_err().to_string().contains("account a@% is there twice"));
}

#[test]
fn names_are_checked() {
    for text in ["", "@%", "a\nb@%", "a@", "a@host.name", &"x".repeat(33)] {
        assert!(text.parse::<AccountName>().is_err(), "{text}");
    }
    let name: AccountName = "a@b@10.0.0.1".parse().unwrap();
    assert_eq!((name.user.as_str(), name.host.as_str()), ("a@b", "10.0.0.1"));
    assert_eq!("ü".repeat(32).parse::<AccountName>().unwrap().host.as_str(), "%");
}

#[test]
fn what_is_not_there_or_there_already() {
    let folder = folder();
    let accounts = open(&folder);
    accounts.add(new("a", "read")).unwrap();
    assert!(matches!(accounts.add(new("a@%", "read")), Err(AccountsError::Exists { .. })));
    let other = "a@10.%".parse().unwrap();
    assert!(matches!(accounts.remove(&other), Err(AccountsError::Unknown { .. })));
    assert!(accounts.set_password(&other, password("x")).is_err());
    assert!(accounts.change(&other, AccountChange { rights: Rights::ALL, ..AccountChange::default() }).is_err());
    assert_eq!(accounts.generation(), 2);
}

#[test]
fn logins_at_the_source_have_a_file_of_their_own() {
    let folder = folder();
    let accounts = open(&folder);
    let app: AccountName = "app".parse().unwrap();
    let login = |password: &str| SourceLogin::new("shop", password).unwrap();
    assert!(accounts.add(new("app", "read,forward")).is_err(), "mysql_native_password proves too little");
    assert!(accounts.add_with(new("app", "read"), Some(login("there"))).is_err(), "a login without the right");
    accounts.add_with(new("app", "read,forward"), Some(login("there"))).unwrap();
    let peer = Peer::Tcp("10.0.0.1".parse().unwrap());
    let identity_now = || identity(&accounts, "app", &peer);
    let before = identity_now();
    assert_eq!(before.source_login.as_ref().unwrap().password(), Some("there"));
    assert!(!format!("{before:?}").contains("there"));
    // The accounts file, which a backup may hold, has neither name nor password of it.
    let text = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert!(!text("accounts").contains("there") && text("source-logins").contains("there"));
    let mode = std::fs::metadata(folder.path().join("source-logins")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(open(&folder).list(), accounts.list());
    let change = |rights: &str, login: Option<SourceLogin>| {
        let rights = rights.parse().unwrap();
        accounts.change(&app, AccountChange { rights, source_login: login, ..AccountChange::default() }).unwrap();
    };
    change("forward", None);
    assert_eq!(identity_now().source_login, before.source_login);
    change("read,forward", Some(login("other")));
    assert!(!accounts.still_valid(&before), "its sessions have the old login");
    change("read", None);
    assert_eq!(identity_now().source_login, None);
    assert!(!text("source-logins").contains("other"));
    std::fs::write(folder.path().join("source-logins"), "{\"secret").unwrap();
    let error = Accounts::open(&folder.path().join("accounts")).unwrap_err().to_string();
    assert!(error.contains("source-logins") && !error.contains("secret"), "{error}");
}

#[test]
fn a_login_at_the_source_that_cannot_be_written_changes_nothing() {
    let folder = folder();
    let accounts = open(&folder);
    let app: AccountName = "app".parse().unwrap();
    let login = |password: &str| SourceLogin::new("shop", password).unwrap();
    accounts.add_with(new("app", "forward"), Some(login("before"))).unwrap();
    let (kept, generation) = (accounts.list(), accounts.generation());
    let files = || ["accounts", "source-logins"].map(|name| std::fs::read(folder.path().join(name)).unwrap());
    let before = files();
    // In the place of the temporary file.
    std::fs::create_dir(folder.path().join("source-logins.tmp")).unwrap();
    let change = || {
        let rights = "forward".parse().unwrap();
        AccountChange { rights, source_login: Some(login("after")), ..AccountChange::default() }
    };
    let error = accounts.change(&app, change()).unwrap_err();
    assert!(error.to_string().contains("source-logins") && !error.to_string().contains("after"), "{error}");
    assert!(accounts.add_with(new("other", "forward"), Some(login("after"))).is_err());
    assert!(accounts.remove(&app).is_err());
    assert_eq!((accounts.list(), accounts.generation()), (kept.clone(), generation));
    assert_eq!((files(), open(&folder).list()), (before, kept));
    // And where the accounts cannot be written after it, what was written is not anybody's.
    std::fs::remove_dir(folder.path().join("source-logins.tmp")).unwrap();
    std::fs::create_dir(folder.path().join("accounts.tmp")).unwrap();
    assert!(accounts.add_with(new("other", "forward"), Some(login("after"))).is_err());
    assert_eq!(names(&open(&folder)), ["app@%"]);
}

#[test]
fn an_account_may_forward_by_its_own_name() {
    let folder = folder();
    let accounts = open(&folder);
    let salted = || StoredPassword::new(PasswordPlugin::CachingSha2, "secret").unwrap();
    accounts.add(NewAccount { password: salted(), ..new("app", "forward") }).unwrap();
    assert!(accounts.list().iter().all(Account::forwards_as_client));
    let app: AccountName = "app".parse().unwrap();
    let error = accounts.set_password(&app, password("native")).unwrap_err();
    assert!(error.to_string().contains("--source-login"), "{error}");
    // A session with what its client has proved ends once the account has a login of an operator's.
    let secret = wire::auth::Secret::of_password(b"secret").unwrap();
    let own = Some(Arc::new(SourceLogin::of_client("app", secret, || ())));
    let mine = Identity { source_login: own, ..identity(&accounts, "app", &SOCKET) };
    assert!(accounts.still_valid(&mine) && !format!("{mine:?}").contains("secret"));
    let login = Some(SourceLogin::new("shop", "there").unwrap());
    let rights = "forward".parse().unwrap();
    accounts.change(&app, AccountChange { rights, source_login: login, ..AccountChange::default() }).unwrap();
    assert!(!accounts.still_valid(&mine));
}

#[test]
fn schemas_must_fit_the_rights() {
    let folder = folder();
    let accounts = open(&folder);
    let some = || Some(vec!["a".to_owned()]);
    for (rights, schemas) in [
        ("monitor", some()),
        ("read,replicate", some()),
        ("read", Some(Vec::new())),
        ("read", Some(vec![String::new()])),
        ("read", Some(vec!["x".repeat(65)])),
    ] {
        let refused = accounts.add(NewAccount { schemas, ..new("a", rights) });
        assert!(matches!(refused, Err(AccountsError::Invalid(_))), "{rights}");
    }
    assert!(accounts.add(NewAccount { schemas: some(), ..new("a", "read,monitor,admin") }).is_ok());
}

#[test]
fn the_most_specific_host_decides() {
    let folder = folder();
    let accounts = open(&folder);
    for name in ["a@%", "a@10.%", "a@10.1.0.0/16", "a@10.1.2.3", "a@localhost", "b@10.1.2.3"] {
        accounts.add(new(name, "read")).unwrap();
    }
    for (peer, account) in [
        (tcp("10.1.2.3"), "a@10.1.2.3"),
        (tcp("10.1.2.4"), "a@10.1.0.0/16"),
        (tcp("10.2.2.4"), "a@10.%"),
        (tcp("fd00::1"), "a@%"),
        (SOCKET, "a@localhost"),
    ] {
        assert_eq!(identity(&accounts, "a", &peer).account, account);
    }
    accounts.remove(&"a@%".parse().unwrap()).unwrap();
    assert!(accounts.candidate("a", &tcp("fd00::1")).entry.is_none());
    assert!(accounts.candidate("A", &tcp("10.1.2.3")).entry.is_none());
    assert!(accounts.candidate("b", &SOCKET).entry.is_none());
}

#[test]
fn sessions_end_with_what_they_are_based_on() {
    let folder = folder();
    let accounts = open(&folder);
    let schemas = || Some(vec!["x".to_owned(), "y".to_owned()]);
    let name: AccountName = "a".parse().unwrap();
    let fresh = || {
        let _ = accounts.remove(&name);
        accounts.add(NewAccount { schemas: schemas(), ..new("a", "read,monitor") }).unwrap();
        identity(&accounts, "a", &SOCKET)
    };
    let rights = |text: &str| text.parse::<Rights>().unwrap();
    let change = |may: &str, schemas, requirement| {
        let change = AccountChange { rights: rights(may), schemas, requirement, ..AccountChange::default() };
        accounts.change(&name, change).unwrap()
    };

    let mine = fresh();
    accounts.add(new("other", "read")).unwrap();
    change("read,monitor,admin", None, Requirement::None);
    assert!(accounts.still_valid(&mine), "more rights");
    assert_eq!(mine.rights, rights("read,monitor"), "they count from the next login");
    change("read", None, Requirement::None);
    assert!(!accounts.still_valid(&mine), "a right less");

    let mine = fresh();
    change("read,monitor", Some(vec!["x".to_owned()]), Requirement::None);
    assert!(!accounts.still_valid(&mine), "a schema less");
    let mine = fresh();
    change("read,monitor", schemas(), Requirement::Tls);
    assert!(!accounts.still_valid(&mine), "TLS required");

    let mine = fresh();
    accounts.set_password(&name, password("a")).unwrap();
    assert!(!accounts.still_valid(&mine), "a new password, even if it is the old one");

    let mine = fresh();
    accounts.remove(&name).unwrap();
    assert!(!accounts.still_valid(&mine), "removed");
    let again = fresh();
    assert!(!accounts.still_valid(&mine) && accounts.still_valid(&again), "another account of the same name");
}

#[test]
fn an_account_for_everything_cut_to_some_schemas_ends() {
    let folder = folder();
    let accounts = open(&folder);
    accounts.add(new("a", "read")).unwrap();
    let mine = identity(&accounts, "a", &SOCKET);
    let schemas = Some(vec!["x".to_owned()]);
    accounts
        .change(&"a".parse().unwrap(), AccountChange { rights: mine.rights, schemas, ..AccountChange::default() })
        .unwrap();
    assert!(!accounts.still_valid(&mine));
}

#[test]
fn what_may_be_read() {
    let folder = folder();
    let accounts = open(&folder);
    accounts.add(NewAccount { schemas: Some(vec!["x".to_owned()]), ..new("some", "read") }).unwrap();
    accounts.add(new("all", "read")).unwrap();
    accounts.add(new("none", "monitor")).unwrap();
    let may = |user: &str, schema: &str| identity(&accounts, user, &SOCKET).may_read(schema);
    assert!(may("some", "x") && !may("some", "X") && !may("some", "y"));
    assert!(may("all", "x") && !may("none", "x"));
    let grants = identity(&accounts, "some", &SOCKET).grants();
    assert_eq!(grants, accounts.grants(&"some".parse().unwrap()).unwrap());
    assert_eq!(grants.len(), 2);
    assert!(accounts.grants(&"nobody".parse().unwrap()).is_none());
}

#[test]
fn changes_from_many_threads_are_all_kept() {
    let folder = folder();
    let accounts = open(&folder);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let accounts = &accounts;
            scope.spawn(move || (0..5).for_each(|n| accounts.add(new(&format!("u{thread}{n}"), "read")).unwrap()));
        }
    });
    assert_eq!((open(&folder).list().len(), accounts.generation()), (20, 21));
}
