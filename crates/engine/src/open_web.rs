//! The port for those who watch, in a replica's process: opened beside the clients' port, closed with it.
//!
//! In: settings, the engine. Out: an open port, its URL. Never here: HTTP (crate `web`).

use std::io;
use std::sync::{Arc, Weak};
use std::time::SystemTime;

use accounts::{Accounts, ServerTls};
use observe::{ErrorReport, HistoryReport, LagHistograms, StatusReport};
use replica::log::{self, Code};
use replica::{Exit, Failure, SOURCE_LACKS, SOURCE_WAS_RESET};
use web::{Token, Watched, Web};

use crate::engine::Engine;
use crate::open_door::{DoorSettings, note_reload};

pub struct OpenWeb {
    web: Web,
    /// Its certificate, if it needs one.
    tls: Option<Arc<ServerTls>>,
    /// What lets a scraper in besides accounts.
    token: Option<Arc<Token>>,
}

/// The engine as those see it who watch.
struct WatchedEngine(Weak<Engine>);

impl Watched for WatchedEngine {
    fn report(&self) -> StatusReport {
        self.0.upgrade().map(|engine| engine.status()).unwrap_or_default()
    }

    fn lags(&self) -> Option<LagHistograms> {
        self.0.upgrade()?.lags()
    }

    fn history(&self) -> HistoryReport {
        self.0.upgrade().map(|engine| engine.history().report()).unwrap_or_default()
    }

    fn error_words(&self, error: &ErrorReport) -> String {
        let known = match error.number {
            _ if error.text.contains(SOURCE_WAS_RESET) => "the source was reset, or restored from an older backup",
            _ if error.text.contains(SOURCE_LACKS) => "the source lacks transactions that are here (errant GTIDs)",
            Some(1045 | 1130 | 1698) => "the source refuses the login",
            Some(1236) => "the source cannot send the log that is needed",
            Some(1032) => "a row that the log changes does not exist",
            Some(1062) => "a row that the log writes exists already",
            Some(2002 | 2003 | 2005) => "the source cannot be reached",
            Some(2006 | 2013) => "the connection to the source was lost",
            _ => return Exit::from_code(error.exit).to_string(),
        };
        known.to_owned()
    }
}

impl OpenWeb {
    /// Opens the port, if there is to be one.
    ///
    /// # Errors
    /// It cannot be listened on, or the token cannot be read.
    pub fn open(
        settings: &DoorSettings,
        accounts: Arc<Accounts>,
        tls: Option<Arc<ServerTls>>,
        engine: &Arc<Engine>,
    ) -> Result<Option<OpenWeb>, Failure> {
        let Some(config) = settings.web() else { return Ok(None) };
        let tls = tls.filter(|_| config.is_guarded());
        let token = settings.http.token_file.as_deref().map(Token::open).transpose();
        let token = token.map_err(|error| Failure::usage(format!("--http-token-file: {error}")))?.map(Arc::new);
        let watched = Arc::new(WatchedEngine(Arc::downgrade(engine)));
        let cannot = |error: io::Error| {
            Failure::error(format!("cannot listen for HTTP on {}: {error}", config.address))
                .with_hint("--http=PORT listens on another port")
        };
        let web = Web::open(&config, accounts, token.clone(), tls.clone(), watched).map_err(cannot)?;
        let open = OpenWeb { web, tls, token };
        log::write(Code::WatchersListened, "Server", &format!("serving the page and metrics at {}", open.url()));
        Ok(Some(open))
    }

    pub(crate) fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}/", self.web.address())
    }

    /// Reads the token's file again.
    pub(crate) fn reload_token(&self) {
        let Some(token) = &self.token else { return };
        match token.reload() {
            Ok(()) => log::write(Code::TokenRead, "Server", "the token of --http-token-file was read again"),
            Err(error) => {
                let text = format!("--http-token-file could not be read again; the old token stays in use: {error}");
                log::write(Code::TokenNotRead, "Server", &text);
            }
        }
    }

    /// Reads the certificate's files again.
    pub(crate) fn reload_tls(&self) {
        if let Some(tls) = &self.tls {
            note_reload(tls.reload(SystemTime::now()).map_err(|error| error.to_string()));
        }
    }
}
