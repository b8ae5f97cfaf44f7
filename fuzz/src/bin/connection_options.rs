//! URLs of sources, and option files that hold a client's password.
#![no_main]

use client::ConnectOptions;
use client::option_file::OptionFile;
use fuzz::seeds;

fn texts() -> Vec<Vec<u8>> {
    seeds::texts(&[
        "mysql://repl:pa%40ss@db.example:3307/shop?ssl-mode=REQUIRED&ssl-ca=/ca.pem&connect-timeout=5&read_timeout=0",
        "mysql://repl@[::1]:3306?socket=/run/mysqld.sock&get-server-public-key=on",
        "mysql://h",
        "# c\n[client]\nuser=a\npassword=\"p#\\\"w\\s\" # c\nssl_mode=x # y\n!include /x\nquick\n[mysql]\npassword='x\n",
    ])
}

fuzz::fuzz_target!(init: seeds::write(texts), |data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    if let Ok(options) = ConnectOptions::from_url(&text) {
        let other = ConnectOptions { password: Some("another".to_owned()), ..options.clone() };
        assert_eq!(options.to_string(), other.to_string(), "a password is never shown");
    }
    let file = OptionFile::parse(&text);
    let _ = (file.value(&["client"], "password"), file.value(&["mysql", ""], "user"));
});
