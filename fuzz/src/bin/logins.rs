//! A client's packets during a login, with and without TLS, and its changes of the user.
#![no_main]

use std::sync::{Arc, LazyLock};

use accounts::{
    Accounts, Login, LoginGuard, LoginRules, LoginStep, NewAccount, PasswordPlugin, Peer, Requirement, Rights,
    SessionStart, StoredPassword, TlsPeer,
};
use fuzz::{Input, chunk, join, seeds};

/// Long enough that no input guesses it; no seed has it.
const PASSWORD: &str = "a password that no packet here holds, 7d1c0fa2";
const LOGIN: &[u8] = b"\x85\xa2\x28\0\0\0\0\x40\xff\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
const TLS_REQUEST: &[u8] = b"\x85\xaa\x28\0\0\0\0\x40\xff\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

/// An account of each plugin.
static ACCOUNTS: LazyLock<Arc<Accounts>> = LazyLock::new(|| {
    let path = std::env::temp_dir().join(format!("accounts-{}", std::process::id()));
    let accounts = Accounts::open(&path).expect("no file is no account");
    for (user, plugin) in [("app", PasswordPlugin::CachingSha2), ("old", PasswordPlugin::Native)] {
        let password = StoredPassword::new(plugin, PASSWORD).expect("a password");
        let (name, requirement) = (user.parse().expect("a name"), Requirement::None);
        let new =
            NewAccount {
                name,
                rights: Rights::ALL,
                schemas: None,
                requirement,
                reads: Default::default(),
                max_connections: None,
                password,
            };
        accounts.add(new).expect("an account");
    }
    accounts
});

fn packet(user: &str, answer: &[u8], plugin: &str) -> Vec<u8> {
    let answer = [&[answer.len() as u8], answer].concat();
    join(&[LOGIN, user.as_bytes(), b"\0", &answer, plugin.as_bytes(), b"\0"])
}

fn logins() -> Vec<Vec<u8>> {
    let sha2 = |user| packet(user, &[7; 32], "caching_sha2_password");
    let native = packet("old", &[7; 20], "mysql_native_password");
    let change = b"\x11app\0\x03abcshop\0\xff\x01caching_sha2_password\0\x04\x01a\x01b".to_vec();
    let conversations: [(u8, &[Vec<u8>]); 7] = [
        (0, &[sha2("app")]),
        (1, &[sha2("app"), b"wrong\0".to_vec()]),
        (2, &[TLS_REQUEST.to_vec(), sha2("app"), b"wrong\0".to_vec()]),
        (2, &[TLS_REQUEST.to_vec(), sha2("nobody"), b"\x02".to_vec()]),
        (0, &[native.clone()]),
        (0, &[sha2("old"), vec![7; 20]]),
        (4, &[change, vec![7; 32]]),
    ];
    let bytes = |(flags, packets): (u8, &[Vec<u8>])| {
        join(&[&[flags, 0xff, 0xff, 0xff, 0xff], &packets.iter().flat_map(|packet| chunk(packet)).collect::<Vec<_>>()])
    };
    conversations.into_iter().map(bytes).collect()
}

fuzz::fuzz_target!(init: seeds::write(logins), |data: &[u8]| {
    let mut input = Input::new(data);
    let flags = input.byte();
    let peer = if flags & 1 != 0 { Peer::Socket { uid: 7 } } else { Peer::Tcp([10, 0, 0, 1].into()) };
    let capabilities = u32::from_le_bytes([input.byte(), input.byte(), input.byte(), input.byte()]);
    let rules =
        LoginRules { require_secure_transport: flags & 8 != 0, offers_tls: true, socket_admin: None, capabilities };
    let mut login = Login::new(Arc::clone(&ACCOUNTS), Arc::new(LoginGuard::default()), peer, rules, [1; 20]);
    let mut tls = None;
    for (number, packet) in input.chunks().enumerate() {
        let step = if number == 0 && flags & 4 != 0 {
            login.change_user(packet, &SessionStart { capabilities: u32::MAX, ..SessionStart::default() }, None)
        } else {
            login.packet(packet, tls.as_ref())
        };
        match step {
            LoginStep::Send(payload) => assert!(!payload.is_empty()),
            LoginStep::StartTls => tls = Some(TlsPeer { has_certificate: flags & 16 != 0 }),
            LoginStep::Work(work) => {
                let step = login.worked(work.run());
                assert!(matches!(step, LoginStep::Refused(_)), "{step:?}");
            }
            LoginStep::Wait(_) => panic!("nothing was counted yet"),
            LoginStep::Accepted(accepted) => panic!("in without a password: {accepted:?}"),
            LoginStep::Refused(error) => {
                assert_eq!(error.payload().first(), Some(&0xff));
                return;
            }
        }
    }
});
