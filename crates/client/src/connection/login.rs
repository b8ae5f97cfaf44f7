//! Login: greeting, TLS, capabilities, authentication.

use std::path::Path;

use wire::WireError;
use wire::auth::{AuthOptions, AuthStep, Authenticator};
use wire::handshake::{FirstPacket, Greeting, Login as LoginPacket, capability};
use wire::packet::{self, PacketBuffer, PayloadRange};
use wire::rsa::PublicKey;

use super::packets::server_error;
use super::{Connection, Unread};
use crate::login_gate::Login;
use crate::stream::{Socket, Stream};
use crate::tls::random;
use crate::{ClientError, ConnectOptions, Result, SslMode};

/// utf8mb4_0900_ai_ci, MySQL's default; unknown to MariaDB.
const COLLATION_MYSQL: u8 = 255;
/// utf8mb4_general_ci.
const COLLATION_MARIADB: u8 = 45;
/// Most packets of a login.
const LOGIN_PACKETS_MAX: usize = 16;
/// Longest packet of a server that has not let us in. The longest real one, a greeting or an RSA key, has 1 KiB or so.
pub(crate) const LOGIN_PACKET_BYTES_MAX: usize = 64 << 10;

impl Connection {
    /// Connects and logs in; each read is limited by `connect_timeout`. A login that was refused is not tried again for
    /// [`HELD_FOR`](crate::HELD_FOR).
    pub fn connect(options: &ConnectOptions) -> Result<Connection> {
        let login = Login::of(options);
        login.check()?;
        let stream = Stream::new(Socket::connect(options)?);
        stream.set_timeout(Some(options.connect_timeout))?;
        let mut connection = Connection {
            stream,
            input: PacketBuffer::new(LOGIN_PACKET_BYTES_MAX),
            output: Vec::new(),
            types: Vec::new(),
            deprecate_eof: false,
            unread: Unread::Nothing,
            greeting: Greeting {
                server_version: String::new(),
                connection_id: 0,
                capabilities: 0,
                collation: 0,
                auth_plugin: String::new(),
                nonce: Vec::new(),
            },
            gave_password: false,
        };
        let range = connection.read_login_packet()?;
        connection.greeting = match Greeting::parse(connection.input.payload(range))? {
            FirstPacket::Greeting(greeting) => greeting,
            FirstPacket::Refused(err) => return login.attempt(|| Err(server_error(err))),
        };
        login.attempt(|| connection.log_in(options))?;
        connection.input.set_limit(packet::MAX_PAYLOAD_LEN);
        match options.init_command.map(|statement| connection.exec(statement)) {
            Some(Err(error)) if error.server_code().is_none() => return Err(error),
            _ => {}
        }
        connection.stream.set_timeout(options.read_timeout)?;
        Ok(connection)
    }

    fn read_login_packet(&mut self) -> Result<PayloadRange> {
        self.read_packet().map_err(|error| match error {
            ClientError::Wire(WireError::TooLarge { .. }) => ClientError::LoginTooLarge,
            error => error,
        })
    }

    fn log_in(&mut self, options: &ConnectOptions) -> Result<()> {
        let offered = self.greeting.capabilities;
        let tls = match options.ssl_mode {
            SslMode::Disabled => false,
            SslMode::Preferred => options.socket.is_none() && offered & capability::SSL != 0,
            _ if offered & capability::SSL == 0 => {
                let message = "ssl-mode asks for it, but the server does not offer it".into();
                return Err(ClientError::Tls { message });
            }
            _ => true,
        };
        let capabilities = capabilities(offered, options, tls);
        self.deprecate_eof = capabilities & capability::DEPRECATE_EOF != 0;
        let process = std::process::id().to_string();
        let attributes = [
            ("_client_name", "slipstream"),
            ("_client_version", env!("CARGO_PKG_VERSION")),
            ("_pid", process.as_str()),
            ("program_name", "slipstream"),
        ];
        let mut login = LoginPacket {
            capabilities,
            collation: match options.on_behalf {
                Some(client) => client.collation,
                None if self.greeting.is_mariadb() => COLLATION_MARIADB,
                None => COLLATION_MYSQL,
            },
            user: &options.user,
            auth_response: &[],
            database: options.database.as_deref().unwrap_or_default(),
            auth_plugin: "",
            attributes: &attributes,
        };
        let mut sequence = self.input.sequence();
        if tls {
            let at = self.begin_packet();
            login.ssl_request(&mut self.output);
            self.send_packet(at, &mut sequence)?;
            if self.input.pending_len() > 0 {
                // Clear-text bytes after the greeting would be taken for the server's, with or without TLS.
                let message = "the server spoke before the handshake".into();
                return Err(ClientError::Tls { message });
            }
            self.stream.start_tls(options)?;
        }
        let auth_options = AuthOptions {
            password: options.password.clone().unwrap_or_default(),
            secure_transport: tls || options.socket.is_some(),
            server_public_key: options.server_public_key_path.as_deref().map(read_public_key).transpose()?,
            get_server_public_key: options.get_server_public_key,
        };
        let mut auth = Authenticator::new(auth_options, &self.greeting.auth_plugin, &self.greeting.nonce);
        let response = auth.first_response(&random()?)?;
        login.auth_response = &response;
        login.auth_plugin = auth.plugin().name();
        let at = self.begin_packet();
        login.write(&mut self.output);
        self.send_packet(at, &mut sequence)?;
        self.authenticate(auth)
    }

    fn authenticate(&mut self, mut auth: Authenticator) -> Result<()> {
        for _ in 0..LOGIN_PACKETS_MAX {
            let range = self.read_login_packet()?;
            match auth.step(self.input.payload(range), &random()?)? {
                AuthStep::Read => {}
                AuthStep::Send(payload) => {
                    let mut sequence = self.input.sequence();
                    let at = self.begin_packet();
                    self.output.extend_from_slice(&payload);
                    self.send_packet(at, &mut sequence)?;
                }
                AuthStep::Done(_) => {
                    self.gave_password = auth.gave_password();
                    return Ok(());
                }
                AuthStep::Refused(err) => return Err(server_error(err)),
            }
        }
        Err(ClientError::UnexpectedAnswer { what: "the login" })
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
        Some(client) => client.capabilities & capability::OF_SESSIONS,
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

fn read_public_key(path: &Path) -> Result<PublicKey> {
    let pem = base::own_files::read_within(path, base::own_files::SMALL_FILE_MAX)
        .map_err(|error| ClientError::File { path: path.to_owned(), error })?;
    Ok(PublicKey::from_pem(&pem)?)
}
