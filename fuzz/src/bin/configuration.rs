//! The program's option files and settings.
#![no_main]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex};

use base::units;
use fuzz::seeds;
use replica::config::{SourceSpec, mask_passwords, url_has_password};
use slipstream::option_file;
use slipstream::settings::{OptionFiles, SECTION, Settings};

/// Option names live as long as the program, so each is kept once, and all within a small amount of memory.
fn kept(name: &str) -> Option<&'static str> {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().expect("one thread");
    if !names.contains(name) && names.len() < 100_000 && name.len() < 40 {
        names.insert(String::leak(name.to_owned()));
    }
    names.get(name).copied()
}

/// Settings come from a file; the runner provides a folder for it and removes it.
static FILE: LazyLock<PathBuf> =
    LazyLock::new(|| std::env::temp_dir().join(format!("slipstream-fuzz-{}.cnf", std::process::id())));

fn files() -> Vec<Vec<u8>> {
    seeds::texts(&[
        "[slipstream]\nsource=mysql://r:secret99@h:3307/x?ssl-mode=DISABLED\ndata=/d\nrelay-sync=10,16M\nsemi_sync\n",
        "[client]\npassword=\"a\\tb\" # c\n[slipstream]\nhost=h\nport=3306\nuser=u\nssl-mode=REQUIRED\nssl-ca=/c\ndata=/d\n",
        "[slipstream]\nsource=file:/var/lib/mysql\ndata=x\nqueue-memory=1G\nreplica_parallel_workers=4\nloose-x=1\n\
         source-heartbeat-period=500ms\nlog-format=json\nlog-error=stderr\nlog-error-verbosity=3\ncheck-images=sample\n\
         max-relay-log-size=1073741824\nreplica-net-timeout=60\nsource-connect-retry=60\nsource-retry-count=0\nserver-id=7\n",
        "[slipstream]\n!include /x\n",
        "10ms",
        "16M",
        "mysql://u:password@h",
    ])
}

fuzz::fuzz_target!(init: seeds::write(files), |data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let _ = (units::parse_bytes(&text), units::parse_span(&text, "s"), units::parse_switch(Some(&text)));
    if url_has_password(&text) {
        assert_eq!(mask_passwords(&mask_passwords(&text)), mask_passwords(&text));
    }
    let parsed = option_file::parse(&text, "fuzz.cnf", SECTION);
    if parsed.as_ref().is_ok_and(|settings| settings.is_empty()) {
        return;
    }
    // Files are slow, so most inputs arrive as flags do.
    let mut files = OptionFiles { none: true, ..OptionFiles::default() };
    let mut flags = Vec::new();
    if data.len().is_multiple_of(16) {
        fs::write(&*FILE, data).expect("a folder to write to");
        files.only = Some(FILE.clone());
    } else if let Ok(parsed) = parsed {
        flags.extend(parsed.into_iter().filter_map(|setting| Some((kept(&setting.key)?, setting.value))));
    }
    let Ok(settings) = Settings::load(&files, &flags) else { return };
    let _ = settings.replica();
    if let Some(SourceSpec::Server(server)) = settings.source() {
        let _ = (server.shown(), server.connect_options());
    }
});
