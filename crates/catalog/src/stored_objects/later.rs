//! The statements after the one that makes an object, in order.
//!
//! In: statements, each with a place. Out: versions that share what did not change: of an account with thousands of
//! grants a statement changes one. Never here: what a statement means.

use std::sync::Arc;

use base::SharedMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Recorded;
use crate::account::Place;

/// See the [module's documentation](self).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Later(SharedMap<Place, Arc<Recorded>>);

impl Later {
    pub fn iter(&self) -> impl Iterator<Item = &Recorded> {
        self.0.values().map(AsRef::as_ref)
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn text_at(&self, place: &Place) -> Option<&str> {
        self.0.get(place).map(|recorded| recorded.text.as_str())
    }

    /// Sets or removes the statement of a place.
    pub(super) fn put(&mut self, place: Place, recorded: Option<Recorded>) {
        match recorded {
            Some(recorded) => drop(self.0.insert(place, Arc::new(recorded))),
            None => drop(self.0.remove(&place)),
        }
    }

    /// Changes the list as a whole: of objects other than accounts, which have few statements.
    pub(super) fn edit<T>(&mut self, change: impl FnOnce(&mut Vec<Recorded>) -> T) -> T {
        let mut list: Vec<Recorded> = self.iter().cloned().collect();
        let done = change(&mut list);
        *self = list.into_iter().collect();
        done
    }
}

impl FromIterator<Recorded> for Later {
    fn from_iter<I: IntoIterator<Item = Recorded>>(list: I) -> Later {
        let numbered = (0u32..).zip(list);
        Later(numbered.map(|(index, recorded)| (Place::numbered(index), Arc::new(recorded))).collect())
    }
}

impl Serialize for Later {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Later {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Later, D::Error> {
        Ok(Vec::<Recorded>::deserialize(deserializer)?.into_iter().collect())
    }
}
