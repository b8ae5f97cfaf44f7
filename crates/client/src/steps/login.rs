//! A login: greeting, TLS, capabilities, authentication.

use std::sync::Arc;

use wire::auth::{AuthOptions, AuthStep, Authenticator};
use wire::handshake::{FirstPacket, Greeting, Login as LoginPacket, capability};
use wire::response::ErrPacket;
use wire::rsa::PublicKey;

use crate::tls::random;
use crate::{ClientError, ConnectOptions, Result, SslMode};

/// utf8mb4_0900_ai_ci, MySQL's default; unknown to MariaDB.
const COLLATION_MYSQL: u8 = 255;
/// utf8mb4_general_ci.
const COLLATION_MARIADB: u8 = 45;
/// Most packets of an authentication.
const PACKETS_MAX: usize = 16;

/// What a login does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginStep {
    /// Reads the next packet.
    Read,
    /// Sends this payload, then reads.
    Send(Vec<u8>),
    /// Sends this payload, begins TLS, then continues with [`LoginSteps::secured`]. Bytes that the server has sent
    /// after its greeting are an attack.
    SendThenSecure(Vec<u8>),
    /// The login has succeeded: commands may follow.
    Done,
    /// The server has refused it.
    Refused(ErrPacket),
}

/// How far a login has come.
pub struct LoginSteps<'a> {
    options: &'a ConnectOptions,
    /// The server's key, if the options name its file.
    server_public_key: Option<PublicKey>,
    greeting: Option<Greeting>,
    capabilities: u32,
    auth: Option<Authenticator>,
    packets: usize,
}

impl<'a> LoginSteps<'a> {
    /// A login that has not begun: the server speaks first.
    #[must_use]
    pub fn new(options: &'a ConnectOptions, server_public_key: Option<PublicKey>) -> LoginSteps<'a> {
        LoginSteps { options, server_public_key, greeting: None, capabilities: 0, auth: None, packets: 0 }
    }

    /// Another login on a connection that this greeting began, whose first step is to send this payload.
    ///
    /// # Errors
    /// The password cannot be sent as the greeting's plugin asks for it.
    pub fn again(
        options: &'a ConnectOptions,
        server_public_key: Option<PublicKey>,
        greeting: Greeting,
        tls: bool,
    ) -> Result<(LoginSteps<'a>, Vec<u8>)> {
        let capabilities = capabilities(greeting.capabilities, options, tls);
        let greeting = Some(greeting);
        let mut steps = LoginSteps { options, server_public_key, greeting, capabilities, auth: None, packets: 0 };
        let mut out = Vec::new();
        steps.begin(&mut |login| login.change_user(&mut out))?;
        Ok((steps, out))
    }

    /// What the server's greeting says; None before it has come.
    #[must_use]
    pub fn greeting(&self) -> Option<&Greeting> {
        self.greeting.as_ref()
    }

    /// The same, once the login is done.
    #[must_use]
    pub fn into_greeting(self) -> Greeting {
        self.greeting.unwrap_or_default()
    }

    /// Capabilities of the session: what both have.
    #[must_use]
    pub fn capabilities(&self) -> u32 {
        self.capabilities
    }

    /// True if the server was given the password itself, not only an answer made of it.
    #[must_use]
    pub fn gave_password(&self) -> bool {
        self.auth.as_ref().is_some_and(Authenticator::gave_password)
    }

    /// Takes the server's next packet.
    ///
    /// # Errors
    /// It breaks the protocol, or asks for what the options do not allow.
    pub fn packet(&mut self, payload: &[u8]) -> Result<LoginStep> {
        if self.greeting.is_none() {
            return self.greeted(payload);
        }
        let Some(auth) = &mut self.auth else {
            return Err(ClientError::UnexpectedAnswer { what: "a greeting: TLS was to begin" });
        };
        self.packets += 1;
        if self.packets > PACKETS_MAX {
            return Err(ClientError::UnexpectedAnswer { what: "the login" });
        }
        Ok(match auth.step(payload, &random()?)? {
            AuthStep::Read => LoginStep::Read,
            AuthStep::Send(payload) => LoginStep::Send(payload),
            AuthStep::Done(_) => LoginStep::Done,
            AuthStep::Refused(error) => LoginStep::Refused(error),
        })
    }

    fn greeted(&mut self, payload: &[u8]) -> Result<LoginStep> {
        let greeting = match Greeting::parse(payload)? {
            FirstPacket::Greeting(greeting) => greeting,
            FirstPacket::Refused(error) => return Ok(LoginStep::Refused(error)),
        };
        let offered = greeting.capabilities;
        let tls = match self.options.ssl_mode {
            SslMode::Disabled => false,
            SslMode::Preferred => self.options.socket.is_none() && offered & capability::SSL != 0,
            _ if offered & capability::SSL == 0 => {
                let message = "ssl-mode asks for it, but the server does not offer it".into();
                return Err(ClientError::Tls { message });
            }
            _ => true,
        };
        self.capabilities = capabilities(offered, self.options, tls);
        self.greeting = Some(greeting);
        if !tls {
            return self.answers();
        }
        let mut out = Vec::new();
        self.login(&[], "", &[]).ssl_request(&mut out);
        Ok(LoginStep::SendThenSecure(out))
    }

    /// Continues once TLS has begun.
    ///
    /// # Errors
    /// Without a greeting that offers it.
    pub fn secured(&mut self) -> Result<LoginStep> {
        self.answers()
    }

    /// The answer to the greeting.
    fn answers(&mut self) -> Result<LoginStep> {
        let mut out = Vec::new();
        self.begin(&mut |login| login.write(&mut out))?;
        Ok(LoginStep::Send(out))
    }

    /// Begins the authentication: `write` gets its first packet.
    fn begin(&mut self, write: &mut dyn FnMut(LoginPacket<'_>)) -> Result<()> {
        let Some(greeting) = &self.greeting else {
            return Err(ClientError::UnexpectedAnswer { what: "a login: nothing" });
        };
        let ConnectOptions { password, secret, ssl_mode, socket, .. } = self.options;
        let has_tls = self.capabilities & capability::SSL != 0;
        let is_verified = matches!(ssl_mode, SslMode::VerifyCa | SslMode::VerifyIdentity);
        let begun = |options| Authenticator::new(options, &greeting.auth_plugin, &greeting.nonce);
        let mut auth = match secret {
            None => begun(AuthOptions {
                password: password.clone().unwrap_or_default(),
                secure_transport: has_tls || socket.is_some(),
                server_public_key: self.server_public_key.take(),
                get_server_public_key: self.options.get_server_public_key,
            }),
            Some(secret) => begun(AuthOptions {
                password: String::new(),
                secure_transport: has_tls && is_verified || socket.is_some(),
                server_public_key: None,
                get_server_public_key: false,
            })
            .with_secret(Arc::clone(secret)),
        };
        let response = auth.first_response(&random()?)?;
        let process = std::process::id().to_string();
        let attributes = [
            ("_client_name", "slipstream"),
            ("_client_version", env!("CARGO_PKG_VERSION")),
            ("_pid", process.as_str()),
            ("program_name", "slipstream"),
        ];
        write(self.login(&response, auth.plugin().name(), &attributes));
        self.auth = Some(auth);
        Ok(())
    }

    fn login<'l>(
        &'l self,
        auth_response: &'l [u8],
        auth_plugin: &'l str,
        attributes: &'l [(&'l str, &'l str)],
    ) -> LoginPacket<'l> {
        LoginPacket {
            capabilities: self.capabilities,
            collation: match self.options.on_behalf {
                Some(client) => client.collation,
                None if self.greeting.as_ref().is_some_and(Greeting::is_mariadb) => COLLATION_MARIADB,
                None => COLLATION_MYSQL,
            },
            user: &self.options.user,
            auth_response,
            database: self.options.database.as_deref().unwrap_or_default(),
            auth_plugin,
            attributes,
        }
    }
}

impl std::fmt::Debug for LoginSteps<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoginSteps")
            .field("greeting", &self.greeting)
            .field("packets", &self.packets)
            .finish_non_exhaustive()
    }
}

/// What the login itself needs.
const OF_LOGIN: u32 = capability::PROTOCOL_41
    | capability::SECURE_CONNECTION
    | capability::PLUGIN_AUTH
    | capability::PLUGIN_AUTH_LENENC_CLIENT_DATA
    | capability::CONNECT_ATTRS;

fn capabilities(offered: u32, options: &ConnectOptions, tls: bool) -> u32 {
    let of_session = match options.on_behalf {
        Some(client) => client.capabilities & (capability::OF_SESSIONS | capability::LOCAL_FILES),
        None => {
            capability::LONG_PASSWORD
                | capability::LONG_FLAG
                | capability::TRANSACTIONS
                | capability::MULTI_RESULTS
                | capability::PS_MULTI_RESULTS
                | capability::DEPRECATE_EOF
        }
    };
    let mut wanted = OF_LOGIN | of_session;
    if options.database.is_some() {
        wanted |= capability::CONNECT_WITH_DB;
    }
    if options.multi_statements {
        wanted |= capability::MULTI_STATEMENTS;
    }
    if tls {
        wanted |= capability::SSL;
    }
    wanted & offered
}
