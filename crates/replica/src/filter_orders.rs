//! `filter-orders`: the filters that CHANGE REPLICATION FILTER has put in force, and a change of them that the store
//! has not taken over yet.
//!
//! In: the filters from now on, what they let in. Out: the filters in force; at a start, the catalog under them. Never
//! here: which tables filters let in (crate `copy`); a moment at which new filters are in force over rows of the old
//! ones: the file is the commit, and the first start after it changes the catalog before anything is replayed.

use std::fs;
use std::io;
use std::sync::Arc;

use base::GtidSet;
use catalog::{Catalog, LetIn, ReplicationFilters};
use serde::{Deserialize, Serialize};
use store::Recovered;

use crate::config::ReplicaConfig;
use crate::exit::{Exit, Failure};
use crate::folder::{FILTERS_FILE, Folder, read_small, write_atomically};

pub(crate) const FILE: &str = "filter-orders";

/// Filters by SQL, and a change of filters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilterOrders {
    /// Options that SQL has changed, as the statement spells them; none: those of the start are in force.
    options: Vec<String>,
    /// All rules, as the folder's file `filters` has them.
    rules: String,
    /// What the store has to take over.
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<FilterChange>,
}

/// A change of filters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FilterChange {
    let_in: LetIn,
    /// GTIDs of the cut from which the first start went on; a later cut holds the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    begun_at: Option<String>,
}

impl FilterOrders {
    /// Those of a folder.
    ///
    /// # Errors
    /// Code 7 if the file is damaged, or a newer release's; 8 for disk errors.
    pub fn of(folder: &Folder) -> Result<FilterOrders, Failure> {
        let path = folder.path().join(FILE);
        let Some(text) = read_small(&path)? else { return Ok(FilterOrders::default()) };
        let broken = |error: String| Failure::new(Exit::Corrupt, format!("{}: {error}", path.display()));
        let orders: FilterOrders = serde_json::from_str(&text).map_err(|error| broken(error.to_string()))?;
        ReplicationFilters::from_text(&orders.rules).map_err(broken)?;
        Ok(orders)
    }

    /// Those after a statement: filters that these options were given for, and what they let in. Of what the filters
    /// leave out nothing is taken over, whatever `let_in` says.
    #[must_use]
    pub fn changed<'a>(
        &self,
        options: impl IntoIterator<Item = &'a str>,
        filters: &ReplicationFilters,
        let_in: LetIn,
    ) -> FilterOrders {
        let orders = self.replaced(filters, let_in);
        FilterOrders { options: self.options.clone(), ..orders }.named(options, filters)
    }

    /// Those after RESET REPLICA ALL where the filters of the start are the same.
    #[must_use]
    pub fn unnamed(&self) -> FilterOrders {
        FilterOrders { options: Vec::new(), ..self.clone() }
    }

    /// Those once the filters of the start are in force again.
    #[must_use]
    pub fn replaced(&self, filters: &ReplicationFilters, mut let_in: LetIn) -> FilterOrders {
        // What a cut does not hold yet is not lost.
        if let Some(FilterChange { let_in: before, .. }) = &self.change {
            let_in.tables.extend(before.tables.iter().cloned());
            let_in.views.extend(before.views.iter().cloned());
            let_in.definitions.extend(before.definitions.iter().cloned());
        }
        let change = Some(FilterChange { let_in, begun_at: None });
        FilterOrders { options: Vec::new(), rules: filters.to_string(), change }
    }

    /// These, where filters stay as they are and options have been given for them.
    #[must_use]
    pub fn named<'a>(&self, options: impl IntoIterator<Item = &'a str>, filters: &ReplicationFilters) -> FilterOrders {
        let mut orders = FilterOrders { rules: filters.to_string(), ..self.clone() };
        for option in options {
            let option = option.replace('-', "_").to_uppercase();
            if !orders.options.contains(&option) {
                orders.options.push(option);
            }
        }
        orders.options.sort();
        orders
    }

    /// Forgets a change that the store's last cut holds; `executed` are the cut's GTIDs.
    #[must_use]
    pub fn settled(mut self, executed: &GtidSet) -> FilterOrders {
        let begun_at = |change: &FilterChange| change.begun_at.as_deref()?.parse::<GtidSet>().ok();
        self.change.take_if(|change| begun_at(change).is_some_and(|begun_at| !executed.is_subset_of(&begun_at)));
        self
    }

    /// True if the store has nothing to take over.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.change.is_none()
    }

    /// Keeps them in a folder, durably.
    ///
    /// # Errors
    /// Code 8 for disk errors.
    pub fn keep(&self, folder: &Folder) -> Result<(), Failure> {
        let path = folder.path().join(FILE);
        if self.options.is_empty() && self.change.is_none() {
            match fs::remove_file(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                result => result.map_err(|error| Failure::io(path.display(), &error))?,
            }
            return folder.sync();
        }
        let text = serde_json::to_string(self).map_err(|error| Failure::error(error.to_string()))?;
        write_atomically(&path, text.as_bytes())
    }

    /// Options that SQL has changed, as the statement spells them.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.options
    }

    /// Puts the filters by SQL, if there are any, in the place of those of the start.
    ///
    /// # Errors
    /// Code 7 for rules that are none.
    pub fn over(&self, config: &mut ReplicaConfig) -> Result<(), Failure> {
        if !self.options.is_empty() {
            config.filters = Arc::new(self.filters()?);
        }
        Ok(())
    }

    /// The filters that rows of the folder have, where a change says so.
    pub(crate) fn of_change(&self) -> Result<Option<ReplicationFilters>, Failure> {
        self.change.as_ref().map(|_| self.filters()).transpose()
    }

    fn filters(&self) -> Result<ReplicationFilters, Failure> {
        ReplicationFilters::from_text(&self.rules).map_err(|error| Failure::new(Exit::Corrupt, error))
    }

    /// The catalog of a cut under the filters, if it is older than the change.
    ///
    /// # Errors
    /// Code 7 for rules or GTIDs that are none.
    pub(crate) fn taken_over(&self, executed: &GtidSet, catalog: &Catalog) -> Result<Option<Catalog>, Failure> {
        let Some(change) = &self.change else { return Ok(None) };
        let begun_at = change.begun_at.as_deref().map(str::parse::<GtidSet>).transpose();
        let begun_at = begun_at.map_err(|error| Failure::new(Exit::Corrupt, format!("{FILE}: {error}")))?;
        if begun_at.is_some_and(|begun_at| !executed.is_subset_of(&begun_at)) {
            return Ok(None);
        }
        Ok(Some(catalog.under_filters(&self.filters()?, &change.let_in)))
    }
}

/// At a start: the catalog under the filters in force, which the folder keeps from then on; None if the cut has it.
///
/// # Errors
/// Code 7 if the file is damaged; 8 for disk errors.
pub(crate) fn take_over(folder: &Folder, recovered: Option<&Recovered>) -> Result<Option<Catalog>, Failure> {
    let mut orders = FilterOrders::of(folder)?;
    if orders.change.is_none() {
        return Ok(None);
    }
    let catalog = match recovered {
        Some(recovered) => orders.taken_over(&recovered.executed, &recovered.catalog)?,
        // All rows come from the log.
        None => None,
    };
    match (&catalog, &mut orders.change) {
        (Some(_), Some(change)) => {
            if change.begun_at.is_none() {
                change.begun_at = recovered.map(|recovered| recovered.executed.to_string());
                orders.keep(folder)?;
            }
        }
        _ => {
            orders.change = None;
            orders.keep(folder)?;
        }
    }
    Ok(catalog)
}

impl Folder {
    /// The replication filters with which its rows were replicated.
    ///
    /// # Errors
    /// Code 7 if the file is damaged; 8 for disk errors.
    pub(crate) fn filters(&self) -> Result<ReplicationFilters, Failure> {
        if let Some(filters) = FilterOrders::of(self)?.of_change()? {
            return Ok(filters);
        }
        let path = self.path().join(FILTERS_FILE);
        let text = read_small(&path)?.unwrap_or_default();
        let broken = |error| Failure::new(Exit::Corrupt, format!("{}: {error}", path.display()));
        ReplicationFilters::from_text(&text).map_err(broken)
    }

    /// Accepts the filters of this start: a folder without rows stores them, otherwise they must equal the stored ones.
    ///
    /// # Errors
    /// Code 2 if they differ; as [`Folder::filters`].
    pub(crate) fn keep_filters(&self, filters: &ReplicationFilters, is_empty: bool) -> Result<(), Failure> {
        let kept = if is_empty { None } else { Some(self.filters()?) };
        match kept {
            Some(kept) if kept == *filters => {
                let text = filters.to_string();
                // A change of filters may have been kept elsewhere alone.
                match read_small(&self.path().join(FILTERS_FILE))?.unwrap_or_default() == text {
                    true => Ok(()),
                    false => write_atomically(&self.path().join(FILTERS_FILE), text.as_bytes()),
                }
            }
            Some(kept) => {
                let only = |these: &ReplicationFilters, others: &ReplicationFilters| {
                    let others: Vec<_> = others.rules().collect();
                    let rules = these.rules().filter(|rule| !others.contains(rule));
                    let texts: Vec<String> = rules.map(|(option, value)| format!("--{option}='{value}'")).collect();
                    if texts.is_empty() { "none".to_owned() } else { texts.join(" ") }
                };
                let text = format!(
                    "{} was filled with other replication filters, so its rows would not be those that the given ones \
                     choose. Only in the folder: {}; only given: {}",
                    self.path().display(),
                    only(&kept, filters),
                    only(filters, &kept)
                );
                Err(Failure::usage(text)
                    .with_hint("start with the filters it has, and change them by CHANGE REPLICATION FILTER"))
            }
            None if filters.is_empty() && read_small(&self.path().join(FILTERS_FILE))?.is_none() => Ok(()),
            None => write_atomically(&self.path().join(FILTERS_FILE), filters.to_string().as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filters(rule: &str) -> ReplicationFilters {
        ReplicationFilters::from_text(rule).unwrap()
    }

    fn recovered(executed: &str) -> Recovered {
        Recovered { executed: executed.parse().unwrap(), ..Recovered::nothing(Catalog::new(0)) }
    }

    #[test]
    fn a_change_is_taken_over_until_a_cut_holds_it() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, _lock) = Folder::own(dir.path()).unwrap();
        assert_eq!(FilterOrders::of(&folder).unwrap(), FilterOrders::default());
        let let_in = LetIn { tables: vec![("d".into(), "t".into())], ..LetIn::default() };
        let orders = FilterOrders::default().changed(["replicate-do-db"], &filters("replicate-do-db=d"), let_in);
        orders.keep(&folder).unwrap();
        assert_eq!(FilterOrders::of(&folder).unwrap(), orders);
        assert_eq!((orders.names(), orders.is_settled()), (&["REPLICATE_DO_DB".to_owned()][..], false));
        let uuid = "aaaaaaaa-0000-0000-0000-000000000001";
        // Whatever the last cut under the old filters holds, and again after a crash before the next cut.
        let at = recovered(&format!("{uuid}:1-5"));
        for _ in 0..2 {
            let catalog = take_over(&folder, Some(&at)).unwrap().unwrap();
            assert!(catalog.is_quarantined("d", "t"));
        }
        assert!(!FilterOrders::of(&folder).unwrap().is_settled());
        assert!(take_over(&folder, Some(&recovered(&format!("{uuid}:1-6")))).unwrap().is_none());
        let kept = FilterOrders::of(&folder).unwrap();
        assert!(kept.is_settled() && kept.names() == orders.names());
        // Those of the start are in force again: nothing remains once that is taken over.
        kept.replaced(&filters(""), LetIn::default()).keep(&folder).unwrap();
        assert!(take_over(&folder, Some(&at)).unwrap().is_some());
        assert!(take_over(&folder, None).unwrap().is_none());
        assert!(!dir.path().join(FILE).exists());
    }

    #[test]
    fn a_damaged_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, _lock) = Folder::own(dir.path()).unwrap();
        for text in
            ["{", "{\"options\": [], \"rules\": \"nonsense\"}", "{\"options\": [], \"rules\": \"\", \"new\": 1}"]
        {
            fs::write(dir.path().join(FILE), text).unwrap();
            assert_eq!(FilterOrders::of(&folder).unwrap_err().exit, Exit::Corrupt, "{text}");
        }
    }
}
