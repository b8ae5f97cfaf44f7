//! A server's greeting, and its requests during a login.
#![no_main]

use fuzz::{Input, chunk, join, seeds};
use wire::auth::{AuthOptions, AuthStep, Authenticator, SEED_LEN};
use wire::handshake::{FirstPacket, Greeting};

const PASSWORD: &str = "a password nobody may read";
const GREETING: &[u8] =
    b"\x0a9.7.4\0\x08\0\0\0abcdefgh\0\xff\xff\xff\x02\0\xff\xdf\x15\0\0\0\0\0\0\0\0\0\0ijklmnopqrst\0\
    caching_sha2_password\0";
const OK: &[u8] = b"\0\0\0\x02\0\0\0";
const KEY: &[u8] = b"\x01-----BEGIN PUBLIC KEY-----
MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQCoHWNMRRe7pVCPS3F9vKN780RG
CvHTf8bC/dqQzUEibLKVcTRJBhJsQD5cS4cbAJBk8LMg1x8uwyhK4qk6TPnio1mG
WHwpj2f+V/3mGYUMGu2OTWzzSmB9FDxngxR/5Cb4i/j8SkbAD/+5VEylz8AyLe6S
D/kNq/dponnNNKsD3wIDAQAB
-----END PUBLIC KEY-----
";

fn logins() -> Vec<Vec<u8>> {
    let switch = b"\xfemysql_native_password\0abcdefghijklmnopqrst\0";
    let sha256 = b"\xfesha256_password\0abcdefghijklmnopqrst\0";
    let conversations: [(u8, &[&[u8]]); 6] = [
        (0, &[GREETING, b"\x01\x03", OK]),
        (1, &[GREETING, b"\x01\x04", OK]),
        (2, &[GREETING, b"\x01\x04", KEY, OK]),
        (0, &[GREETING, switch, b"\xff\x15\x04#28000Access denied"]),
        (2, &[GREETING, sha256, KEY, OK]),
        (0, &[b"\xff\x10\x04Too many connections"]),
    ];
    let bytes = |(flags, packets): (u8, &[&[u8]])| {
        join(&[&[flags], &packets.iter().flat_map(|packet| chunk(packet)).collect::<Vec<_>>()])
    };
    conversations.into_iter().map(bytes).collect()
}

fuzz::fuzz_target!(init: seeds::write(logins), |data: &[u8]| {
    let mut input = Input::new(data);
    let flags = input.byte();
    let Ok(FirstPacket::Greeting(greeting)) = Greeting::parse(input.chunk()) else { return };
    greeting.is_mariadb();
    let secure = flags & 1 != 0;
    let options = AuthOptions {
        password: PASSWORD.to_owned(),
        secure_transport: secure,
        server_public_key: None,
        get_server_public_key: flags & 2 != 0,
    };
    let mut login = Authenticator::new(options, &greeting.auth_plugin, &greeting.nonce);
    let mut step = login.first_response(&[7; SEED_LEN]).map(AuthStep::Send);
    for packet in input.chunks() {
        match step {
            Ok(AuthStep::Send(answer)) => {
                let clear = answer.windows(PASSWORD.len()).any(|part| part == PASSWORD.as_bytes());
                assert!(secure || !clear, "the password went over a connection that anybody can read");
            }
            Ok(AuthStep::Read) => {}
            Ok(AuthStep::Done(_) | AuthStep::Refused(_)) | Err(_) => return,
        }
        step = login.step(packet, &[7; SEED_LEN]);
    }
});
