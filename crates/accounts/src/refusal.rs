//! Errors that a login sends to its client, with MySQL's numbers and texts.

/// An error for the client. The connection ends after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerError {
    /// MySQL's error number.
    pub number: u16,
    /// SQLSTATE, five characters.
    pub sqlstate: &'static str,
    /// Text for the client.
    pub text: String,
}

impl ServerError {
    /// Payload of the ERR packet.
    #[must_use]
    pub fn payload(&self) -> Vec<u8> {
        let mut out = Vec::new();
        wire::server::put_err(&mut out, self.number, self.sqlstate, &self.text);
        out
    }

    /// 1045: unknown account or wrong password. `advice` says what else may help.
    pub(crate) fn access_denied(user: &str, host: &str, with_password: bool, advice: &str) -> ServerError {
        let with_password = if with_password { "YES" } else { "NO" };
        let text = format!("Access denied for user '{user}'@'{host}' (using password: {with_password}){advice}");
        ServerError { number: 1045, sqlstate: "28000", text }
    }

    /// 3159: the server takes secure connections only.
    pub(crate) fn insecure_transport() -> ServerError {
        let text = "Connections using insecure transport are prohibited while --require_secure_transport=ON.";
        ServerError { number: 3159, sqlstate: "HY000", text: text.to_owned() }
    }

    /// 1041: no more memory can be locked for what a login has proved.
    pub(crate) fn no_locked_memory(error: &std::io::Error) -> ServerError {
        let text = format!(
            "Out of resources: the system lets this server lock no more memory for passwords ({error}); raise its \
             RLIMIT_MEMLOCK (systemd: LimitMEMLOCK), or give the account a login with --source-login"
        );
        ServerError { number: 1041, sqlstate: "HY000", text }
    }

    /// 1043: a packet that is no login.
    pub(crate) fn bad_handshake() -> ServerError {
        ServerError { number: 1043, sqlstate: "08S01", text: "Bad handshake".to_owned() }
    }

    /// 1047: a packet that is no change of the user.
    pub(crate) fn unknown_command() -> ServerError {
        ServerError { number: 1047, sqlstate: "08S01", text: "Unknown command".to_owned() }
    }

    /// 1251: the client cannot be asked for another plugin.
    pub(crate) fn old_client() -> ServerError {
        let text = "Client does not support authentication protocol requested by server; \
                    consider upgrading MySQL client";
        ServerError { number: 1251, sqlstate: "08004", text: text.to_owned() }
    }
}
