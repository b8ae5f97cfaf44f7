//! Login, driven by blocking reads.

use std::path::Path;

use wire::WireError;
use wire::handshake::{Greeting, capability};
use wire::packet::{self, PayloadRange};
use wire::rsa::PublicKey;
use zeroize::{Zeroize as _, Zeroizing};

use super::Connection;
use super::packets::server_error;
use crate::login_gate::Login;
use crate::steps::{LoginStep, LoginSteps};
use crate::stream::{Socket, Stream};
use crate::{ClientError, ConnectOptions, Result};

/// Longest packet of a server that has not let us in. The longest real one, a greeting or an RSA key, has 1 KiB or so.
pub(crate) const LOGIN_PACKET_BYTES_MAX: usize = 64 << 10;

/// Something accepts connections there, for all that is known no server.
fn no_greeting(options: &ConnectOptions) -> ClientError {
    let text = format!("it accepted the connection and sent no greeting for {} s", options.connect_timeout.as_secs());
    ClientError::Connect { address: options.place(), error: std::io::Error::new(std::io::ErrorKind::TimedOut, text) }
}

impl Connection {
    /// Connects and logs in; each read is limited by `connect_timeout`. A login that was refused is not tried again for
    /// [`HELD_FOR`](crate::HELD_FOR).
    pub fn connect(options: &ConnectOptions) -> Result<Connection> {
        let login = Login::of(options);
        login.check()?;
        let stream = Stream::new(Socket::connect(options)?);
        stream.set_timeout(Some(options.connect_timeout))?;
        let mut connection = Connection::of_parts((stream, Greeting::default(), false), false);
        connection.input.set_limit(LOGIN_PACKET_BYTES_MAX);
        let greeting = connection.read_login_packet().map_err(|error| match error {
            ClientError::ReadTimeout => no_greeting(options),
            error => error,
        })?;
        login.attempt(|| connection.log_in(options, greeting))?;
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

    /// Logs in once more over the same connection (COM_CHANGE_USER). Whatever the session had is gone; it is as after
    /// [`connect`](Connection::connect), but for the server's `init_connect`. The capabilities stay.
    ///
    /// # Errors
    /// As [`connect`](Connection::connect). A server that has refused the login closes the connection.
    pub fn change_user(&mut self, options: &ConnectOptions) -> Result<()> {
        Login::of(options).attempt(|| {
            let key = server_public_key(options)?;
            let tls = self.tls_description().is_some();
            let (mut steps, payload) = LoginSteps::again(options, key, self.greeting.clone(), tls)?;
            let at = self.begin()?;
            self.output.extend_from_slice(&payload);
            self.send(at)?;
            self.follow(&mut steps, LoginStep::Read, options)
        })
    }

    fn log_in(&mut self, options: &ConnectOptions, greeting: PayloadRange) -> Result<()> {
        let mut steps = LoginSteps::new(options, server_public_key(options)?);
        let step = steps.packet(self.input.payload(greeting))?;
        self.follow(&mut steps, step, options)?;
        self.deprecate_eof = steps.capabilities() & capability::DEPRECATE_EOF != 0;
        self.greeting = steps.into_greeting();
        Ok(())
    }

    fn follow(&mut self, steps: &mut LoginSteps<'_>, mut step: LoginStep, options: &ConnectOptions) -> Result<()> {
        loop {
            step = match step {
                LoginStep::Read => {
                    let range = self.read_login_packet()?;
                    steps.packet(self.input.payload(range))?
                }
                LoginStep::Send(payload) => {
                    // It may be the password.
                    let sent = self.send_of_login(&Zeroizing::new(payload));
                    self.output.zeroize();
                    sent?;
                    LoginStep::Read
                }
                LoginStep::SendThenSecure(payload) => {
                    self.send_of_login(&payload)?;
                    if self.input.pending_len() > 0 {
                        // Clear-text bytes after the greeting would be taken for the server's, with or without TLS.
                        let message = "the server spoke before the handshake".into();
                        return Err(ClientError::Tls { message });
                    }
                    self.stream.start_tls(options)?;
                    steps.secured()?
                }
                LoginStep::Done => break,
                LoginStep::Refused(error) => return Err(server_error(error)),
            };
        }
        self.gave_password |= steps.gave_password();
        Ok(())
    }

    fn send_of_login(&mut self, payload: &[u8]) -> Result<()> {
        let mut sequence = self.input.sequence();
        let at = self.begin_packet();
        self.output.extend_from_slice(payload);
        self.send_packet(at, &mut sequence)
    }
}

fn server_public_key(options: &ConnectOptions) -> Result<Option<PublicKey>> {
    options.server_public_key_path.as_deref().map(read_public_key).transpose()
}

fn read_public_key(path: &Path) -> Result<PublicKey> {
    let pem = base::own_files::read_within(path, base::own_files::SMALL_FILE_MAX)
        .map_err(|error| ClientError::File { path: path.to_owned(), error })?;
    Ok(PublicKey::from_pem(&pem)?)
}
