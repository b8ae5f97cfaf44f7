//! The login against this project's own client half, packet by packet.

use proptest::prelude::*;
use wire::auth::{AuthOptions, AuthStep, Authenticator};
use wire::handshake::{FirstPacket, Greeting};

use super::*;
use crate::AccountChange;
use crate::accounts::NewAccount;
use crate::password::StoredPassword;
use crate::rights::Requirement;

const SEED: [u8; 20] = [5; 20];
const SOCKET: Peer = Peer::Socket { uid: 1000 };
const OFFERED: u32 = capability::SESSION_TRACK | capability::DEPRECATE_EOF;
const TLS: TlsPeer = TlsPeer { has_certificate: false };

fn tcp() -> Peer {
    Peer::Tcp([10, 0, 0, 1].into())
}

struct Bed {
    accounts: Arc<Accounts>,
    guard: Arc<LoginGuard>,
    _folder: Option<tempfile::TempDir>,
}

/// Account `app` with password `secret`, `old` with mysql_native_password, `tls` that requires TLS.
fn bed() -> Bed {
    let folder = tempfile::tempdir().unwrap();
    let accounts = Accounts::open(&folder.path().join("accounts")).unwrap();
    let add = |user: &str, plugin, requirement| {
        let password = StoredPassword::new(plugin, "secret").unwrap();
        let (name, rights) = (user.parse().unwrap(), "read".parse().unwrap());
        accounts
            .add(NewAccount {
                name,
                rights,
                schemas: None,
                requirement,
                reads: Default::default(),
                max_connections: None,
                password,
            })
            .unwrap();
    };
    add("app", PasswordPlugin::CachingSha2, Requirement::None);
    add("old", PasswordPlugin::Native, Requirement::None);
    add("tls", PasswordPlugin::CachingSha2, Requirement::Tls);
    add("cert", PasswordPlugin::CachingSha2, Requirement::Certificate);
    Bed { accounts, guard: Arc::default(), _folder: Some(folder) }
}

fn rules() -> LoginRules {
    LoginRules { require_secure_transport: false, offers_tls: true, socket_admin: Some(1000), capabilities: OFFERED }
}

/// What a login came to, and what was to be seen of it on the way.
#[derive(Debug, PartialEq)]
struct Seen {
    /// Payloads to the client after the greeting, without nonces.
    sent: Vec<Vec<u8>>,
    hashed: u32,
    waits: Vec<Duration>,
    end: End,
}

#[derive(Debug, PartialEq)]
enum End {
    In(Box<Accepted>),
    Out(ServerError),
    /// The client itself gave up.
    GivenUp(String),
}

impl Seen {
    fn account(&self) -> &str {
        match &self.end {
            End::In(accepted) => &accepted.identity.account,
            other => panic!("{other:?}"),
        }
    }

    fn refusal(&self) -> &ServerError {
        match &self.end {
            End::Out(error) => error,
            other => panic!("{other:?}"),
        }
    }
}

impl Bed {
    fn login(&self, peer: Peer, rules: LoginRules) -> Login {
        Login::new(Arc::clone(&self.accounts), Arc::clone(&self.guard), peer, rules, [0; 20])
    }

    /// Logs in as our own client does.
    fn enter(&self, peer: Peer, tls: Option<&TlsPeer>, user: &str, password: &str) -> Seen {
        self.enter_by(rules(), peer, tls, user, password, "caching_sha2_password")
    }

    fn enter_by(
        &self,
        rules: LoginRules,
        peer: Peer,
        tls: Option<&TlsPeer>,
        user: &str,
        password: &str,
        plugin: &str,
    ) -> Seen {
        let mut login = self.login(peer, rules);
        let greeting = greeting(&login);
        let mut client = client(password, plugin, &greeting, tls.is_some() || peer == SOCKET);
        let mut seen = Seen { sent: Vec::new(), hashed: 0, waits: Vec::new(), end: End::GivenUp(String::new()) };
        if tls.is_some() {
            let step = login.packet(&tls_request(), None);
            assert!(matches!(step, LoginStep::StartTls), "{step:?}");
        }
        let first = packet(user, &client.first_response(&SEED).unwrap(), client.plugin().name(), "shop");
        let step = login.packet(&first, tls);
        seen.end = follow(&mut login, step, &mut client, tls, &mut seen);
        seen
    }
}

fn greeting(login: &Login) -> Greeting {
    match Greeting::parse(&login.greeting("9.7.4-slipstream", 7)).unwrap() {
        FirstPacket::Greeting(greeting) => greeting,
        FirstPacket::Refused(error) => panic!("{error:?}"),
    }
}

fn client(password: &str, plugin: &str, greeting: &Greeting, is_secure: bool) -> Authenticator {
    let options = AuthOptions {
        password: password.to_owned(),
        secure_transport: is_secure,
        server_public_key: None,
        get_server_public_key: true,
    };
    Authenticator::new(options, plugin, &greeting.nonce)
}

const CLIENT_CAPABILITIES: u32 = NEEDED | capability::DEPRECATE_EOF | capability::QUERY_ATTRIBUTES;

fn packet(user: &str, answer: &[u8], plugin: &str, schema: &str) -> Vec<u8> {
    let login = wire::handshake::Login {
        capabilities: CLIENT_CAPABILITIES,
        collation: 45,
        user,
        auth_response: answer,
        database: schema,
        auth_plugin: plugin,
        attributes: &[("program_name", "tests")],
    };
    let mut out = Vec::new();
    login.write(&mut out);
    out
}

fn tls_request() -> Vec<u8> {
    let mut out = packet("", b"", "", "");
    out.truncate(32);
    out[1] |= 0x08;
    out
}

/// Steps both sides until one of them ends it.
fn follow(
    login: &mut Login,
    mut step: LoginStep,
    client: &mut Authenticator,
    tls: Option<&TlsPeer>,
    seen: &mut Seen,
) -> End {
    loop {
        step = match step {
            LoginStep::Send(payload) => {
                seen.sent.push(payload[..payload.len().min(20)].to_vec());
                match client.step(&payload, &SEED) {
                    Ok(AuthStep::Send(answer)) => login.packet(&answer, tls),
                    other => return End::GivenUp(format!("{other:?}")),
                }
            }
            LoginStep::Work(work) => {
                seen.hashed += 1;
                login.worked(work.run())
            }
            LoginStep::Wait(delay) => {
                seen.waits.push(delay);
                login.waited()
            }
            LoginStep::Accepted(accepted) => {
                if let Some(before_ok) = &accepted.before_ok {
                    assert_eq!(client.step(before_ok, &SEED), Ok(AuthStep::Read));
                }
                return End::In(accepted);
            }
            LoginStep::Refused(error) => return End::Out(error),
            LoginStep::StartTls => panic!("TLS again"),
        }
    }
}

#[test]
fn the_first_login_is_full_and_the_next_fast() {
    let bed = bed();
    let full = bed.enter(tcp(), Some(&TLS), "app", "secret");
    assert_eq!((full.account(), full.hashed, &full.sent), ("app@%", 1, &vec![vec![1, 4]]));
    let fast = bed.enter(tcp(), Some(&TLS), "app", "secret");
    assert_eq!((fast.account(), fast.hashed, fast.sent.len()), ("app@%", 0, 0));
    let End::In(accepted) = fast.end else { panic!() };
    assert_eq!(accepted.before_ok, Some(vec![1, 3]));
    // And from anywhere, without TLS.
    assert_eq!(bed.enter(tcp(), None, "app", "secret").hashed, 0);
    assert_eq!(bed.enter(SOCKET, None, "app", "secret").account(), "app@%");
    assert!(bed.enter(tcp(), Some(&TLS), "app", "Secret").refusal().number == 1045);
}

#[test]
fn a_new_password_makes_the_next_login_full_again() {
    let bed = bed();
    bed.enter(SOCKET, None, "app", "secret").account();
    let other = StoredPassword::new(PasswordPlugin::CachingSha2, "other").unwrap();
    bed.accounts.set_password(&"app".parse().unwrap(), other).unwrap();
    assert_eq!(bed.enter(SOCKET, None, "app", "secret").refusal().number, 1045);
    assert_eq!(bed.enter(SOCKET, None, "app", "other").hashed, 1);
    // A change of rights keeps what was seen.
    let change = AccountChange { rights: Rights::ALL, ..AccountChange::default() };
    bed.accounts.change(&"app".parse().unwrap(), change).unwrap();
    assert_eq!(bed.enter(tcp(), None, "app", "other").hashed, 0);
}

#[test]
fn without_tls_a_full_login_is_refused_with_advice() {
    let bed = bed();
    for (user, password) in [("app", "secret"), ("app", "wrong"), ("nobody", "secret")] {
        // `nobody` may look like an account of either plugin.
        if bed.accounts.candidate(user, &tcp()).stored.plugin() == PasswordPlugin::Native {
            continue;
        }
        let seen = bed.enter(tcp(), None, user, password);
        let error = seen.refusal();
        assert_eq!((error.number, error.sqlstate, seen.sent.len()), (1045, "28000", 0));
        let start = format!("Access denied for user '{user}'@'10.0.0.1' (using password: YES); without TLS");
        assert!(error.text.starts_with(&start) && error.text.contains("--ssl-mode=REQUIRED"), "{}", error.text);
    }
}

#[test]
fn a_request_for_a_key_is_refused_with_the_same_advice() {
    let bed = bed();
    let mut login = bed.login(tcp(), rules());
    let LoginStep::Refused(error) = login.packet(&packet("app", &[2], "caching_sha2_password", ""), None) else {
        panic!()
    };
    assert!(error.text.contains("log in once with TLS"), "{}", error.text);
    // The same where the password was asked for.
    let mut login = bed.login(SOCKET, rules());
    let step = login.packet(&packet("app", &[7; 32], "caching_sha2_password", ""), None);
    assert!(matches!(step, LoginStep::Send(_)));
    let LoginStep::Refused(error) = login.packet(&[2], None) else { panic!() };
    assert!(error.text.contains("log in once with TLS"), "{}", error.text);
}

#[test]
fn native_passwords_log_in_anywhere() {
    let bed = bed();
    for plugin in ["caching_sha2_password", "mysql_native_password", "sha256_password"] {
        let seen = bed.enter_by(rules(), tcp(), None, "old", "secret", plugin);
        assert_eq!((seen.account(), seen.hashed), ("old@%", 0), "{plugin}");
        assert_eq!(seen.sent.len(), usize::from(plugin != "mysql_native_password"));
        let wrong = bed.enter_by(rules(), tcp(), None, "old", "wrong", plugin);
        assert_eq!(wrong.refusal().text, "Access denied for user 'old'@'10.0.0.1' (using password: YES)");
    }
    assert_eq!(bed.enter_by(rules(), SOCKET, None, "app", "secret", "mysql_native_password").account(), "app@%");
}

#[test]
fn no_password_is_never_right() {
    let bed = bed();
    for user in ["app", "old", "nobody"] {
        for (peer, tls) in [(tcp(), None), (tcp(), Some(&TLS)), (SOCKET, None)] {
            let seen = bed.enter(peer, tls, user, "");
            let text = format!("Access denied for user '{user}'@'{}' (using password: NO)", peer.host());
            assert_eq!((seen.refusal().text.as_str(), seen.hashed), (text.as_str(), 0));
        }
    }
}

#[test]
fn an_unknown_name_is_seen_as_a_wrong_password_is() {
    let bed = bed();
    bed.enter(SOCKET, None, "app", "secret").account();
    let mut kinds = std::collections::HashMap::new();
    for number in 0..40 {
        let user = format!("u{number:02}");
        let plugin = bed.accounts.candidate(&user, &tcp()).stored.plugin();
        *kinds.entry(plugin.name()).or_insert(0) += 1;
        let model = if plugin == PasswordPlugin::Native { "old" } else { "app" };
        for (peer, tls) in [(tcp(), None), (tcp(), Some(&TLS)), (SOCKET, None)] {
            for password in ["wrong", "secret", ""] {
                let unknown = bed.enter(peer, tls, &user, password);
                bed.guard.succeeded(&user, &peer);
                let known = bed.enter(peer, tls, model, if password.is_empty() { "" } else { "wrong" });
                bed.guard.succeeded(model, &peer);
                assert_eq!((&unknown.sent, unknown.hashed), (&known.sent, known.hashed), "{user} {peer:?} {tls:?}");
                let same = unknown.refusal().text.replace(&user, model);
                assert_eq!((unknown.refusal().number, same), (known.refusal().number, known.refusal().text.clone()));
            }
        }
    }
    // One account of four has mysql_native_password.
    assert!(kinds["caching_sha2_password"] > kinds["mysql_native_password"], "{kinds:?}");
}

#[test]
fn what_an_account_requires_looks_like_a_wrong_password() {
    let bed = bed();
    for user in ["tls", "cert"] {
        let with_certificate = TlsPeer { has_certificate: true };
        assert_eq!(bed.enter(tcp(), Some(&with_certificate), user, "secret").account(), format!("{user}@%"));
        // The password is known now, and yet nothing is to be seen of it.
        let seen = bed.enter(tcp(), None, user, "secret");
        assert_eq!((&seen.sent, seen.refusal()), (&Vec::new(), bed.enter(tcp(), None, user, "wrong").refusal()));
    }
    assert_eq!(bed.enter(tcp(), Some(&TLS), "tls", "secret").account(), "tls@%");
    assert_eq!(bed.enter(SOCKET, None, "tls", "secret").account(), "tls@%");
    let seen = bed.enter(tcp(), Some(&TLS), "cert", "secret");
    assert_eq!((seen.hashed, seen.refusal().number, &seen.sent), (1, 1045, &vec![vec![1, 4]]));
    assert_eq!(bed.enter(SOCKET, None, "cert", "secret").refusal().number, 1045);
}

#[test]
fn insecure_transport_is_refused_before_anything_is_checked() {
    let bed = bed();
    let strict = LoginRules { require_secure_transport: true, ..rules() };
    let enter = |peer, tls| bed.enter_by(strict, peer, tls, "old", "wrong", "mysql_native_password");
    let refused = enter(tcp(), None);
    assert_eq!((refused.refusal().number, refused.refusal().sqlstate), (3159, "HY000"));
    assert_eq!(bed.guard.failures("old", &tcp()), 0);
    assert_eq!(enter(tcp(), Some(&TLS)).refusal().number, 1045);
    assert_eq!(enter(SOCKET, None).refusal().number, 1045);
}

#[test]
fn the_owner_of_the_process_needs_no_password_over_the_socket() {
    let bed = bed();
    for password in ["", "anything"] {
        let seen = bed.enter(SOCKET, None, "admin", password);
        let End::In(accepted) = seen.end else { panic!("{seen:?}") };
        assert_eq!((accepted.identity.account.as_str(), accepted.identity.rights), ("admin@localhost", Rights::ALL));
        assert!(bed.accounts.still_valid(&accepted.identity));
    }
    let off = LoginRules { socket_admin: None, ..rules() };
    for (rules, peer, user) in [
        (rules(), Peer::Socket { uid: 1001 }, "admin"),
        (rules(), Peer::Socket { uid: 0 }, "admin"),
        (rules(), tcp(), "admin"),
        (rules(), SOCKET, "Admin"),
        (rules(), SOCKET, "app"),
        (off, SOCKET, "admin"),
    ] {
        let seen = bed.enter_by(rules, peer, None, user, "", "caching_sha2_password");
        assert_eq!(seen.refusal().number, 1045, "{rules:?} {peer:?} {user}");
    }
}

#[test]
fn the_tenth_wrong_password_and_all_after_it_are_held_back() {
    let bed = bed();
    let waits = |password: &str| bed.enter(tcp(), Some(&TLS), "app", password).waits;
    for _ in 0..9 {
        assert_eq!(waits("wrong"), []);
    }
    assert_eq!(waits("wrong"), [Duration::from_secs(1)]);
    assert_eq!(waits("wrong"), [Duration::from_secs(2)]);
    // A right one waits too, and then all is forgotten.
    assert_eq!(waits("secret"), [Duration::from_secs(4)]);
    assert_eq!(waits("wrong"), []);
    assert_eq!(bed.guard.failures("app", &tcp()), 1);
}

/// Found by an operator: after each restart an agent without TLS locked its account out with the right password.
#[test]
fn a_password_that_could_not_be_checked_is_no_wrong_one() {
    let bed = bed();
    for _ in 0..30 {
        assert!(bed.enter(tcp(), None, "app", "secret").refusal().text.contains("without TLS"));
    }
    assert_eq!((bed.guard.failures("app", &tcp()), bed.enter(tcp(), Some(&TLS), "app", "secret").waits), (0, vec![]));
    // From now on it can be checked, and a guess counts.
    assert_eq!(bed.enter(tcp(), None, "app", "secret").account(), "app@%");
    assert!(bed.enter(tcp(), None, "app", "wrong").refusal().text.contains("without TLS"));
    assert_eq!(bed.guard.failures("app", &tcp()), 1);
    // Unknown names look like the one or the other, each always the same.
    let fails = |user: &str| {
        (0..3).for_each(|_| _ = bed.enter(tcp(), None, user, "secret"));
        bed.guard.failures(user, &tcp())
    };
    let is_decoy = |user: &String| bed.accounts.candidate(user, &tcp()).stored.plugin() == PasswordPlugin::CachingSha2;
    let counts: Vec<u32> =
        (0..60).map(|number| format!("nobody{number}")).filter(is_decoy).map(|user| fails(&user)).collect();
    assert!(
        counts.contains(&0) && counts.contains(&3) && counts.iter().all(|count| [0, 3].contains(count)),
        "{counts:?}"
    );
}

#[test]
fn how_many_wrong_passwords_there_were_is_told() {
    let bed = bed();
    for expected in 1..4 {
        let mut login = bed.login(tcp(), rules());
        let step = login.packet(&packet("old", &[7; 20], "mysql_native_password", ""), None);
        assert!(matches!(step, LoginStep::Refused(_)) && login.wrong_passwords() == expected);
    }
}

#[test]
fn a_probe_is_no_wrong_password_but_a_guess_left_in_the_middle_is() {
    let bed = bed();
    let count = || bed.guard.failures("app", &tcp());
    drop(bed.login(tcp(), rules()));
    let mut login = bed.login(tcp(), rules());
    assert!(matches!(login.packet(&tls_request(), None), LoginStep::StartTls));
    drop(login);
    let mut login = bed.login(tcp(), rules());
    assert!(matches!(login.packet(b"", None), LoginStep::Refused(_)));
    drop(login);
    let mut login = bed.login(tcp(), rules());
    let _ = login.packet(&packet("app", b"", "mysql_native_password", ""), None);
    drop(login);
    assert_eq!(count(), 0);
    // The request for the password says that the answer was wrong.
    let mut login = bed.login(tcp(), rules());
    let _ = login.packet(&tls_request(), None);
    let step = login.packet(&packet("app", &[7; 32], "caching_sha2_password", ""), Some(&TLS));
    assert!(matches!(step, LoginStep::Send(_)));
    drop(login);
    assert_eq!(count(), 1);
}

#[test]
fn an_account_changed_during_the_login_is_not_let_in() {
    let bed = bed();
    let mut login = bed.login(SOCKET, rules());
    let _ = login.packet(&packet("app", &[7; 32], "caching_sha2_password", ""), None);
    let LoginStep::Work(work) = login.packet(b"secret\0", None) else { panic!() };
    bed.accounts.remove(&"app".parse().unwrap()).unwrap();
    assert!(matches!(login.worked(work.run()), LoginStep::Refused(error) if error.number == 1045));
}

#[test]
fn what_a_client_asks_for_its_session() {
    let bed = bed();
    bed.enter(SOCKET, None, "app", "secret").account();
    let End::In(accepted) = bed.enter(tcp(), None, "app", "secret").end else { panic!() };
    let start = &accepted.start;
    assert_eq!(start.capabilities, NEEDED | capability::DEPRECATE_EOF, "what both have");
    assert_eq!((start.schema.as_deref(), start.collation), (Some("shop"), 45));
    assert_eq!(start.attributes, [("program_name".to_owned(), "tests".to_owned())]);
    assert_eq!(accepted.identity.peer_host, "10.0.0.1");
}

#[test]
fn the_greeting_offers_what_a_login_needs() {
    let bed = bed();
    let greeting = greeting(&bed.login(tcp(), rules()));
    assert_eq!(greeting.capabilities, OFFERED | NEEDED | capability::SSL);
    assert_eq!((greeting.connection_id, greeting.auth_plugin.as_str()), (7, "caching_sha2_password"));
    let plain = LoginRules { offers_tls: false, ..rules() };
    let mut login = bed.login(tcp(), plain);
    assert_eq!(self::greeting(&login).capabilities & capability::SSL, 0);
    assert!(matches!(login.packet(&tls_request(), None), LoginStep::Refused(error) if error.number == 1043));
}

#[test]
fn packets_out_of_place_are_a_bad_handshake() {
    let bed = bed();
    let first = packet("app", &[7; 32], "caching_sha2_password", "");
    let bad = |step: LoginStep| assert!(matches!(step, LoginStep::Refused(error) if error.number == 1043));
    let mut login = bed.login(tcp(), rules());
    bad(login.packet(&first[..31], None));
    bad(login.packet(&first, None));
    let mut login = bed.login(tcp(), rules());
    assert!(matches!(login.packet(&tls_request(), None), LoginStep::StartTls));
    bad(login.packet(&first, None));
    let mut login = bed.login(tcp(), rules());
    assert!(matches!(login.packet(&tls_request(), None), LoginStep::StartTls));
    bad(login.packet(&tls_request(), Some(&TLS)));
    bad(bed.login(tcp(), rules()).packet(&packet("app", b"", "", &"x".repeat(257)), None));
    bad(bed.login(tcp(), rules()).waited());
}

#[test]
fn a_client_that_knows_no_other_plugin_is_told_so() {
    let bed = bed();
    let mut first = packet("app", &[7; 20], "", "");
    let capabilities = CLIENT_CAPABILITIES & !(capability::PLUGIN_AUTH | capability::CONNECT_ATTRS);
    first[..4].copy_from_slice(&capabilities.to_le_bytes());
    let step = bed.login(tcp(), rules()).packet(&first, None);
    assert!(matches!(step, LoginStep::Refused(error) if error.number == 1251 && error.sqlstate == "08004"));
}

#[test]
fn a_name_too_long_is_unknown_and_shown_short() {
    let bed = bed();
    let seen = bed.enter(SOCKET, None, &"x".repeat(200), "secret");
    let text = format!("Access denied for user '{}'@'localhost' (using password: YES)", "x".repeat(32));
    assert_eq!(seen.refusal().text, text);
}

fn change(user: &str, schema: &str) -> Vec<u8> {
    let mut out = vec![wire::command::CHANGE_USER];
    out.extend_from_slice(user.as_bytes());
    out.extend_from_slice(b"\0\x03abc");
    out.extend_from_slice(schema.as_bytes());
    out.extend_from_slice(b"\0\xff\0caching_sha2_password\0\0");
    out
}

#[test]
fn a_change_of_the_user_is_a_login_with_a_nonce_of_its_own() {
    let bed = bed();
    let End::In(before) = bed.enter(SOCKET, None, "old", "secret").end else { panic!() };
    for (user, password, account) in
        [("app", "secret", Some("app@%")), ("old", "secret", Some("old@%")), ("app", "x", None)]
    {
        let mut login = bed.login(SOCKET, rules());
        let mut client = client(password, "caching_sha2_password", &greeting(&bed.login(SOCKET, rules())), true);
        let mut seen = Seen { sent: Vec::new(), hashed: 0, waits: Vec::new(), end: End::GivenUp(String::new()) };
        let step = login.change_user(&change(user, "other"), &before.start, None);
        match (follow(&mut login, step, &mut client, None, &mut seen), account) {
            (End::In(accepted), Some(account)) => {
                assert_eq!(accepted.identity.account, account);
                assert_eq!((accepted.start.schema.as_deref(), accepted.start.collation), (Some("other"), 255));
                assert_eq!(accepted.start.capabilities, before.start.capabilities);
            }
            (End::Out(error), None) => assert_eq!(error.number, 1045),
            other => panic!("{other:?}"),
        }
        assert_eq!(seen.sent[0][0], 0xfe);
    }
    let bad = bed.login(SOCKET, rules()).change_user(b"\x11app", &before.start, None);
    assert!(matches!(bad, LoginStep::Refused(error) if error.number == 1047));
}

#[test]
fn debug_texts_hold_no_password() {
    let bed = bed();
    let mut login = bed.login(SOCKET, rules());
    let _ = login.packet(&packet("app", &[7; 32], "caching_sha2_password", ""), None);
    let LoginStep::Work(work) = login.packet(b"geheim\0", None) else { panic!() };
    let bytes = format!("{:?}", b"geheim").replace(['[', ']'], "");
    let text = format!("{work:?} {login:?} {:?}", bed.accounts);
    assert!(!text.contains("geheim") && !text.contains(&bytes), "{text}");
}

proptest! {
    /// Any packets give steps and errors, never a panic, and nobody gets in with them.
    #[test]
    fn any_packets_are_survived(
        packets in prop::collection::vec((0u8..5, prop::collection::vec(any::<u8>(), 0..80), any::<bool>()), 1..6),
        socket: bool,
        at in 0usize..60,
        with: u8,
    ) {
        static ACCOUNTS: std::sync::LazyLock<Bed> = std::sync::LazyLock::new(bed);
        let bed = Bed { accounts: Arc::clone(&ACCOUNTS.accounts), guard: Arc::default(), _folder: None };
        let peer = if socket { Peer::Socket { uid: 1 } } else { tcp() };
        let mut login = bed.login(peer, rules());
        for (kind, bytes, tls) in packets {
            let payload = match kind {
                0 => bytes,
                1 => tls_request(),
                2 => packet("app", &bytes, "caching_sha2_password", ""),
                3 => packet("old", &bytes, "mysql_native_password", "x"),
                _ => {
                    let mut payload = packet("tls", &bytes, "caching_sha2_password", "x");
                    payload[at] = with;
                    payload
                }
            };
            match login.packet(&payload, tls.then_some(&TLS)) {
                LoginStep::Work(work) => prop_assert!(matches!(login.worked(work.run()), LoginStep::Refused(_))),
                LoginStep::Accepted(accepted) => prop_assert!(false, "{accepted:?}"),
                _ => {}
            }
        }
        let _ = bed.login(peer, rules()).change_user(&change("app", "x")[..at.min(20)], &SessionStart::default(), None);
    }
}
