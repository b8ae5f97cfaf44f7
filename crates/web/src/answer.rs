//! Requests and their answers.
//!
//! In: a request's line and headers, who sent it. Out: a response. Never here: sockets; an answer to a name that is not
//! this server's, which a page of another site could ask by (DNS rebinding).

use std::net::IpAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use accounts::{Accounts, LoginGuard, Peer, Rights};
use base::units::parse_span;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::http::uri::Authority;
use hyper::{Method, Request, Response, StatusCode};
use observe::{LagHistograms, StatusReport};
use sha2::{Digest as _, Sha256};

use crate::token::Token;
use crate::{Watched, metrics, shown};

/// A report is at most this old: many watchers cost as much as one.
const REPORT_AGE: Duration = Duration::from_millis(500);
/// Time for a report: a watcher must not hang if the replica hangs.
const REPORT_WITHIN: Duration = Duration::from_millis(1500);
/// `/health` without `max-lag`.
const MAX_LAG_US: u64 = 10_000_000;
/// The page. Its own style and script are all that it loads, but for the report.
const PAGE: &str = include_str!("page.html");

/// What a browser may run and load for the page: its own style and script, known by their hashes, and the report.
fn policy() -> HeaderValue {
    static POLICY: OnceLock<HeaderValue> = OnceLock::new();
    let made = || {
        let hash = |element: &str| {
            let (begin, end) = (format!("<{element}>"), format!("</{element}>"));
            let rest = PAGE.split_once(&begin).map_or("", |(_, rest)| rest);
            let text = rest.split_once(&end).map_or("", |(text, _)| text);
            BASE64.encode(Sha256::digest(text))
        };
        let text = format!(
            "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; connect-src 'self'; img-src data:; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
            hash("style"),
            hash("script")
        );
        HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("default-src 'none'"))
    };
    POLICY.get_or_init(made).clone()
}

/// A response with its whole body.
pub(crate) type Answer = Response<Full<Bytes>>;

pub(crate) struct Site {
    pub(crate) watched: Arc<dyn Watched>,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) guard: LoginGuard,
    /// Takes the place of an account.
    pub(crate) token: Option<Arc<Token>>,
    /// Whether all but `/health` needs an account with the right `monitor`, or the token.
    pub(crate) is_guarded: bool,
    /// Names of this server besides addresses and `localhost`, in lower case.
    pub(crate) names: Vec<String>,
    /// The last report, and when it was made.
    pub(crate) last: Mutex<Option<(Instant, Arc<Report>)>>,
    /// Held while one is made.
    pub(crate) making: tokio::sync::Mutex<()>,
}

/// A report, and the lags at that time.
pub(crate) struct Report {
    status: StatusReport,
    lags: Option<LagHistograms>,
}

fn text(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    typed(status, "text/plain; charset=utf-8", text)
}

fn typed(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::CONTENT_SECURITY_POLICY, policy());
    answer
}

impl Site {
    /// The answer to a request.
    pub(crate) async fn answer<B>(self: Arc<Self>, request: Request<B>, peer: IpAddr) -> Answer {
        let (parts, _) = request.into_parts();
        if parts.method != Method::GET && parts.method != Method::HEAD {
            let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are answered\n");
            answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return answer;
        }
        if !self.is_asked_by_own_name(&parts.headers, parts.uri.authority()) {
            let why = "this server is not known by that name; add it with --http-name=NAME\n";
            return text(StatusCode::MISDIRECTED_REQUEST, why);
        }
        let path = parts.uri.path();
        if path == "/health" {
            return self.health(parts.uri.query()).await;
        }
        if self.is_guarded && !self.may_watch(&parts.headers, peer).await {
            let why = "an account with the right monitor is needed (slipstream account add), or the token of \
                       --http-token-file\n";
            let mut answer = text(StatusCode::UNAUTHORIZED, why);
            let realm = HeaderValue::from_static("Basic realm=\"Slipstream\", charset=\"UTF-8\"");
            answer.headers_mut().insert(header::WWW_AUTHENTICATE, realm);
            if self.token.is_some() {
                let bearer = HeaderValue::from_static("Bearer realm=\"Slipstream\"");
                answer.headers_mut().append(header::WWW_AUTHENTICATE, bearer);
            }
            return answer;
        }
        match path {
            "/" => typed(StatusCode::OK, "text/html; charset=utf-8", PAGE),
            "/metrics" => match self.report().await {
                Ok(report) => match metrics::text(report.status.clone(), report.lags.clone()) {
                    Some(text) => typed(StatusCode::OK, metrics::CONTENT_TYPE, text),
                    None => text(StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be written\n"),
                },
                Err(answer) => answer,
            },
            "/status" => match self.report().await {
                Ok(report) => {
                    let shown = shown::without_rows(report.status.clone(), &|error| self.watched.error_words(error));
                    typed(StatusCode::OK, "application/json", shown.to_json())
                }
                Err(answer) => answer,
            },
            "/history" => typed(StatusCode::OK, "application/json", self.watched.history().to_json()),
            _ => text(StatusCode::NOT_FOUND, "there are /, /metrics, /status, /history and /health\n"),
        }
    }

    /// 200 if the lag is at most `max-lag` (10 s), else 503 with the reason.
    async fn health(self: &Arc<Self>, query: Option<&str>) -> Answer {
        let given = query.into_iter().flat_map(|query| query.split('&')).find_map(|pair| pair.strip_prefix("max-lag="));
        let max_us = match given.map(|text| parse_span(text, "s")) {
            None => MAX_LAG_US,
            Some(Ok(span)) => u64::try_from(span.as_micros()).unwrap_or(u64::MAX),
            Some(Err(why)) => return text(StatusCode::BAD_REQUEST, format!("max-lag: {why}\n")),
        };
        match self.report().await {
            Ok(report) => {
                let shown = shown::without_rows(report.status.clone(), &|error| self.watched.error_words(error));
                match shown.lag_above(max_us) {
                    None => text(StatusCode::OK, "ok\n"),
                    Some(why) => text(StatusCode::SERVICE_UNAVAILABLE, why + "\n"),
                }
            }
            Err(answer) => answer,
        }
    }

    /// A recent report; otherwise 503.
    async fn report(self: &Arc<Self>) -> Result<Arc<Report>, Answer> {
        let hangs = || text(StatusCode::SERVICE_UNAVAILABLE, "the replica does not answer\n");
        let made = tokio::time::timeout(REPORT_WITHIN, async {
            // One at a time: a replica that hangs gets one waiter, not one for each request.
            let _alone = self.making.lock().await;
            if let Some(report) = self.recent() {
                return Some(report);
            }
            let site = Arc::clone(self);
            let made = tokio::task::spawn_blocking(move || {
                let report = Report { status: site.watched.report(), lags: site.watched.lags() };
                let report = Arc::new(report);
                *site.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), Arc::clone(&report)));
                report
            });
            made.await.ok()
        });
        made.await.ok().flatten().ok_or_else(hangs)
    }

    fn recent(&self) -> Option<Arc<Report>> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().filter(|(at, _)| at.elapsed() < REPORT_AGE).map(|(_, report)| Arc::clone(report))
    }

    /// True for an address, `localhost`, or a name that this server has.
    fn is_asked_by_own_name(&self, headers: &HeaderMap, authority: Option<&Authority>) -> bool {
        let mut hosts = headers.get_all(header::HOST).iter();
        let (first, more) = (hosts.next(), hosts.next());
        if more.is_some() {
            return false;
        }
        let host = match (first.map(|host| host.to_str()), authority) {
            (Some(Err(_)), _) => return false,
            (Some(Ok(host)), _) => host.parse::<Authority>().ok(),
            (None, authority) => authority.cloned(),
        };
        let Some(host) = host else { return false };
        let name = host.host().trim_end_matches('.').to_ascii_lowercase();
        let address = name.trim_start_matches('[').trim_end_matches(']');
        address.parse::<IpAddr>().is_ok() || name == "localhost" || self.names.contains(&name)
    }

    /// True if the request brings the token, or the name and password of an account with the right `monitor`.
    async fn may_watch(self: &Arc<Self>, headers: &HeaderMap, peer: IpAddr) -> bool {
        let (user, password) = match credentials(headers) {
            Some(Credentials::Account(user, password)) => (user, password),
            Some(Credentials::Token(given)) => return self.token.as_ref().is_some_and(|token| token.is(&given)),
            None => return false,
        };
        let peer = Peer::Tcp(peer);
        self.guard.tick(Instant::now());
        tokio::time::sleep(self.guard.delay(&user, &peer)).await;
        let site = Arc::clone(self);
        let check = tokio::task::spawn_blocking(move || {
            let monitor = Rights { monitor: true, ..Rights::default() };
            site.accounts.check(&site.guard, &user, password.as_bytes(), &peer, monitor).is_some()
        });
        check.await.unwrap_or(false)
    }
}

/// What a request says of who sends it.
enum Credentials {
    Account(String, String),
    Token(String),
}

/// What an `Authorization` header of the scheme Basic or Bearer says.
fn credentials(headers: &HeaderMap) -> Option<Credentials> {
    let (scheme, encoded) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(Credentials::Token(encoded.trim().to_owned()));
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(BASE64.decode(encoded.trim()).ok()?).ok()?;
    decoded.split_once(':').map(|(user, password)| Credentials::Account(user.to_owned(), password.to_owned()))
}
