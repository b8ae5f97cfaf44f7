//! Values of options: what a text means, or why it means nothing.
//!
//! In: the value as given. Out: what the settings keep, or a text for the user. Never here: a name of an option.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use base::units::parse_bytes;
use client::SslMode;
use replica::config::{CopyWhen, OnStop, Secret, ShowWhen, mask_passwords};
use replica::{OnDamage, OnDrift};
use store::CheckImages;

/// The port alone is one of this machine.
pub(crate) fn parse_http(text: &str) -> Result<SocketAddr, String> {
    let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let port = text.strip_prefix(':').unwrap_or(text).parse().map(local);
    port.or_else(|_| text.parse()).map_err(|_| format!("'{text}' is not a port, nor an IP address with one"))
}

pub(crate) fn put<T>(field: &mut Option<T>, value: Result<T, String>) -> Result<(), String> {
    *field = Some(value?);
    Ok(())
}

pub(crate) fn checked_source(value: &str) -> Result<Secret, String> {
    let file = value.strip_prefix("file:").is_some_and(|path| !path.is_empty());
    let server = value.strip_prefix("mysql://").is_some_and(|rest| !rest.is_empty());
    if file || server {
        Ok(Secret(value.to_owned()))
    } else {
        Err(format!("'{}' is neither mysql://USER@HOST:PORT nor file:PATH", mask_passwords(value)))
    }
}

pub(crate) fn not_an_address(text: &str) -> String {
    format!("'{text}' is not an IP address; names are not looked up")
}

/// A system variable and a value that sessions can begin with.
pub(crate) fn parse_set(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("'{text}' is not NAME=VALUE"))?;
    let name = name.trim().to_ascii_lowercase();
    let value = sql::checked_first_value(&name, value.trim())?;
    Ok((name, value))
}

/// Connectors read the numbers in front, and some go by the text after them.
pub(crate) fn checked_version(text: &str) -> Result<String, String> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic());
    if is_plain && text.len() <= 60 && text.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok(text.to_owned());
    }
    Err(format!("'{text}' is not a version such as 9.7.4-slipstream"))
}

pub(crate) fn parse_ssl_mode(value: &str) -> Result<SslMode, String> {
    match value.to_ascii_uppercase().replace('-', "_").as_str() {
        "DISABLED" => Ok(SslMode::Disabled),
        "PREFERRED" => Ok(SslMode::Preferred),
        "REQUIRED" => Ok(SslMode::Required),
        "VERIFY_CA" => Ok(SslMode::VerifyCa),
        "VERIFY_IDENTITY" => Ok(SslMode::VerifyIdentity),
        _ => Err(format!("'{value}' is not one of DISABLED, PREFERRED, REQUIRED, VERIFY_CA, VERIFY_IDENTITY")),
    }
}

pub(crate) fn parse_check_images(value: &str) -> Result<CheckImages, String> {
    let mode = CheckImages::of_name(&value.to_ascii_lowercase());
    mode.ok_or_else(|| format!("'{value}' is not one of off, sample, all"))
}

/// The value of this name; the names are told if none of them is meant.
pub(crate) fn one_of<T: Copy>(value: &str, values: &[(&str, T)]) -> Result<T, String> {
    let found = values.iter().find(|(name, _)| value.eq_ignore_ascii_case(name));
    let names = || values.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    found.map(|(_, value)| *value).ok_or_else(|| format!("'{value}' is not one of {}", names()))
}

pub(crate) fn parse_show(value: &str) -> Result<ShowWhen, String> {
    use ShowWhen::{Acknowledged, Auto, Received};
    one_of(value, &[("auto", Auto), ("received", Received), ("acknowledged", Acknowledged)])
}

pub(crate) fn parse_on_drift(value: &str) -> Result<OnDrift, String> {
    one_of(value, &[("copy", OnDrift::Copy), ("stop", OnDrift::Stop)])
}

pub(crate) fn parse_serve(value: &str) -> Result<bool, String> {
    match value {
        "recovered" => Ok(false),
        "at-once" => Ok(true),
        _ => Err(format!("'{value}' is neither recovered nor at-once")),
    }
}

pub(crate) fn parse_on_stop(value: &str) -> Result<OnStop, String> {
    one_of(value, &[("stay", OnStop::Stay), ("exit", OnStop::Exit)])
}

pub(crate) fn parse_on_damage(value: &str) -> Result<OnDamage, String> {
    one_of(value, &[("copy", OnDamage::Copy), ("stop", OnDamage::Stop)])
}

pub(crate) fn parse_copy(value: &str) -> Result<CopyWhen, String> {
    CopyWhen::of_name(&value.to_ascii_lowercase()).ok_or_else(|| format!("'{value}' is not one of auto, always, never"))
}

pub(crate) fn parse_copy_lock(value: &str) -> Result<copy::CopyLock, String> {
    one_of(value, &[("auto", copy::CopyLock::Auto), ("none", copy::CopyLock::None)])
}

pub(crate) fn bytes_within(value: &str, least: u64, most: u64) -> Result<u64, String> {
    let bytes = parse_bytes(value)?;
    if (least..=most).contains(&bytes) {
        Ok(bytes)
    } else {
        Err(format!("'{value}' is not from {} to {}", size_text(least), size_text(most)))
    }
}

/// A size as options take it: `128M`.
fn size_text(bytes: u64) -> String {
    let units = [("T", 40), ("G", 30), ("M", 20), ("K", 10)];
    let unit = units.into_iter().find(|(_, shift)| bytes > 0 && bytes.trailing_zeros() >= *shift);
    unit.map_or(format!("{bytes} bytes"), |(unit, shift)| format!("{}{unit}", bytes >> shift))
}

pub(crate) fn checked_log_file(value: &str) -> Result<Option<PathBuf>, String> {
    match value {
        "" => Err("needs a path".to_owned()),
        "stderr" => Ok(None),
        path => Ok(Some(PathBuf::from(path))),
    }
}
