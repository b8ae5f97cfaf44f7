//! Hashes what a build depends on: sources, lock file, profile, target, flags and compiler.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::Path;
use std::{env, fs, io};

/// What the programs are made of, from the workspace's root.
const SOURCES: [&str; 5] = ["crates", "lab", "third_party", "Cargo.toml", "Cargo.lock"];
const SETTINGS: [&str; 5] = ["PROFILE", "OPT_LEVEL", "TARGET", "CARGO_ENCODED_RUSTFLAGS", "SLIPSTREAM_VERSION"];

fn main() -> io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut hasher = DefaultHasher::new();
    for name in SOURCES {
        let path = root.join(name);
        println!("cargo::rerun-if-changed={}", path.display());
        hash(&path, name, &mut hasher)?;
    }
    println!("cargo::rerun-if-env-changed=SLIPSTREAM_VERSION");
    for name in SETTINGS {
        env::var(name).ok().hash(&mut hasher);
    }
    println!("cargo::rustc-env=SLIPSTREAM_BUILD_ID={:016x}", hasher.finish());
    Ok(())
}

/// Names and bytes, in the order of the names: the same tree gives the same hash.
fn hash(path: &Path, name: &str, hasher: &mut DefaultHasher) -> io::Result<()> {
    name.hash(hasher);
    if !path.is_dir() {
        fs::read(path)?.hash(hasher);
        return Ok(());
    }
    let mut entries: Vec<_> = fs::read_dir(path)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        hash(&entry.path(), &entry.file_name().to_string_lossy(), hasher)?;
    }
    Ok(())
}
