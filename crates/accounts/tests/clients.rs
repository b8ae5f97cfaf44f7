//! Logins of clients over real connections: of this project's own client always, of MySQL's with
//! SLIPSTREAM_TEST_SERVER=1.

use crate::support;

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use client::{ClientError, ConnectOptions, Connection, SslMode};
use support::{LoginServer, certificate};
use testkit::{Ran, servers};

/// How a client connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Plain,
    Tls,
    Socket,
}

const WAYS: [Way; 3] = [Way::Plain, Way::Tls, Way::Socket];

impl LoginServer {
    fn options(&self, way: Way, user: &str, password: &str) -> ConnectOptions {
        ConnectOptions {
            port: self.port,
            user: user.to_owned(),
            password: Some(password.to_owned()),
            socket: (way == Way::Socket).then(|| self.socket.clone()),
            ssl_mode: if way == Way::Tls { SslMode::Required } else { SslMode::Disabled },
            database: Some("shop".to_owned()),
            ..ConnectOptions::default()
        }
    }

    /// Who our own client is, or the server's error.
    fn own(&self, options: &ConnectOptions) -> Result<String, (u16, String)> {
        match Connection::connect(options) {
            Ok(mut connection) => Ok(connection.query_value("SELECT 1").unwrap().unwrap()),
            Err(ClientError::Server { code, message, .. }) => Err((code, message)),
            Err(other) => panic!("{other}"),
        }
    }

    /// Who MySQL's client is, or what it prints.
    fn mysql(&self, way: Way, user: &str, password: &str, more: &[&str]) -> Result<String, String> {
        let mut command = testkit::server::mysql_client();
        command.args(["--batch", "--skip-column-names", "--user", user]).arg(format!("--password={password}"));
        match way {
            Way::Socket => command.arg("--socket").arg(&self.socket),
            _ => command.args(["--host=127.0.0.1", "--protocol=tcp"]).arg(format!("--port={}", self.port)),
        };
        command.arg(if way == Way::Tls { "--ssl-mode=REQUIRED" } else { "--ssl-mode=DISABLED" });
        let ran = Ran::from(command.args(more).args(["-e", "SELECT 1", "shop"]).output().unwrap());
        if ran.code == 0 { Ok(ran.out.trim().to_owned()) } else { Err(ran.err) }
    }

    fn hashed(&self) -> u64 {
        self.hashed.load(SeqCst)
    }
}

fn seen(way: Way, user: &str) -> String {
    format!("{user}@% {} shop", if way == Way::Tls { "TLSv1_3" } else { "plain" })
}

#[test]
fn our_client_logs_in_fast_after_a_full_login() {
    // Another server: the client itself does not try a refused password again.
    let unseen = LoginServer::start(|_| {});
    let (code, text) = unseen.own(&unseen.options(Way::Plain, "app", "secret")).unwrap_err();
    assert_eq!(code, 1045);
    assert!(text.starts_with("Access denied for user 'app'@'127.0.0.1' (using password: YES); without TLS"), "{text}");
    let server = LoginServer::start(|_| {});
    for (way, hashed) in [(Way::Tls, 1), (Way::Plain, 1), (Way::Socket, 1), (Way::Tls, 1)] {
        assert_eq!(server.own(&server.options(way, "app", "secret")), Ok(seen(way, "app")));
        assert_eq!(server.hashed(), hashed, "{way:?}");
    }
}

#[test]
fn our_client_is_refused_with_a_wrong_password() {
    let server = LoginServer::start(|_| {});
    for way in WAYS {
        for user in ["app", "old", "nobody", "tls", "cert"] {
            let (code, text) = server.own(&server.options(way, user, "wrong")).unwrap_err();
            let host = if way == Way::Socket { "localhost" } else { "127.0.0.1" };
            let start = format!("Access denied for user '{user}'@'{host}' (using password: YES)");
            assert!(code == 1045 && text.starts_with(&start), "{way:?}: {text}");
        }
    }
    // Without TLS nothing was checked: its password has not been seen.
    assert_eq!(server.guard.failures("app", &accounts::Peer::Tcp([127, 0, 0, 1].into())), 1);
    assert_eq!(server.guard.failures("app", &accounts::Peer::Socket { uid: support::own_uid() }), 1);
}

#[test]
fn our_client_logs_in_by_mysql_native_password() {
    let server = LoginServer::start(|_| {});
    for way in WAYS {
        assert_eq!(server.own(&server.options(way, "old", "secret")), Ok(seen(way, "old")));
    }
    assert_eq!(server.hashed(), 0);
}

#[test]
fn our_client_verifies_the_certificate_and_shows_its_own() {
    let server = LoginServer::start(|_| {});
    let with = |user: &str, who: Option<&str>| {
        let file = |kind: &str| who.map(|who| certificate(&format!("{who}-{kind}.pem")));
        let ssl_mode = SslMode::VerifyIdentity;
        let ssl_ca = Some(server.certificate());
        let (ssl_cert, ssl_key) = (file("cert"), file("key"));
        ConnectOptions { ssl_mode, ssl_ca, ssl_cert, ssl_key, ..server.options(Way::Tls, user, "secret") }
    };
    assert_eq!(server.own(&with("tls", None)), Ok(seen(Way::Tls, "tls")));
    assert_eq!(server.own(&with("cert", Some("friend"))), Ok(seen(Way::Tls, "cert")));
    assert_eq!(server.own(&with("cert", None)).unwrap_err().0, 1045);
    assert!(Connection::connect(&with("tls", Some("stranger"))).is_err());
}

#[test]
fn our_client_is_told_of_insecure_transport() {
    let server = LoginServer::start(|rules| rules.require_secure_transport = true);
    let (code, text) = server.own(&server.options(Way::Plain, "old", "secret")).unwrap_err();
    assert_eq!(
        (code, text.as_str()),
        (3159, "Connections using insecure transport are prohibited while --require_secure_transport=ON.")
    );
    assert_eq!(server.own(&server.options(Way::Tls, "old", "secret")), Ok(seen(Way::Tls, "old")));
    assert_eq!(server.own(&server.options(Way::Socket, "old", "secret")), Ok(seen(Way::Socket, "old")));
}

#[test]
fn our_client_waits_from_the_tenth_wrong_password_on() {
    let server = LoginServer::start(|_| {});
    // The client itself does not try a refused password again, so each is another one.
    for number in 0..12 {
        let options = server.options(Way::Tls, "app", &format!("wrong{number}"));
        assert_eq!(server.own(&options).unwrap_err().0, 1045);
    }
    assert_eq!(*server.waits.lock().unwrap(), [1, 2, 4].map(Duration::from_secs));
    assert!(server.own(&server.options(Way::Tls, "app", "secret")).is_ok());
    assert!(server.own(&server.options(Way::Tls, "app", "secret")).is_ok());
    assert_eq!(*server.waits.lock().unwrap(), [1, 2, 4, 8].map(Duration::from_secs));
}

#[test]
fn mysql_logs_in_fast_after_a_full_login() {
    if !servers() {
        return;
    }
    let server = LoginServer::start(|_| {});
    let refused = server.mysql(Way::Plain, "app", "secret", &[]).unwrap_err();
    let text = "ERROR 1045 (28000): Access denied for user 'app'@'127.0.0.1' (using password: YES); without TLS only a \
                password that this server has seen can be checked: log in once with TLS";
    assert!(refused.contains(text), "{refused}");
    // A client that would encrypt the password with the server's key is told the same.
    let refused = server.mysql(Way::Plain, "app", "secret", &["--get-server-public-key"]).unwrap_err();
    assert!(refused.contains(text), "{refused}");
    for (way, hashed) in [(Way::Tls, 1), (Way::Plain, 1), (Way::Socket, 1), (Way::Tls, 1)] {
        assert_eq!(server.mysql(way, "app", "secret", &[]), Ok(seen(way, "app")));
        assert_eq!(server.hashed(), hashed, "{way:?}");
    }
    let full_over_the_socket = LoginServer::start(|_| {});
    assert_eq!(full_over_the_socket.mysql(Way::Socket, "app", "secret", &[]), Ok(seen(Way::Socket, "app")));
    assert_eq!(full_over_the_socket.hashed(), 1);
}

#[test]
fn mysql_is_refused_as_by_mysql() {
    if !servers() {
        return;
    }
    let server = LoginServer::start(|_| {});
    for (way, user, password) in [
        (Way::Tls, "app", "wrong"),
        (Way::Socket, "app", "wrong"),
        (Way::Tls, "nobody", "secret"),
        (Way::Tls, "app", ""),
        (Way::Plain, "app", ""),
        (Way::Tls, "cert", "secret"),
    ] {
        let refused = server.mysql(way, user, password, &[]).unwrap_err();
        let host = if way == Way::Socket { "localhost" } else { "127.0.0.1" };
        let with = if password.is_empty() { "NO" } else { "YES" };
        let text = format!("ERROR 1045 (28000): Access denied for user '{user}'@'{host}' (using password: {with})\n");
        // A client without the plugin of the account says so itself.
        assert!(refused.contains(&text) || refused.contains("mysql_native_password"), "{way:?} {user}: {refused}");
    }
    let strict = LoginServer::start(|rules| rules.require_secure_transport = true);
    let refused = strict.mysql(Way::Plain, "app", "secret", &[]).unwrap_err();
    assert!(refused.contains("ERROR 3159 (HY000): Connections using insecure transport are prohibited"), "{refused}");
    assert_eq!(strict.mysql(Way::Socket, "app", "secret", &[]), Ok(seen(Way::Socket, "app")));
}

#[test]
fn mysql_uses_both_versions_of_tls_and_certificates() {
    if !servers() {
        return;
    }
    let server = LoginServer::start(|_| {});
    let path = |name: &str| certificate(name).display().to_string();
    let trust = format!("--ssl-ca={}", server.certificate().display());
    for (version, shown) in [("TLSv1.2", "TLSv1_2"), ("TLSv1.3", "TLSv1_3")] {
        let more = [format!("--tls-version={version}"), trust.clone(), "--ssl-mode=VERIFY_CA".to_owned()];
        let more: Vec<&str> = more.iter().map(String::as_str).collect();
        assert_eq!(server.mysql(Way::Tls, "tls", "secret", &more), Ok(format!("tls@% {shown} shop")));
    }
    let own = |who: &str| {
        [
            format!("--ssl-cert={}", path(&format!("{who}-cert.pem"))),
            format!("--ssl-key={}", path(&format!("{who}-key.pem"))),
        ]
    };
    let with = |who: &str| server.mysql(Way::Tls, "cert", "secret", &own(who).each_ref().map(String::as_str));
    assert_eq!(with("friend"), Ok(seen(Way::Tls, "cert")));
    assert!(with("stranger").is_err());
    let other = format!("--ssl-ca={}", path("friend-ca.pem"));
    assert!(server.mysql(Way::Tls, "tls", "secret", &[&other, "--ssl-mode=VERIFY_CA"]).is_err());
}

#[test]
fn mysql_enters_as_admin_over_the_socket_only() {
    if !servers() {
        return;
    }
    let server = LoginServer::start(|_| {});
    for password in ["", "anything"] {
        assert_eq!(server.mysql(Way::Socket, "admin", password, &[]), Ok("admin@localhost plain shop".to_owned()));
        assert!(server.mysql(Way::Tls, "admin", password, &[]).is_err());
    }
    let off = LoginServer::start(|rules| rules.socket_admin = None);
    let refused = off.mysql(Way::Socket, "admin", "", &[]).unwrap_err();
    // An unknown name is asked for the plugin of one of the accounts, and this client has no mysql_native_password.
    assert!(refused.contains("ERROR 1045") || refused.contains("mysql_native_password"), "{refused}");
}
