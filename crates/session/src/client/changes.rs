//! Session tracking: what the next OK tells the client of its session.

use sql::{Settings, Tracked, TrackedTransaction};
use wire::server::SessionChange;

use super::transaction::Transaction;

/// What has changed since the last OK.
#[derive(Debug, Default)]
pub(super) struct Changes {
    schema: Option<String>,
    variables: Vec<Tracked>,
    /// GTIDs that the last statement read at, as text.
    gtids: Option<String>,
    /// Something changed that `session_track_state_change` counts.
    state: bool,
    /// The transaction's state that was told last.
    state_told: Option<String>,
    /// The number of transactions begun, and the characteristics, that were told last.
    characteristics_told: Option<(u64, String)>,
}

/// What one OK tells.
#[derive(Debug, Default)]
pub(super) struct Report {
    schema: Option<String>,
    variables: Vec<Tracked>,
    gtids: Option<String>,
    state: bool,
    transaction: Option<String>,
    characteristics: Option<String>,
}

impl Changes {
    /// The default schema was set, perhaps to the same.
    pub(super) fn schema(&mut self, name: &str) {
        self.schema = Some(name.to_owned());
        self.state = true;
    }

    /// What a statement tells of visible GTIDs.
    pub(super) fn gtids(&mut self, told: Option<String>) {
        self.gtids = told.filter(|set| !set.is_empty());
    }

    /// Variables were set; `counts` if state changes were tracked before.
    pub(super) fn variables(&mut self, tracked: Vec<Tracked>, counts: bool) {
        self.state |= counts;
        for new in tracked {
            self.variables.retain(|old| old.name != new.name);
            self.variables.push(new);
        }
    }

    /// What the settings say is to be told, once.
    pub(super) fn take(&mut self, settings: &Settings, transaction: &Transaction) -> Report {
        let typed = settings.typed();
        let schema = self.schema.take().filter(|_| typed.tracks_schema);
        let state = std::mem::take(&mut self.state) && typed.tracks_state;
        let (variables, gtids) = (std::mem::take(&mut self.variables), self.gtids.take());
        let mut report = Report { schema, variables, gtids, state, ..Report::default() };
        if typed.tracks_transaction != TrackedTransaction::Off {
            let last = self.state_told.get_or_insert_with(|| "________".to_owned());
            let now = transaction.state();
            if *last != now {
                last.clone_from(&now);
                report.transaction = Some(now);
            }
        }
        let tells = typed.tracks_transaction == TrackedTransaction::Characteristics;
        let now = tells.then(|| (transaction.begun(), transaction.characteristics()));
        if now != self.characteristics_told {
            report.characteristics = now.as_ref().map(|(_, text)| text.clone());
            self.characteristics_told = now;
        }
        report
    }
}

impl Report {
    /// In MySQL's order.
    pub(super) fn list(&self) -> Vec<SessionChange<'_>> {
        let variables = self
            .variables
            .iter()
            .map(|tracked| SessionChange::Variable { name: tracked.name.as_bytes(), value: tracked.value.as_bytes() });
        let mut list: Vec<SessionChange<'_>> = variables.collect();
        list.extend(self.schema.as_deref().map(|name| SessionChange::Schema(name.as_bytes())));
        list.extend(self.state.then_some(SessionChange::State(true)));
        list.extend(self.gtids.as_deref().map(|set| SessionChange::Gtids(set.as_bytes())));
        list.extend(self.transaction.as_deref().map(|text| SessionChange::TransactionState(text.as_bytes())));
        let characteristics = self.characteristics.as_deref().map(str::as_bytes);
        list.extend(characteristics.map(SessionChange::TransactionCharacteristics));
        list
    }
}
